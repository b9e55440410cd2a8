#include "kernels/avx2/matmul.inc"

#define INPUT_BYTES (FN_TILE * sizeof(float))
#define BLOCK_INPUTS(w, panel) ((w)->group)
#define WEIGHTS_AT(w, k) ((k)*INPUT_BYTES)

#include "kernels/simd/matmul.inc"

FN_INLINE void block_part(const block_args *b, const size_t rows, const size_t vecs, size_t v0) {
    __m256 sums[MAX_SUMS], weights[4];
    zero_sums(sums, rows, vecs);
    const uint8_t *w = b->weights + v0 * 32;
    const float *x = b->x;
    for (size_t k = 0; k < b->inputs; k++, x++, w += INPUT_BYTES) {
        FN_UNROLL
        for (size_t v = 0; v < vecs; v++)
            weights[v] = _mm256_loadu_ps((const float *)(const void *)(w + v * 32));
        for (size_t v = 0; v < vecs; v += 2)
            fetch_ahead(b, rows, w + v * 32);
        add_products(sums, rows, vecs, weights, x, b->ldx);
    }
    write_sums(b, sums, rows, vecs, v0);
}

void fn_avx2_matmul_f32(const fn_matmul_args *a) {
    matmul(a);
}
