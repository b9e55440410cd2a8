#include "sampling/portable_math.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* ln 2 in two parts; k * LN2_HIGH is exact for |k| < 2^20. */
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW 0x1.a39ef35793c76p-33
#define LOG2_E 0x1.71547652b82fep0

static uint64_t bits_of(double x) {
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double from_bits(uint64_t bits) {
    double x = 0;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* x = 2^k m with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m - 1) / (m + 1). |s| < 0.172,
 * so eleven terms of s^2i / (2i + 1) leave less than 2^-60. */
double fn_portable_log(double x) {
    uint64_t bits = bits_of(x);
    int k = (int)(bits >> 52) - 1023;
    double m = from_bits((bits & 0xfffffffffffffu) | (uint64_t)1023 << 52);
    if (m > 0x1.6a09e667f3bcdp0) {
        m *= 0.5;
        k += 1;
    }
    double f = m - 1.0;
    double s = f / (2.0 + f);
    double z = s * s;
    double p = 1.0 / 23.0;
    for (int i = 21; i >= 3; i -= 2) {
        p = p * z + 1.0 / i;
    }
    double low = 2.0 * s * z * p + k * LN2_LOW;
    return k * LN2_HIGH + (2.0 * s + low);
}

/* x = k ln 2 + r, |r| <= 0.347: thirteen terms of the series leave less than 2^-57. */
double fn_portable_exp(double x) {
    static const double inverse[] = {1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0,
                                     1.0 / 3628800.0,    1.0 / 362880.0,    1.0 / 40320.0,
                                     1.0 / 5040.0,       1.0 / 720.0,       1.0 / 120.0,
                                     1.0 / 24.0,         1.0 / 6.0,         0.5};
    if (x < -708.0) {
        return 0.0;
    }
    if (x > 708.0) {
        return (double)INFINITY;
    }
    double shifted = x * LOG2_E + (x < 0 ? -0.5 : 0.5);
    int k = (int)shifted;
    double high = x - k * LN2_HIGH;
    double low = k * LN2_LOW;
    double r = high - low;
    double p = inverse[0];
    for (size_t i = 1; i < sizeof inverse / sizeof inverse[0]; i++) {
        p = p * r + inverse[i];
    }
    /* r lost (high - r) - low when it was rounded; to first order exp gains as much. */
    double y = 1.0 + (r + (r * r * p + ((high - r) - low)));
    return y * from_bits((uint64_t)(k + 1023) << 52);
}
