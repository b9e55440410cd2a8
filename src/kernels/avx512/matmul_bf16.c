#include "kernels/avx512/matmul.inc"

#define INPUT_BYTES (FN_TILE * sizeof(uint16_t))
#define BLOCK_INPUTS(w, panel) ((w)->group)
#define WEIGHTS_AT(w, k) ((k)*INPUT_BYTES)

#include "kernels/simd/matmul.inc"

/* A 32-bit word holds two inputs' weights of one output: the first in its low half. */
FN_INLINE __m512 first_of_pair(__m512i words) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
}

FN_INLINE __m512 second_of_pair(__m512i words) {
    return _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32((int)0xffff0000u)));
}

FN_INLINE void block(const block_args *b, const size_t rows) {
    __m512 lo[MAX_ROWS], hi[MAX_ROWS];
    zero_sums(lo, hi, rows);
    const uint8_t *w = b->weights;
    const float *x = b->x;
    for (size_t k = 0; k + 2 <= b->inputs; k += 2, x += 2, w += 128) {
        __m512i w_lo = _mm512_loadu_si512(w), w_hi = _mm512_loadu_si512(w + 64);
        fetch_ahead(b, rows, w);
        fetch_ahead(b, rows, w + 64);
        add_products(lo, hi, rows, first_of_pair(w_lo), first_of_pair(w_hi), x, b->ldx);
        add_products(lo, hi, rows, second_of_pair(w_lo), second_of_pair(w_hi), x + 1, b->ldx);
    }
    if (b->inputs % 2 != 0) {
        __m512i w_lo = _mm512_loadu_si512(w), w_hi = _mm512_loadu_si512(w + 64);
        add_products(lo, hi, rows, first_of_pair(w_lo), first_of_pair(w_hi), x, b->ldx);
    }
    write_sums(b, lo, hi, rows);
}

void fn_avx512_matmul_bf16(const fn_matmul_args *a) {
    matmul(a);
}
