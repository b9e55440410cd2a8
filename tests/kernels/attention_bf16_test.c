/* Attention over BF16 keys and values, and the indexer's scores of BF16 keys: against double, and
 * every table by memcmp; BF16 rounding. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "support/kernel_check.h"

static guarded guarded_words(size_t n, float low, float high, uint64_t *seed) {
    guarded g = guarded_alloc(n * sizeof(uint16_t));
    uint16_t *words = g.data;
    for (size_t i = 0; i < n; i++) {
        float x;
        fill_random(&x, 1, low, high, seed);
        words[i] = fn_float_to_bf16(x);
    }
    return g;
}

/* One call's inputs, with key and value rows scattered in memory. */
typedef struct attention_case {
    size_t heads, dim, keys, ldq;
    guarded q, k_data, v_data, k, v; /* k, v: row pointers */
} attention_case;

static attention_case make_case(size_t heads, size_t dim, size_t keys, float spread,
                                uint64_t *seed) {
    attention_case c = {.heads = heads, .dim = dim, .keys = keys, .ldq = dim + 3};
    c.q = guarded_words(heads * c.ldq - 3, -spread, spread, seed);
    c.k_data = guarded_words(keys * dim, -1.0f, 1.0f, seed);
    c.v_data = guarded_words(keys * dim, -1.0f, 1.0f, seed);
    c.k = guarded_alloc(keys * sizeof(uint16_t *));
    c.v = guarded_alloc(keys * sizeof(uint16_t *));
    const uint16_t **k = c.k.data, **v = c.v.data;
    for (size_t i = 0; i < keys; i++) {
        k[i] = (uint16_t *)c.k_data.data + (keys - 1 - i) * dim;
        v[i] = (uint16_t *)c.v_data.data + (i + keys / 2) % keys * dim;
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

static void attend(const fn_kernels *table, const attention_case *c, float *out) {
    guarded scores = guarded_floats(c->heads * c->keys);
    table->attention_bf16(&(fn_attention_bf16_args){.out = out,
                                                    .q = c->q.data,
                                                    .ldq = c->ldq,
                                                    .heads = c->heads,
                                                    .head_dim = c->dim,
                                                    .n_keys = c->keys,
                                                    .k = c->k.data,
                                                    .v = c->v.data,
                                                    .scale = 0.3f,
                                                    .scores = scores.data});
    guarded_free(&scores);
}

/* One head of it in double. */
static void attend_double(const attention_case *c, size_t h, double *out) {
    const uint16_t *const *k = c->k.data, *const *v = c->v.data;
    const uint16_t *q = (const uint16_t *)c->q.data + h * c->ldq;
    double *p = malloc(c->keys * sizeof *p), max = -1e300, sum = 0.0;
    assert_non_null(p);
    for (size_t i = 0; i < c->keys; i++) {
        p[i] = 0.0;
        for (size_t d = 0; d < c->dim; d++)
            p[i] += (double)fn_bf16_to_float(q[d]) * (double)fn_bf16_to_float(k[i][d]);
        p[i] *= (double)0.3f;
        max = fmax(max, p[i]);
    }
    for (size_t i = 0; i < c->keys; i++)
        sum += p[i] = exp(p[i] - max);
    for (size_t d = 0; d < c->dim; d++) {
        out[d] = 0.0;
        for (size_t i = 0; i < c->keys; i++)
            out[d] += p[i] / sum * (double)fn_bf16_to_float(v[i][d]);
    }
    free(p);
}

static void check_attention(size_t heads, size_t dim, size_t keys, float spread) {
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables), n = heads * dim;
    uint64_t seed = heads * 1000003 + dim * 1009 + keys;
    attention_case c = make_case(heads, dim, keys, spread, &seed);
    float *want = malloc(n * sizeof *want);
    double *exact = malloc(dim * sizeof *exact), *size = malloc(dim * sizeof *size);
    char what[80];
    assert_true(want != NULL && exact != NULL && size != NULL);
    snprintf(what, sizeof what, "attention_bf16 heads %zu dim %zu keys %zu", heads, dim, keys);
    attend(tables[0], &c, want);
    for (size_t d = 0; d < dim; d++)
        size[d] = 1.0;
    for (size_t h = 0; h < heads; h++) {
        attend_double(&c, h, exact);
        assert_close(want + h * dim, exact, size, dim, 16.0 * (1.0 + (double)spread), what);
    }
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

static void every_shape_on_every_table(void **state) {
    (void)state;
    static const size_t heads[] = {1, 2, 5, 12, 13, 65}, keys[] = {1, 3, 16, 17, 40, 100};
    static const size_t dims[] = {1, 2, 15, 31, 32, 33, 80};
    for (size_t h = 0; h < sizeof heads / sizeof *heads; h++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
            for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
                check_attention(heads[h], dims[d], keys[k], 2.0f);
    check_attention(12, 256, 517, 1.0f);
}

/* Subnormals count as zero in the scores, whichever instruction makes them. */
static void subnormal_keys_give_the_same_bits(void **state) {
    (void)state;
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    uint64_t seed = 3;
    attention_case c = make_case(5, 40, 30, 1.0f, &seed);
    uint16_t *k = c.k_data.data, *q = c.q.data;
    float want[5 * 40], got[5 * 40];
    for (size_t i = 0; i < 30 * 40; i += 3)
        k[i] = (uint16_t)(k[i] & (i % 2 == 0 ? 0x807fu : 0x83ffu)); /* at and above 2^-126 */
    for (size_t i = 0; i < 40; i++)
        q[i] = (uint16_t)(q[i] & 0x807fu);
    attend(tables[0], &c, want);
    for (size_t t = 1; t < count; t++) {
        attend(tables[t], &c, got);
        assert_same_bits(got, want, 5 * 40, tables[t]->name, "subnormal keys");
    }
    free_case(&c);
}

static void check_scores(size_t heads, size_t d, size_t n) {
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    uint64_t seed = heads * 77 + d * 5 + n;
    guarded q = guarded_words(heads * d, -1.0f, 1.0f, &seed);
    guarded keys = guarded_words(n * d, -1.0f, 1.0f, &seed);
    guarded want = guarded_floats(n), got = guarded_floats(n);
    const uint16_t *query = q.data, *key = keys.data;
    tables[0]->index_scores_bf16(want.data, query, heads, key, n, d, 0.25f);
    for (size_t b = 0; b < n; b++) {
        double sum = 0.0, size = 0.0;
        for (size_t h = 0; h < heads; h++) {
            double dot = 0.0;
            for (size_t i = 0; i < d; i++) {
                double term = (double)fn_bf16_to_float(query[h * d + i]) *
                              (double)fn_bf16_to_float(key[b * d + i]);
                dot += term;
                size += fabs(term);
            }
            sum += fmax(dot, 0.0);
        }
        sum *= 0.25;
        assert_close((float *)want.data + b, &sum, &size, 1, 4.0, "index_scores_bf16");
    }
    for (size_t t = 1; t < count; t++) {
        tables[t]->index_scores_bf16(got.data, query, heads, key, n, d, 0.25f);
        assert_same_bits(got.data, want.data, n, tables[t]->name, "index_scores_bf16");
    }
    guarded_free(&q);
    guarded_free(&keys);
    guarded_free(&want);
    guarded_free(&got);
}

static void scores_of_every_shape(void **state) {
    (void)state;
    static const size_t heads[] = {1, 3, 4, 5, 9}, dims[] = {1, 2, 31, 32, 33, 128};
    for (size_t h = 0; h < sizeof heads / sizeof *heads; h++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
            for (size_t n = 1; n < 40; n += n < 20 ? 1 : 6)
                check_scores(heads[h], dims[d], n);
}

/* All upper halves of a float, with lower halves around the ties. */
static void rounding_is_to_nearest_even_and_subnormals_are_zero(void **state) {
    (void)state;
    static const uint16_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    enum { LOW = sizeof low / sizeof *low };
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    for (uint32_t high = 0; high < 0x10000; high++) {
        float x[LOW];
        uint16_t got[LOW];
        for (size_t i = 0; i < LOW; i++)
            x[i] = fn_float_of_bits(high << 16 | low[i]);
        for (size_t t = 0; t < count; t++) {
            tables[t]->f32_to_bf16(got, x, LOW);
            for (size_t i = 0; i < LOW; i++) {
                uint16_t want = fn_float_to_bf16(x[i]);
                if ((high & 0x7f80u) == 0)
                    want = (uint16_t)(high & 0x8000u);
                if (got[i] != want)
                    fail_msg("%s: %a is %04x, should be %04x", tables[t]->name, (double)x[i],
                             got[i], want);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_on_every_table),
        cmocka_unit_test(subnormal_keys_give_the_same_bits),
        cmocka_unit_test(scores_of_every_shape),
        cmocka_unit_test(rounding_is_to_nearest_even_and_subnormals_are_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
