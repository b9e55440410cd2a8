#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/report.h"
#include "cli/verify.h"

/* Golden tensors that are questions, not answers. */
static bool is_input(const char *name) {
    static const char *const inputs[] = {"ids", "stream_positions", "greedy_prompt", "greedy_ids",
                                         "draft_position"};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        if (strcmp(name, inputs[i]) == 0) {
            return true;
        }
    }
    return false;
}

static const char *why_unchecked(const char *name) {
    if (strchr(name, '.') != NULL) {
        return "images and videos are not read";
    }
    if (strncmp(name, "mtp_", 4) == 0 || strncmp(name, "draft_", 6) == 0) {
        return "the model has no MTP head, or was loaded without";
    }
    if (strcmp(name, "logits_float64") == 0) {
        return "shows the noise of the golden values, is no golden value";
    }
    if (strcmp(name, "logits_bf16_run") == 0) {
        return "a run in another precision, for comparison by people";
    }
    return "no traced value has this name";
}

static bool is_whole(const char *dtype) {
    return dtype[0] == 'I' || dtype[0] == 'U' || strcmp(dtype, "BOOL") == 0;
}

static size_t count_of(const uint64_t *dims, size_t n_dims) {
    size_t n = 1;
    for (size_t i = 0; i < n_dims; i++) {
        n *= (size_t)dims[i];
    }
    return n;
}

/* The axis of recorded positions: 1 of streams [L,S,hc,D], 0 of hidden [S,D]; -1: every
 * position. */
static int position_axis(const char *name) {
    if (strcmp(name, "streams") == 0) {
        return 1;
    }
    return strcmp(name, "hidden") == 0 ? 0 : -1;
}

/* Keeps the recorded positions of data, whose dimensions change accordingly. NULL: one is out of
 * range. */
static double *gather(double *data, uint64_t *dims, size_t n_dims, size_t axis,
                      const cli_verdict *verdict) {
    size_t outer = count_of(dims, axis);
    size_t inner = count_of(dims + axis + 1, n_dims - axis - 1);
    size_t length = (size_t)dims[axis];
    size_t n = verdict->n_positions;
    double *kept = cli_alloc(outer * n * inner * sizeof *kept);
    for (size_t i = 0; i < outer * n; i++) {
        double position = verdict->positions[i % n];
        if (!(position >= 0.0) || position >= (double)length) {
            free(kept);
            free(data);
            return NULL;
        }
        const double *row = data + ((i / n) * length + (size_t)position) * inner;
        memcpy(kept + i * inner, row, inner * sizeof *kept);
    }
    dims[axis] = n;
    free(data);
    return kept;
}

static void compare_element(cli_slice *slice, size_t at, double got, double want, bool exact,
                            const cli_bounds *bounds) {
    double error = fabs(got - want);
    double bound = exact ? 0.0 : bounds->scale * (bounds->absolute + bounds->relative * fabs(want));
    double ratio = error == 0.0 ? 0.0 : exact ? error : error / bound;
    bool passes = exact ? got == want : ratio <= 1.0; /* NaN passes neither */
    if (!passes && slice->n_different++ == 0) {
        slice->first = at;
        slice->got = got;
        slice->want = want;
    }
    slice->max_error = error > slice->max_error || isnan(error) ? error : slice->max_error;
    slice->max_ratio = ratio > slice->max_ratio || isnan(ratio) ? ratio : slice->max_ratio;
}

static void compare_values(cli_compared *tensor, const double *got, const double *want,
                           const cli_bounds *bounds) {
    tensor->n_slices = tensor->n_dims > 0 ? (size_t)tensor->dims[0] : 1;
    tensor->slices = cli_alloc(tensor->n_slices * sizeof *tensor->slices);
    size_t n = tensor->n_slices > 0 ? count_of(tensor->dims, tensor->n_dims) / tensor->n_slices : 0;
    for (size_t i = 0; i < tensor->n_slices; i++) {
        cli_slice *slice = &tensor->slices[i];
        slice->n = n;
        for (size_t j = 0; j < n; j++) {
            compare_element(slice, j, got[i * n + j], want[i * n + j], tensor->exact, bounds);
        }
    }
}

static cli_compared *add_compared(cli_verdict *verdict, const char *name) {
    size_t n = verdict->n_compared;
    cli_compared *larger = cli_alloc((n + 1) * sizeof *larger);
    if (n > 0) {
        memcpy(larger, verdict->compared, n * sizeof *larger);
    }
    free(verdict->compared);
    verdict->compared = larger;
    verdict->n_compared++;
    larger[n].name = cli_strdup(name);
    return &larger[n];
}

