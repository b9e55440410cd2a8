/* Rows in the forms of kernels/row.h. */
#include "base/half.h"
#include "kernels/ref/ref.h"

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define ROUND 12582912.0f /* 1.5 * 2^23: adding it rounds to whole numbers, ties to even */

void fn_ref_f32_to_bf16(uint16_t *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = fn_bits_of_float(x[i]);
        bool subnormal = (bits & 0x7f800000u) == 0;
        y[i] = subnormal ? (uint16_t)(bits >> 16 & 0x8000u) : fn_float_to_bf16(x[i]);
    }
}

void fn_ref_write_row_f32(void *row, const float *x, size_t cols, size_t group) {
    (void)group;
    memcpy(row, x, cols * sizeof *x);
}

void fn_ref_write_row_bf16(void *row, const float *x, size_t cols, size_t group) {
    uint16_t *y = row;
    (void)group;
    fn_ref_f32_to_bf16(y, x, cols);
    if (cols % 2 != 0)
        y[cols] = 0;
}

/* codes [n] = x / scale rounded; returns the scale, and the codes' sum in *sum. */
static float quantize_group(int8_t *codes, const float *x, size_t n, int32_t *sum) {
    uint32_t bits = 0; /* of the largest magnitude: NaN is above infinity there */
    for (size_t k = 0; k < n; k++) {
        uint32_t magnitude = fn_bits_of_float(x[k]) & 0x7fffffffu;
        bits = magnitude > bits ? magnitude : bits;
    }
    float most = fn_float_of_bits(bits);
    *sum = 0;
    memset(codes, 0, n);
    if (!(most < INFINITY))
        return NAN;
    if (most < 0x1p-100f)
        return 0.0f;
    float factor = 127.0f / most;
    for (size_t k = 0; k < n; k++) {
        float rounded = x[k] * factor + ROUND;
        codes[k] = (int8_t)(rounded - ROUND);
        *sum += codes[k];
    }
    return most / 127.0f;
}

void fn_ref_write_row_int8(void *row, const float *x, size_t cols, size_t group) {
    int8_t *codes = row;
    uint8_t *scales = (uint8_t *)row + fn_row_scales_at(cols);
    uint8_t *four = (uint8_t *)row + fn_row_starts_at(cols, group, 4);
    uint8_t *eight = (uint8_t *)row + fn_row_starts_at(cols, group, 8);
    for (size_t k = 0, g = 0; k < cols; k += group, g++) {
        int32_t sum, start;
        float scale = quantize_group(codes + k, x + k, MIN(group, cols - k), &sum);
        memcpy(scales + g * sizeof scale, &scale, sizeof scale);
        start = -8 * sum;
        memcpy(four + g * sizeof start, &start, sizeof start);
        start = -128 * sum;
        memcpy(eight + g * sizeof start, &start, sizeof start);
    }
    memset(codes + cols, 0, fn_row_scales_at(cols) - cols);
}
