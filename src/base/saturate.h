/* base/saturate.h - sums and products of sizes that stay at the largest number instead of wrapping.
 *
 * For plans: an absurd config must come out as "does not fit", not as a small number. */
#ifndef FN_BASE_SATURATE_H
#define FN_BASE_SATURATE_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t fn_saturate_add(uint64_t a, uint64_t b) {
    return b <= UINT64_MAX - a ? a + b : UINT64_MAX;
}

static inline uint64_t fn_saturate_mul(uint64_t a, uint64_t b) {
    uint64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* The product of numbers [n]; FN_PRODUCT(a, b, ...) for a list. */
static inline uint64_t fn_saturate_product(const uint64_t *numbers, size_t n) {
    uint64_t product = 1;
    for (size_t i = 0; i < n; i++) {
        product = fn_saturate_mul(product, numbers[i]);
    }
    return product;
}
#define FN_PRODUCT(...)                                                                            \
    fn_saturate_product((const uint64_t[]){__VA_ARGS__},                                           \
                        sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

#endif
