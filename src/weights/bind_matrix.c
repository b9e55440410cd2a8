/* weights/bind_matrix.c - one matrix in whatever format its module is stored; the dtype in the header
 * decides. */
#include <stdio.h>
#include <string.h>

#include "weights/binder.h"
#include "weights/packed.h"

/* What goes with a weight in one format or another. */
#define COMPANION_MAP(X)                                                                           \
    X(SCALE_INV, "weight_scale_inv")                                                               \
    X(SCALE, "weight_scale")                                                                       \
    X(SCALE_2, "weight_scale_2")                                                                   \
    X(INPUT_SCALE, "input_scale")                                                                  \
    X(QWEIGHT, "qweight")                                                                          \
    X(SCALES, "scales")                                                                            \
    X(QZEROS, "qzeros")                                                                            \
    X(G_IDX, "g_idx")

enum {
#define COMPANION_ENUM(name, text) name,
    COMPANION_MAP(COMPANION_ENUM)
#undef COMPANION_ENUM
        N_COMPANIONS
};

static const char *const companions[N_COMPANIONS] = {
#define COMPANION_TEXT(name, text) text,
    COMPANION_MAP(COMPANION_TEXT)
#undef COMPANION_TEXT
};

#define USES(companion) (1u << (companion))

static uint64_t ceil_div(uint64_t n, uint64_t by) {
    return (n + by - 1) / by;
}

static bool has_dims(const fn_tensor *t, fn_dims dims) {
    return t->n_dims == dims.n && memcmp(t->dims, dims.dims, dims.n * sizeof dims.dims[0]) == 0;
}

/* `text` and the shape, for messages. */
static void fail_shape(fn_binder *b, const fn_tensor *t, const char *types, fn_dims dims) {
    char expected[160];
    char shape[80];
    fn_dims_text(dims.dims, dims.n, shape, sizeof shape);
    (void)snprintf(expected, sizeof expected, "%s %s", types, shape);
    fn_binder_fail(b, t, expected);
}

/* A tensor of exactly that type and shape. */
static const fn_tensor *take_exact(fn_binder *b, const char *name, fn_dtype dtype, fn_dims dims) {
    const fn_tensor *t = fn_binder_find(b, name);
    if (t == NULL) {
        fn_binder_note_missing(b, name, dims);
        return NULL;
    }
    fn_binder_mark(b, t);
    if (t->dtype != dtype || !has_dims(t, dims)) {
        fail_shape(b, t, fn_dtype_name(dtype), dims);
    }
    return t;
}

const fn_tensor *fn_binder_take_scale(fn_binder *b, const char *name, fn_dims dims) {
    const fn_tensor *t = fn_binder_find(b, name);
    bool scalar = dims.n == 1 && dims.dims[0] == 1;
    if (t == NULL) {
        fn_binder_note_missing(b, name, dims);
        return NULL;
    }
    fn_binder_mark(b, t);
    bool typed = t->dtype == FN_DTYPE_BF16 || t->dtype == FN_DTYPE_F32;
    if (!typed || !(has_dims(t, dims) || (scalar && t->n_dims == 0))) {
        fail_shape(b, t, "BF16 or F32", dims);
    }
    return t;
}

void fn_binder_refuse(fn_binder *b, const char *name, const char *why) {
    const fn_tensor *t = fn_binder_find(b, name);
    if (t != NULL && b->status == FN_OK) {
        b->status =
            fn_fail(b->err, FN_E_MODEL, "%.300s: tensor %.200s: unexpected (%s), %s",
                    fn_checkpoint_file_path(b->c, t->file), t->name, fn_dtype_name(t->dtype), why);
    }
}

/* Fails on every companion that the format has no use for: `used` holds a bit for each it has. */
static void refuse_others(fn_binder *b, unsigned used, const char *format) {
    char why[80];
    (void)snprintf(why, sizeof why, "the weight is stored as %s", format);
    for (unsigned i = 0; i < N_COMPANIONS; i++) {
        if ((used >> i & 1u) == 0) {
            fn_binder_refuse(b, companions[i], why);
        }
    }
}

