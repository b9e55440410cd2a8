#include "shape/ngram_constants.h"

#include <stdbool.h>

#define SPLITMIX_GAMMA UINT64_C(0x9E3779B97F4A7C15)
#define LAYER_STRIDE UINT64_C(10007) /* between the seeds of two layers */

static uint64_t splitmix64(uint64_t value) {
    value += SPLITMIX_GAMMA;
    value = (value ^ value >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    value = (value ^ value >> 27) * UINT64_C(0x94D049BB133111EB);
    return value ^ value >> 31;
}

/* m_i = 2 * (splitmix64(seed + 10007 p + gamma (i + 1)) mod half) + 1: odd, and small enough for
 * an id times m_i to stay below 2^63. */
static void set_multipliers(const fn_shape *shape, size_t p, fn_ngram_constants *out) {
    uint64_t half = (uint64_t)INT64_MAX / shape->vocab / 2;
    uint64_t seed = shape->ngram_seed + LAYER_STRIDE * p;
    for (size_t i = 0; i < out->ngram_size; i++) {
        uint64_t value = splitmix64(seed + SPLITMIX_GAMMA * (i + 1));
        out->multipliers[i] = (int64_t)(2 * (value % (half > 0 ? half : 1)) + 1);
    }
}

static bool is_prime(uint64_t value) {
    if (value < 4) {
        return value > 1;
    }
    if (value % 2 == 0 || value % 3 == 0) {
        return false;
    }
    for (uint64_t d = 5; d * d <= value; d += 6) { /* primes above 3 are 6k - 1 or 6k + 1 */
        if (value % d == 0 || value % (d + 2) == 0) {
            return false;
        }
    }
    return true;
}

/* Head h of layer p takes prime number p * heads + h, counted upward from the base. */
static void set_primes(const fn_shape *shape, size_t p, fn_ngram_constants *out) {
    uint64_t prime = (uint64_t)shape->ngram_base - 1;
    for (size_t i = 0; i < (p + 1) * out->heads; i++) {
        do {
            prime++;
        } while (!is_prime(prime));
        if (i >= p * out->heads) {
            size_t head = i - p * out->heads;
            out->primes[head] = (int64_t)prime;
            out->offsets[head] = out->rows;
            out->rows += (int64_t)prime;
        }
    }
}

void fn_ngram_constants_init(const fn_shape *shape, size_t p, fn_ngram_constants *out) {
    *out = (fn_ngram_constants){.ngram_size = shape->ngram_size,
                                .heads_per_ngram = shape->heads_per_ngram,
                                .heads = fn_shape_ngram_heads(shape),
                                .eos_id = shape->eos_id};
    set_multipliers(shape, p, out);
    set_primes(shape, p, out);
    int64_t pad = (int64_t)shape->ngram_pad;
    out->padded_rows = (out->rows + pad - 1) / pad * pad;
}
