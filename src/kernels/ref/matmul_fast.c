/* The products of the fast precision; kernels.h has their order. */
#include "base/half.h"
#include "kernels/flush.h"
#include "kernels/ref/ref.h"

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define HALF (FN_TILE / 2)

/* y [32] = one row times one tile. */
typedef void tile_row_fn(float y[FN_TILE], const void *row, const fn_matrix *w,
                         const uint8_t *tile);

/* The code of output o at input k of a group, as stored: unsigned. */
static int code_int8(const uint8_t *block, size_t o, size_t k) {
    return block[((k / 4 * 2 + o / HALF) * HALF + o % HALF) * 4 + k % 4];
}

static int code_int4(const uint8_t *block, size_t o, size_t k) {
    unsigned both = block[((k / 8 * 2 + o / HALF) * HALF + o % HALF) * 4 + k % 4];
    return (int)(k % 8 < 4 ? both & 15u : both >> 4);
}

/* One group of n inputs. */
static void add_group(float y[FN_TILE], const int8_t *codes, size_t n, const uint8_t *block,
                      const uint8_t *scales, float row_scale, int32_t start, bool four_bits) {
    for (size_t o = 0; o < FN_TILE; o++) {
        int32_t sum = start;
        uint16_t scale;
        for (size_t k = 0; k < n; k++)
            sum += codes[k] * (four_bits ? code_int4(block, o, k) : code_int8(block, o, k));
        memcpy(&scale, scales + o * sizeof scale, sizeof scale);
        y[o] = fn_ref_fma((float)sum, fn_f16_to_float(scale) * row_scale, y[o]);
    }
}

static void tile_row_int(float y[FN_TILE], const void *row, const fn_matrix *w,
                         const uint8_t *tile) {
    const int8_t *codes = row;
    bool four_bits = w->kind == FN_MATRIX_INT4;
    const uint8_t *scales = (const uint8_t *)row + fn_row_scales_at(w->cols);
    const uint8_t *starts =
        (const uint8_t *)row + fn_row_starts_at(w->cols, w->group, four_bits ? 4 : 8);
    memset(y, 0, FN_TILE * sizeof *y);
    for (size_t k = 0, g = 0; k < w->cols; k += w->group, g++) {
        size_t n = MIN(w->group, w->cols - k), bytes = fn_matrix_group_bytes(w->kind, n);
        float scale;
        int32_t start;
        memcpy(&scale, scales + g * sizeof scale, sizeof scale);
        memcpy(&start, starts + g * sizeof start, sizeof start);
        add_group(y, codes + k, n, tile, tile + bytes - FN_TILE * sizeof(uint16_t), scale, start,
                  four_bits);
        tile += bytes;
    }
}

static void tile_row_bf16(float y[FN_TILE], const void *row, const fn_matrix *w,
                          const uint8_t *tile) {
    const uint8_t *x = row;
    memset(y, 0, FN_TILE * sizeof *y);
    for (size_t k = 0; k < w->cols; k += 2, x += 2 * sizeof(uint16_t)) {
        uint16_t value[2], weight[2];
        memcpy(value, x, sizeof value);
        for (size_t o = 0; o < FN_TILE; o++, tile += sizeof weight) {
            memcpy(weight, tile, sizeof weight);
            float sum = fn_ref_fma(fn_bf16_to_float(weight[1]), fn_bf16_to_float(value[1]), y[o]);
            y[o] = fn_ref_fma(fn_bf16_to_float(weight[0]), fn_bf16_to_float(value[0]), sum);
        }
    }
}

static void matmul(const fn_matmul_args *a, tile_row_fn *tile_row) {
    const fn_matrix *w = a->w;
    for (size_t t = a->tile_begin; t < a->tile_end; t++) {
        size_t n0 = t * FN_TILE, n = MIN(w->rows - n0, (size_t)FN_TILE);
        for (size_t r = 0; r < a->rows; r++) {
            float y[FN_TILE];
            tile_row(y, fn_ref_row(a, r), w, w->tiles + t * w->tile_bytes);
            memcpy(a->y + r * a->ldy + n0, y, n * sizeof(float));
        }
    }
}

void fn_ref_matmul_fast_int8(const fn_matmul_args *a) {
    matmul(a, tile_row_int);
}

void fn_ref_matmul_fast_int4(const fn_matmul_args *a) {
    matmul(a, tile_row_int);
}

void fn_ref_matmul_fast_bf16(const fn_matmul_args *a) {
    unsigned before = fn_flush_begin();
    matmul(a, tile_row_bf16);
    fn_flush_end(before);
}
