/* weights/source.h - one logical matrix as a checkpoint stores it, in any published format.
 *
 * Path:    weights/bind.h fills it -> [this: rows as float32, or their codes and scales] ->
 *          weights/load.h packs them.
 * Shapes:  [rows, cols] = [N, K], K inputs to N outputs. Stored as
 *            plain  weight F32, BF16 or F16 [N, K], or rows of a stack [.., N, K]
 *            FP8    weight F8_E4M3 [N, K], weight_scale_inv BF16 or F32 [ceil(N/128), ceil(K/128)]:
 *                   value = code * scale of its block
 *            NVFP4  weight U8 [N, K/2], low nibble = even input, weight_scale F8_E4M3 [N, K/16],
 *                   weight_scale_2 F32 scalar: value = E2M1 code * scale * scalar
 *            GPTQ   qweight I32 [K/8, N], nibble j of word k = input 8k+j; scales F16
 *                   [ceil(K/128), N]; qzeros I32 [ceil(K/128), ceil(N/8)], every nibble 7:
 *                   value = (nibble - 8) * scale
 *            packed U8 [bytes], the tiles of kernels/matrix.h: what `flashnext quantize` writes
 * Threads: reads from any number at once, each with its own scratch.
 * Memory:  views into the checkpoint, which must outlive it; reading allocates nothing. */
#ifndef FN_WEIGHTS_SOURCE_H
#define FN_WEIGHTS_SOURCE_H

#include "checkpoint/checkpoint.h"
#include "kernels/matrix.h"

enum { FN_SOURCE_FP8_BLOCK = 128, FN_SOURCE_NVFP4_GROUP = 16, FN_SOURCE_GPTQ_GROUP = 128 };

typedef enum fn_source_format {
    FN_SOURCE_PLAIN,
    FN_SOURCE_FP8,
    FN_SOURCE_NVFP4,
    FN_SOURCE_GPTQ,
    FN_SOURCE_PACKED
} fn_source_format;

typedef struct fn_source {
    fn_source_format format;
    const fn_tensor *weight; /* NULL: the model has no such matrix */
    const fn_tensor *scale;  /* NULL when plain */
    const fn_tensor *global; /* NVFP4 */
    const fn_tensor *zeros;  /* GPTQ */
    uint64_t first_row;      /* in a stack of matrices; only plain ones are stacked */
    size_t rows, cols;
    fn_matrix_kind packed_kind; /* of a packed one */
    size_t packed_group;
} fn_source;

/* Rows as stored, in scratch memory: what fn_matrix_pack_* take. */
typedef struct fn_source_codes {
    const uint8_t
        *codes;         /* FP8 [n, K] E4M3; NVFP4 [n, ceil(K/2)]; plain BF16 [n, K] 2-byte words */
    const int8_t *ints; /* GPTQ [n, K], -8 .. 7 */
    const float *f32_scales;    /* FP8 [n, ceil(K/128)] */
    const uint8_t *e4m3_scales; /* NVFP4 [n, ceil(K/16)] */
    const uint16_t *f16_scales; /* GPTQ [n, ceil(K/128)] */
    float global;               /* NVFP4 */
} fn_source_codes;

/* The kind of packed matrix that holds the stored values exactly, and its group. */
fn_matrix_kind fn_source_kind(const fn_source *s);
size_t fn_source_group(fn_matrix_kind kind);

/* The group of the matrix that holds s as stored: its own when packed, else fn_source_group's. */
size_t fn_source_stored_group(const fn_source *s);

/* Bytes of data that the whole matrix takes in its files, scales included. */
uint64_t fn_source_bytes(const fn_source *s);

/* Bytes of scratch, aligned to 64, that reading n rows needs. */
size_t fn_source_scratch(const fn_source *s, size_t n);

/* Codes and scales of rows [first, first + n) as stored; not for plain F32 and F16, nor packed. Fails with
 * FN_E_IO, and FN_E_MODEL for a zero point other than 8. */
FN_NODISCARD fn_status fn_source_read_codes(const fn_checkpoint *c, const fn_source *s,
                                            size_t first, size_t n, void *scratch,
                                            fn_source_codes *out, fn_error *err);

/* dst [n, K] = rows [first, first + n) as float32, each value rounded once; not of a packed one. */
FN_NODISCARD fn_status fn_source_read_f32(const fn_checkpoint *c, const fn_source *s, size_t first,
                                          size_t n, void *scratch, float *dst, fn_error *err);

#endif
