#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/verify.h"

/* What the axes of a tensor are. */
static const struct {
    const char *name, *axes[4];
} tensor_axes[] = {
    {"ngram_rows", {"n-gram layer", "row", "position", "head"}},
    {"ple_out", {"n-gram layer", "position", "stream", "channel"}},
    {"qsa_selected", {"attention layer", "row", "query", "key"}},
    {"delta_state", {"delta layer", "head", "key channel", "value channel"}},
    {"mixer_out", {"layer", "position", "channel"}},
    {"router_ids", {"layer", "position", "rank"}},
    {"router_weights", {"layer", "position", "rank"}},
    {"mlp_out", {"layer", "position", "channel"}},
    {"streams", {"layer", "position", "stream", "channel"}},
    {"hidden", {"position", "channel"}},
    {"logits", {"row", "position", "token"}},
    {"greedy_ids", {"step"}},
    {"mtp_fused", {"position", "stream", "channel"}},
    {"mtp_streams", {"position", "stream", "channel"}},
    {"mtp_logits", {"position", "token"}},
    {"mtp_qsa_selected", {"query", "key"}},
    {"draft_tokens", {"draft"}},
    {"draft_logits", {"draft", "token"}},
    {"draft_streams", {"draft", "stream", "channel"}},
};

static const char *axis_name(const char *tensor, size_t axis) {
    for (size_t i = 0; i < sizeof tensor_axes / sizeof tensor_axes[0]; i++) {
        if (strcmp(tensor_axes[i].name, tensor) == 0 && axis < 4) {
            return tensor_axes[i].axes[axis];
        }
    }
    return NULL;
}

/* The index of the first element that differs, into index [n_dims]. */
static void index_of(const cli_difference *first, size_t *index) {
    const cli_compared *tensor = first->tensor;
    size_t rest = tensor->slices[first->slice].first;
    for (size_t axis = tensor->n_dims; axis-- > 1;) {
        index[axis] = rest % (size_t)tensor->dims[axis];
        rest /= (size_t)tensor->dims[axis];
    }
    index[0] = first->slice;
}

/* A recorded position stands for another one in the text. */
static size_t text_position(const cli_verdict *verdict, const char *tensor, size_t position) {
    bool recorded = strcmp(tensor, "streams") == 0 || strcmp(tensor, "hidden") == 0;
    return recorded && position < verdict->n_positions ? (size_t)verdict->positions[position]
                                                       : position;
}

static double bound_at(const cli_verdict *verdict, const cli_compared *tensor, double want) {
    const cli_bounds *b = &verdict->bounds;
    return tensor->exact ? 0.0 : b->scale * (b->absolute + b->relative * fabs(want));
}

static void shape_text(const uint64_t *dims, size_t n, cli_buffer *out) {
    cli_buffer_puts(out, "[");
    for (size_t i = 0; i < n; i++) {
        cli_buffer_printf(out, i > 0 ? ",%llu" : "%llu", (unsigned long long)dims[i]);
    }
    cli_buffer_puts(out, "]");
}

/* "mixer_out, layer 3, position 17, channel 5: got 1, want 2, bound 0.1" */
static void difference_text(const cli_verdict *verdict, const cli_difference *first,
                            cli_buffer *out) {
    const cli_compared *tensor = first->tensor;
    cli_buffer_puts(out, tensor->name);
    if (tensor->shape_differs) {
        cli_buffer_puts(out, ": shape: got ");
        shape_text(tensor->got_dims, tensor->n_got_dims, out);
        cli_buffer_puts(out, ", want ");
        shape_text(tensor->dims, tensor->n_dims, out);
        return;
    }
    size_t index[CLI_VERIFY_AXES] = {0};
    index_of(first, index);
    if (first->layer >= 0) {
        cli_buffer_printf(out, ", layer %d", first->layer);
    }
    for (size_t axis = 0; axis < tensor->n_dims; axis++) {
        const char *name = axis_name(tensor->name, axis);
        bool position = name != NULL && strcmp(name, "position") == 0;
        bool is_layer = name != NULL && strcmp(name, "layer") == 0;
        size_t shown = position ? text_position(verdict, tensor->name, index[axis]) : index[axis];
        if (!is_layer || first->layer < 0) {
            cli_buffer_printf(out, ", %s %zu", name != NULL ? name : "index", shown);
        }
    }
    const cli_slice *slice = &tensor->slices[first->slice];
    cli_buffer_printf(out, ": got %.9g, want %.9g", slice->got, slice->want);
    if (!tensor->exact) {
        cli_buffer_printf(out, ", bound %.3g", bound_at(verdict, tensor, slice->want));
    }
}

typedef struct tensor_sum {
    size_t n, n_different;
    double max_error, max_ratio;
} tensor_sum;

static tensor_sum sum_of(const cli_compared *tensor) {
    tensor_sum sum = {0};
    for (size_t i = 0; i < tensor->n_slices; i++) {
        const cli_slice *slice = &tensor->slices[i];
        sum.n += slice->n;
        sum.n_different += slice->n_different;
        bool error_grows = slice->max_error > sum.max_error || isnan(slice->max_error);
        bool ratio_grows = slice->max_ratio > sum.max_ratio || isnan(slice->max_ratio);
        sum.max_error = error_grows ? slice->max_error : sum.max_error;
        sum.max_ratio = ratio_grows ? slice->max_ratio : sum.max_ratio;
    }
    return sum;
}

