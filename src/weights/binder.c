#include "weights/binder.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { GIVE_UP = 1 << 18 }; /* missing tensors; the largest published layout has 224,280 */

fn_status fn_binder_init(fn_binder *b, const fn_checkpoint *c, const fn_shape *shape,
                         fn_error *err) {
    *b = (fn_binder){.c = c, .shape = shape, .status = FN_OK, .err = err};
    b->taken = fn_binder_alloc(b, fn_checkpoint_count(c), 1);
    return b->status;
}

void fn_binder_deinit(fn_binder *b) {
    fn_free(b->taken);
    b->taken = NULL;
}

void *fn_binder_alloc(fn_binder *b, size_t count, size_t size) {
    void *memory = fn_alloc_zero(count, size);
    if (memory == NULL) {
        b->status = fn_fail_nomem(b->err, "binding tensors", count * size);
    }
    return memory;
}

static bool begins_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

void fn_binder_find_prefix(fn_binder *b) {
    static const char nested[] = "model.language_model.";
    size_t i = fn_checkpoint_lower_bound(b->c, nested);
    bool found =
        i < fn_checkpoint_count(b->c) && begins_with(fn_checkpoint_at(b->c, i)->name, nested);
    b->prefix = found ? nested : "model.";
}

size_t fn_binder_push(fn_binder *b, const char *format, ...) {
    size_t mark = b->name_length;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(b->name + mark, sizeof b->name - mark, format, args);
    va_end(args);
    FN_ASSERT(n >= 0 && (size_t)n < sizeof b->name - mark);
    b->name_length += n > 0 ? (size_t)n : 0;
    return mark;
}

void fn_binder_pop(fn_binder *b, size_t mark) {
    b->name_length = mark;
    b->name[mark] = '\0';
}

const fn_tensor *fn_binder_find(fn_binder *b, const char *name) {
    size_t mark = fn_binder_push(b, "%s", name);
    const fn_tensor *t = fn_checkpoint_find(b->c, b->name);
    fn_binder_pop(b, mark);
    return t;
}

bool fn_binder_goes_on(const fn_binder *b) {
    return b->status == FN_OK && b->n_missing < GIVE_UP;
}

bool fn_binder_has(fn_binder *b, const char *name) {
    return fn_binder_find(b, name) != NULL;
}

void fn_binder_mark(fn_binder *b, const fn_tensor *t) {
    b->taken[t - fn_checkpoint_at(b->c, 0)] = 1;
}

/* Appends ", text" while there is room. */
static void append(char *list, size_t room, const char *text) {
    size_t used = strlen(list);
    const char *comma = used > 0 ? ", " : "";
    if (used + strlen(comma) + strlen(text) + 1 < room) {
        (void)snprintf(list + used, room - used, "%s%s", comma, text);
    }
}

void fn_binder_note_missing(fn_binder *b, const char *name, fn_dims dims) {
    size_t mark = fn_binder_push(b, "%s", name);
    if (b->n_missing < FN_BINDER_LISTED) {
        char text[FN_BINDER_NAME + 80];
        char shape[80] = "";
        fn_dims_text(dims.dims, dims.n, shape, sizeof shape);
        (void)snprintf(text, sizeof text, "%s%s%s", b->name, dims.n > 0 ? " " : "",
                       dims.n > 0 ? shape : "");
        append(b->missing, sizeof b->missing, text);
    }
    b->n_missing++;
    fn_binder_pop(b, mark);
}

void fn_binder_fail(fn_binder *b, const fn_tensor *t, const char *expected) {
    char found[120];
    if (b->status != FN_OK) {
        return;
    }
    fn_dims_text(t->dims, t->n_dims, found, sizeof found);
    b->status = fn_fail(b->err, FN_E_MODEL, "%.300s: tensor %.200s: found %s %s, expected %s",
                        fn_checkpoint_file_path(b->c, t->file), t->name, fn_dtype_name(t->dtype),
                        found, expected);
}

bool fn_binder_is_plain(fn_dtype dtype) {
    return dtype == FN_DTYPE_BF16 || dtype == FN_DTYPE_F16 || dtype == FN_DTYPE_F32;
}

