#include "kernels/ref/ref.h"

#define MIN(a, b) ((a) < (b) ? (a) : (b))

/* The weights of one input of a tile: output o is w[o * stride]. */
typedef void widen_fn(float out[FN_TILE], const uint8_t *tile, size_t k);

static void widen_f32(float out[FN_TILE], const uint8_t *tile, size_t k) {
    memcpy(out, tile + k * FN_TILE * sizeof(float), FN_TILE * sizeof(float));
}

static void widen_bf16(float out[FN_TILE], const uint8_t *tile, size_t k) {
    const uint8_t *pair = tile + k / 2 * FN_TILE * 2 * sizeof(uint16_t);
    for (size_t o = 0; o < FN_TILE; o++) {
        uint16_t word;
        memcpy(&word, pair + (o * 2 + k % 2) * sizeof word, sizeof word);
        uint32_t bits = (uint32_t)word << 16;
        memcpy(&out[o], &bits, sizeof bits);
    }
}

/* y [32] = one row of x times one tile. */
static void tile_row(float y[FN_TILE], const float *x, const fn_matrix *w, const uint8_t *tile,
                     widen_fn *widen) {
    for (size_t k0 = 0; k0 < w->cols; k0 += w->group) {
        float sums[FN_TILE] = {0.0f}, weights[FN_TILE];
        size_t k1 = MIN(k0 + w->group, w->cols);
        for (size_t k = k0; k < k1; k++) {
            widen(weights, tile, k);
            for (size_t o = 0; o < FN_TILE; o++)
                sums[o] = fn_ref_fma(weights[o], x[k], sums[o]);
        }
        for (size_t o = 0; o < FN_TILE; o++)
            y[o] = k0 == 0 ? sums[o] : y[o] + sums[o];
    }
}

static void matmul(const fn_matmul_args *a, widen_fn *widen) {
    const fn_matrix *w = a->w;
    for (size_t t = a->tile_begin; t < a->tile_end; t++) {
        size_t n0 = t * FN_TILE, n = MIN(w->rows - n0, (size_t)FN_TILE);
        for (size_t r = 0; r < a->rows; r++) {
            float y[FN_TILE] = {0.0f};
            tile_row(y, fn_ref_row(a, r), w, w->tiles + t * w->tile_bytes, widen);
            memcpy(a->y + r * a->ldy + n0, y, n * sizeof(float));
        }
    }
}

void fn_ref_matmul_f32(const fn_matmul_args *a) {
    matmul(a, widen_f32);
}

void fn_ref_matmul_bf16(const fn_matmul_args *a) {
    matmul(a, widen_bf16);
}
