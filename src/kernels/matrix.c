#include "kernels/matrix.h"

#include <string.h>

#include "base/half.h"

#define HALF (FN_TILE / 2) /* outputs in a half: the lanes of a 512-bit register */

static size_t round_up(size_t n, size_t unit) {
    return (n + unit - 1) / unit * unit;
}

static size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Bytes of one scale of a group. */
static size_t scale_bytes(fn_matrix_kind kind) {
    switch (kind) {
    case FN_MATRIX_INT8:
    case FN_MATRIX_INT4:
        return sizeof(uint16_t);
    case FN_MATRIX_FP8:
        return sizeof(float);
    case FN_MATRIX_NVFP4:
        return 1;
    case FN_MATRIX_F32:
    case FN_MATRIX_BF16:
    case FN_MATRIX_KINDS:
        break;
    }
    return 0;
}

/* Bytes of a group's codes; `n` inputs are in it. */
static size_t code_bytes(fn_matrix_kind kind, size_t n) {
    switch (kind) {
    case FN_MATRIX_F32:
        return n * FN_TILE * sizeof(float);
    case FN_MATRIX_BF16:
        return round_up(n, 2) * FN_TILE * sizeof(uint16_t);
    case FN_MATRIX_INT8:
        return round_up(n, 4) * FN_TILE;
    case FN_MATRIX_INT4:
        return round_up(n, 8) * FN_TILE / 2;
    case FN_MATRIX_FP8:
        return n * FN_TILE;
    case FN_MATRIX_NVFP4:
        return round_up(n, 2) * FN_TILE / 2;
    case FN_MATRIX_KINDS:
        break;
    }
    return 0;
}

size_t fn_matrix_group_bytes(fn_matrix_kind kind, size_t n) {
    return code_bytes(kind, n) + FN_TILE * scale_bytes(kind);
}

static size_t groups_bytes(fn_matrix_kind kind, size_t cols, size_t group) {
    size_t whole = cols / group, rest = cols % group;
    size_t bytes = whole * fn_matrix_group_bytes(kind, group);
    return rest > 0 ? bytes + fn_matrix_group_bytes(kind, rest) : bytes;
}

/* Bytes of a tile's global scales. */
static size_t global_bytes(fn_matrix_kind kind) {
    return kind == FN_MATRIX_NVFP4 ? FN_TILE * sizeof(float) : 0;
}

size_t fn_matrix_tile_bytes(fn_matrix_kind kind, size_t cols, size_t group) {
    return round_up(groups_bytes(kind, cols, group) + global_bytes(kind), 64);
}

size_t fn_matrix_bytes(fn_matrix_kind kind, size_t rows, size_t cols, size_t group) {
    return fn_matrix_tiles(rows) * fn_matrix_tile_bytes(kind, cols, group);
}

size_t fn_matrix_scale_bytes(fn_matrix_kind kind, size_t rows, size_t cols, size_t group) {
    size_t groups = (cols + group - 1) / group;
    return fn_matrix_tiles(rows) * (groups * FN_TILE * scale_bytes(kind) + global_bytes(kind));
}

/* Where input k of output o (of 32) stands in a tile: F32 and BF16, whose groups join seamlessly. */
static size_t f32_offset(size_t o, size_t k) {
    return (k * FN_TILE + o) * sizeof(float);
}

static size_t bf16_offset(size_t o, size_t k) {
    size_t pair = k / 2, half = o / HALF, lane = o % HALF;
    return (((pair * 2 + half) * HALF + lane) * 2 + k % 2) * sizeof(uint16_t);
}

/* Where the byte with input k of a group stands in that group: INT8; and INT4, where two quads of
 * inputs share their bytes. */
static size_t int8_offset(size_t o, size_t k) {
    return ((k / 4 * 2 + o / HALF) * HALF + o % HALF) * 4 + k % 4;
}

static size_t int4_offset(size_t o, size_t k) {
    return ((k / 8 * 2 + o / HALF) * HALF + o % HALF) * 4 + k % 4;
}

void fn_matrix_pack_row(const fn_matrix *m, uint8_t *tiles, size_t n, const void *src) {
    uint8_t *tile = tiles + n / FN_TILE * m->tile_bytes;
    size_t o = n % FN_TILE;
    const uint8_t *bytes = src;
    for (size_t k = 0; k < m->cols; k++) {
        if (m->kind == FN_MATRIX_F32)
            memcpy(tile + f32_offset(o, k), bytes + k * sizeof(float), sizeof(float));
        else if (m->kind == FN_MATRIX_BF16)
            memcpy(tile + bf16_offset(o, k), bytes + k * sizeof(uint16_t), sizeof(uint16_t));
    }
}

/* n codes of one output into one group; inputs n .. padded - 1 get code 0. */
static void pack_int8(uint8_t *block, size_t o, const int8_t *codes, size_t n) {
    for (size_t k = 0; k < round_up(n, 4); k++)
        block[int8_offset(o, k)] = (uint8_t)((k < n ? codes[k] : 0) + 128);
}

static void pack_int4(uint8_t *block, size_t o, const int8_t *codes, size_t n) {
    for (size_t k = 0; k < round_up(n, 8); k += k % 8 == 3 ? 5 : 1) {
        unsigned low = (unsigned)((k < n ? codes[k] : 0) + 8);
        unsigned high = (unsigned)((k + 4 < n ? codes[k + 4] : 0) + 8);
        block[int4_offset(o, k)] = (uint8_t)(low | high << 4);
    }
}

