#define MAX_ROWS 5 /* decoding needs the registers of a sixth */
#include "kernels/avx2/matmul.inc"

#define UNIT 2 /* a line */
#define UNIT_BYTES ((size_t)64)
#define VECTOR_BYTES ((size_t)8)
#define CODE_INPUTS 1
#define CODE_BYTES ((size_t)FN_TILE)
#define SCALE_BYTES sizeof(float)
#define HAS_GLOBAL 0
#include "kernels/avx2/e4m3.inc"
#include "kernels/simd/matmul_codes.inc"

#include "kernels/simd/matmul.inc"

FN_INLINE void add_unit(__m256 *sums, const size_t rows, const size_t vecs, const uint8_t *w,
                        const float *x, size_t ldx, const size_t n) {
    FN_UNROLL
    for (size_t j = 0; j < UNIT; j++) {
        if (j < n) {
            __m256 weights[4];
            FN_UNROLL
            for (size_t v = 0; v < vecs; v += 2)
                e4m3_to_float(weights + v, w + j * FN_TILE + v * VECTOR_BYTES);
            add_products(sums, rows, vecs, weights, x + j, ldx);
        }
    }
}

FN_INLINE void group_scales(__m256 scale[4], const size_t vecs, const uint8_t *scales) {
    FN_UNROLL
    for (size_t v = 0; v < vecs; v++)
        scale[v] = _mm256_loadu_ps((const float *)(const void *)(scales + v * 32));
}

#include "kernels/avx2/matmul_codes.inc"

void fn_avx2_matmul_fp8(const fn_matmul_args *a) {
    matmul(a);
}
