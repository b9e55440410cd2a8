/* Attention and the indexer's scores: against double, and every table by memcmp. */
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

/* One call's inputs, with key and value rows scattered in memory. */
typedef struct attention_case {
    size_t heads, dim, keys, ldq;
    float scale;
    guarded q, k_data, v_data, k, v; /* k, v: row pointers */
} attention_case;

static attention_case make_case(size_t heads, size_t dim, size_t keys, float spread,
                                uint64_t *seed) {
    attention_case c = {.heads = heads, .dim = dim, .keys = keys, .ldq = dim + 3, .scale = 0.3f};
    c.q = guarded_floats(heads * c.ldq - 3);
    c.k_data = guarded_floats(keys * dim);
    c.v_data = guarded_floats(keys * dim);
    c.k = guarded_alloc(keys * sizeof(float *));
    c.v = guarded_alloc(keys * sizeof(float *));
    fill_random(c.q.data, heads * c.ldq - 3, -spread, spread, seed);
    fill_random(c.k_data.data, keys * dim, -1.0f, 1.0f, seed);
    fill_random(c.v_data.data, keys * dim, -1.0f, 1.0f, seed);
    const float **k = c.k.data, **v = c.v.data;
    for (size_t i = 0; i < keys; i++) { /* key 0 is the last row: scattered, none twice */
        k[i] = (float *)c.k_data.data + (keys - 1 - i) * dim;
        v[i] = (float *)c.v_data.data + (i + keys / 2) % keys * dim;
    }
    return c;
}

static void free_case(attention_case *c) {
    guarded_free(&c->q);
    guarded_free(&c->k_data);
    guarded_free(&c->v_data);
    guarded_free(&c->k);
    guarded_free(&c->v);
}

/* out [heads, dim] */
static void attend(const fn_kernels *table, const attention_case *c, float *out) {
    guarded scores = guarded_floats(c->heads * c->keys);
    fn_attention_args a = {.out = out,
                           .q = c->q.data,
                           .ldq = c->ldq,
                           .heads = c->heads,
                           .head_dim = c->dim,
                           .n_keys = c->keys,
                           .k = c->k.data,
                           .v = c->v.data,
                           .scale = c->scale,
                           .scores = scores.data};
    table->attention(&a);
    guarded_free(&scores);
}

/* The same in double; *size is the largest value, which bounds what was summed. */
static void attend_double(const attention_case *c, double *out, double *size) {
    const float *const *k = c->k.data, *const *v = c->v.data;
    double *p = malloc(c->keys * sizeof(double));
    for (size_t h = 0; h < c->heads; h++) {
        const float *q = (const float *)c->q.data + h * c->ldq;
        double max = -1e300, sum = 0.0;
        for (size_t i = 0; i < c->keys; i++) {
            p[i] = 0.0;
            for (size_t d = 0; d < c->dim; d++)
                p[i] += (double)q[d] * (double)k[i][d];
            p[i] *= (double)c->scale;
            max = fmax(max, p[i]);
        }
        for (size_t i = 0; i < c->keys; i++)
            sum += p[i] = exp(p[i] - max);
        for (size_t d = 0; d < c->dim; d++) {
            double *o = &out[h * c->dim + d];
            *o = 0.0;
            for (size_t i = 0; i < c->keys; i++)
                *o += p[i] / sum * (double)v[i][d];
            size[h * c->dim + d] = 1.0;
        }
    }
    free(p);
}

static void check_case(size_t heads, size_t dim, size_t keys, float spread) {
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables), n = heads * dim;
    uint64_t seed = heads * 1000003 + dim * 1009 + keys;
    attention_case c = make_case(heads, dim, keys, spread, &seed);
    float *want = malloc(n * sizeof(float));
    double *exact = malloc(n * sizeof(double)), *size = malloc(n * sizeof(double));
    char what[80];
    snprintf(what, sizeof what, "attention heads %zu dim %zu keys %zu", heads, dim, keys);
    attend(tables[0], &c, want);
    attend_double(&c, exact, size);
    assert_close(want, exact, size, n, 16.0 * (1.0 + (double)spread), what);
    for (size_t t = 1; t < count; t++) {
        guarded out = guarded_floats(n);
        attend(tables[t], &c, out.data);
        assert_same_bits(out.data, want, n, tables[t]->name, what);
        guarded_free(&out);
    }
    free(want);
    free(exact);
    free(size);
    free_case(&c);
}

