#include "weights/source.h"

#include "base/half.h"

static size_t round_64(size_t n) {
    return (n + 63) / 64 * 64;
}

static size_t ceil_div(size_t n, size_t by) {
    return (n + by - 1) / by;
}

fn_matrix_kind fn_source_kind(const fn_source *s) {
    switch (s->format) {
    case FN_SOURCE_FP8:
        return FN_MATRIX_FP8;
    case FN_SOURCE_NVFP4:
        return FN_MATRIX_NVFP4;
    case FN_SOURCE_GPTQ:
        return FN_MATRIX_INT4;
    case FN_SOURCE_PACKED:
        return s->packed_kind;
    case FN_SOURCE_PLAIN:
        break;
    }
    return s->weight->dtype == FN_DTYPE_BF16 ? FN_MATRIX_BF16 : FN_MATRIX_F32;
}

size_t fn_source_group(fn_matrix_kind kind) {
    return kind == FN_MATRIX_NVFP4 ? FN_GROUP_NVFP4 : FN_GROUP_DEFAULT;
}

size_t fn_source_stored_group(const fn_source *s) {
    return s->format == FN_SOURCE_PACKED ? s->packed_group : fn_source_group(fn_source_kind(s));
}

uint64_t fn_source_bytes(const fn_source *s) {
    if (s->format == FN_SOURCE_PLAIN) {
        return (uint64_t)s->rows * s->cols * fn_dtype_bytes(s->weight->dtype);
    }
    if (s->format == FN_SOURCE_PACKED) {
        return s->weight->bytes;
    }
    return s->weight->bytes + s->scale->bytes + (s->global != NULL ? s->global->bytes : 0) +
           (s->zeros != NULL ? s->zeros->bytes : 0);
}

/* ---- scratch: parts laid one behind the other ------------------------------------------------ */

/* What is carved from scratch for n rows: raw bytes as stored, and what becomes of them. */
typedef struct carve {
    size_t codes;      /* as handed out */
    size_t scales;     /* as handed out */
    size_t raw_codes;  /* GPTQ words */
    size_t raw_scales; /* FP8 blocks, GPTQ scales and zero points, one after the other */
} carve;

static carve carve_of(const fn_source *s, size_t n) {
    size_t k = s->cols;
    size_t fp8_groups = ceil_div(k, FN_SOURCE_FP8_BLOCK);
    size_t gptq_groups = ceil_div(k, FN_SOURCE_GPTQ_GROUP);
    switch (s->format) {
    case FN_SOURCE_FP8:
        return (carve){.codes = n * k,
                       .scales = n * fp8_groups * sizeof(float),
                       .raw_scales = (n / FN_SOURCE_FP8_BLOCK + 2) * fp8_groups * sizeof(float)};
    case FN_SOURCE_NVFP4:
        return (carve){.codes = n * ceil_div(k, 2),
                       .scales = n * ceil_div(k, FN_SOURCE_NVFP4_GROUP)};
    case FN_SOURCE_GPTQ:
        return (carve){.codes = n * k,
                       .scales = n * gptq_groups * sizeof(uint16_t),
                       .raw_codes = n * k / 8 * sizeof(uint32_t),
                       .raw_scales = gptq_groups * (n + 8) * sizeof(uint32_t)};
    case FN_SOURCE_PACKED:
        return (carve){0};
    case FN_SOURCE_PLAIN:
        break;
    }
    return (carve){.codes = n * k * sizeof(uint16_t)};
}

size_t fn_source_scratch(const fn_source *s, size_t n) {
    carve c = carve_of(s, n);
    return round_64(c.codes) + round_64(c.scales) + round_64(c.raw_codes) + round_64(c.raw_scales);
}

typedef struct areas {
    uint8_t *codes, *scales, *raw_codes, *raw_scales;
} areas;

static areas areas_of(const fn_source *s, size_t n, void *scratch) {
    carve c = carve_of(s, n);
    areas a = {.codes = scratch};
    a.scales = a.codes + round_64(c.codes);
    a.raw_codes = a.scales + round_64(c.scales);
    a.raw_scales = a.raw_codes + round_64(c.raw_codes);
    return a;
}

/* ---- the formats ----------------------------------------------------------------------------- */

