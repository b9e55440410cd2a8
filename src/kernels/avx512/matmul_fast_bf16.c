/* Pairs of inputs by the BF16 dot product instruction: per lane, fma of the second of the pair, then
 * of the first, subnormals as zero. */
#define FETCH_ROWS 2
#include "kernels/avx512/matmul_fast.inc"

#define UNIT_BYTES ((size_t)128) /* a pair of inputs of a tile */
#define WEIGHTS_AT(w, k) ((k) / 2 * UNIT_BYTES)
#define STRETCH(w) ((w)->cols)
#define BAND_ROWS BLOCK_ROWS

#include "kernels/simd/matmul_fast.inc"

/* As a statement of its own: see the integer products. */
FN_INLINE void add_dots(__m512 *sums, __m512i weights, __m512i inputs) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(*sums) : "v"(weights), "v"(inputs));
}

FN_INLINE __m512i two_inputs(const uint8_t *x) {
    int32_t pair;
    memcpy(&pair, x, sizeof pair);
    return _mm512_set1_epi32(pair);
}

/* The pair `offset` bytes behind x. */
FN_INLINE void add_pair(const size_t rows, __m512 *lo, __m512 *hi, const uint8_t *w,
                        const row_pointers *x, const size_t offset, size_t ahead) {
    __m512i w_lo = _mm512_loadu_si512(w), w_hi = _mm512_loadu_si512(w + 64);
    if (rows >= FETCH_ROWS) {
        fetch_line(w, ahead);
        fetch_line(w + 64, ahead);
    }
    FN_UNROLL
    for (size_t r = 0; r < rows; r++) {
        __m512i inputs = two_inputs(row_of(x, r) + offset);
        add_dots(&lo[r], w_lo, inputs);
        add_dots(&hi[r], w_hi, inputs);
    }
}

/* All inputs: the matrix has no groups. */
FN_INLINE void block(const block_args *b, const size_t rows) {
    __m512 lo[BLOCK_ROWS], hi[BLOCK_ROWS];
    row_pointers x = rows_at(b, 0);
    const uint8_t *w = b->weights;
    const size_t n = b->w->cols, run = b->w->group, pair = 2 * sizeof(uint16_t);
    FN_UNROLL
    for (size_t r = 0; r < rows; r++)
        lo[r] = hi[r] = _mm512_setzero_ps();
    size_t wait = first_turn(b);
    for (size_t k0 = 0; k0 < n; k0 += run) {
        size_t ahead = ahead_of(b, &wait), k = k0, k1 = MIN(n, k0 + run);
        for (; k + 4 <= k1; k += 4, w += 2 * UNIT_BYTES) {
            add_pair(rows, lo, hi, w, &x, 0, ahead);
            add_pair(rows, lo, hi, w + UNIT_BYTES, &x, pair, ahead);
            rows_forward(&x, 2 * pair);
        }
        for (; k < k1; k += 2, w += UNIT_BYTES) {
            add_pair(rows, lo, hi, w, &x, 0, ahead);
            rows_forward(&x, pair);
        }
    }
    FN_UNROLL
    for (size_t r = 0; r < rows; r++) {
        _mm512_store_ps(b->sums + r * SUMS, lo[r]);
        _mm512_store_ps(b->sums + r * SUMS + 16, hi[r]);
    }
}

void fn_avx512_matmul_fast_bf16(const fn_matmul_args *a) {
    matmul(a);
}