static void print_row(const cli_compared *tensor, bool colors) {
    tensor_sum sum = sum_of(tensor);
    bool passed = cli_compared_passed(tensor);
    printf("%-18s %10zu", tensor->name, sum.n);
    if (tensor->shape_differs) {
        printf(" %11s %11s %10s", "", "", "shape");
    } else if (tensor->exact) {
        printf(" %11s %11s %10zu", "whole", "numbers", sum.n_different);
    } else {
        printf(" %11.3g %11.3g %10zu", sum.max_error, sum.max_ratio, sum.n_different);
    }
    const char *word = passed ? "ok" : "DIFFERS";
    if (colors) {
        printf("  \033[%dm%s\033[0m\n", passed ? 32 : 31, word);
    } else {
        printf("  %s\n", word);
    }
}

void cli_verify_print(const cli_verdict *verdict, const cli_difference *first, bool colors) {
    const cli_bounds *b = &verdict->bounds;
    printf("a float passes within %g * (%g + %g * |want|); whole numbers must be equal\n\n",
           b->scale, b->absolute, b->relative);
    printf("%-18s %10s %11s %11s %10s\n", "tensor", "elements", "max error", "/ bound",
           "differing");
    for (size_t i = 0; i < verdict->n_compared; i++) {
        print_row(&verdict->compared[i], colors);
    }
    for (size_t i = 0; i < verdict->n_unchecked; i++) {
        printf("%-24s not checked: %s\n", verdict->unchecked[i].name, verdict->unchecked[i].reason);
    }
    putchar('\n');
    if (first->tensor == NULL) {
        printf("%zu tensors agree, %zu not checked\n", verdict->n_compared, verdict->n_unchecked);
        return;
    }
    cli_buffer text = {0};
    difference_text(verdict, first, &text);
    printf("first difference: %s\n", cli_buffer_text(&text));
    cli_buffer_free(&text);
}

/* JSON has no NaN. */
static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_string(isnan(value) ? "nan" : "inf");
}

static json_t *difference_json(const cli_verdict *verdict, const cli_difference *first) {
    const cli_compared *tensor = first->tensor;
    if (tensor == NULL) {
        return json_null();
    }
    cli_buffer text = {0};
    difference_text(verdict, first, &text);
    json_t *out =
        json_pack("{s:s, s:s%}", "tensor", tensor->name, "text", cli_buffer_text(&text), text.n);
    cli_buffer_free(&text);
    (void)json_object_set_new(out, "layer",
                              first->layer >= 0 ? json_integer(first->layer) : json_null());
    if (!tensor->shape_differs) {
        const cli_slice *slice = &tensor->slices[first->slice];
        size_t index[CLI_VERIFY_AXES] = {0};
        index_of(first, index);
        json_t *list = json_array();
        for (size_t i = 0; i < tensor->n_dims; i++) {
            (void)json_array_append_new(list, json_integer((json_int_t)index[i]));
        }
        (void)json_object_set_new(out, "index", list);
        (void)json_object_set_new(out, "got", number(slice->got));
        (void)json_object_set_new(out, "want", number(slice->want));
        (void)json_object_set_new(out, "bound", number(bound_at(verdict, tensor, slice->want)));
    }
    return out;
}

static json_t *tensor_json(const cli_compared *tensor) {
    tensor_sum sum = sum_of(tensor);
    return json_pack("{s:s, s:I, s:b, s:I, s:o, s:o, s:b}", "name", tensor->name, "elements",
                     (json_int_t)sum.n, "exact", (int)tensor->exact, "differing",
                     (json_int_t)sum.n_different, "max_error", number(sum.max_error),
                     "max_error_over_bound", number(sum.max_ratio), "passed",
                     (int)cli_compared_passed(tensor));
}

void cli_verify_print_json(const cli_verdict *verdict, const cli_difference *first) {
    json_t *tensors = json_array();
    for (size_t i = 0; i < verdict->n_compared; i++) {
        (void)json_array_append_new(tensors, tensor_json(&verdict->compared[i]));
    }
    json_t *unchecked = json_array();
    for (size_t i = 0; i < verdict->n_unchecked; i++) {
        (void)json_array_append_new(unchecked,
                                    json_pack("{s:s, s:s}", "name", verdict->unchecked[i].name,
                                              "reason", verdict->unchecked[i].reason));
    }
    const cli_bounds *b = &verdict->bounds;
    json_t *root = json_pack(
        "{s:b, s:o, s:{s:f, s:f, s:f}, s:o, s:o}", "passed", (int)(first->tensor == NULL),
        "first_difference", difference_json(verdict, first), "bounds", "absolute", b->absolute,
        "relative", b->relative, "scale", b->scale, "tensors", tensors, "not_checked", unchecked);
    (void)json_dumpf(root, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(root);
}
