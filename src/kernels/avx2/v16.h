/* kernels/avx2/v16.h - 16 floats in two registers: what kernels/simd/ is written in.
 *
 * Order:   v16_sum is the tree of kernels.h; v16_sums does it for many vectors at once. */
#ifndef FN_KERNELS_AVX2_V16_H
#define FN_KERNELS_AVX2_V16_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/exp_poly.h"

#define FN_SIMD(name) fn_avx2_##name

/* Blocks that fill 16 registers. */
#define FN_DOT_HEADS ((size_t)2) /* dots: heads x keys sums at once */
#define FN_DOT_KEYS ((size_t)2)
#define FN_VALUE_HEADS ((size_t)6) /* attention values: heads x vectors of columns */
#define FN_VALUE_VECS ((size_t)1)
#define FN_DELTA_VECS ((size_t)2) /* delta rule: vectors of value columns */
#define FN_DELTA_PACKED 32        /* value columns of a state that stays in the first cache */

typedef struct v16 {
    __m256 lo, hi; /* lanes 0-7, 8-15 */
} v16;

/* Lanes below n of the 16, as masks of sign bits. */
static inline void v16_first(size_t n, __m256i *lo, __m256i *hi) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i bound = _mm256_set1_epi32((int)n);
    *lo = _mm256_cmpgt_epi32(bound, lanes);
    *hi = _mm256_cmpgt_epi32(bound, _mm256_add_epi32(lanes, _mm256_set1_epi32(8)));
}

