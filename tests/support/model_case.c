#include "support/model_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"

const char *const model_dirs[] = {
    "tests/data/mini-f32/checkpoint", "tests/data/mini-bf16/checkpoint",
    "tests/data/mini-tied/checkpoint", "tests/data/mini-dense/checkpoint"};
const size_t n_model_dirs = sizeof model_dirs / sizeof model_dirs[0];

const weight_case weight_cases[] = {
    {"tests/data/mini-f32/checkpoint", 0, 0},  {"tests/data/mini-bf16/checkpoint", 0, 0},
    {"tests/data/mini-tied/checkpoint", 0, 0}, {"tests/data/mini-dense/checkpoint", 0, 0},
    {"tests/data/mini-bf16/checkpoint", 4, 8}, {"tests/data/mini-fp8/checkpoint", 0, 0},
    {"tests/data/mini-nvfp4/checkpoint", 0, 0}};
const size_t n_weight_cases = sizeof weight_cases / sizeof weight_cases[0];

static fn_precision precision = FN_PRECISION_EXACT;

int in_exact_precision(void **unused) {
    (void)unused;
    precision = FN_PRECISION_EXACT;
    return 0;
}

int in_fast_precision(void **unused) {
    (void)unused;
    precision = FN_PRECISION_FAST;
    return 0;
}

fn_precision precision_of_case(void) {
    return precision;
}

fn_engine *open_model(const char *dir, size_t threads, size_t chunk, size_t context) {
    return open_model_as(dir, threads, chunk, context, 0, 0);
}

fn_engine *open_model_as(const char *dir, size_t threads, size_t chunk, size_t context,
                         int expert_bits, int dense_bits) {
    fn_error err = {0};
    fn_engine *engine = NULL;
    fn_engine_options options = fn_engine_options_default();
    options.model_dir = dir;
    options.precision = precision;
    options.threads = threads;
    options.chunk = chunk;
    options.context = context;
    options.expert_bits = expert_bits;
    options.dense_bits = dense_bits;
    options.ngram = FN_NGRAM_DISK; /* the longer way */
    if (fn_engine_open(&options, &engine, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    return engine;
}

void make_ids(const fn_engine *engine, uint64_t seed, int32_t *ids, size_t n) {
    for (size_t i = 0; i < n; i++) {
        ids[i] = (int32_t)(fn_hash_mix(seed * 1000 + i) % engine->shape.vocab);
        if (i % 17 == 11 && engine->shape.eos_id >= 0) {
            ids[i] = engine->shape.eos_id;
        }
    }
}

float *stepwise_logits(fn_engine *engine, const int32_t *ids, size_t n) {
    size_t vocab = engine->shape.vocab;
    float *all = malloc(n * vocab * sizeof *all);
    fn_session *session = NULL;
    assert_non_null(all);
    assert_int_equal(fn_session_create(engine, &session, NULL), FN_OK);
    for (size_t i = 0; i < n; i++) {
        const float *logits = NULL;
        assert_int_equal(fn_session_append(session, ids + i, 1, NULL), FN_OK);
        assert_int_equal(fn_session_logits(session, &logits, NULL), FN_OK);
        memcpy(all + i * vocab, logits, vocab * sizeof *all);
    }
    fn_session_destroy(session);
    return all;
}

void assert_same_floats(const float *a, const float *b, size_t n, const char *what, size_t at) {
    for (size_t i = 0; i < n; i++) {
        if (memcmp(a + i, b + i, sizeof *a) != 0) {
            fail_msg("%s, position %zu: value %zu differs: %.9g and %.9g", what, at, i,
                     (double)a[i], (double)b[i]);
        }
    }
}
