#include "kernels/softplus.h"

#include <stdint.h>
#include <string.h>

/* exp(x) for -110 <= x <= 20, relative error below 1e-14. */
static double exp_double(double x) {
    const double round_to_int = 0x1.8p52; /* adding and taking it away rounds to nearest */
    double n = (x * 0x1.71547652b82fep0 + round_to_int) - round_to_int;
    double r = (x - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
    double term = 1.0, sum = 1.0;
    for (int i = 1; i <= 13; i++) { /* 0.35^14 / 14! < 1e-17 */
        term = term * r / i;
        sum += term;
    }
    uint64_t bits = (uint64_t)((int64_t)n + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

/* log(1 + z) for 0 <= z < 1e9. */
static double log1p_double(double z) {
    if (z < 0x1p-12) /* 1 + z would lose what is left of z */
        return z * (1.0 - z * (1.0 / 2 - z * (1.0 / 3 - z / 4)));
    double m = 1.0 + z;
    uint64_t bits;
    memcpy(&bits, &m, sizeof bits);
    /* m * 2^e with m within a factor of sqrt(2) around 1 */
    int64_t e = (int64_t)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
    memcpy(&m, &bits, sizeof m);
    if (m > 0x1.6a09e667f3bcdp0) {
        m *= 0.5;
        e += 1;
    }
    double s = (m - 1.0) / (m + 1.0), square = s * s, sum = 0.0;
    for (int i = 21; i >= 1; i -= 2) /* 2 atanh(s), |s| < 0.172 */
        sum = sum * square + 1.0 / i;
    return (double)e * 0x1.62e42fefa39efp-1 + 2.0 * s * sum;
}

void fn_softplus(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double value = (double)x[i];
        if (!(value <= 20.0)) /* NaN, too */
            y[i] = x[i];
        else if (value < -110.0)
            y[i] = 0.0f;
        else
            y[i] = (float)log1p_double(exp_double(value));
    }
}
