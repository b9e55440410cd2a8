/* The entries that work along one row: every table x every entry x every length 0 .. 300, against
 * double arithmetic and, by memcmp, against the reference table. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/kernel_check.h"

#define MAX_N 300
#define STREAMS 4 /* streams of mix_streams, taps of conv_silu */
#define EPS 1e-6f

/* What an entry reads: a and b hold up to STREAMS * n floats each, c n. */
typedef struct inputs {
    const float *a, *b, *c;
    size_t n;
} inputs;

typedef struct entry {
    const char *name;
    size_t a, b, c;  /* floats read per element */
    float low, high; /* range of a; b and c are in -2 .. 2 */
    double ulps;     /* allowed error, in units of 2^-24 of the size of what was summed */
    void (*run)(const fn_kernels *k, float *y, const inputs *in);
    void (*expect)(double *y, double *size, const inputs *in);
} entry;

static double exact_sigmoid(double z) {
    return 1.0 / (1.0 + exp(-z));
}

static double exact_dot(const float *a, const float *b, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

#define EACH(value)                                                                                \
    for (size_t i = 0; i < in->n; i++)                                                             \
    size[i] = y[i] = (value)
#define A ((double)in->a[i])
#define B ((double)in->b[i])
#define C ((double)in->c[i])

static void run_exp(const fn_kernels *k, float *y, const inputs *in) {
    k->exp(y, in->a, in->n);
}

static void expect_exp(double *y, double *size, const inputs *in) {
    EACH(exp(A));
}

static void run_sigmoid(const fn_kernels *k, float *y, const inputs *in) {
    k->sigmoid(y, in->a, in->n, 0.5f);
}

static void expect_sigmoid(double *y, double *size, const inputs *in) {
    EACH(exact_sigmoid(0.5 * A));
}

static void run_silu(const fn_kernels *k, float *y, const inputs *in) {
    k->silu(y, in->a, in->n, 0.25f);
}

static void expect_silu(double *y, double *size, const inputs *in) {
    EACH(0.25 * A * exact_sigmoid(0.25 * A));
}

static void run_silu_mul(const fn_kernels *k, float *y, const inputs *in) {
    k->silu_mul(y, in->a, in->b, in->n);
}

static void expect_silu_mul(double *y, double *size, const inputs *in) {
    EACH(A * exact_sigmoid(A) * B);
}

static void run_softplus(const fn_kernels *k, float *y, const inputs *in) {
    k->softplus(y, in->a, in->n);
}

static void expect_softplus(double *y, double *size, const inputs *in) {
    EACH(A > 20.0 ? A : log1p(exp(A)));
}

static void run_mul(const fn_kernels *k, float *y, const inputs *in) {
    k->mul(y, in->a, in->b, in->n);
}

static void expect_mul(double *y, double *size, const inputs *in) {
    EACH(A * B);
}

static void run_add(const fn_kernels *k, float *y, const inputs *in) {
    if (in->n > 0)
        memcpy(y, in->a, in->n * sizeof(float));
    k->add(y, in->b, in->n);
}

static void expect_add(double *y, double *size, const inputs *in) {
    EACH(A + B);
}

static void run_axpy(const fn_kernels *k, float *y, const inputs *in) {
    if (in->n > 0)
        memcpy(y, in->a, in->n * sizeof(float));
    k->axpy(y, 0.75f, in->b, in->n);
}

static void expect_axpy(double *y, double *size, const inputs *in) {
    EACH(A + 0.75 * B);
}

static void run_softmax(const fn_kernels *k, float *y, const inputs *in) {
    k->softmax(y, in->a, in->n);
}

static void expect_softmax(double *y, double *size, const inputs *in) {
    double max = -1e300, sum = 0.0;
    for (size_t i = 0; i < in->n; i++)
        max = fmax(max, A);
    for (size_t i = 0; i < in->n; i++)
        sum += exp(A - max);
    /* the rounding of x - max counts by its own size */
    for (size_t i = 0; i < in->n; i++) {
        y[i] = exp(A - max) / sum;
        size[i] = y[i] * (1.0 + (max - A) / 8.0);
    }
}

static void run_dot(const fn_kernels *k, float *y, const inputs *in) {
    float dot = k->dot(in->a, in->b, in->n);
    for (size_t i = 0; i < in->n; i++)
        y[i] = dot;
}

static void expect_dot(double *y, double *size, const inputs *in) {
    double dot = exact_dot(in->a, in->b, in->n), terms = 0.0;
    for (size_t i = 0; i < in->n; i++)
        terms += fabs(A * B);
    for (size_t i = 0; i < in->n; i++) {
        y[i] = dot;
        size[i] = terms;
    }
}

static void run_rms_norm(const fn_kernels *k, float *y, const inputs *in) {
    k->rms_norm(y, in->a, in->b, in->n, EPS);
}

static void expect_rms_norm(double *y, double *size, const inputs *in) {
    double s = 1.0 / sqrt(exact_dot(in->a, in->a, in->n) / (double)in->n + (double)EPS);
    EACH(A * s * (1.0 + B));
    for (size_t i = 0; i < in->n; i++)
        size[i] = A * s * (1.0 + fabs(B));
}

static void run_rms_norm_gated(const fn_kernels *k, float *y, const inputs *in) {
    k->rms_norm_gated(y, in->a, in->b, in->c, in->n, EPS);
}

static void expect_rms_norm_gated(double *y, double *size, const inputs *in) {
    double s = 1.0 / sqrt(exact_dot(in->a, in->a, in->n) / (double)in->n + (double)EPS);
    EACH(A * s * B * C);
}

static void run_l2_norm(const fn_kernels *k, float *y, const inputs *in) {
    k->l2_norm(y, in->a, in->n, EPS, 0.125f);
}

static void expect_l2_norm(double *y, double *size, const inputs *in) {
    double s = 0.125 / sqrt(exact_dot(in->a, in->a, in->n) + (double)EPS);
    EACH(A * s);
}

static const float stream_scales[STREAMS] = {0.5f, 1.25f, 0.75f, 1.5f};

static void run_mix_streams(const fn_kernels *k, float *y, const inputs *in) {
    k->mix_streams(&(fn_mix_args){.y = y,
                                  .gate = in->a,
                                  .ld_gate = in->n,
                                  .x = in->b,
                                  .w = in->c,
                                  .ldx = in->n,
                                  .scale = stream_scales,
                                  .hc = STREAMS,
                                  .n = in->n});
}

static void expect_mix_streams(double *y, double *size, const inputs *in) {
    for (size_t i = 0; i < in->n; i++) {
        y[i] = size[i] = 0.0;
        for (size_t s = 0; s < STREAMS; s++) {
            double gate = exact_sigmoid((double)in->a[s * in->n + i]);
            double x = (double)in->b[s * in->n + i] * (double)stream_scales[s];
            double w = (double)in->c[s * in->n + i];
            y[i] += gate * x * (1.0 + w) / STREAMS;
            size[i] += fabs(gate * x) * (1.0 + fabs(w)) / STREAMS;
        }
    }
}

static void run_conv_silu(const fn_kernels *k, float *y, const inputs *in) {
    const float *rows[STREAMS];
    for (size_t j = 0; j < STREAMS; j++) /* any order of rows in memory */
        rows[j] = in->a + (STREAMS - 1 - j) * in->n;
    k->conv_silu(y, rows, in->b, in->n, STREAMS, in->n);
}

static void expect_conv_silu(double *y, double *size, const inputs *in) {
    for (size_t i = 0; i < in->n; i++) {
        double sum = 0.0;
        size[i] = 0.0;
        for (size_t j = 0; j < STREAMS; j++) {
            double term =
                (double)in->b[j * in->n + i] * (double)in->a[(STREAMS - 1 - j) * in->n + i];
            sum += term;
            size[i] += fabs(term);
        }
        y[i] = sum * exact_sigmoid(sum);
    }
}

static void run_rope(const fn_kernels *k, float *y, const inputs *in) {
    if (in->n > 0)
        memcpy(y, in->a, in->n * sizeof(float));
    k->rope(y, in->b, in->c, in->n / 2 * 2);
}

static void expect_rope(double *y, double *size, const inputs *in) {
    size_t half = in->n / 2;
    EACH(A);
    for (size_t i = 0; i < half; i++) {
        double x1 = A, x2 = (double)in->a[i + half];
        y[i] = x1 * B - x2 * C;
        y[i + half] = x2 * B + x1 * C;
        size[i] = fabs(x1 * B) + fabs(x2 * C);
        size[i + half] = fabs(x2 * B) + fabs(x1 * C);
    }
}

static void run_bf16_to_f32(const fn_kernels *k, float *y, const inputs *in) {
    guarded words = guarded_alloc(in->n * sizeof(uint16_t));
    uint16_t *w = words.data;
    for (size_t i = 0; i < in->n; i++)
        w[i] = to_bf16(in->a[i]);
    k->bf16_to_f32(y, w, in->n);
    guarded_free(&words);
}

static void expect_bf16_to_f32(double *y, double *size, const inputs *in) {
    EACH((double)from_bf16(to_bf16(in->a[i])));
}

static const entry entries[] = {
    {"exp", 1, 0, 0, -87.0f, 88.0f, 2.0, run_exp, expect_exp},
    {"sigmoid", 1, 0, 0, -150.0f, 150.0f, 6.0, run_sigmoid, expect_sigmoid},
    {"silu", 1, 0, 0, -300.0f, 300.0f, 7.0, run_silu, expect_silu},
    {"silu_mul", 1, 1, 0, -80.0f, 80.0f, 8.0, run_silu_mul, expect_silu_mul},
    {"softplus", 1, 0, 0, -40.0f, 40.0f, 1.0, run_softplus, expect_softplus},
    {"mul", 1, 1, 0, -2.0f, 2.0f, 1.0, run_mul, expect_mul},
    {"add", 1, 1, 0, -2.0f, 2.0f, 1.0, run_add, expect_add},
    {"axpy", 1, 1, 0, -2.0f, 2.0f, 1.0, run_axpy, expect_axpy},
    {"softmax", 1, 0, 0, -30.0f, 30.0f, 16.0, run_softmax, expect_softmax},
    {"dot", 1, 1, 0, -2.0f, 2.0f, 6.0, run_dot, expect_dot},
    {"rms_norm", 1, 1, 0, -2.0f, 2.0f, 12.0, run_rms_norm, expect_rms_norm},
    {"rms_norm_gated", 1, 1, 1, -2.0f, 2.0f, 12.0, run_rms_norm_gated, expect_rms_norm_gated},
    {"l2_norm", 1, 0, 0, -2.0f, 2.0f, 12.0, run_l2_norm, expect_l2_norm},
    {"mix_streams", STREAMS, STREAMS, STREAMS, -2.0f, 2.0f, 7.0, run_mix_streams,
     expect_mix_streams},
    {"conv_silu", STREAMS, STREAMS, 0, -2.0f, 2.0f, 8.0, run_conv_silu, expect_conv_silu},
    {"rope", 1, 1, 1, -2.0f, 2.0f, 2.0, run_rope, expect_rope},
    {"bf16_to_f32", 1, 0, 0, -2.0f, 2.0f, 0.0, run_bf16_to_f32, expect_bf16_to_f32},
};

static void check_length(const entry *e, size_t n) {
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    static double want[MAX_N + 1], size[MAX_N + 1];
    static float first[MAX_N + 1];
    uint64_t seed = n + 1000;
    guarded a = guarded_floats(e->a * n), b = guarded_floats(e->b * n),
            c = guarded_floats(e->c * n);
    fill_random(a.data, e->a * n, e->low, e->high, &seed);
    fill_random(b.data, e->b * n, -2.0f, 2.0f, &seed);
    fill_random(c.data, e->c * n, -2.0f, 2.0f, &seed);
    inputs in = {a.data, b.data, c.data, n};
    e->expect(want, size, &in);
    for (size_t t = 0; t < count; t++) {
        guarded y = guarded_floats(n);
        e->run(tables[t], y.data, &in);
        if (t == 0) {
            assert_close(y.data, want, size, n, e->ulps, e->name);
            if (n > 0)
                memcpy(first, y.data, n * sizeof(float));
        }
        assert_same_bits(y.data, first, n, tables[t]->name, e->name);
        guarded_free(&y);
    }
    guarded_free(&a);
    guarded_free(&b);
    guarded_free(&c);
}

static void every_entry_at_every_length(void **state) {
    (void)state;
    for (size_t e = 0; e < sizeof entries / sizeof *entries; e++)
        for (size_t n = 0; n <= MAX_N; n++)
            check_length(&entries[e], n);
}

/* A single stream whose gate is wide open comes out as rms_norm writes it, in pieces, too. */
static void mixing_norms_as_the_norm_does(void **state) {
    (void)state;
    enum { N = 77, CUT = 30 };
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    float x[N], w[N], gate[N], normed[N], mixed[N];
    uint64_t seed = 4;
    fill_random(x, N, -2.0f, 2.0f, &seed);
    fill_random(w, N, -1.0f, 1.0f, &seed);
    for (size_t i = 0; i < N; i++)
        gate[i] = 200.0f;
    for (size_t t = 0; t < count; t++) {
        float scale = tables[t]->rms_norm(normed, x, w, N, EPS);
        fn_mix_args a = {mixed, gate, N, x, w, N, &scale, 1, CUT};
        tables[t]->mix_streams(&a);
        a = (fn_mix_args){mixed + CUT, gate + CUT, N, x + CUT, w + CUT, N, &scale, 1, N - CUT};
        tables[t]->mix_streams(&a);
        assert_same_bits(mixed, normed, N, tables[t]->name, "one open stream");
    }
}

/* Entries whose comment allows y to be x. */
static void results_may_replace_their_inputs(void **state) {
    (void)state;
    static const char *const names[] = {"exp",      "sigmoid", "silu",    "softplus",
                                        "rms_norm", "l2_norm", "softmax", "rms_norm_gated"};
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    float a[77], b[77], c[77], y[77];
    uint64_t seed = 3;
    fill_random(b, 77, -2.0f, 2.0f, &seed);
    fill_random(c, 77, -2.0f, 2.0f, &seed);
    for (size_t e = 0; e < sizeof entries / sizeof *entries; e++) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            if (strcmp(names[i], entries[e].name) != 0)
                continue;
            for (size_t t = 0; t < count; t++) {
                fill_random(a, 77, -2.0f, 2.0f, &seed);
                inputs in = {a, b, c, 77};
                entries[e].run(tables[t], y, &in);
                entries[e].run(tables[t], a, &in);
                assert_same_bits(a, y, 77, tables[t]->name, names[i]);
            }
        }
    }
}

/* Terms that underflow to -0 leave -0 in their lanes; lanes beyond the end must not add a +0. */
static void a_short_end_does_not_touch_the_other_lanes(void **state) {
    (void)state;
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    float a[40], b[40];
    for (size_t i = 0; i < 40; i++) {
        a[i] = -1e-30f;
        b[i] = 1e-30f;
    }
    for (size_t t = 0; t < count; t++)
        for (size_t n = 16; n <= 40; n++)
            assert_true(signbit(tables[t]->dot(a, b, n)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_entry_at_every_length),
        cmocka_unit_test(results_may_replace_their_inputs),
        cmocka_unit_test(mixing_norms_as_the_norm_does),
        cmocka_unit_test(a_short_end_does_not_touch_the_other_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