static fn_status read_fp8(const fn_checkpoint *c, const fn_source *s, size_t first, size_t n,
                          const areas *a, fn_error *err) {
    size_t groups = ceil_div(s->cols, FN_SOURCE_FP8_BLOCK);
    size_t block = first / FN_SOURCE_FP8_BLOCK;
    size_t blocks = n > 0 ? (first + n - 1) / FN_SOURCE_FP8_BLOCK - block + 1 : 0;
    float *stored = (float *)(void *)a->raw_scales;
    float *scales = (float *)(void *)a->scales;
    fn_status status =
        fn_tensor_read(c, s->weight, (uint64_t)first * s->cols, a->codes, n * s->cols, err);
    if (status == FN_OK) {
        status = fn_tensor_read_f32(c, s->scale, block * groups, blocks * groups, stored, err);
    }
    for (size_t r = 0; status == FN_OK && r < n; r++) {
        const float *of_row = stored + ((first + r) / FN_SOURCE_FP8_BLOCK - block) * groups;
        memcpy(scales + r * groups, of_row, groups * sizeof *scales);
    }
    return status;
}

static fn_status read_nvfp4(const fn_checkpoint *c, const fn_source *s, size_t first, size_t n,
                            const areas *a, fn_error *err) {
    size_t row = ceil_div(s->cols, 2);
    size_t groups = ceil_div(s->cols, FN_SOURCE_NVFP4_GROUP);
    fn_status status = fn_tensor_read(c, s->weight, (uint64_t)first * row, a->codes, n * row, err);
    return status == FN_OK
               ? fn_tensor_read(c, s->scale, (uint64_t)first * groups, a->scales, n * groups, err)
               : status;
}

/* dst [count, n]: columns [first, first + n) of a stored [count, width], `size` bytes each. */
static fn_status read_columns(const fn_checkpoint *c, const fn_tensor *t, size_t first, size_t n,
                              size_t size, uint8_t *dst, fn_error *err) {
    size_t count = (size_t)t->dims[0];
    size_t width = (size_t)t->dims[1];
    if (n == width) {
        return fn_tensor_read(c, t, 0, dst, count * n * size, err);
    }
    fn_status status = FN_OK;
    for (size_t i = 0; i < count && status == FN_OK; i++) {
        status = fn_tensor_read(c, t, ((uint64_t)i * width + first) * size, dst + i * n * size,
                                n * size, err);
    }
    return status;
}

/* Every zero point of rows [first, first + n) must be 8, which is stored as 7. */
static fn_status check_zeros(const fn_checkpoint *c, const fn_source *s, size_t first, size_t n,
                             uint8_t *raw, fn_error *err) {
    const fn_tensor *t = s->zeros;
    size_t begin = first / 8;
    size_t words = ceil_div(first + n, 8) - begin;
    fn_status status = read_columns(c, t, begin, words, sizeof(uint32_t), raw, err);
    for (size_t g = 0; status == FN_OK && g < (size_t)t->dims[0]; g++) {
        for (size_t r = first; r < first + n; r++) {
            uint32_t word;
            memcpy(&word, raw + (g * words + r / 8 - begin) * sizeof word, sizeof word);
            unsigned zero = word >> (r % 8 * 4) & 15u;
            if (zero != 7) {
                return fn_fail(err, FN_E_MODEL,
                               "%.300s: tensor %.200s: group %zu, output %zu: found zero point "
                               "nibble %u, expected 7 (symmetric INT4)",
                               fn_checkpoint_file_path(c, t->file), t->name, g, r, zero);
            }
        }
    }
    return status;
}

static fn_status read_gptq(const fn_checkpoint *c, const fn_source *s, size_t first, size_t n,
                           const areas *a, fn_error *err) {
    size_t groups = ceil_div(s->cols, FN_SOURCE_GPTQ_GROUP);
    uint16_t *scales = (uint16_t *)(void *)a->scales;
    fn_status status = check_zeros(c, s, first, n, a->raw_scales, err);
    if (status == FN_OK) {
        status = read_columns(c, s->weight, first, n, sizeof(uint32_t), a->raw_codes, err);
    }
    if (status == FN_OK) {
        status = read_columns(c, s->scale, first, n, sizeof(uint16_t), a->raw_scales, err);
    }
    for (size_t r = 0; status == FN_OK && r < n; r++) {
        int8_t *row = (int8_t *)a->codes + r * s->cols;
        for (size_t k = 0; k < s->cols; k += 8) {
            uint32_t word;
            memcpy(&word, a->raw_codes + (k / 8 * n + r) * sizeof word, sizeof word);
            for (size_t j = 0; j < 8; j++) {
                row[k + j] = (int8_t)((int)(word >> 4 * j & 15u) - 8);
            }
        }
        for (size_t g = 0; g < groups; g++) {
            memcpy(&scales[r * groups + g], a->raw_scales + (g * n + r) * sizeof *scales,
                   sizeof *scales);
        }
    }
    return status;
}

