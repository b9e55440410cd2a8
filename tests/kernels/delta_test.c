/* Some tokens of the gated delta rule: against double, every table by memcmp, whole and in parts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/kernel_check.h"

#define LD_GATE 3

/* The rows of all tokens, as a layer has them: q, k and v of a token side by side. */
typedef struct delta_case {
    size_t dk, dv, ld, tokens, ldx, ldo;
    bool far;
    guarded state, x, decay, beta;
} delta_case;

static delta_case make_case(size_t dk, size_t dv, size_t tokens) {
    uint64_t seed = dk * 1009 + dv * 31 + tokens;
    delta_case c = {.dk = dk, .dv = dv, .ld = dv + 2, .tokens = tokens, .ldo = dv + 1};
    c.ldx = 2 * dk + dv;
    c.state = guarded_floats(dk * c.ld - 2);
    c.x = guarded_floats(tokens * c.ldx);
    c.decay = guarded_floats((tokens - 1) * LD_GATE + 1);
    c.beta = guarded_floats((tokens - 1) * LD_GATE + 1);
    fill_random(c.state.data, dk * c.ld - 2, -1.0f, 1.0f, &seed);
    fill_random(c.x.data, tokens * c.ldx, -0.3f, 0.3f, &seed);
    fill_random(c.decay.data, (tokens - 1) * LD_GATE + 1, 0.5f, 1.0f, &seed);
    fill_random(c.beta.data, (tokens - 1) * LD_GATE + 1, 0.0f, 1.0f, &seed);
    return c;
}

static void free_case(delta_case *c) {
    guarded_free(&c->state);
    guarded_free(&c->x);
    guarded_free(&c->decay);
    guarded_free(&c->beta);
}

/* Tokens t0 .. t1 of columns j0 .. j0 + n. */
static void run(const fn_kernels *table, const delta_case *c, const float *in, float *to,
                float *out, size_t t0, size_t t1, size_t j0, size_t n) {
    const float *x = (const float *)c->x.data + t0 * c->ldx;
    table->delta_run(&(fn_delta_run_args){.state_out = to + j0,
                                          .state_in = in + j0,
                                          .ld_state = c->ld,
                                          .dk = c->dk,
                                          .dv = n,
                                          .tokens = t1 - t0,
                                          .q = x,
                                          .k = x + c->dk,
                                          .v = x + 2 * c->dk + j0,
                                          .ldx = c->ldx,
                                          .decay = (const float *)c->decay.data + t0 * LD_GATE,
                                          .beta = (const float *)c->beta.data + t0 * LD_GATE,
                                          .ld_gate = LD_GATE,
                                          .out = out + t0 * c->ldo + j0,
                                          .ldo = c->ldo,
                                          .far = c->far});
}

/* The rule as published: decay, recall, change, then read the new state. */
static void compare_with_double(const delta_case *c, const float *to, const float *out) {
    double *s = malloc(c->dk * c->dv * sizeof *s), one = 1.0;
    assert_non_null(s);
    for (size_t i = 0; i < c->dk; i++)
        for (size_t j = 0; j < c->dv; j++)
            s[i * c->dv + j] = (double)((const float *)c->state.data)[i * c->ld + j];
    double size = (1.0 + (double)c->dk * 0.3) * 4.0; /* of what is summed, step after step */
    for (size_t t = 0; t < c->tokens; t++) {
        const float *q = (const float *)c->x.data + t * c->ldx, *k = q + c->dk, *v = k + c->dk;
        double decay = (double)((const float *)c->decay.data)[t * LD_GATE];
        double beta = (double)((const float *)c->beta.data)[t * LD_GATE];
        for (size_t j = 0; j < c->dv; j++) {
            double recalled = 0.0, read = 0.0;
            for (size_t i = 0; i < c->dk; i++)
                recalled += (s[i * c->dv + j] *= decay) * (double)k[i];
            double change = beta * ((double)v[j] - recalled);
            for (size_t i = 0; i < c->dk; i++)
                read += (s[i * c->dv + j] += (double)k[i] * change) * (double)q[i];
            assert_close(&out[t * c->ldo + j], &read, &size, 1, 8.0, "delta_run out");
        }
    }
    for (size_t i = 0; i < c->dk; i++)
        for (size_t j = 0; j < c->dv; j++) {
            double scale = fmax(one, size);
            assert_close(&to[i * c->ld + j], &s[i * c->dv + j], &scale, 1, 8.0, "delta_run state");
        }
    free(s);
}

