/* The noise: uniform, independent of its neighbours, the same bits on every machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "sampling/noise.h"
#include "sampling/portable_math.h"

static double ulps(double value, double expected) {
    return fabs(value - expected) / (nextafter(fabs(expected), (double)INFINITY) - fabs(expected));
}

static void logarithm_and_exponential_agree_with_libm(void **state) {
    (void)state;
    double worst_log = 0;
    double worst_exp = 0;
    for (int i = 1; i < 200000; i++) {
        double x = (double)i * 7.3e-5;
        double tiny = x * 0x1p-50;
        double near_1 = 1.0 - (double)i * 0x1p-53;
        worst_log = fmax(worst_log, x == 1.0 ? 0 : ulps(fn_portable_log(x), log(x)));
        worst_log = fmax(worst_log, ulps(fn_portable_log(tiny), log(tiny)));
        worst_log = fmax(worst_log, ulps(fn_portable_log(near_1), log(near_1)));
        double y = -(double)i * 3.5e-3;
        worst_exp = fmax(worst_exp, ulps(fn_portable_exp(y), exp(y)));
        worst_exp = fmax(worst_exp, ulps(fn_portable_exp(-y / 2), exp(-y / 2)));
    }
    if (worst_log > 2 || worst_exp > 2) {
        fail_msg("log %.2f, exp %.2f ulp from libm, expected at most 2", worst_log, worst_exp);
    }
    assert_true(fn_portable_log(1.0) == 0.0);
    assert_true(fn_portable_exp(0.0) == 1.0);
    assert_true(fn_portable_exp(-1e300) == 0.0);
    assert_true(isinf(fn_portable_exp(1e300)));
}

/* Mean and variance of a uniform and of a Gumbel variable (Euler's constant, pi^2 / 6). */
static void noise_has_the_moments_of_its_distribution(void **state) {
    (void)state;
    enum { N = 400000 };
    double u_sum = 0;
    double g_sum = 0;
    double g_square = 0;
    for (int32_t i = 0; i < N; i++) {
        fn_noise noise = fn_noise_at(5, (uint64_t)(i / 1000));
        double u = fn_noise_uniform(&noise, i % 1000);
        double g = fn_noise_gumbel(&noise, i % 1000);
        assert_true(u > 0 && u < 1);
        assert_true(isfinite(g) && g < FN_NOISE_MAX);
        u_sum += u;
        g_sum += g;
        g_square += g * g;
    }
    double mean = g_sum / N;
    double variance = g_square / N - mean * mean;
    assert_true(fabs(u_sum / N - 0.5) < 4 * 0.2887 / sqrt(N));
    assert_true(fabs(mean - 0.57721566) < 4 * 1.2825 / sqrt(N));
    assert_true(fabs(variance - 1.64493407) < 0.03);
}

/* Neighbouring ids, positions and seeds: correlation of n pairs stays within 4 / sqrt(n). */
static void neighbours_are_uncorrelated(void **state) {
    (void)state;
    enum { N = 100000 };
    double id = 0;
    double position = 0;
    double seed = 0;
    for (int32_t i = 0; i < N; i++) {
        uint64_t t = (uint64_t)(i / 100);
        fn_noise here = fn_noise_at(9, t);
        fn_noise next = fn_noise_at(9, t + 1);
        fn_noise other = fn_noise_at(10, t);
        double u = fn_noise_uniform(&here, i % 100) - 0.5;
        id += u * (fn_noise_uniform(&here, i % 100 + 1) - 0.5) * 12;
        position += u * (fn_noise_uniform(&next, i % 100) - 0.5) * 12;
        seed += u * (fn_noise_uniform(&other, i % 100) - 0.5) * 12;
    }
    double bound = 4 / sqrt(N);
    assert_true(fabs(id / N) < bound);
    assert_true(fabs(position / N) < bound);
    assert_true(fabs(seed / N) < bound);
}

/* Worked out with Python's integers and logarithm from the hash as written in noise.c. */
static void the_bits_are_fixed(void **state) {
    (void)state;
    const struct {
        uint64_t seed, position;
        int32_t id;
        uint64_t u; /* times 2^-53 */
        double gumbel;
    } known[] = {
        {0u, 0u, 0, 0x193c476fec8647u, 1.437648480104218},
        {0u, 0u, 1, 0x1ceca7ace8955du, 2.292147611327086},
        {1u, 0u, 0, 0x10c1f539fa2bedu, 0.435592702722736},
        {42u, 1000u, 248044, 0x1662cbf869aa55u, 1.029169727375799},
        {UINT64_MAX, 262143u, 248319, 0x6a6cb3073bc47u, -0.451640942580346},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        fn_noise noise = fn_noise_at(known[i].seed, known[i].position);
        assert_true(fn_noise_uniform(&noise, known[i].id) == (double)known[i].u * 0x1p-53);
        assert_true(fabs(fn_noise_gumbel(&noise, known[i].id) - known[i].gumbel) < 1e-14);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_fixed),
        cmocka_unit_test(logarithm_and_exponential_agree_with_libm),
        cmocka_unit_test(noise_has_the_moments_of_its_distribution),
        cmocka_unit_test(neighbours_are_uncorrelated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
