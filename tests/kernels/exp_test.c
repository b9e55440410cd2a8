/* exp, sigmoid, silu and softplus over all of float32, and the fused multiply-add of the reference
 * table: accuracy, limits, NaN, and the same bits from every table. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/ref/ref.h"
#include "support/kernel_check.h"

#define BATCH 4096

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

typedef struct sweep {
    const char *name;
    void (*run)(const fn_kernels *k, float *y, const float *x, size_t n);
    double (*exact)(double x);
    double max_ulps;
    float low; /* below it results are subnormal, or made from subnormals: no bound in ulp */
} sweep;

static void run_exp(const fn_kernels *k, float *y, const float *x, size_t n) {
    k->exp(y, x, n);
}

static void run_sigmoid(const fn_kernels *k, float *y, const float *x, size_t n) {
    k->sigmoid(y, x, n, 1.0f);
}

static void run_silu(const fn_kernels *k, float *y, const float *x, size_t n) {
    k->silu(y, x, n, 1.0f);
}

static void run_softplus(const fn_kernels *k, float *y, const float *x, size_t n) {
    k->softplus(y, x, n);
}

static double exact_sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}

static double exact_silu(double x) {
    return x / (1.0 + exp(-x));
}

static double exact_softplus(double x) {
    return x > 20.0 ? x : log1p(exp(x));
}

static const sweep sweeps[] = {
    {"exp", run_exp, exp, 1.0, -INFINITY},
    {"sigmoid", run_sigmoid, exact_sigmoid, 2.5, -INFINITY},
    {"silu", run_silu, exact_silu, 3.0, -87.0f},
    {"softplus", run_softplus, exact_softplus, 0.51, -INFINITY},
};

/* One float in 6,007, over all signs, exponents and NaNs. */
static void accurate_and_equal_over_all_floats(void **state) {
    (void)state;
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    static float x[BATCH], want[BATCH], got[BATCH];
    for (size_t s = 0; s < sizeof sweeps / sizeof *sweeps; s++) {
        const sweep *w = &sweeps[s];
        double worst = 0.0;
        for (uint64_t bits = 0; bits < 1ull << 32;) {
            size_t n = 0;
            for (; n < BATCH && bits < 1ull << 32; bits += 6007)
                x[n++] = float_of((uint32_t)bits);
            w->run(tables[0], want, x, n);
            for (size_t t = 1; t < count; t++) {
                w->run(tables[t], got, x, n);
                assert_same_bits(got, want, n, tables[t]->name, w->name);
            }
            for (size_t i = 0; i < n; i++) {
                if (x[i] < w->low)
                    continue;
                double ulps = ulps_between(want[i], w->exact((double)x[i]));
                worst = ulps > worst ? ulps : worst;
            }
        }
        fprintf(stderr, "%s: largest error %.3f ulp\n", w->name, worst);
        assert_true(worst <= w->max_ulps);
    }
}

static void exp_saturates_and_keeps_nan(void **state) {
    (void)state;
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    const float x[] = {88.7228f, 88.73f, 1e4f,      INFINITY, -103.97f, -104.0f,
                       -1e4f,    -1e30f, -INFINITY, NAN,      0.0f,     -0.0f};
    enum { N = sizeof x / sizeof *x };
    for (size_t t = 0; t < count; t++) {
        float y[N];
        tables[t]->exp(y, x, N);
        assert_true(y[0] < INFINITY && y[0] > 3.4e38f);
        assert_true(y[1] == INFINITY && y[2] == INFINITY && y[3] == INFINITY);
        assert_true(y[4] == 0x1p-149f); /* the smallest subnormal, not 0 */
        assert_true(y[5] == 0.0f && y[6] == 0.0f && y[7] == 0.0f && y[8] == 0.0f);
        assert_true(isnan(y[9]));
        assert_true(y[10] == 1.0f && y[11] == 1.0f);
    }
}

