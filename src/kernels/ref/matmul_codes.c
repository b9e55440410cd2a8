/* The quantised kinds: a group's sum of code * x, then the group's scale. */
#include "base/half.h"
#include "kernels/ref/ref.h"

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define HALF (FN_TILE / 2)

/* The 32 outputs' codes at input k of a group, and the group's scales. */
typedef void codes_fn(float out[FN_TILE], const uint8_t *block, size_t k);
typedef void scales_fn(float out[FN_TILE], const uint8_t *scales);

static void codes_int8(float out[FN_TILE], const uint8_t *block, size_t k) {
    for (size_t o = 0; o < FN_TILE; o++) {
        size_t at = ((k / 4 * 2 + o / HALF) * HALF + o % HALF) * 4 + k % 4;
        out[o] = (float)(block[at] - 128);
    }
}

static void codes_int4(float out[FN_TILE], const uint8_t *block, size_t k) {
    for (size_t o = 0; o < FN_TILE; o++) {
        unsigned both = block[((k / 8 * 2 + o / HALF) * HALF + o % HALF) * 4 + k % 4];
        out[o] = (float)((int)(k % 8 < 4 ? both & 15u : both >> 4) - 8);
    }
}

static void codes_fp8(float out[FN_TILE], const uint8_t *block, size_t k) {
    for (size_t o = 0; o < FN_TILE; o++)
        out[o] = fn_e4m3_to_float(block[k * FN_TILE + o]);
}

static void codes_nvfp4(float out[FN_TILE], const uint8_t *block, size_t k) {
    for (size_t o = 0; o < FN_TILE; o++) {
        unsigned both = block[k / 2 * FN_TILE + o];
        out[o] = fn_e2m1_to_float((uint8_t)(k % 2 == 0 ? both & 15u : both >> 4));
    }
}

static void scales_f16(float out[FN_TILE], const uint8_t *scales) {
    for (size_t o = 0; o < FN_TILE; o++) {
        uint16_t bits;
        memcpy(&bits, scales + o * sizeof bits, sizeof bits);
        out[o] = fn_f16_to_float(bits);
    }
}

static void scales_f32(float out[FN_TILE], const uint8_t *scales) {
    memcpy(out, scales, FN_TILE * sizeof(float));
}

static void scales_e4m3(float out[FN_TILE], const uint8_t *scales) {
    for (size_t o = 0; o < FN_TILE; o++)
        out[o] = fn_e4m3_to_float(scales[o]);
}

typedef struct format {
    codes_fn *codes;
    scales_fn *scales;
    size_t scale_bytes; /* of one */
} format;

/* y [32] = one row of x times one tile. */
static void tile_row(float y[FN_TILE], const float *x, const fn_matrix *w, const uint8_t *block,
                     const format *f) {
    float scales[FN_TILE], weights[FN_TILE];
    memset(y, 0, FN_TILE * sizeof *y);
    for (size_t k0 = 0; k0 < w->cols; k0 += w->group) {
        float sums[FN_TILE] = {0.0f};
        size_t n = MIN(w->group, w->cols - k0);
        size_t bytes = fn_matrix_group_bytes(w->kind, n);
        for (size_t k = 0; k < n; k++) {
            f->codes(weights, block, k);
            for (size_t o = 0; o < FN_TILE; o++)
                sums[o] = fn_ref_fma(weights[o], x[k0 + k], sums[o]);
        }
        f->scales(scales, block + bytes - FN_TILE * f->scale_bytes);
        for (size_t o = 0; o < FN_TILE; o++)
            y[o] = fn_ref_fma(scales[o], sums[o], y[o]);
        block += bytes;
    }
    if (w->kind == FN_MATRIX_NVFP4) { /* the global scales */
        scales_f32(scales, block);
        for (size_t o = 0; o < FN_TILE; o++)
            y[o] *= scales[o];
    }
}

static void matmul(const fn_matmul_args *a, const format *f) {
    const fn_matrix *w = a->w;
    for (size_t t = a->tile_begin; t < a->tile_end; t++) {
        size_t n0 = t * FN_TILE, n = MIN(w->rows - n0, (size_t)FN_TILE);
        for (size_t r = 0; r < a->rows; r++) {
            float y[FN_TILE];
            tile_row(y, fn_ref_row(a, r), w, w->tiles + t * w->tile_bytes, f);
            memcpy(a->y + r * a->ldy + n0, y, n * sizeof(float));
        }
    }
}

void fn_ref_matmul_int8(const fn_matmul_args *a) {
    matmul(a, &(format){codes_int8, scales_f16, sizeof(uint16_t)});
}

void fn_ref_matmul_int4(const fn_matmul_args *a) {
    matmul(a, &(format){codes_int4, scales_f16, sizeof(uint16_t)});
}

void fn_ref_matmul_fp8(const fn_matmul_args *a) {
    matmul(a, &(format){codes_fp8, scales_f32, sizeof(float)});
}

void fn_ref_matmul_nvfp4(const fn_matmul_args *a) {
    matmul(a, &(format){codes_nvfp4, scales_e4m3, 1});
}