void fn_matrix_pack_codes(const fn_matrix *m, uint8_t *tiles, size_t n, const int8_t *codes,
                          const uint16_t *scales) {
    uint8_t *block = tiles + n / FN_TILE * m->tile_bytes;
    size_t o = n % FN_TILE;
    for (size_t k0 = 0, g = 0; k0 < m->cols; k0 += m->group, g++) {
        size_t count = min_size(m->cols - k0, m->group);
        if (m->kind == FN_MATRIX_INT8)
            pack_int8(block, o, codes + k0, count);
        else
            pack_int4(block, o, codes + k0, count);
        memcpy(block + code_bytes(m->kind, count) + o * sizeof *scales, &scales[g], sizeof *scales);
        block += fn_matrix_group_bytes(m->kind, count);
    }
}

void fn_matrix_pack_fp8(const fn_matrix *m, uint8_t *tiles, size_t n, const uint8_t *codes,
                        const float *scales) {
    uint8_t *block = tiles + n / FN_TILE * m->tile_bytes;
    size_t o = n % FN_TILE;
    for (size_t k0 = 0, g = 0; k0 < m->cols; k0 += m->group, g++) {
        size_t count = min_size(m->cols - k0, m->group);
        for (size_t k = 0; k < count; k++)
            block[k * FN_TILE + o] = codes[k0 + k];
        memcpy(block + count * FN_TILE + o * sizeof *scales, &scales[g], sizeof *scales);
        block += fn_matrix_group_bytes(m->kind, count);
    }
}

void fn_matrix_pack_nvfp4(const fn_matrix *m, uint8_t *tiles, size_t n, const uint8_t *codes,
                          const uint8_t *scales, float global) {
    uint8_t *block = tiles + n / FN_TILE * m->tile_bytes;
    size_t o = n % FN_TILE;
    for (size_t k0 = 0, g = 0; k0 < m->cols; k0 += m->group, g++) {
        size_t count = min_size(m->cols - k0, m->group);
        for (size_t k = 0; k < count; k += 2) {
            uint8_t pair = codes[(k0 + k) / 2];
            block[k / 2 * FN_TILE + o] = k + 1 < count ? pair : pair & 15u;
        }
        block[code_bytes(m->kind, count) + o] = scales[g];
        block += fn_matrix_group_bytes(m->kind, count);
    }
    memcpy(block + o * sizeof global, &global, sizeof global);
}

/* The value of a code, and below the scale of its group; `block` is that group. */
static float code_value(fn_matrix_kind kind, const uint8_t *block, size_t o, size_t k) {
    switch (kind) {
    case FN_MATRIX_INT8:
        return (float)(block[int8_offset(o, k)] - 128);
    case FN_MATRIX_INT4: {
        unsigned both = block[int4_offset(o, k)];
        return (float)((int)(k % 8 < 4 ? both & 15u : both >> 4) - 8);
    }
    case FN_MATRIX_FP8:
        return fn_e4m3_to_float(block[k * FN_TILE + o]);
    case FN_MATRIX_NVFP4: {
        unsigned both = block[k / 2 * FN_TILE + o];
        return fn_e2m1_to_float((uint8_t)(k % 2 == 0 ? both & 15u : both >> 4));
    }
    case FN_MATRIX_F32:
    case FN_MATRIX_BF16:
    case FN_MATRIX_KINDS:
        break;
    }
    return 0.0f;
}

static float scale_value(fn_matrix_kind kind, const uint8_t *scales, size_t o) {
    uint16_t half;
    float value;
    switch (kind) {
    case FN_MATRIX_FP8:
        memcpy(&value, scales + o * sizeof value, sizeof value);
        return value;
    case FN_MATRIX_NVFP4:
        return fn_e4m3_to_float(scales[o]);
    default:
        memcpy(&half, scales + o * sizeof half, sizeof half);
        return fn_f16_to_float(half);
    }
}

static void code_row(const fn_matrix *m, const uint8_t *tile, size_t o, float *dst) {
    float global = 1.0f;
    if (m->kind == FN_MATRIX_NVFP4)
        memcpy(&global, tile + groups_bytes(m->kind, m->cols, m->group) + o * sizeof global,
               sizeof global);
    for (size_t k0 = 0; k0 < m->cols; k0 += m->group) {
        size_t count = min_size(m->cols - k0, m->group);
        float scale = scale_value(m->kind, tile + code_bytes(m->kind, count), o);
        for (size_t k = 0; k < count; k++)
            dst[k0 + k] = code_value(m->kind, tile, o, k) * scale * global;
        tile += fn_matrix_group_bytes(m->kind, count);
    }
}

void fn_matrix_row(const fn_matrix *m, size_t n, float *dst) {
    const uint8_t *tile = m->tiles + n / FN_TILE * m->tile_bytes;
    size_t o = n % FN_TILE;
    if (m->kind != FN_MATRIX_F32 && m->kind != FN_MATRIX_BF16) {
        code_row(m, tile, o, dst);
        return;
    }
    for (size_t k = 0; k < m->cols; k++) {
        if (m->kind == FN_MATRIX_F32) {
            memcpy(&dst[k], tile + f32_offset(o, k), sizeof dst[k]);
        } else {
            uint16_t word;
            memcpy(&word, tile + bf16_offset(o, k), sizeof word);
            dst[k] = fn_bf16_to_float(word);
        }
    }
}