static void sigmoid_and_silu_do_not_overflow(void **state) {
    (void)state;
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    const float x[] = {1e4f, -1e4f, 1e30f, -1e30f, NAN};
    for (size_t t = 0; t < count; t++) {
        float y[5];
        tables[t]->sigmoid(y, x, 5, 1.0f);
        assert_true(y[0] == 1.0f && y[1] == 0.0f && y[2] == 1.0f && y[3] == 0.0f && isnan(y[4]));
        tables[t]->silu(y, x, 5, 1.0f);
        assert_true(y[0] == 1e4f && y[1] == 0.0f && y[2] == 1e30f && y[3] == 0.0f && isnan(y[4]));
        tables[t]->softplus(y, x, 5);
        assert_true(y[0] == 1e4f && y[1] == 0.0f && y[2] == 1e30f && y[3] == 0.0f && isnan(y[4]));
    }
}

/* One NaN, wherever it stands, leaves no number in what depends on it. */
static void softmax_and_norms_never_hide_a_nan(void **state) {
    (void)state;
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    for (size_t t = 0; t < count; t++) {
        for (size_t n = 1; n < 50; n++) {
            for (size_t at = 0; at < n; at++) {
                float x[50], w[50] = {0.0f}, y[50];
                for (size_t i = 0; i < n; i++)
                    x[i] = i == at ? NAN : (float)i;
                tables[t]->softmax(y, x, n);
                for (size_t i = 0; i < n; i++)
                    assert_true(isnan(y[i]));
                tables[t]->rms_norm(y, x, w, n, 1e-6f);
                for (size_t i = 0; i < n; i++)
                    assert_true(isnan(y[i]));
                tables[t]->l2_norm(y, x, n, 1e-6f, 1.0f);
                for (size_t i = 0; i < n; i++)
                    assert_true(isnan(y[i]));
                assert_true(isnan(tables[t]->dot(x, w, n)));
            }
        }
    }
}

/* Scores of -infinity are masked out, not NaN, as long as one is finite. */
static void softmax_gives_masked_scores_nothing(void **state) {
    (void)state;
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    for (size_t t = 0; t < count; t++) {
        float x[20], y[20];
        for (size_t i = 0; i < 20; i++)
            x[i] = i % 5 == 0 ? 1e4f : -INFINITY;
        tables[t]->softmax(y, x, 20);
        for (size_t i = 0; i < 20; i++)
            assert_true(y[i] == (i % 5 == 0 ? 0.25f : 0.0f));
    }
}

static void same_as_fmaf(float a, float b, float c) {
    float got = fn_ref_fma(a, b, c), want = fmaf(a, b, c);
    assert_same_bits(&got, &want, 1, "ref", "fma");
}

/* The C library's fmaf rounds once; so must ours, also where rounding to double first would end on a
 * half-way point between two floats. */
static void reference_fma_rounds_once(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (size_t i = 0; i < 500000; i++) {
        uint64_t r = next_random(&seed), r2 = next_random(&seed);
        same_as_fmaf(float_of((uint32_t)r), float_of((uint32_t)(r >> 32)), float_of((uint32_t)r2));
        /* odd 13-bit x odd 12-bit: 25 bits, half-way; c is too small for a double to hold */
        float a = (float)(4097 + (r & 4094)), b = (float)(2049 + (r >> 32 & 2046));
        float c = ldexpf(r2 & 1 ? 1.0f : -1.0f, -40 - (int)(r2 >> 8 & 63));
        same_as_fmaf(a, b, c);
        /* subnormal: an odd number of the smallest units, and half of one less 2^-196 */
        float odd = ldexpf((float)(1 | (r & 0xfffff)), -149);
        float over = ldexpf(1.0f + 0x1p-23f, -75), under = ldexpf(1.0f - 0x1p-23f, -75);
        same_as_fmaf(over, under, odd);
        same_as_fmaf(-over, under, odd);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accurate_and_equal_over_all_floats),
        cmocka_unit_test(exp_saturates_and_keeps_nan),
        cmocka_unit_test(sigmoid_and_silu_do_not_overflow),
        cmocka_unit_test(softmax_and_norms_never_hide_a_nan),
        cmocka_unit_test(softmax_gives_masked_scores_nothing),
        cmocka_unit_test(reference_fma_rounds_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
