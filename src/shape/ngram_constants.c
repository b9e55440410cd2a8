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

static uint64_t power_mod(uint64_t base, uint64_t exponent, uint64_t modulus) {
    uint64_t result = 1;
    for (base %= modulus; exponent > 0; exponent >>= 1) {
        result = (exponent & 1) != 0 ? result * base % modulus : result;
        base = base * base % modulus;
    }
    return result;
}

/* Whether the odd number 2^shift * odd + 1 passes the Miller-Rabin test for one base. */
static bool passes(uint64_t value, uint64_t odd, unsigned shift, uint64_t base) {
    uint64_t x = power_mod(base, odd, value);
    if (x <= 1 || x == value - 1) {
        return x == 1 || x == value - 1 || base % value == 0;
    }
    for (unsigned i = 1; i < shift; i++) {
        x = x * x % value;
        if (x == value - 1) {
            return true;
        }
    }
    return false;
}

/* Exact below 4,759,123,141, where 2, 7 and 61 are known to leave no pseudoprime; the base of a
 * table is below 2^31 and its primes lie close above. */
static bool is_prime(uint64_t value) {
    if (value < 4 || value % 2 == 0) {
        return value == 2 || value == 3;
    }
    unsigned shift = (unsigned)__builtin_ctzll(value - 1);
    uint64_t odd = (value - 1) >> shift;
    return passes(value, odd, shift, 2) && passes(value, odd, shift, 7) &&
           passes(value, odd, shift, 61);
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
