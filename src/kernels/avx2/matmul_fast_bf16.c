/* Pairs of inputs as the BF16 dot product instruction takes them: per lane, fma of the second of the
 * pair, then of the first, subnormals as zero. */
#include "kernels/flush.h"

#include "kernels/avx2/matmul_fast.inc"

#define UNIT_BYTES ((size_t)128) /* a pair of inputs of a tile */
#define WEIGHTS_AT(w, k) ((k) / 2 * UNIT_BYTES)
#define STRETCH(w) ((w)->cols)
#define WIDE ((size_t)128) /* inputs of a row that are widened at once */

#include "kernels/simd/matmul_fast.inc"

/* A 32-bit word holds a pair: the first in its low half. */
FN_INLINE __m256 first_of(__m256i pairs) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}

FN_INLINE __m256 second_of(__m256i pairs) {
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000u)));
}

/* x [n] widened; n even, at most WIDE. */
static void widen(float *wide, const uint8_t *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint16_t word;
        memcpy(&word, x + i * sizeof word, sizeof word);
        uint32_t bits = (uint32_t)word << 16;
        memcpy(&wide[i], &bits, sizeof bits);
    }
}

FN_INLINE void stretch(const size_t rows, const size_t vectors, __m256 *sums, const uint8_t *w,
                       const float *x, size_t n, size_t ahead) {
    for (size_t i = 0; i < n; i += 2, x += 2, w += UNIT_BYTES) {
        __m256 first[VECTORS], second[VECTORS];
        if (rows > 1)
            fetch_line(w, ahead);
        FN_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            __m256i pairs = _mm256_loadu_si256((const __m256i *)(const void *)(w + v * 32));
            first[v] = first_of(pairs);
            second[v] = second_of(pairs);
        }
        FN_UNROLL
        for (size_t r = 0; r < rows; r++) {
            __m256 x1 = _mm256_set1_ps(x[r * WIDE + 1]), x0 = _mm256_set1_ps(x[r * WIDE]);
            FN_UNROLL
            for (size_t v = 0; v < vectors; v++) {
                __m256 *sum = &sums[r * vectors + v];
                *sum = _mm256_fmadd_ps(first[v], x0, _mm256_fmadd_ps(second[v], x1, *sum));
            }
        }
    }
}

/* All inputs: the matrix has no groups. */
FN_INLINE void block(const block_args *b, const size_t rows, const size_t v0,
                     const size_t vectors) {
    __m256 sums[BLOCK_SUMS];
    float wide[BLOCK_ROWS * WIDE];
    const uint8_t *w = b->weights + v0 * 32;
    FN_UNROLL
    for (size_t i = 0; i < rows * vectors; i++)
        sums[i] = _mm256_setzero_ps();
    size_t wait = first_turn(b);
    for (size_t k = 0; k < b->w->cols; k += WIDE) {
        size_t n = MIN(WIDE, b->w->cols - k);
        n += n % 2; /* rows and weights are padded */
        for (size_t r = 0; r < rows; r++)
            widen(wide + r * WIDE, b->x + r * b->ldx + k * sizeof(uint16_t), n);
        stretch(rows, vectors, sums, w + WEIGHTS_AT(b->w, k), wide, n, ahead_of(b, &wait));
    }
    FN_UNROLL
    for (size_t i = 0; i < rows * vectors; i++)
        _mm256_store_ps(b->sums + i / vectors * SUMS + (v0 + i % vectors) * 8, sums[i]);
}

void fn_avx2_matmul_fast_bf16(const fn_matmul_args *a) {
    unsigned before = fn_flush_begin();
    matmul(a);
    fn_flush_end(before);
}
