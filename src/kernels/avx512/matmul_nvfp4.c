#define MAX_ROWS 10 /* decoding needs the registers of two more */
#include "kernels/avx512/matmul.inc"

#define UNIT 4 /* a line */
#define UNIT_BYTES ((size_t)64)
#define CODE_INPUTS 2
#define CODE_BYTES ((size_t)FN_TILE)
#define SCALE_BYTES ((size_t)1)
#define HAS_GLOBAL 1
#include "kernels/avx512/e4m3.inc"
#include "kernels/simd/matmul_codes.inc"

#include "kernels/simd/matmul.inc"

/* Bits 0 - 3 of each word index the sixteen values of E2M1; the others do not count. */
FN_INLINE __m512 e2m1_to_float(__m512i words) {
    const __m512 values = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f,
                                         -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
    return _mm512_permutexvar_ps(words, values);
}

FN_INLINE __m512i pair_words(const uint8_t *w) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)w));
}

FN_INLINE void add_unit(__m512 *lo, __m512 *hi, const size_t rows, const uint8_t *w, const float *x,
                        size_t ldx, const size_t n) {
    FN_UNROLL
    for (size_t j = 0; j < UNIT; j += 2) {
        if (j < n) {
            __m512i w_lo = pair_words(w + j / 2 * FN_TILE);
            __m512i w_hi = pair_words(w + j / 2 * FN_TILE + 16);
            add_products(lo, hi, rows, e2m1_to_float(w_lo), e2m1_to_float(w_hi), x + j, ldx);
            if (j + 1 < n) {
                w_lo = _mm512_srli_epi32(w_lo, 4);
                w_hi = _mm512_srli_epi32(w_hi, 4);
                add_products(lo, hi, rows, e2m1_to_float(w_lo), e2m1_to_float(w_hi), x + j + 1,
                             ldx);
            }
        }
    }
}

FN_INLINE void group_scales(__m512 *lo, __m512 *hi, const uint8_t *scales) {
    e4m3_to_float(lo, hi, scales);
}

#include "kernels/avx512/matmul_codes.inc"

void fn_avx512_matmul_nvfp4(const fn_matmul_args *a) {
    matmul(a);
}