/* The scale of activations in static schemes: known, and of no use where activations are floats. */
static void ignore_input_scale(fn_binder *b) {
    const fn_tensor *input = fn_binder_find(b, companions[INPUT_SCALE]);
    if (input != NULL) {
        fn_binder_mark(b, input);
    }
}

static void take_fp8(fn_binder *b, fn_source *s) {
    s->format = FN_SOURCE_FP8;
    s->scale = fn_binder_take_scale(
        b, companions[SCALE_INV],
        FN_DIMS(ceil_div(s->rows, FN_SOURCE_FP8_BLOCK), ceil_div(s->cols, FN_SOURCE_FP8_BLOCK)));
    ignore_input_scale(b);
    refuse_others(b, USES(SCALE_INV) | USES(INPUT_SCALE), "FP8 in blocks");
}

static void take_nvfp4(fn_binder *b, fn_source *s) {
    s->format = FN_SOURCE_NVFP4;
    s->scale = take_exact(b, companions[SCALE], FN_DTYPE_F8_E4M3,
                          FN_DIMS(s->rows, ceil_div(s->cols, FN_SOURCE_NVFP4_GROUP)));
    s->global = fn_binder_take_scale(b, companions[SCALE_2], FN_DIMS(1));
    if (s->global != NULL && s->global->dtype != FN_DTYPE_F32) {
        fn_binder_fail(b, s->global, "F32, one number");
    }
    ignore_input_scale(b);
    refuse_others(b, USES(SCALE) | USES(SCALE_2) | USES(INPUT_SCALE), "NVFP4");
}

static fn_source take_gptq(fn_binder *b, uint64_t rows, uint64_t cols) {
    uint64_t groups = ceil_div(cols, FN_SOURCE_GPTQ_GROUP);
    fn_source s = {.format = FN_SOURCE_GPTQ, .rows = (size_t)rows, .cols = (size_t)cols};
    if (cols % 8 != 0) {
        fn_binder_refuse(b, companions[QWEIGHT], "packed INT4 needs a multiple of 8 inputs");
        return s;
    }
    fn_binder_refuse(b, companions[G_IDX], "groups in another order (act-order) are not supported");
    s.weight = take_exact(b, companions[QWEIGHT], FN_DTYPE_I32, FN_DIMS(cols / 8, rows));
    s.scale = take_exact(b, companions[SCALES], FN_DTYPE_F16, FN_DIMS(groups, rows));
    s.zeros = take_exact(b, companions[QZEROS], FN_DTYPE_I32, FN_DIMS(groups, ceil_div(rows, 8)));
    refuse_others(b, USES(QWEIGHT) | USES(SCALES) | USES(QZEROS), "packed INT4");
    return s;
}

/* The weight behind "module." */
static fn_source take_by_type(fn_binder *b, uint64_t rows, uint64_t cols) {
    fn_source s = {.format = FN_SOURCE_PLAIN, .rows = (size_t)rows, .cols = (size_t)cols};
    const fn_tensor *t = fn_binder_find(b, "weight");
    fn_dims dims = FN_DIMS(rows, cols);
    if (t == NULL) {
        fn_binder_note_missing(b, "weight", dims);
        return s;
    }
    fn_binder_mark(b, t);
    s.weight = t;
    if (fn_binder_is_plain(t->dtype)) {
        if (!has_dims(t, dims)) {
            char shape[80];
            fn_dims_text(dims.dims, dims.n, shape, sizeof shape);
            fn_binder_fail(b, t, shape);
        }
        refuse_others(b, 0, fn_dtype_name(t->dtype));
    } else if (t->dtype == FN_DTYPE_F8_E4M3) {
        if (!has_dims(t, dims)) {
            fail_shape(b, t, "F8_E4M3", dims);
        }
        take_fp8(b, &s);
    } else if (t->dtype == FN_DTYPE_U8) {
        dims = FN_DIMS(rows, ceil_div(cols, 2));
        if (!has_dims(t, dims)) {
            fail_shape(b, t, "U8 (two NVFP4 codes each)", dims);
        }
        take_nvfp4(b, &s);
    } else {
        fn_binder_fail(b, t, "BF16, F16, F32, F8_E4M3 or U8 (other formats are not supported)");
    }
    return s;
}