static inline v16 v16_zero(void) {
    return (v16){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

static inline v16 v16_set(float x) {
    return (v16){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}

static inline v16 v16_load(const float *p) {
    return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

static inline void v16_store(float *p, v16 x) {
    _mm256_storeu_ps(p, x.lo);
    _mm256_storeu_ps(p + 8, x.hi);
}

/* To memory, past the caches; p aligned to 64 bytes. */
static inline void v16_stream(float *p, v16 x) {
    _mm256_stream_ps(p, x.lo);
    _mm256_stream_ps(p + 8, x.hi);
}

/* Lanes below n; the others are zero, or not written. */
static inline v16 v16_load_n(const float *p, size_t n) {
    __m256i lo, hi;
    v16_first(n, &lo, &hi);
    return (v16){_mm256_maskload_ps(p, lo), _mm256_maskload_ps(p + 8, hi)};
}

static inline void v16_store_n(float *p, v16 x, size_t n) {
    __m256i lo, hi;
    v16_first(n, &lo, &hi);
    _mm256_maskstore_ps(p, lo, x.lo);
    _mm256_maskstore_ps(p + 8, hi, x.hi);
}

static inline v16 v16_add(v16 a, v16 b) {
    return (v16){_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}

static inline v16 v16_sub(v16 a, v16 b) {
    return (v16){_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}

static inline v16 v16_mul(v16 a, v16 b) {
    return (v16){_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}

static inline v16 v16_div(v16 a, v16 b) {
    return (v16){_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}

static inline v16 v16_fma(v16 a, v16 b, v16 c) {
    return (v16){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}

/* a in the lanes below n, b in the others */
static inline v16 v16_first_of(v16 a, v16 b, size_t n) {
    __m256i lo, hi;
    v16_first(n, &lo, &hi);
    return (v16){_mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(lo)),
                 _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(hi))};
}

/* a < b ? a : b, so b where one is NaN; likewise a > b ? a : b */
static inline v16 v16_min(v16 a, v16 b) {
    return (v16){_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}

static inline v16 v16_max(v16 a, v16 b) {
    return (v16){_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}

/* z < 0 ? a : b */
static inline v16 v16_if_negative(v16 z, v16 a, v16 b) {
    __m256 zero = _mm256_setzero_ps();
    return (v16){_mm256_blendv_ps(b.lo, a.lo, _mm256_cmp_ps(z.lo, zero, _CMP_LT_OQ)),
                 _mm256_blendv_ps(b.hi, a.hi, _mm256_cmp_ps(z.hi, zero, _CMP_LT_OQ))};
}

static inline v16 v16_minus_abs(v16 z) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (v16){_mm256_or_ps(z.lo, sign), _mm256_or_ps(z.hi, sign)};
}

/* 2^(biased - 128), biased positive */
static inline __m256 m256_power(__m256i biased) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_sub_epi32(biased, _mm256_set1_epi32(1)), 23));
}

static inline __m256 m256_scale(__m256 p, __m256 t) {
    __m256i exponent =
        _mm256_add_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(256 - (int)FN_EXP_ROUND_BITS));
    __m256i low = _mm256_srli_epi32(exponent, 1), high = _mm256_sub_epi32(exponent, low);
    return _mm256_mul_ps(_mm256_mul_ps(p, m256_power(low)), m256_power(high));
}

/* p * 2^n rounded once; t = n + FN_EXP_ROUND */
static inline v16 v16_scale(v16 p, v16 n, v16 t) {
    (void)n;
    return (v16){m256_scale(p.lo, t.lo), m256_scale(p.hi, t.hi)};
}

static inline __m256 m256_from_bf16(const uint16_t *p) {
    __m128i words;
    __builtin_memcpy(&words, p, sizeof words);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
}

static inline v16 v16_from_bf16(const uint16_t *p) {
    return (v16){m256_from_bf16(p), m256_from_bf16(p + 8)};
}

static inline __m256i m256_to_bf16(__m256 x) {
    __m256i bits = _mm256_castps_si256(x), none = _mm256_setzero_si256();
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i words = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    __m256i exponent = _mm256_and_si256(bits, _mm256_set1_epi32(0x7f800000));
    __m256i sign = _mm256_and_si256(bits, _mm256_set1_epi32((int)0x80000000u));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    words = _mm256_blendv_epi8(words, sign, _mm256_cmpeq_epi32(exponent, none));
    words = _mm256_blendv_epi8(words, quiet, nan);
    return _mm256_srli_epi32(words, 16);
}

/* Rounded to nearest, ties to even; subnormals become zeros of their sign. */
static inline void v16_to_bf16(uint16_t *p, v16 x) {
    __m256i words = _mm256_packus_epi32(m256_to_bf16(x.lo), m256_to_bf16(x.hi));
    words = _mm256_permute4x64_epi64(words, 0xd8);
    __builtin_memcpy(p, &words, sizeof words);
}

/* Whole numbers -128 .. 127 */
static inline void v16_to_int8(int8_t *p, v16 x) {
    __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(x.lo), _mm256_cvtps_epi32(x.hi));
    words = _mm256_permute4x64_epi64(words, 0xd8);
    __m128i codes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    __builtin_memcpy(p, &codes, sizeof codes);
}

static inline __m256 m256_larger_magnitude(__m256 most, __m256 x) {
    __m256i bits = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(most), bits));
}

/* Per lane the larger of most (not negative) and |x|; NaN is above infinity. Then the largest of
 * all lanes. */
static inline v16 v16_larger_magnitude(v16 most, v16 x) {
    return (v16){m256_larger_magnitude(most.lo, x.lo), m256_larger_magnitude(most.hi, x.hi)};
}

static inline float v16_largest_magnitude(v16 most) {
    __m256 eight = m256_larger_magnitude(most.lo, most.hi);
    __m128i four = _mm_max_epi32(_mm_castps_si128(_mm256_castps256_ps128(eight)),
                                 _mm_castps_si128(_mm256_extractf128_ps(eight, 1)));
    __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    int bits = _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float v16_sum(v16 x) {
    __m256 eight = _mm256_add_ps(x.lo, x.hi);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* out[h * ld + k] = v16_sum(a[h * 2 + k]) for 2 x 2 vectors. */
static inline void v16_sums(float *out, size_t ld, const v16 a[FN_DOT_HEADS * FN_DOT_KEYS]) {
    __m256 a0 = _mm256_add_ps(a[0].lo, a[0].hi), a1 = _mm256_add_ps(a[1].lo, a[1].hi);
    __m256 a2 = _mm256_add_ps(a[2].lo, a[2].hi), a3 = _mm256_add_ps(a[3].lo, a[3].hi);
    /* halves: four lanes of a0 | a1, and of a2 | a3 */
    __m256 a01 =
        _mm256_add_ps(_mm256_permute2f128_ps(a0, a1, 0x20), _mm256_permute2f128_ps(a0, a1, 0x31));
    __m256 a23 =
        _mm256_add_ps(_mm256_permute2f128_ps(a2, a3, 0x20), _mm256_permute2f128_ps(a2, a3, 0x31));
    __m256 two = _mm256_add_ps(_mm256_shuffle_ps(a01, a23, 0x44),
                               _mm256_shuffle_ps(a01, a23, 0xee)); /* a0 a2 | a1 a3 */
    __m256 one = _mm256_add_ps(two, _mm256_movehdup_ps(two));      /* lanes 0, 2 | 4, 6 */
    __m128 low = _mm256_castps256_ps128(one), high = _mm256_extractf128_ps(one, 1);
    _mm_storel_pi((__m64 *)(void *)out, _mm_unpacklo_ps(low, high));
    _mm_storel_pi((__m64 *)(void *)(out + ld), _mm_unpackhi_ps(low, high));
}

#endif
