/* Pairs of inputs by the BF16 dot product instruction: per lane, fma of the second of the pair, then
 * of the first, subnormals as zero. */
#include "kernels/avx512/matmul_fast.inc"

#define UNIT_BYTES ((size_t)128) /* a pair of inputs of a tile */
#define WEIGHTS_AT(w, k) ((k) / 2 * UNIT_BYTES)
#define STRETCH(w) ((w)->cols)

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

FN_INLINE void block(const block_args *b, const size_t rows) {
    __m512 lo[MAX_ROWS], hi[MAX_ROWS];
    const size_t ldx = b->ldx;
    const uint8_t *x = b->x + b->k0 * sizeof(uint16_t), *w = b->weights;
    FN_UNROLL
    for (size_t r = 0; r < rows; r++) {
        lo[r] = _mm512_load_ps(b->sums + r * SUMS);
        hi[r] = _mm512_load_ps(b->sums + r * SUMS + 16);
    }
    for (size_t k = b->k0; k < b->k1; k += 2, x += 2 * sizeof(uint16_t), w += UNIT_BYTES) {
        __m512i w_lo = _mm512_loadu_si512(w), w_hi = _mm512_loadu_si512(w + 64);
        if (rows >= FETCH_ROWS) {
            fetch_line(b, w);
            fetch_line(b, w + 64);
        }
        FN_UNROLL
        for (size_t r = 0; r < rows; r++) {
            __m512i inputs = two_inputs(x + r * ldx);
            add_dots(&lo[r], w_lo, inputs);
            add_dots(&hi[r], w_hi, inputs);
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