/* The packed tensor behind "module." */
static const fn_tensor *find_packed(fn_binder *b) {
    size_t mark = fn_binder_push(b, "%s", FN_PACKED_MARK + 1);
    size_t i = fn_checkpoint_lower_bound(b->c, b->name);
    const fn_tensor *t = i < fn_checkpoint_count(b->c) ? fn_checkpoint_at(b->c, i) : NULL;
    bool found = t != NULL && strncmp(t->name, b->name, b->name_length) == 0;
    fn_binder_pop(b, mark);
    return found ? t : NULL;
}

static fn_source take_packed(fn_binder *b, const fn_tensor *t, uint64_t rows, uint64_t cols) {
    fn_source s = {
        .format = FN_SOURCE_PACKED, .weight = t, .rows = (size_t)rows, .cols = (size_t)cols};
    const char *tag = t->name + b->name_length + strlen(FN_PACKED_MARK) - 1;
    fn_binder_mark(b, t);
    if (!fn_packed_parse_tag(tag, &s.packed_kind, &s.packed_group)) {
        fn_binder_fail(b, t, "a known packing at the end of its name");
        return s;
    }
    fn_dims dims =
        FN_DIMS(fn_packed_round(fn_matrix_bytes(s.packed_kind, s.rows, s.cols, s.packed_group)));
    if (t->dtype != FN_DTYPE_U8 || !has_dims(t, dims)) {
        fail_shape(b, t, "U8", dims);
    }
    refuse_others(b, 0, "a packed matrix");
    return s;
}

bool fn_binder_has_packed(fn_binder *b, const char *module) {
    size_t mark = fn_binder_push(b, "%s.", module);
    bool found = find_packed(b) != NULL;
    fn_binder_pop(b, mark);
    return found;
}

void fn_binder_take_gate_up(fn_binder *b, uint64_t rows, uint64_t cols, fn_source *above,
                            fn_source *below) {
    if (fn_binder_has_packed(b, "gate_up_proj")) {
        *above = fn_binder_take_matrix(b, "gate_up_proj", 2 * rows, cols);
        *below = (fn_source){0};
    } else {
        *above = fn_binder_take_matrix(b, "gate_proj", rows, cols);
        *below = fn_binder_take_matrix(b, "up_proj", rows, cols);
    }
}

fn_source fn_binder_take_matrix(fn_binder *b, const char *module, uint64_t rows, uint64_t cols) {
    size_t mark = fn_binder_push(b, "%s.", module);
    const fn_tensor *packed = find_packed(b);
    if (packed != NULL) {
        fn_source s = take_packed(b, packed, rows, cols);
        fn_binder_pop(b, mark);
        return s;
    }
    bool gptq = !fn_binder_has(b, "weight") && fn_binder_has(b, "qweight");
    fn_source s = gptq ? take_gptq(b, rows, cols) : take_by_type(b, rows, cols);
    fn_binder_pop(b, mark);
    return s;
}

fn_source fn_binder_stacked(const fn_tensor *stack, uint64_t first_row, uint64_t rows) {
    return (fn_source){.format = FN_SOURCE_PLAIN,
                       .weight = stack,
                       .first_row = first_row,
                       .rows = (size_t)rows,
                       .cols = (size_t)stack->dims[stack->n_dims - 1]};
}
