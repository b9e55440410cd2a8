/* weights/packed.h - the names of packed matrices in a prepared checkpoint.
 *
 * A matrix made of module M is the tensor "M.packed.TAG", U8 [bytes]: the tiles of kernels/matrix.h, then zeros up
 * to a whole page. TAG says how they are packed: f32, bf16, fp8, nvfp4, int8_g128, int4_g32 and so on (the group
 * of inputs that share a scale). Gate and up projection of an expert are one matrix, named gate_up_proj. */
#ifndef FN_WEIGHTS_PACKED_H
#define FN_WEIGHTS_PACKED_H

#include <stdbool.h>

#include "weights/source.h"

#define FN_PACKED_MARK ".packed."
#define FN_PACKED_PAGE 4096 /* packed matrices begin and end at multiples of this in their file */

static inline uint64_t fn_packed_round(uint64_t bytes) {
    return (bytes + FN_PACKED_PAGE - 1) / FN_PACKED_PAGE * FN_PACKED_PAGE;
}

/* What a tag says; false when it is none. */
bool fn_packed_parse_tag(const char *tag, fn_matrix_kind *kind, size_t *group);

/* The tensor's name for the matrix that is made of parts [n_parts], 1 or 2, in out [room]. */
void fn_packed_name(const fn_source *const *parts, size_t n_parts, const fn_matrix *matrix,
                    char *out, size_t room);

#endif
