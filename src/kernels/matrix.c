#include "kernels/matrix.h"

#include <string.h>

#define HALF (FN_TILE / 2) /* outputs in a half: the lanes of a 512-bit register */
#define SCALE_BYTES 2

static size_t round_up(size_t n, size_t unit) {
    return (n + unit - 1) / unit * unit;
}

/* Bytes of a group's codes and scales; `n` inputs are in it. */
static size_t group_bytes(fn_matrix_kind kind, size_t n) {
    switch (kind) {
    case FN_MATRIX_F32:
        return n * FN_TILE * sizeof(float);
    case FN_MATRIX_BF16:
        return round_up(n, 2) * FN_TILE * sizeof(uint16_t);
    case FN_MATRIX_INT8:
        return round_up(n, 4) * FN_TILE + FN_TILE * SCALE_BYTES;
    case FN_MATRIX_INT4:
        return round_up(n, 8) * FN_TILE / 2 + FN_TILE * SCALE_BYTES;
    case FN_MATRIX_KINDS:
        break;
    }
    return 0;
}

size_t fn_matrix_tile_bytes(fn_matrix_kind kind, size_t cols, size_t group) {
    size_t whole = cols / group, rest = cols % group;
    size_t bytes = whole * group_bytes(kind, group);
    if (rest > 0)
        bytes += group_bytes(kind, rest);
    return round_up(bytes, 64);
}

size_t fn_matrix_bytes(fn_matrix_kind kind, size_t rows, size_t cols, size_t group) {
    return fn_matrix_tiles(rows) * fn_matrix_tile_bytes(kind, cols, group);
}

/* Where input k of output o (of 32) stands in a tile: F32 and BF16, whose groups join seamlessly. */
static size_t f32_offset(size_t o, size_t k) {
    return (k * FN_TILE + o) * sizeof(float);
}

static size_t bf16_offset(size_t o, size_t k) {
    size_t pair = k / 2, half = o / HALF, lane = o % HALF;
    return (((pair * 2 + half) * HALF + lane) * 2 + k % 2) * sizeof(uint16_t);
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

static float half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, fraction = h & 1023u;
    float value;
    if (exponent == 0) { /* zero and subnormals: fraction * 2^-24 */
        value = (float)fraction * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    uint32_t bits = sign | (exponent == 31 ? 255u : exponent + 112u) << 23 | fraction << 13;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The quantised kinds: code times the scale of its group. */
static float code_value(const fn_matrix *m, const uint8_t *tile, size_t o, size_t k) {
    size_t group = k / m->group, in_group = k % m->group;
    size_t left = m->cols - group * m->group;
    size_t n = left < m->group ? left : m->group;
    const uint8_t *block = tile + group * group_bytes(m->kind, m->group);
    size_t half = o / HALF, lane = o % HALF, quad = in_group / 4, byte = in_group % 4;
    int code;
    if (m->kind == FN_MATRIX_INT8) {
        code = block[((quad * 2 + half) * HALF + lane) * 4 + byte] - 128;
    } else {
        unsigned both = block[((quad / 2 * 2 + half) * HALF + lane) * 4 + byte];
        code = (int)(quad % 2 == 0 ? both & 15u : both >> 4) - 8;
    }
    uint16_t scale;
    const uint8_t *scales = block + group_bytes(m->kind, n) - FN_TILE * SCALE_BYTES;
    memcpy(&scale, scales + o * SCALE_BYTES, sizeof scale);
    return (float)code * half_to_float(scale);
}

void fn_matrix_row(const fn_matrix *m, size_t n, float *dst) {
    const uint8_t *tile = m->tiles + n / FN_TILE * m->tile_bytes;
    size_t o = n % FN_TILE;
    for (size_t k = 0; k < m->cols; k++) {
        if (m->kind == FN_MATRIX_F32) {
            memcpy(&dst[k], tile + f32_offset(o, k), sizeof dst[k]);
        } else if (m->kind == FN_MATRIX_BF16) {
            uint16_t half_word;
            memcpy(&half_word, tile + bf16_offset(o, k), sizeof half_word);
            uint32_t bits = (uint32_t)half_word << 16;
            memcpy(&dst[k], &bits, sizeof bits);
        } else {
            dst[k] = code_value(m, tile, o, k);
        }
    }
}
