#include "kernels/avx2/matmul.inc"

#define INPUT_BYTES (FN_TILE * sizeof(uint16_t))
#define BLOCK_INPUTS(w, panel) ((w)->group)
#define WEIGHTS_AT(w, k) ((k)*INPUT_BYTES)

#include "kernels/simd/matmul.inc"

/* A 32-bit word holds two inputs' weights of one output: the first in its low half. */
FN_INLINE void first_of_pairs(__m256 weights[4], const uint8_t *w, const size_t vecs) {
    FN_UNROLL
    for (size_t v = 0; v < vecs; v++) {
        __m256i words = _mm256_loadu_si256((const __m256i *)(const void *)(w + v * 32));
        weights[v] = _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
    }
}

FN_INLINE void second_of_pairs(__m256 weights[4], const uint8_t *w, const size_t vecs) {
    FN_UNROLL
    for (size_t v = 0; v < vecs; v++) {
        __m256i words = _mm256_loadu_si256((const __m256i *)(const void *)(w + v * 32));
        __m256i high = _mm256_and_si256(words, _mm256_set1_epi32((int)0xffff0000u));
        weights[v] = _mm256_castsi256_ps(high);
    }
}

FN_INLINE void block_part(const block_args *b, const size_t rows, const size_t vecs, size_t v0) {
    __m256 sums[MAX_SUMS], weights[4];
    zero_sums(sums, rows, vecs);
    const uint8_t *w = b->weights + v0 * 32;
    const float *x = b->x;
    for (size_t k = 0; k + 2 <= b->inputs; k += 2, x += 2, w += 128) {
        first_of_pairs(weights, w, vecs);
        for (size_t v = 0; v < vecs; v += 2)
            fetch_ahead(b, rows, w + v * 32);
        add_products(sums, rows, vecs, weights, x, b->ldx);
        second_of_pairs(weights, w, vecs);
        add_products(sums, rows, vecs, weights, x + 1, b->ldx);
    }
    if (b->inputs % 2 != 0) {
        first_of_pairs(weights, w, vecs);
        add_products(sums, rows, vecs, weights, x, b->ldx);
    }
    write_sums(b, sums, rows, vecs, v0);
}

void fn_avx2_matmul_bf16(const fn_matmul_args *a) {
    matmul(a);
}
