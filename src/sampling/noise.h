/* sampling/noise.h - Gumbel noise that depends on seed, position and token id, and on nothing else.
 *
 * Path:    seed, position, id -> [this] -> sampler.h: argmax of log-probability + noise draws from
 *          the distribution exactly (the Gumbel-max rule), without a running generator. Whoever
 *          asks, in whatever order (batches, drafters, restored sessions), gets the same noise.
 * Range:   -log(-log(u)), u an odd multiple of 2^-53 in (0, 1): from about -3.61 to 36.74.
 * Threads: stateless. Memory:  none. */
#ifndef FN_SAMPLING_NOISE_H
#define FN_SAMPLING_NOISE_H

#include <stdint.h>

/* No noise is larger. */
#define FN_NOISE_MAX 36.75

/* What all ids of one position share. */
typedef struct fn_noise {
    uint64_t key[2];
} fn_noise;

fn_noise fn_noise_at(uint64_t seed, uint64_t position);

/* Uniform in (0, 1). */
double fn_noise_uniform(const fn_noise *noise, int32_t id);

double fn_noise_gumbel(const fn_noise *noise, int32_t id);

#endif
