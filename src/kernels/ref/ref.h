/* kernels/ref/ref.h - the reference table: plain C for any x86-64, and the definition of every
 * sum's order. The other tables must give the same bits.
 *
 * Shapes:  as in kernels.h, which says what each function computes. */
#ifndef FN_KERNELS_REF_H
#define FN_KERNELS_REF_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

#define FN_LANES 16 /* partial sums of a reduction */

/* a * b + c rounded once. The product is exact in double; rounding the double sum to float differs
 * from rounding once only when that sum lies half-way between two floats, or where floats are
 * subnormal: then the C library decides. (Its fmaf alone, without an FMA unit, is far slower.) */
static inline float fn_ref_fma(float a, float b, float c) {
    double sum = (double)a * (double)b + (double)c;
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    uint32_t exponent = (uint32_t)(bits >> 52) & 0x7ffu; /* 897 is 2^-126 */
    if ((bits & 0x1fffffffu) == 0x10000000u || exponent - 1u < 896u)
        return fmaf(a, b, c);
    return (float)sum;
}

/* The tree that ends every reduction. */
static inline float fn_ref_lanes_sum(float lanes[FN_LANES]) {
    for (size_t half = FN_LANES / 2; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            lanes[j] += lanes[j + half];
    return lanes[0];
}

/* Row r of the inputs, as bytes or floats. */
static inline const void *fn_ref_row(const fn_matmul_args *a, size_t r) {
    return (const uint8_t *)a->x + r * a->ldx;
}

/* exp of one value; exp.c says how. */
float fn_ref_exp_value(float x);
/* 1 / (1 + exp(-z)) */
float fn_ref_sigmoid_value(float z);

float fn_ref_dot(const float *a, const float *b, size_t n);
float fn_ref_max(const float *x, size_t n);
/* x [n] = exp(x - max); returns the sum in dot order */
float fn_ref_exp_sum(float *y, const float *x, size_t n, float max);

void fn_ref_matmul_f32(const fn_matmul_args *a);
void fn_ref_matmul_bf16(const fn_matmul_args *a);
void fn_ref_matmul_int8(const fn_matmul_args *a);
void fn_ref_matmul_int4(const fn_matmul_args *a);
void fn_ref_matmul_fp8(const fn_matmul_args *a);
void fn_ref_matmul_nvfp4(const fn_matmul_args *a);
void fn_ref_matmul_fast_bf16(const fn_matmul_args *a);
void fn_ref_matmul_fast_int8(const fn_matmul_args *a);
void fn_ref_matmul_fast_int4(const fn_matmul_args *a);
void fn_ref_write_row_f32(void *row, const float *x, size_t cols, size_t group);
void fn_ref_write_row_bf16(void *row, const float *x, size_t cols, size_t group);
void fn_ref_write_row_int8(void *row, const float *x, size_t cols, size_t group);
float fn_ref_rms_norm(float *y, const float *x, const float *w, size_t n, float eps);
void fn_ref_rms_norm_gated(float *y, const float *x, const float *w, const float *gate, size_t n,
                           float eps);
void fn_ref_l2_norm(float *y, const float *x, size_t n, float eps, float scale);
void fn_ref_exp(float *y, const float *x, size_t n);
void fn_ref_sigmoid(float *y, const float *x, size_t n, float scale);
void fn_ref_silu(float *y, const float *x, size_t n, float scale);
void fn_ref_silu_mul(float *y, const float *gate, const float *up, size_t n);
void fn_ref_mul(float *y, const float *a, const float *b, size_t n);
void fn_ref_add(float *y, const float *x, size_t n);
void fn_ref_axpy(float *y, float a, const float *x, size_t n);
void fn_ref_softmax(float *y, const float *x, size_t n);
void fn_ref_mix_streams(const fn_mix_args *a);
void fn_ref_conv_silu(float *y, const float *const *x, const float *w, size_t ldw, size_t taps,
                      size_t c);
void fn_ref_rope(float *x, const float *cos, const float *sin, size_t rotary);
void fn_ref_delta_run(const fn_delta_run_args *a);
void fn_ref_attention(const fn_attention_args *a);
void fn_ref_attention_bf16(const fn_attention_bf16_args *a);
void fn_ref_index_scores_bf16(float *scores, const uint16_t *q, size_t heads, const uint16_t *keys,
                              size_t n, size_t d, float scale);
void fn_ref_index_scores(float *scores, const float *q, size_t heads, const float *keys, size_t n,
                         size_t d, float scale);
void fn_ref_bf16_to_f32(float *y, const uint16_t *x, size_t n);
uint64_t fn_ref_probe_read(const uint8_t *p, size_t bytes, size_t streams);
/* The same for all types: this table has no instructions of their own. */
double fn_ref_probe(size_t rounds);
void fn_ref_f32_to_bf16(uint16_t *y, const float *x, size_t n);

#endif
