/* weights/quantize_row.h - one row of weights -> codes and scales of its groups, for least squared error.
 *
 * Path:    float32 rows as read from a checkpoint -> [this] -> fn_matrix_pack_codes.
 * Shapes:  x [n]; codes [n]; scales [ceil(n / group)], FP16 bits; value = code * scale.
 * Codes:   8 bits: -127 .. 127; 4 bits: -8 .. 7, with a scale of either sign, so that the largest value of
 *          either sign can take the code -8.
 * Exact:   the result depends on the row alone; the same on every machine. */
#ifndef FN_WEIGHTS_QUANTIZE_ROW_H
#define FN_WEIGHTS_QUANTIZE_ROW_H

#include <stddef.h>
#include <stdint.h>

/* bits is 4 or 8, group at most 128. Values must be finite. */
void fn_quantize_row(const float *x, size_t n, size_t group, int bits, int8_t *codes,
                     uint16_t *scales);

/* The whole row, of any length, at 8 bits with one float32 scale, which is returned. */
float fn_quantize_row_whole(const float *x, size_t n, int8_t *codes);

#endif
