/* kernels/avx512/v16.h - 16 floats in one register: what kernels/simd/ is written in.
 *
 * Order:   v16_sum is the tree of kernels.h; v16_sums does it for many vectors at once. */
#ifndef FN_KERNELS_AVX512_V16_H
#define FN_KERNELS_AVX512_V16_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/exp_poly.h"

#define FN_SIMD(name) fn_avx512_##name

/* Blocks that fill 32 registers. */
#define FN_DOT_HEADS ((size_t)4) /* dots: heads x keys sums at once */
#define FN_DOT_KEYS ((size_t)4)
#define FN_VALUE_HEADS ((size_t)12) /* attention values: heads x vectors of columns */
#define FN_VALUE_VECS ((size_t)2)
#define FN_DELTA_VECS ((size_t)8) /* delta rule: vectors of value columns */
#define FN_DELTA_PACKED 64        /* value columns of a state that stays in the first cache */

typedef __m512 v16;

static inline __mmask16 v16_first(size_t n) { /* lanes below n, n <= 16 */
    return (__mmask16)((1u << n) - 1u);
}

static inline v16 v16_zero(void) {
    return _mm512_setzero_ps();
}

static inline v16 v16_set(float x) {
    return _mm512_set1_ps(x);
}

static inline v16 v16_load(const float *p) {
    return _mm512_loadu_ps(p);
}

static inline void v16_store(float *p, v16 x) {
    _mm512_storeu_ps(p, x);
}

/* To memory, past the caches; p aligned to 64 bytes. */
static inline void v16_stream(float *p, v16 x) {
    _mm512_stream_ps(p, x);
}

/* Lanes below n; the others are zero, or not written. */
static inline v16 v16_load_n(const float *p, size_t n) {
    return _mm512_maskz_loadu_ps(v16_first(n), p);
}

static inline void v16_store_n(float *p, v16 x, size_t n) {
    _mm512_mask_storeu_ps(p, v16_first(n), x);
}

static inline v16 v16_add(v16 a, v16 b) {
    return _mm512_add_ps(a, b);
}

static inline v16 v16_sub(v16 a, v16 b) {
    return _mm512_sub_ps(a, b);
}

static inline v16 v16_mul(v16 a, v16 b) {
    return _mm512_mul_ps(a, b);
}

static inline v16 v16_div(v16 a, v16 b) {
    return _mm512_div_ps(a, b);
}

static inline v16 v16_fma(v16 a, v16 b, v16 c) {
    return _mm512_fmadd_ps(a, b, c);
}

/* a in the lanes below n, b in the others */
static inline v16 v16_first_of(v16 a, v16 b, size_t n) {
    return _mm512_mask_mov_ps(b, v16_first(n), a);
}

/* a < b ? a : b, so b where one is NaN; likewise a > b ? a : b */
static inline v16 v16_min(v16 a, v16 b) {
    return _mm512_min_ps(a, b);
}

static inline v16 v16_max(v16 a, v16 b) {
    return _mm512_max_ps(a, b);
}

/* z < 0 ? a : b */
static inline v16 v16_if_negative(v16 z, v16 a, v16 b) {
    return _mm512_mask_mov_ps(b, _mm512_cmp_ps_mask(z, _mm512_setzero_ps(), _CMP_LT_OQ), a);
}

static inline v16 v16_minus_abs(v16 z) {
    return _mm512_or_ps(z, _mm512_set1_ps(-0.0f));
}

/* p * 2^n rounded once; t = n + FN_EXP_ROUND */
static inline v16 v16_scale(v16 p, v16 n, v16 t) {
    (void)t;
    return _mm512_scalef_ps(p, n);
}

static inline v16 v16_from_bf16(const uint16_t *p) {
    __m256i words;
    __builtin_memcpy(&words, p, sizeof words);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
}

/* Rounded to nearest, ties to even; subnormals become zeros of their sign. */
static inline void v16_to_bf16(uint16_t *p, v16 x) {
    __m512i bits = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i words = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    __mmask16 zero = _mm512_testn_epi32_mask(bits, _mm512_set1_epi32(0x7f800000));
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    words = _mm512_mask_and_epi32(words, zero, bits, _mm512_set1_epi32((int)0x80000000u));
    words = _mm512_mask_or_epi32(words, nan, bits, _mm512_set1_epi32(0x400000));
    __m256i halves = _mm512_cvtepi32_epi16(_mm512_srli_epi32(words, 16));
    __builtin_memcpy(p, &halves, sizeof halves);
}

/* Whole numbers -128 .. 127 */
static inline void v16_to_int8(int8_t *p, v16 x) {
    __m128i codes = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x));
    __builtin_memcpy(p, &codes, sizeof codes);
}

/* Per lane the larger of most (not negative) and |x|; NaN is above infinity. Then the largest of
 * all lanes. */
static inline v16 v16_larger_magnitude(v16 most, v16 x) {
    __m512i bits = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(most), bits));
}

static inline float v16_largest_magnitude(v16 most) {
    int bits = _mm512_reduce_max_epi32(_mm512_castps_si512(most));
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float v16_sum(v16 x) {
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* The first two steps of the tree for four vectors: quarter i holds what is left of vector i. */
static inline __m512 v16_quarters(const v16 a[4]) {
    __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a[0], a[1], 0x44),
                              _mm512_shuffle_f32x4(a[0], a[1], 0xee));
    __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(a[2], a[3], 0x44),
                              _mm512_shuffle_f32x4(a[2], a[3], 0xee));
    return _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
}

/* out[h * ld + k] = v16_sum(a[h * 4 + k]) for 4 x 4 vectors. */
static inline void v16_sums(float *out, size_t ld, const v16 a[FN_DOT_HEADS * FN_DOT_KEYS]) {
    __m512 q0 = v16_quarters(a), q1 = v16_quarters(a + 4);
    __m512 q2 = v16_quarters(a + 8), q3 = v16_quarters(a + 12);
    /* per quarter: two lanes of each of two heads, then one lane of each of four */
    __m512 q01 = _mm512_add_ps(_mm512_shuffle_ps(q0, q1, 0x44), _mm512_shuffle_ps(q0, q1, 0xee));
    __m512 q23 = _mm512_add_ps(_mm512_shuffle_ps(q2, q3, 0x44), _mm512_shuffle_ps(q2, q3, 0xee));
    __m512 sums =
        _mm512_add_ps(_mm512_shuffle_ps(q01, q23, 0x88), _mm512_shuffle_ps(q01, q23, 0xdd));
    /* quarter k, lane h -> quarter h, lane k */
    __m512i turn = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    sums = _mm512_permutexvar_ps(turn, sums);
    _mm_storeu_ps(out, _mm512_castps512_ps128(sums));
    _mm_storeu_ps(out + ld, _mm512_extractf32x4_ps(sums, 1));
    _mm_storeu_ps(out + 2 * ld, _mm512_extractf32x4_ps(sums, 2));
    _mm_storeu_ps(out + 3 * ld, _mm512_extractf32x4_ps(sums, 3));
}

#endif