static void add_unchecked(cli_verdict *verdict, const char *name) {
    size_t n = verdict->n_unchecked;
    cli_unchecked *larger = cli_alloc((n + 1) * sizeof *larger);
    if (n > 0) {
        memcpy(larger, verdict->unchecked, n * sizeof *larger);
    }
    free(verdict->unchecked);
    verdict->unchecked = larger;
    verdict->n_unchecked++;
    larger[n] = (cli_unchecked){.name = cli_strdup(name), .reason = why_unchecked(name)};
}

static fn_status read_tensor(const fn_tensor_file *file, const fn_tensor_view *view, double **out,
                             fn_error *err) {
    size_t n = count_of(view->dims, view->n_dims);
    *out = cli_alloc(n * sizeof **out);
    fn_status status = fn_tensor_file_read(file, view->name, *out, err);
    if (status != FN_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}

static fn_status compare_tensor(const fn_tensor_file *golden, const fn_tensor_view *want_view,
                                const fn_tensor_file *file, const fn_tensor_view *got_view,
                                cli_verdict *verdict, fn_error *err) {
    double *want = NULL;
    double *got = NULL;
    fn_status status = read_tensor(golden, want_view, &want, err);
    status = status == FN_OK ? read_tensor(file, got_view, &got, err) : status;
    if (status != FN_OK) {
        free(want);
        return status;
    }
    cli_compared *tensor = add_compared(verdict, want_view->name);
    tensor->exact = is_whole(want_view->dtype);
    tensor->n_dims = want_view->n_dims;
    memcpy(tensor->dims, want_view->dims, sizeof tensor->dims);
    tensor->n_got_dims = got_view->n_dims;
    memcpy(tensor->got_dims, got_view->dims, sizeof tensor->got_dims);
    int axis = position_axis(want_view->name);
    if (axis >= 0 && verdict->positions != NULL && tensor->n_got_dims > (size_t)axis) {
        got = gather(got, tensor->got_dims, tensor->n_got_dims, (size_t)axis, verdict);
    }
    tensor->shape_differs =
        got == NULL || tensor->n_dims != tensor->n_got_dims ||
        memcmp(tensor->dims, tensor->got_dims, tensor->n_dims * sizeof tensor->dims[0]) != 0;
    if (!tensor->shape_differs) {
        compare_values(tensor, got, want, &verdict->bounds);
    }
    free(got);
    free(want);
    return FN_OK;
}

static fn_status read_positions(const fn_tensor_file *golden, cli_verdict *verdict, fn_error *err) {
    fn_tensor_view view;
    if (!fn_tensor_file_find(golden, "stream_positions", &view)) {
        return FN_OK;
    }
    verdict->n_positions = count_of(view.dims, view.n_dims);
    return read_tensor(golden, &view, &verdict->positions, err);
}

fn_status cli_verify_compare(const fn_tensor_file *golden, const fn_tensor_file *got,
                             cli_verdict *verdict, fn_error *err) {
    fn_status status = read_positions(golden, verdict, err);
    for (size_t i = 0; i < fn_tensor_file_count(golden) && status == FN_OK; i++) {
        fn_tensor_view want;
        fn_tensor_view traced;
        fn_tensor_file_at(golden, i, &want);
        if (is_input(want.name)) {
            continue;
        }
        if (fn_tensor_file_find(got, want.name, &traced)) {
            status = compare_tensor(golden, &want, got, &traced, verdict, err);
        } else {
            add_unchecked(verdict, want.name);
        }
    }
    return status;
}

void cli_verify_compare_ids(cli_verdict *verdict, const char *name, const double *want,
                            const int32_t *got, size_t n_want, size_t n_got) {
    cli_compared *tensor = add_compared(verdict, name);
    tensor->exact = true;
    tensor->n_dims = 1;
    tensor->dims[0] = n_want;
    tensor->n_got_dims = 1;
    tensor->got_dims[0] = n_got;
    tensor->shape_differs = n_want != n_got;
    if (!tensor->shape_differs) {
        double *values = cli_alloc(n_got * sizeof *values);
        for (size_t i = 0; i < n_got; i++) {
            values[i] = (double)got[i];
        }
        compare_values(tensor, values, want, &verdict->bounds);
        free(values);
    }
}

bool cli_compared_passed(const cli_compared *tensor) {
    bool passed = !tensor->shape_differs;
    for (size_t i = 0; i < tensor->n_slices; i++) {
        passed = passed && tensor->slices[i].n_different == 0;
    }
    return passed;
}

void cli_verdict_free(cli_verdict *verdict) {
    for (size_t i = 0; i < verdict->n_compared; i++) {
        free(verdict->compared[i].name);
        free(verdict->compared[i].slices);
    }
    for (size_t i = 0; i < verdict->n_unchecked; i++) {
        free(verdict->unchecked[i].name);
    }
    free(verdict->compared);
    free(verdict->unchecked);
    free(verdict->positions);
    *verdict = (cli_verdict){0};
}