static const fn_tensor *take(fn_binder *b, const char *name, fn_dims dims, bool integer) {
    const fn_tensor *t = fn_binder_find(b, name);
    if (t == NULL) {
        fn_binder_note_missing(b, name, dims);
        return NULL;
    }
    fn_binder_mark(b, t);
    bool typed = integer ? t->dtype == FN_DTYPE_I64 : fn_binder_is_plain(t->dtype);
    if (!integer && !typed) { /* first: a packed format has other shapes too */
        fn_binder_fail(b, t, "BF16, F16 or F32 (this tensor is not read in quantised formats)");
    } else if (!typed || t->n_dims != dims.n ||
               memcmp(t->dims, dims.dims, dims.n * sizeof dims.dims[0]) != 0) {
        char expected[120] = "";
        size_t at = 0;
        if (integer) {
            memcpy(expected, "I64 ", 5);
            at = 4;
        }
        fn_dims_text(dims.dims, dims.n, expected + at, sizeof expected - at);
        fn_binder_fail(b, t, expected);
    }
    return t;
}

const fn_tensor *fn_binder_take(fn_binder *b, const char *name, fn_dims dims) {
    return take(b, name, dims, false);
}

const fn_tensor *fn_binder_take_streams(fn_binder *b, const char *name) {
    const fn_tensor *t = fn_binder_find(b, name);
    bool wide = t != NULL && t->n_dims == 2;
    return take(b, name,
                wide ? FN_DIMS(b->shape->hc, b->shape->hidden)
                     : FN_DIMS(fn_shape_streams(b->shape)),
                false);
}

const fn_tensor *fn_binder_take_i64(fn_binder *b, const char *name, fn_dims dims) {
    return take(b, name, dims, true);
}

void fn_binder_enter_layer(fn_binder *b, size_t layer) {
    b->layer = layer;
}

void fn_binder_enter_experts(fn_binder *b) {
    b->missing_before = b->n_missing;
}

void fn_binder_leave_experts(fn_binder *b) {
    char layer[24];
    if (b->n_missing == b->missing_before) {
        return;
    }
    if (b->layer == FN_BINDER_MTP) {
        (void)snprintf(layer, sizeof layer, "mtp.0");
    } else {
        (void)snprintf(layer, sizeof layer, "%zu", b->layer);
    }
    append(b->layers, sizeof b->layers, layer);
    b->n_layers++;
}

size_t fn_binder_count(const fn_binder *b, const char *prefix) {
    size_t first = fn_checkpoint_lower_bound(b->c, prefix);
    size_t end = first;
    while (end < fn_checkpoint_count(b->c) &&
           begins_with(fn_checkpoint_at(b->c, end)->name, prefix)) {
        end++;
    }
    return end - first;
}

size_t fn_binder_skip(fn_binder *b, const char *prefix) {
    size_t first = fn_checkpoint_lower_bound(b->c, prefix);
    size_t n = fn_binder_count(b, prefix);
    for (size_t i = 0; i < n; i++) {
        fn_binder_mark(b, fn_checkpoint_at(b->c, first + i));
    }
    return n;
}

static const fn_tensor *first_left(const fn_binder *b, size_t *n) {
    const fn_tensor *first = NULL;
    *n = 0;
    for (size_t i = 0; i < fn_checkpoint_count(b->c); i++) {
        if (b->taken[i] == 0) {
            first = first != NULL ? first : fn_checkpoint_at(b->c, i);
            *n += 1;
        }
    }
    return first;
}

static void fail_missing(fn_binder *b, const fn_tensor *left, size_t n_left) {
    char experts[FN_BINDER_TEXT / 2 + 60] = "";
    char hint[200];
    if (b->n_layers > 0) {
        (void)snprintf(experts, sizeof experts, "; incomplete experts in layer%s %s",
                       b->n_layers > 1 ? "s" : "", b->layers);
    }
    if (left != NULL) {
        (void)snprintf(hint, sizeof hint, "unknown layout? %zu unexpected, the first is %.120s",
                       n_left, left->name);
    } else {
        (void)snprintf(hint, sizeof hint, "incomplete download?");
    }
    b->status = fn_fail(b->err, FN_E_MODEL, "%.400s: %s%zu tensor%s missing (%s): %s%s%s",
                        fn_checkpoint_dir(b->c), b->n_missing < GIVE_UP ? "" : "more than ",
                        b->n_missing, b->n_missing > 1 ? "s" : "", hint, b->missing,
                        b->n_missing > FN_BINDER_LISTED ? ", ..." : "", experts);
}

void fn_binder_finish(fn_binder *b) {
    size_t n_left = 0;
    if (b->status != FN_OK) {
        return;
    }
    const fn_tensor *left = first_left(b, &n_left);
    if (b->n_missing > 0) {
        fail_missing(b, left, n_left);
    } else if (left != NULL) {
        b->status = fn_fail(b->err, FN_E_MODEL,
                            "%.300s: tensor %.200s: unexpected (%s), nothing in the config asks "
                            "for it (%zu such tensors)",
                            fn_checkpoint_file_path(b->c, left->file), left->name,
                            fn_dtype_name(left->dtype), n_left);
    }
}
