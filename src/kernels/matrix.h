/* kernels/matrix.h - one packed weight matrix, and the one packed layout that all kernel tables
 * read.
 *
 * Path:    weights/ packs checkpoint tensors -> [this] -> the matmul kernels.
 * Shapes:  a matrix maps K inputs (cols) to N outputs (rows): y[n] = sum over k of W[n,k] * x[k].
 * Layout:  N is cut into tiles of FN_TILE (32) outputs, the last one zero-padded; K into groups of
 *          `group` inputs (a multiple of 8; the last group may be short). A tile is one linear
 *          stream, group after group, so a one-row product walks memory in ascending order:
 *
 *          F32    per k: 32 floats
 *
 *          BF16   per pair of k: 2 halves x 16 outputs x 2 k; an odd K is padded by a zero k
 *
 *          INT8   per quad of k: 2 halves x 16 outputs x 4 codes, unsigned (code + 128); then the
 *                 group's 32 FP16 scales; the last group is padded to whole quads
 *
 *          INT4   per two quads of k: 2 halves x 16 outputs x 4 bytes, low nibble = first quad,
 *                 high nibble = second, unsigned (code + 8); then the group's 32 FP16 scales; the
 *                 last group is padded to two whole quads
 *
 *          FP8    group 128; per k: 32 E4M3 codes; then the group's 32 float32 scales
 *
 *          NVFP4  group 16; per pair of k: 32 bytes of E2M1 codes, low nibble = first; then the
 *                 group's 32 E4M3 scales; behind the last group 32 float32 global scales; an odd K
 *                 is padded by a zero k
 *
 *          Padding inside a group holds the code of 0. Tiles start at multiples of 64 bytes.
 * Order:   every kernel sums a group's products in ascending k with fused multiply-adds from zero,
 *          and adds the group sums in ascending order: y = ((g0) + g1) + ...; with scales y =
 *          fma(scale_g, g, y) from zero. NVFP4 multiplies the finished y by the output's global
 *          scale. The number of rows never changes that order.
 * Memory:  the struct owns nothing. */
#ifndef FN_KERNELS_MATRIX_H
#define FN_KERNELS_MATRIX_H

#include <stddef.h>
#include <stdint.h>

#define FN_TILE 32           /* outputs in a tile */
#define FN_GROUP_DEFAULT 128 /* inputs in a group: the unit of partial sums and of scales */
#define FN_GROUP_NVFP4 16

typedef enum fn_matrix_kind {
    FN_MATRIX_F32,
    FN_MATRIX_BF16,
    FN_MATRIX_INT8,
    FN_MATRIX_INT4,
    FN_MATRIX_FP8,
    FN_MATRIX_NVFP4,
    FN_MATRIX_KINDS
} fn_matrix_kind;

typedef struct fn_matrix {
    fn_matrix_kind kind;
    size_t rows;       /* N outputs */
    size_t cols;       /* K inputs */
    size_t group;      /* inputs in a group */
    size_t tile_bytes; /* from one tile to the next */
    const uint8_t *tiles;
} fn_matrix;

/* Bytes of the codes and scales of one group of n inputs in a tile; F32 and BF16: of the weights. */
size_t fn_matrix_group_bytes(fn_matrix_kind kind, size_t n);

/* Bytes of one tile of the layout above, rounded up to 64. */
size_t fn_matrix_tile_bytes(fn_matrix_kind kind, size_t cols, size_t group);

/* Tiles of n outputs. */
static inline size_t fn_matrix_tiles(size_t rows) {
    return (rows + FN_TILE - 1) / FN_TILE;
}

/* All bytes of a packed matrix. */
size_t fn_matrix_bytes(fn_matrix_kind kind, size_t rows, size_t cols, size_t group);

/* How many of these bytes are scales. */
size_t fn_matrix_scale_bytes(fn_matrix_kind kind, size_t rows, size_t cols, size_t group);

/* Writing row n (of N) into a packed matrix whose tiles are writable and were zeroed before. Rows
 * share no byte, so that threads may write those of one tile at once. G groups = ceil(K / group).
 *
 * F32, BF16: src [K] float32, or bfloat16 bits. */
void fn_matrix_pack_row(const fn_matrix *m, uint8_t *tiles, size_t n, const void *src);
/* INT8, INT4: codes [K] (-127 .. 127, -8 .. 7), scales [G] FP16 bits. */
void fn_matrix_pack_codes(const fn_matrix *m, uint8_t *tiles, size_t n, const int8_t *codes,
                          const uint16_t *scales);
/* FP8: codes [K] E4M3 bits, scales [G]. */
void fn_matrix_pack_fp8(const fn_matrix *m, uint8_t *tiles, size_t n, const uint8_t *codes,
                        const float *scales);
/* NVFP4: codes [ceil(K / 2)], low nibble = even input; scales [G] E4M3 bits. */
void fn_matrix_pack_nvfp4(const fn_matrix *m, uint8_t *tiles, size_t n, const uint8_t *codes,
                          const uint8_t *scales, float global);

/* Widens row n into dst [K]: the weight values that the kernels multiply by. */
void fn_matrix_row(const fn_matrix *m, size_t n, float *dst);

#endif
