/* shape/ngram_constants.h - the n-gram hash's constants, by the reference's formula.
 *
 * Source:  _build_layer_multipliers (splitmix64), _find_nth_prime_after of the reference.
 * Memory:  a plain value. */
#ifndef FN_SHAPE_NGRAM_CONSTANTS_H
#define FN_SHAPE_NGRAM_CONSTANTS_H

#include <stddef.h>
#include <stdint.h>

#include "shape/shape.h"

typedef struct fn_ngram_constants {
    size_t ngram_size, heads_per_ngram, heads;
    int32_t eos_id;
    int64_t multipliers[FN_MAX_NGRAM];
    int64_t primes[FN_MAX_NGRAM_HEADS];
    int64_t offsets[FN_MAX_NGRAM_HEADS];
    int64_t rows;        /* sum of the primes: rows that can be addressed */
    int64_t padded_rows; /* rows of the stored table */
} fn_ngram_constants;

/* The constants of the p-th layer with n-gram memory. */
void fn_ngram_constants_init(const fn_shape *shape, size_t p, fn_ngram_constants *out);

#endif
