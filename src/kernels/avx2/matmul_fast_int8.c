#define BITS 8
#define START(at) ((void)(at), _mm256_setzero_si256()) /* weights are made signed */

#include "kernels/avx2/matmul_fast_int.inc"

/* vpmaddubsw adds pairs in 16 bits and saturates, so that unsigned weights would not fit. With the
 * weight's sign moved to the input both factors are at most 128 in size, and 2 * 128 * 127 fits. */
FN_INLINE void dots(size_t ldx, const size_t rows, const size_t vectors, __m256i *sums,
                    const uint8_t *weights, const uint8_t *x, size_t n, size_t ahead) {
    const __m256i ones = _mm256_set1_epi16(1), half = _mm256_set1_epi8((char)0x80);
    for (size_t i = 0; i < n; i += UNIT, x += UNIT, weights += UNIT_BYTES) {
        if (rows > 1)
            fetch_line(weights, ahead);
        FN_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            __m256i w = _mm256_xor_si256(load_codes(weights + v * 32), half);
            __m256i size = _mm256_abs_epi8(w);
            FN_UNROLL
            for (size_t r = 0; r < rows; r++) {
                __m256i inputs = _mm256_sign_epi8(four_inputs(x + r * ldx), w);
                __m256i pairs = _mm256_maddubs_epi16(size, inputs);
                __m256i *sum = &sums[r * vectors + v];
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
            }
        }
    }
}

void fn_avx2_matmul_fast_int8(const fn_matmul_args *a) {
    matmul(a);
}