static void attention_at_every_shape(void **state) {
    (void)state;
    static const size_t heads[] = {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 24, 65};
    static const size_t dims[] = {1, 8, 15, 16, 17, 32, 33, 64, 72, 256};
    static const size_t keys[] = {1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 48, 100};
    for (size_t h = 0; h < sizeof heads / sizeof *heads; h++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
            for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
                check_case(heads[h], dims[d], keys[k], 1.0f);
    check_case(12, 256, 2051, 1.0f);
    check_case(3, 20, 33, 200.0f); /* scores in the hundreds: nearly one-hot */
}

/* A NaN query spoils its head, a NaN key every head, a NaN value its column; nothing else. */
static void a_nan_reaches_what_depends_on_it(void **state) {
    (void)state;
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    enum { HEADS = 13, DIM = 40, KEYS = 37 };
    uint64_t seed = 77;
    attention_case c = make_case(HEADS, DIM, KEYS, 1.0f, &seed);
    float *q = c.q.data, *k = c.k_data.data, *v = c.v_data.data;
    static float out[HEADS * DIM];
    for (size_t t = 0; t < count; t++) {
        float saved = q[5 * c.ldq + 39];
        q[5 * c.ldq + 39] = NAN;
        attend(tables[t], &c, out);
        for (size_t i = 0; i < HEADS * DIM; i++)
            assert_int_equal(isnan(out[i]) != 0, i / DIM == 5);
        q[5 * c.ldq + 39] = saved;

        saved = v[20 * DIM + 33];
        v[20 * DIM + 33] = NAN;
        attend(tables[t], &c, out);
        for (size_t i = 0; i < HEADS * DIM; i++)
            assert_int_equal(isnan(out[i]) != 0, i % DIM == 33);
        v[20 * DIM + 33] = saved;

        for (size_t row = 0; row < KEYS; row++) {
            saved = k[row * DIM];
            k[row * DIM] = NAN;
            attend(tables[t], &c, out);
            for (size_t i = 0; i < HEADS * DIM; i++)
                assert_true(isnan(out[i]));
            k[row * DIM] = saved;
        }
    }
    free_case(&c);
}

/* A query head's result is its own: the number of heads in the call changes no bit. */
static void heads_do_not_influence_each_other(void **state) {
    (void)state;
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    enum { HEADS = 24, DIM = 64, KEYS = 45 };
    uint64_t seed = 78;
    attention_case c = make_case(HEADS, DIM, KEYS, 1.0f, &seed);
    static float all[HEADS * DIM], some[HEADS * DIM];
    for (size_t t = 0; t < count; t++) {
        attend(tables[t], &c, all);
        for (size_t heads = 1; heads < HEADS; heads++) {
            attention_case part = c;
            part.heads = heads;
            attend(tables[t], &part, some);
            assert_same_bits(some, all, heads * DIM, tables[t]->name, "fewer heads");
        }
    }
    free_case(&c);
}

static void check_index(size_t heads, size_t d, size_t n) {
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    uint64_t seed = heads * 1000003 + d * 1009 + n;
    guarded q = guarded_floats(heads * d), keys = guarded_floats(n * d);
    float *want = malloc((n + 1) * sizeof(float));
    fill_random(q.data, heads * d, -1.0f, 1.0f, &seed);
    fill_random(keys.data, n * d, -1.0f, 1.0f, &seed);
    const float *qf = q.data, *kf = keys.data;
    tables[0]->index_scores(want, qf, heads, kf, n, d, 0.25f);
    for (size_t b = 0; b < n; b++) {
        double sum = 0.0, size = 0.0;
        for (size_t h = 0; h < heads; h++) {
            double dot = 0.0;
            for (size_t i = 0; i < d; i++) {
                double term = (double)qf[h * d + i] * (double)kf[b * d + i];
                dot += term;
                size += 0.25 * fabs(term);
            }
            sum += 0.25 * fmax(dot, 0.0);
        }
        assert_close(&want[b], &sum, &size, 1, 8.0, "index_scores");
    }
    for (size_t t = 1; t < count; t++) {
        guarded got = guarded_floats(n);
        tables[t]->index_scores(got.data, qf, heads, kf, n, d, 0.25f);
        assert_same_bits(got.data, want, n, tables[t]->name, "index_scores");
        guarded_free(&got);
    }
    free(want);
    guarded_free(&q);
    guarded_free(&keys);
}

static void index_scores_at_every_shape(void **state) {
    (void)state;
    static const size_t heads[] = {1, 2, 3, 4, 5, 8, 9, 16}, dims[] = {1, 7, 16, 31, 64, 128};
    for (size_t h = 0; h < sizeof heads / sizeof *heads; h++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
            for (size_t n = 0; n < 70; n++)
                check_index(heads[h], dims[d], n);
}

/* relu must not turn a NaN into 0, or a broken block would be scored like a bad one. */
static void index_scores_keep_nan(void **state) {
    (void)state;
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    enum { HEADS = 5, D = 20, N = 23 };
    static float q[HEADS * D], keys[N * D], scores[N];
    uint64_t seed = 4;
    fill_random(q, HEADS * D, -1.0f, 1.0f, &seed);
    for (size_t t = 0; t < count; t++) {
        for (size_t bad = 0; bad < N; bad++) {
            fill_random(keys, N * D, -1.0f, 1.0f, &seed);
            keys[bad * D + 19] = NAN;
            tables[t]->index_scores(scores, q, HEADS, keys, N, D, 1.0f);
            for (size_t i = 0; i < N; i++)
                assert_int_equal(isnan(scores[i]) != 0, i == bad);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_at_every_shape),
        cmocka_unit_test(a_nan_reaches_what_depends_on_it),
        cmocka_unit_test(heads_do_not_influence_each_other),
        cmocka_unit_test(index_scores_at_every_shape),
        cmocka_unit_test(index_scores_keep_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
