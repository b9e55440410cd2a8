#define BITS 4
#define START(at) four_inputs(at)

#include "kernels/avx2/matmul_fast_int.inc"

#define SHORT_INPUTS ((size_t)32) /* 16 pairs of at most 2 * 15 * 127 fit in 16 bits: 8 in a lane */

FN_INLINE void add_products(__m256i *sums, const __m256i *w, const size_t vectors, __m256i inputs) {
    FN_UNROLL
    for (size_t v = 0; v < vectors; v++)
        sums[v] = _mm256_add_epi16(sums[v], _mm256_maddubs_epi16(w[v], inputs));
}

/* Up to SHORT_INPUTS inputs, in 16 bits. */
FN_INLINE void short_dots(size_t ldx, const size_t rows, const size_t vectors, __m256i *sums,
                          const uint8_t *weights, const uint8_t *x, size_t n, size_t ahead) {
    const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
    __m256i pairs[BLOCK_SUMS];
    FN_UNROLL
    for (size_t i = 0; i < rows * vectors; i++)
        pairs[i] = _mm256_setzero_si256();
    for (size_t i = 0; i < n; i += UNIT, x += UNIT, weights += UNIT_BYTES) {
        if (rows > 1)
            fetch_line(weights, ahead);
        FN_UNROLL
        for (size_t q = 0; q < UNIT / 4; q++) {
            __m256i w[VECTORS];
            FN_UNROLL
            for (size_t v = 0; v < vectors; v++) {
                __m256i line = load_codes(weights + v * 32);
                w[v] = _mm256_and_si256(q == 0 ? line : _mm256_srli_epi16(line, 4), low);
            }
            FN_UNROLL
            for (size_t r = 0; r < rows; r++) {
                __m256i inputs = four_inputs(x + r * ldx + q * 4);
                add_products(pairs + r * vectors, w, vectors, inputs);
            }
        }
    }
    FN_UNROLL
    for (size_t i = 0; i < rows * vectors; i++)
        sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(pairs[i], ones));
}

FN_INLINE void dots(size_t ldx, const size_t rows, const size_t vectors, __m256i *sums,
                    const uint8_t *weights, const uint8_t *x, size_t n, size_t ahead) {
    for (size_t i = 0; i < n; i += SHORT_INPUTS)
        short_dots(ldx, rows, vectors, sums, weights + i / UNIT * UNIT_BYTES, x + i,
                   MIN(n - i, SHORT_INPUTS), ahead);
}

void fn_avx2_matmul_fast_int4(const fn_matmul_args *a) {
    matmul(a);
}
