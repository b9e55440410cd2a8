/* One token of the gated delta rule: against double, every table by memcmp, states in place. */
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

#define DECAY 0.9f
#define BETA 0.7f

typedef struct delta_case {
    size_t dk, dv, ld;
    guarded state, q, k, v;
} delta_case;

static delta_case make_case(size_t dk, size_t dv) {
    uint64_t seed = dk * 1009 + dv;
    delta_case c = {.dk = dk, .dv = dv, .ld = dv + 2};
    c.state = guarded_floats(dk * c.ld - 2);
    c.q = guarded_floats(dk);
    c.k = guarded_floats(dk);
    c.v = guarded_floats(dv);
    fill_random(c.state.data, dk * c.ld - 2, -1.0f, 1.0f, &seed);
    fill_random(c.q.data, dk, -0.3f, 0.3f, &seed);
    fill_random(c.k.data, dk, -0.3f, 0.3f, &seed);
    fill_random(c.v.data, dv, -1.0f, 1.0f, &seed);
    return c;
}

static void free_case(delta_case *c) {
    guarded_free(&c->state);
    guarded_free(&c->q);
    guarded_free(&c->k);
    guarded_free(&c->v);
}

/* Columns j0 .. j0 + n. */
static void step(const fn_kernels *table, const delta_case *c, const float *in, float *to,
                 float *out, size_t j0, size_t n) {
    fn_delta_args a = {.state_out = to + j0,
                       .state_in = in + j0,
                       .ld_state = c->ld,
                       .dk = c->dk,
                       .dv = n,
                       .q = c->q.data,
                       .k = c->k.data,
                       .v = (const float *)c->v.data + j0,
                       .decay = DECAY,
                       .beta = BETA,
                       .out = out + j0};
    table->delta_step(&a);
}

static void compare_with_double(const delta_case *c, const float *to, const float *out) {
    const float *s = c->state.data, *q = c->q.data, *k = c->k.data, *v = c->v.data;
    for (size_t j = 0; j < c->dv; j++) {
        double recalled = 0.0, read = 0.0, size = 1.0;
        for (size_t i = 0; i < c->dk; i++) {
            recalled += (double)DECAY * (double)s[i * c->ld + j] * (double)k[i];
            size += fabs((double)s[i * c->ld + j] * (double)k[i]);
        }
        double change = (double)BETA * ((double)v[j] - recalled);
        for (size_t i = 0; i < c->dk; i++) {
            double next = (double)DECAY * (double)s[i * c->ld + j] + (double)k[i] * change;
            assert_close(&to[i * c->ld + j], &next, &size, 1, 4.0, "delta state");
            read += next * (double)q[i];
        }
        size *= 1.0 + 0.3 * 0.3 * (double)c->dk;
        assert_close(&out[j], &read, &size, 1, 8.0, "delta out");
    }
}

static void check_case(size_t dk, size_t dv) {
    const fn_kernels *tables[FN_ISA_COUNT];
    size_t count = available_tables(tables);
    delta_case c = make_case(dk, dv);
    size_t n = dk * c.ld - 2;
    guarded want = guarded_floats(n), want_out = guarded_floats(dv);
    memcpy(want.data, c.state.data, n * sizeof(float)); /* the gaps between rows stay */
    step(tables[0], &c, c.state.data, want.data, want_out.data, 0, dv);
    compare_with_double(&c, want.data, want_out.data);
    for (size_t t = 0; t < count; t++) {
        guarded to = guarded_floats(n), out = guarded_floats(dv);
        float *s = to.data;
        memcpy(s, c.state.data, n * sizeof(float));
        step(tables[t], &c, c.state.data, s, out.data, 0, dv);
        assert_same_bits(s, want.data, n, tables[t]->name, "delta state");
        assert_same_bits(out.data, want_out.data, dv, tables[t]->name, "delta out");
        memcpy(s, c.state.data, n * sizeof(float));
        step(tables[t], &c, s, s, out.data, 0, dv);
        assert_same_bits(s, want.data, n, tables[t]->name, "delta state in place");
        assert_same_bits(out.data, want_out.data, dv, tables[t]->name, "delta out in place");
        memcpy(s, c.state.data, n * sizeof(float));
        step(tables[t], &c, s, s, out.data, 0, dv / 3);
        step(tables[t], &c, s, s, out.data, dv / 3, dv - dv / 3);
        assert_same_bits(s, want.data, n, tables[t]->name, "delta state in two parts");
        assert_same_bits(out.data, want_out.data, dv, tables[t]->name, "delta out in two parts");
        guarded_free(&to);
        guarded_free(&out);
    }
    guarded_free(&want);
    guarded_free(&want_out);
    free_case(&c);
}

static void every_shape_in_place_and_split(void **state) {
    (void)state;
    static const size_t keys[] = {1, 2, 3, 8, 16, 17, 128};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (size_t dv = 1; dv <= 150; dv++)
            check_case(keys[i], dv);
}

static void a_nan_stays_in_its_column(void **state) {
    (void)state;
    const fn_kernels *tables[FN_ISA_COUNT];
    size_t count = available_tables(tables);
    delta_case c = make_case(16, 70);
    float *s = c.state.data, out[70];
    size_t n = 16 * c.ld - 2;
    float *to = malloc(n * sizeof(float));
    assert_non_null(to);
    s[15 * c.ld + 69] = NAN;
    for (size_t t = 0; t < count; t++) {
        step(tables[t], &c, s, to, out, 0, 70);
        for (size_t j = 0; j < 70; j++)
            assert_int_equal(isnan(out[j]) != 0, j == 69);
    }
    free(to);
    free_case(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_in_place_and_split),
        cmocka_unit_test(a_nan_stays_in_its_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
