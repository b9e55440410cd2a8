/* kernels/row.h - a row of inputs in the form that the fast products take it.
 *
 * Path:    layers/ writes rows with fn_kernels.write_row -> [this] -> fn_kernels.matmul_fast.
 * Layout:  FN_ROW_F32   float [K]
 *
 *          FN_ROW_BF16  bfloat16 [K], rounded to nearest, ties to even; subnormals are zero; an odd
 *                       K is followed by a zero
 *
 *          FN_ROW_INT8  int8 codes [K], zeros up to a multiple of 64; then float32 scales [G]; then
 *                       where the sums of a group begin, for weights are stored unsigned: int32 [G],
 *                       -8 times the sum of the group's codes, for INT4, and int32 [G], -128 times
 *                       it, for INT8; G = ceil(K / group). INT8 and INT4 matrices of one group size
 *                       share their rows.
 *
 *          Rows may stand at any address; multiples of fn_row_bytes from an aligned buffer are best.
 * Memory:  nothing is kept. */
#ifndef FN_KERNELS_ROW_H
#define FN_KERNELS_ROW_H

#include <stddef.h>

#include "kernels/matrix.h"

typedef enum fn_row_form { FN_ROW_F32, FN_ROW_BF16, FN_ROW_INT8, FN_ROW_FORMS } fn_row_form;

/* The form that the fast product of a kind takes. */
static inline fn_row_form fn_row_form_of(fn_matrix_kind kind) {
    if (kind == FN_MATRIX_BF16)
        return FN_ROW_BF16;
    return kind == FN_MATRIX_INT8 || kind == FN_MATRIX_INT4 ? FN_ROW_INT8 : FN_ROW_F32;
}

/* Bytes from one row of K = cols inputs to the next: a multiple of 64. group: of the weights (a
 * multiple of 8), which only FN_ROW_INT8 depends on. */
size_t fn_row_bytes(fn_row_form form, size_t cols, size_t group);

/* Where parts of an FN_ROW_INT8 row begin: the scales, and the starts for 4 or 8 bits. */
static inline size_t fn_row_scales_at(size_t cols) {
    return (cols + 63) / 64 * 64;
}

static inline size_t fn_row_starts_at(size_t cols, size_t group, int bits) {
    size_t groups = (cols + group - 1) / group;
    return fn_row_scales_at(cols) + groups * (bits == 4 ? sizeof(float) : 2 * sizeof(float));
}

#endif