static void check_parts(const fn_kernels *table, const delta_case *c, const float *want,
                        const float *want_out) {
    size_t n = c->dk * c->ld - 2, n_out = c->tokens * c->ldo;
    guarded to = guarded_floats(n), out = guarded_floats(n_out);
    for (int way = 0; way < 4; way++) {
        float *s = to.data, *y = out.data;
        memcpy(s, c->state.data, n * sizeof *s);
        memset(y, 0, n_out * sizeof *y);
        if (way == 0) { /* whole, beside the old state */
            run(table, c, c->state.data, s, y, 0, c->tokens, 0, c->dv);
        } else if (way == 1) { /* token after token, in place */
            for (size_t t = 0; t < c->tokens; t++)
                run(table, c, s, s, y, t, t + 1, 0, c->dv);
        } else if (way == 2) { /* in two chunks, in two runs of columns */
            size_t cut = c->tokens / 3, columns = c->dv / 3;
            for (size_t j = 0; j < 2; j++) {
                size_t j0 = j * columns, width = j == 0 ? columns : c->dv - columns;
                if (cut > 0)
                    run(table, c, s, s, y, 0, cut, j0, width);
                run(table, c, s, s, y, cut, c->tokens, j0, width);
            }
        } else { /* whole, in place */
            run(table, c, s, s, y, 0, c->tokens, 0, c->dv);
        }
        assert_same_bits(s, want, n, table->name, "delta_run state");
        assert_same_bits(y, want_out, n_out, table->name, "delta_run out");
    }
    guarded_free(&to);
    guarded_free(&out);
}

static void check_case(size_t dk, size_t dv, size_t tokens) {
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    delta_case c = make_case(dk, dv, tokens);
    size_t n = dk * c.ld - 2;
    float *want = malloc(n * sizeof *want), *want_out = calloc(tokens * c.ldo, sizeof *want);
    assert_true(want != NULL && want_out != NULL);
    memcpy(want, c.state.data, n * sizeof *want); /* the gaps between rows stay */
    run(tables[0], &c, c.state.data, want, want_out, 0, tokens, 0, dv);
    compare_with_double(&c, want, want_out);
    for (size_t t = 0; t < count; t++)
        check_parts(tables[t], &c, want, want_out);
    free(want);
    free(want_out);
    free_case(&c);
}

static void every_shape_whole_and_in_parts(void **state) {
    (void)state;
    static const size_t keys[] = {1, 3, 16, 17, 130}, columns[] = {1, 15, 16, 31, 48, 128, 150};
    static const size_t tokens[] = {1, 2, 3, 64, 65, 300};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (size_t j = 0; j < sizeof columns / sizeof *columns; j++)
            for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++)
                check_case(keys[i], columns[j], tokens[t]);
    check_case(128, 128, 70);
}

static void a_nan_stays_in_its_column(void **state) {
    (void)state;
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    delta_case c = make_case(16, 70, 3);
    float *s = c.state.data;
    guarded to = guarded_floats(16 * c.ld - 2), out = guarded_floats(3 * c.ldo);
    s[15 * c.ld + 69] = NAN;
    for (size_t t = 0; t < count; t++) {
        run(tables[t], &c, s, to.data, out.data, 0, 3, 0, 70);
        for (size_t j = 0; j < 70; j++)
            for (size_t token = 0; token < 3; token++)
                assert_int_equal(isnan(((float *)out.data)[token * c.ldo + j]) != 0, j == 69);
    }
    guarded_free(&to);
    guarded_free(&out);
    free_case(&c);
}

/* One token of a state that is said to be far, from one place to another, both aligned as states are. */
static void a_far_state_has_the_same_bits(void **state) {
    (void)state;
    static const size_t sizes[][3] = {{128, 128, 128}, {17, 144, 160}, {16, 40, 48}, {3, 31, 33}};
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t dk = sizes[i][0], dv = sizes[i][1], ld = sizes[i][2];
        size_t bytes = (dk * ld * sizeof(float) + 63) / 64 * 64;
        float *s = aligned_alloc(64, 3 * bytes);
        assert_non_null(s);
        float *places[3] = {s, s + bytes / sizeof *s, s + 2 * bytes / sizeof *s};
        delta_case c = make_case(dk, dv, 1);
        guarded out = guarded_floats(2 * c.ldo);
        uint64_t seed = dk;
        c.ld = ld;
        fill_random(places[0], dk * ld, -1.0f, 1.0f, &seed);
        for (size_t t = 0; t < count; t++) {
            float *y = out.data;
            memset(places[1], 0, 2 * bytes);
            memset(y, 0, 2 * c.ldo * sizeof *y);
            run(tables[t], &c, places[0], places[1], y, 0, 1, 0, dv);
            c.far = true;
            run(tables[t], &c, places[0], places[2], y + c.ldo, 0, 1, 0, dv);
            c.far = false;
            assert_same_bits(places[2], places[1], dk * ld, tables[t]->name, "delta_run state");
            assert_same_bits(y + c.ldo, y, c.ldo, tables[t]->name, "delta_run out");
        }
        guarded_free(&out);
        free_case(&c);
        free(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_whole_and_in_parts),
        cmocka_unit_test(a_nan_stays_in_its_column),
        cmocka_unit_test(a_far_state_has_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
