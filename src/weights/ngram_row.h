/* weights/ngram_row.h - one row of an n-gram table as a checkpoint stores it, and its float32 values.
 *
 * Path:    weights/bind.h checks the tensors -> ngram/ngram_table.h reads rows -> [this: widened].
 * Stored:  the table is `...ngram_embedding.weight`, or pieces `...ngram_embedding.shard_N.weight`, all alike;
 *          the dtype in the header decides:
 *            F32, BF16, F16  [rows, W]
 *            F8_E4M3         [rows, W]; one scalar `...ngram_embedding.weight_scale` for the whole table:
 *                            value = code * scale
 *            I8              [rows, W + 4], W >= 2: W codes -127 .. 127, then the row's scale, float32, little-endian,
 *                            so that a row is one read: value = code * scale. No other tensor belongs to it.
 * Threads: stateless. Memory:  plain values. */
#ifndef FN_WEIGHTS_NGRAM_ROW_H
#define FN_WEIGHTS_NGRAM_ROW_H

#include <stddef.h>
#include <stdint.h>

#include "checkpoint/tensor.h"

/* The scale behind the codes of an I8 row. */
enum { FN_NGRAM_SCALE_BYTES = 4 };

/* How the rows of one table are stored. */
typedef struct fn_ngram_row {
    fn_dtype dtype;
    size_t width;      /* W */
    size_t bytes;      /* of a stored row */
    float values[256]; /* of each F8_E4M3 code, the table's scale in them */
} fn_ngram_row;

/* Elements of a stored row of `width` values; 0 for a dtype that no table has. */
size_t fn_ngram_row_elements(fn_dtype dtype, size_t width);

/* fp8_scale is the table's, of F8_E4M3 rows only. */
void fn_ngram_row_init(fn_dtype dtype, size_t width, float fp8_scale, fn_ngram_row *out);

/* dst [W] from stored [bytes]; each value is rounded once. The stored row may be the
 * beginning of dst. */
void fn_ngram_row_widen(const fn_ngram_row *row, const uint8_t *stored, float *dst);

/* stored [W + 4], an I8 row, from x [W], with the scale of least squared error. Values must be finite. */
void fn_ngram_row_quantize(const float *x, size_t width, uint8_t *stored);

#endif
