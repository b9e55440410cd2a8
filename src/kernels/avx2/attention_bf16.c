#include "kernels/avx2/avx2.h"

typedef struct dot_in { /* 16 pairs */
    __m256i lo, hi;
} dot_in;

static inline dot_in dot_load(const uint16_t *p) {
    return (dot_in){_mm256_loadu_si256((const __m256i *)(const void *)p),
                    _mm256_loadu_si256((const __m256i *)(const void *)(p + 16))};
}

/* A 32-bit word holds a pair: the first in its low half. */
static inline __m256 first_of(__m256i pairs) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}

static inline __m256 second_of(__m256i pairs) {
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000u)));
}

static inline __m256 add_pairs(__m256i a, __m256i b, __m256 sums) {
    sums = _mm256_fmadd_ps(second_of(a), second_of(b), sums);
    return _mm256_fmadd_ps(first_of(a), first_of(b), sums);
}

static inline v16 dot_add(dot_in a, dot_in b, v16 sums) {
    return (v16){add_pairs(a.lo, b.lo, sums.lo), add_pairs(a.hi, b.hi, sums.hi)};
}

#include "kernels/simd/attention_bf16.inc"
