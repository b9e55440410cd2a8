#include "kernels/avx2/matmul.inc"

#define UNIT 4 /* a line */
#define UNIT_BYTES ((size_t)64)
#define VECTOR_BYTES ((size_t)8)
#define CODE_INPUTS 2
#define CODE_BYTES ((size_t)FN_TILE)
#define SCALE_BYTES ((size_t)1)
#define HAS_GLOBAL 1
#include "kernels/avx2/e4m3.inc"
#include "kernels/simd/matmul_codes.inc"

#include "kernels/simd/matmul.inc"

/* 16 codes, one in a byte: as FP16 numbers their low bytes are zero, a table gives the high ones. */
FN_INLINE void e2m1_to_float(__m256 values[2], __m128i codes) {
    const __m128i table =
        _mm_setr_epi8(0x00, 0x38, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46, (char)0x80, (char)0xb8,
                      (char)0xbc, (char)0xbe, (char)0xc0, (char)0xc2, (char)0xc4, (char)0xc6);
    __m128i high = _mm_shuffle_epi8(table, codes), low = _mm_setzero_si128();
    values[0] = _mm256_cvtph_ps(_mm_unpacklo_epi8(low, high));
    values[1] = _mm256_cvtph_ps(_mm_unpackhi_epi8(low, high));
}

FN_INLINE __m128i nibbles(const uint8_t *w, const _Bool second) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)w);
    return _mm_and_si128(second ? _mm_srli_epi16(bytes, 4) : bytes, _mm_set1_epi8(15));
}

FN_INLINE void add_unit(__m256 *sums, const size_t rows, const size_t vecs, const uint8_t *w,
                        const float *x, size_t ldx, const size_t n) {
    FN_UNROLL
    for (size_t j = 0; j < UNIT; j++) {
        if (j < n) {
            __m256 weights[4];
            FN_UNROLL
            for (size_t v = 0; v < vecs; v += 2)
                e2m1_to_float(weights + v,
                              nibbles(w + j / 2 * FN_TILE + v * VECTOR_BYTES, j % 2 != 0));
            add_products(sums, rows, vecs, weights, x + j, ldx);
        }
    }
}

FN_INLINE void group_scales(__m256 scale[4], const size_t vecs, const uint8_t *scales) {
    FN_UNROLL
    for (size_t v = 0; v < vecs; v += 2)
        e4m3_to_float(scale + v, scales + v * 8);
}

#include "kernels/avx2/matmul_codes.inc"

void fn_avx2_matmul_nvfp4(const fn_matmul_args *a) {
    matmul(a);
}