fn_status fn_source_read_codes(const fn_checkpoint *c, const fn_source *s, size_t first, size_t n,
                               void *scratch, fn_source_codes *out, fn_error *err) {
    areas a = areas_of(s, n, scratch);
    *out = (fn_source_codes){.codes = a.codes, .global = 1.0F};
    switch (s->format) {
    case FN_SOURCE_FP8:
        out->f32_scales = (const float *)(void *)a.scales;
        return read_fp8(c, s, first, n, &a, err);
    case FN_SOURCE_NVFP4: {
        out->e4m3_scales = a.scales;
        fn_status status = fn_tensor_read_f32(c, s->global, 0, 1, &out->global, err);
        return status == FN_OK ? read_nvfp4(c, s, first, n, &a, err) : status;
    }
    case FN_SOURCE_GPTQ:
        out->ints = (const int8_t *)a.codes;
        out->f16_scales = (const uint16_t *)(void *)a.scales;
        return read_gptq(c, s, first, n, &a, err);
    case FN_SOURCE_PACKED:
        return fn_fail(err, FN_E_UNSUPPORTED, "packed weights are read whole, not by row");
    case FN_SOURCE_PLAIN:
        break;
    }
    FN_ASSERT(s->weight->dtype == FN_DTYPE_BF16);
    return fn_tensor_read(c, s->weight, (s->first_row + first) * s->cols * sizeof(uint16_t),
                          a.codes, n * s->cols * sizeof(uint16_t), err);
}

/* ---- float32 --------------------------------------------------------------------------------- */

/* Row r of what was read. The product of an NVFP4 code and its scale is exact, as is that of a GPTQ
 * code and its scale: one rounding each. */
static void widen_row(const fn_source *s, const fn_source_codes *codes, size_t r, float *dst) {
    size_t cols = s->cols;
    if (s->format == FN_SOURCE_FP8) {
        const uint8_t *row = codes->codes + r * cols;
        const float *scales = codes->f32_scales + r * ceil_div(cols, FN_SOURCE_FP8_BLOCK);
        for (size_t k = 0; k < cols; k++) {
            dst[k] = fn_e4m3_to_float(row[k]) * scales[k / FN_SOURCE_FP8_BLOCK];
        }
    } else if (s->format == FN_SOURCE_NVFP4) {
        const uint8_t *row = codes->codes + r * ceil_div(cols, 2);
        const uint8_t *scales = codes->e4m3_scales + r * ceil_div(cols, FN_SOURCE_NVFP4_GROUP);
        for (size_t k = 0; k < cols; k++) {
            float code = fn_e2m1_to_float((uint8_t)(row[k / 2] >> k % 2 * 4 & 15));
            dst[k] = code * fn_e4m3_to_float(scales[k / FN_SOURCE_NVFP4_GROUP]) * codes->global;
        }
    } else if (codes->ints != NULL) { /* GPTQ */
        const int8_t *row = codes->ints + r * cols;
        const uint16_t *scales = codes->f16_scales + r * ceil_div(cols, FN_SOURCE_GPTQ_GROUP);
        for (size_t k = 0; k < cols; k++) {
            dst[k] = (float)row[k] * fn_f16_to_float(scales[k / FN_SOURCE_GPTQ_GROUP]);
        }
    }
}

fn_status fn_source_read_f32(const fn_checkpoint *c, const fn_source *s, size_t first, size_t n,
                             void *scratch, float *dst, fn_error *err) {
    fn_source_codes codes;
    if (s->format == FN_SOURCE_PLAIN) {
        return fn_tensor_read_f32(c, s->weight, (s->first_row + first) * s->cols, n * s->cols, dst,
                                  err);
    }
    fn_status status = fn_source_read_codes(c, s, first, n, scratch, &codes, err);
    for (size_t r = 0; status == FN_OK && r < n; r++) {
        widen_row(s, &codes, r, dst + r * s->cols);
    }
    return status;
}
