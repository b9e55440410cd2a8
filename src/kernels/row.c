#include "kernels/row.h"

#include <stdint.h>

size_t fn_row_bytes(fn_row_form form, size_t cols, size_t group) {
    size_t bytes = cols * sizeof(float);
    if (form == FN_ROW_BF16)
        bytes = (cols + cols % 2) * sizeof(uint16_t);
    else if (form == FN_ROW_INT8)
        bytes = fn_row_scales_at(cols) +
                (cols + group - 1) / group * (sizeof(float) + 2 * sizeof(int32_t));
    return (bytes + 63) / 64 * 64;
}
