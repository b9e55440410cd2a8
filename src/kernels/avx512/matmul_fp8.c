#include "kernels/avx512/matmul.inc"

#define UNIT 2 /* a line */
#define UNIT_BYTES ((size_t)64)
#define CODE_INPUTS 1
#define CODE_BYTES ((size_t)FN_TILE)
#define SCALE_BYTES sizeof(float)
#define HAS_GLOBAL 0
#include "kernels/avx512/e4m3.inc"
#include "kernels/simd/matmul_codes.inc"

#include "kernels/simd/matmul.inc"

FN_INLINE void add_unit(__m512 *lo, __m512 *hi, const size_t rows, const uint8_t *w, const float *x,
                        size_t ldx, const size_t n) {
    FN_UNROLL
    for (size_t j = 0; j < UNIT; j++) {
        if (j < n) {
            __m512 w_lo, w_hi;
            e4m3_to_float(&w_lo, &w_hi, w + j * FN_TILE);
            add_products(lo, hi, rows, w_lo, w_hi, x + j, ldx);
        }
    }
}

FN_INLINE void group_scales(__m512 *lo, __m512 *hi, const uint8_t *scales) {
    *lo = _mm512_loadu_ps(scales);
    *hi = _mm512_loadu_ps(scales + 64);
}

#include "kernels/avx512/matmul_codes.inc"

void fn_avx512_matmul_fp8(const fn_matmul_args *a) {
    matmul(a);
}
