#include "weights/ngram_row.h"

#include <string.h>

#include "base/half.h"
#include "weights/quantize_row.h"

size_t fn_ngram_row_elements(fn_dtype dtype, size_t width) {
    switch (dtype) {
    case FN_DTYPE_F32:
    case FN_DTYPE_BF16:
    case FN_DTYPE_F16:
    case FN_DTYPE_F8_E4M3:
        return width;
    case FN_DTYPE_I8:
        return width + FN_NGRAM_SCALE_BYTES;
    default:
        return 0;
    }
}

/* The value of every E4M3 code times the scale: one rounding, as in the reference. */
void fn_ngram_row_init(fn_dtype dtype, size_t width, float fp8_scale, fn_ngram_row *out) {
    *out = (fn_ngram_row){.dtype = dtype,
                          .width = width,
                          .bytes = fn_ngram_row_elements(dtype, width) * fn_dtype_bytes(dtype)};
    for (unsigned code = 0; code < 256 && dtype == FN_DTYPE_F8_E4M3; code++) {
        out->values[code] = fn_e4m3_to_float((uint8_t)code) * fp8_scale;
    }
}

static float value_of_16(const fn_ngram_row *row, const uint8_t *stored) {
    uint16_t bits;
    memcpy(&bits, stored, sizeof bits);
    return row->dtype == FN_DTYPE_BF16 ? fn_bf16_to_float(bits) : fn_f16_to_float(bits);
}

static float scale_behind(const uint8_t *codes, size_t width) {
    uint32_t bits = 0;
    for (size_t i = 0; i < FN_NGRAM_SCALE_BYTES; i++) {
        bits |= (uint32_t)codes[width + i] << 8 * i;
    }
    return fn_float_of_bits(bits);
}

/* Walking down, the 4 bytes of a value never reach what is still to be read at the beginning of dst. */
void fn_ngram_row_widen(const fn_ngram_row *row, const uint8_t *stored, float *dst) {
    size_t n = row->width;
    if (row->dtype == FN_DTYPE_F32) {
        memmove(dst, stored, n * sizeof *dst);
    } else if (row->dtype == FN_DTYPE_F8_E4M3) {
        for (size_t i = n; i-- > 0;) {
            dst[i] = row->values[stored[i]];
        }
    } else if (row->dtype == FN_DTYPE_I8) {
        float scale = scale_behind(stored, n);
        for (size_t i = n; i-- > 0;) {
            dst[i] = (float)(int8_t)stored[i] * scale;
        }
    } else {
        for (size_t i = n; i-- > 0;) {
            dst[i] = value_of_16(row, stored + 2 * i);
        }
    }
}

void fn_ngram_row_quantize(const float *x, size_t width, uint8_t *stored) {
    uint32_t bits = fn_bits_of_float(fn_quantize_row_whole(x, width, (int8_t *)stored));
    for (size_t i = 0; i < FN_NGRAM_SCALE_BYTES; i++) {
        stored[width + i] = (uint8_t)(bits >> 8 * i);
    }
}
