#include "kernels/avx512/matmul.inc"

#define INPUT_BYTES (FN_TILE * sizeof(float))
#define BLOCK_INPUTS(w, panel) ((w)->group)
#define WEIGHTS_AT(w, k) ((k)*INPUT_BYTES)

#include "kernels/simd/matmul.inc"

FN_INLINE void block(const block_args *b, const size_t rows) {
    __m512 lo[MAX_ROWS], hi[MAX_ROWS];
    zero_sums(lo, hi, rows);
    const uint8_t *w = b->weights;
    const float *x = b->x;
    for (size_t k = 0; k < b->inputs; k++, x++, w += INPUT_BYTES) {
        fetch_ahead(b, rows, w);
        fetch_ahead(b, rows, w + 64);
        add_products(lo, hi, rows, _mm512_loadu_ps(w), _mm512_loadu_ps(w + 64), x, b->ldx);
    }
    write_sums(b, lo, hi, rows);
}

void fn_avx512_matmul_f32(const fn_matmul_args *a) {
    matmul(a);
}
