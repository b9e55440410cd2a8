/* Several sequences in one forward, rows whose states are kept, and failures that change nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/alloc_fail.h"
#include "support/check_error.h"
#include "support/model_case.h"

#define CONTEXT 150
#define N 48

static fn_state *new_state(fn_engine *engine) {
    fn_state *state = NULL;
    assert_int_equal(fn_state_create(engine->states, CONTEXT, &state, NULL), FN_OK);
    return state;
}

static void run(fn_engine *engine, fn_state *state, const int32_t *ids, size_t n, bool keep,
                float *logits) {
    fn_error err = {0};
    uint8_t wants[N];
    memset(wants, logits != NULL, sizeof wants);
    fn_segment segment = {.state = state, .ids = ids, .n = n, .wants = wants, .keep_rows = keep};
    if (fn_forward_run(engine->forward, &segment, 1, logits, NULL, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
}

static void assert_same_state(const fn_state *a, const fn_state *b, const char *what) {
    char text[200];
    const char *difference = fn_state_difference(a, b, text, sizeof text);
    if (difference != NULL) {
        fail_msg("%s: %s", what, difference);
    }
}

static void sequences_together_equal_each_alone(void **unused) {
    (void)unused;
    for (size_t m = 0; m < n_weight_cases; m++) {
        const weight_case *c = &weight_cases[m];
        fn_engine *engine = open_model_as(c->dir, 2, 64, CONTEXT, c->expert_bits, c->dense_bits);
        size_t vocab = engine->shape.vocab;
        int32_t ids[3][N];
        fn_state *alone[3];
        fn_state *together[3];
        float *want = malloc(3 * N * vocab * sizeof *want);
        float *got = malloc(3 * vocab * sizeof *got);
        assert_true(want != NULL && got != NULL);
        for (size_t i = 0; i < 3; i++) {
            make_ids(engine, 20 + i, ids[i], N);
            alone[i] = new_state(engine);
            together[i] = new_state(engine);
            run(engine, alone[i], ids[i], N, false, want + i * N * vocab);
        }
        /* Unequal steps: a prompt chunk, a decode step and a few rows in one forward. */
        size_t at[3] = {0, 0, 0};
        for (size_t round = 0; at[0] < N || at[1] < N || at[2] < N; round++) {
            fn_segment segments[3];
            size_t who[3];
            size_t n = 0;
            for (size_t i = 0; i < 3; i++) {
                size_t step = 1 + (round * 7 + i * 5) % 9;
                step = step < N - at[i] ? step : N - at[i];
                if (step > 0) {
                    static const uint8_t only[9][9] = {{1},
                                                       {0, 1},
                                                       {0, 0, 1},
                                                       {0, 0, 0, 1},
                                                       {0, 0, 0, 0, 1},
                                                       {0, 0, 0, 0, 0, 1},
                                                       {0, 0, 0, 0, 0, 0, 1},
                                                       {0, 0, 0, 0, 0, 0, 0, 1},
                                                       {0, 0, 0, 0, 0, 0, 0, 0, 1}};
                    segments[n] = (fn_segment){.state = together[i],
                                               .ids = ids[i] + at[i],
                                               .n = step,
                                               .wants = only[step - 1]};
                    at[i] += step;
                    who[n++] = i;
                }
            }
            assert_int_equal(fn_forward_run(engine->forward, segments, n, got, NULL, NULL), FN_OK);
            for (size_t k = 0; k < n; k++) {
                size_t i = who[k];
                assert_same_floats(got + k * vocab, want + (i * N + at[i] - 1) * vocab, vocab,
                                   c->dir, at[i] - 1);
            }
        }
        for (size_t i = 0; i < 3; i++) {
            assert_same_state(alone[i], together[i], c->dir);
            fn_state_destroy(alone[i]);
            fn_state_destroy(together[i]);
        }
        free(want);
        free(got);
        fn_engine_close(engine);
    }
}

/* Every length, every number of drafted rows, every number kept: rolled back = never read. */
static void rolling_back_leaves_the_state_of_a_fresh_run(void **unused) {
    (void)unused;
    for (size_t m = 0; m < n_weight_cases; m++) {
        const weight_case *c = &weight_cases[m];
        fn_engine *engine = open_model_as(c->dir, 2, 64, CONTEXT, c->expert_bits, c->dense_bits);
        int32_t ids[N];
        int32_t draft[8];
        make_ids(engine, 31, ids, N);
        make_ids(engine, 32, draft, 8);
        draft[2] = engine->shape.eos_id >= 0 ? engine->shape.eos_id : draft[2];
        for (size_t length = 0; length < 13; length++) {
            for (size_t j = 1; j <= 5; j += j < 3 ? 1 : 2) {
                fn_state *state = new_state(engine);
                fn_state *fresh = new_state(engine);
                if (length > 0) {
                    run(engine, state, ids, length, false, NULL);
                    run(engine, fresh, ids, length, false, NULL);
                }
                run(engine, state, draft, 5, true, NULL);
                assert_int_equal(fn_state_kept_rows(state), 5);
                assert_int_equal(fn_state_roll_back(state, j, NULL), FN_OK);
                run(engine, fresh, draft, j, false, NULL);
                assert_same_state(state, fresh, "rolled back");
                run(engine, state, ids, 9, false, NULL);
                run(engine, fresh, ids, 9, false, NULL);
                assert_same_state(state, fresh, "continued after rolling back");
                fn_state_destroy(state);
                fn_state_destroy(fresh);
            }
        }
        fn_engine_close(engine);
    }
}

static void rolling_back_needs_kept_rows(void **unused) {
    (void)unused;
    fn_error err = {0};
    fn_engine *engine = open_model(model_dirs[0], 1, 64, CONTEXT);
    fn_state *state = new_state(engine);
    int32_t ids[4] = {1, 2, 3, 4};
    run(engine, state, ids, 4, false, NULL);
    check_error(fn_state_roll_back(state, 2, &err), &err, FN_E_RANGE, "2", "0 rows");
    run(engine, state, ids, 4, true, NULL);
    err = (fn_error){0};
    check_error(fn_state_roll_back(state, 5, &err), &err, FN_E_RANGE, "5", "4 rows");
    err = (fn_error){0};
    check_error(fn_state_truncate(state, 3, &err), &err, FN_E_UNSUPPORTED, "8", "3", "snapshot");
    assert_int_equal(fn_state_truncate(state, 8, NULL), FN_OK);
    fn_state_destroy(state);
    fn_engine_close(engine);
}

/* Rows of ones' own choice replace the table's: with the table's own rows nothing changes. */
static void embedding_rows_override_the_table(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[0], 2, 64, CONTEXT);
    size_t d = engine->shape.hidden;
    int32_t ids[6] = {5, 9, 5, 7, 9, 3};
    const float *table = engine->weights->embed;
    assert_int_equal(engine->weights->embed_dtype, FN_DTYPE_F32);
    float *rows = malloc(6 * d * sizeof *rows);
    assert_non_null(rows);
    for (size_t i = 0; i < 6; i++) {
        memcpy(rows + i * d, table + (size_t)ids[i] * d, d * sizeof *rows);
    }
    uint8_t use[6] = {1, 0, 1, 1, 0, 1};
    fn_state *plain = new_state(engine);
    fn_state *replaced = new_state(engine);
    run(engine, plain, ids, 6, false, NULL);
    fn_segment segment = {.state = replaced, .ids = ids, .n = 6, .embeds = rows, .use_embed = use};
    assert_int_equal(fn_forward_run(engine->forward, &segment, 1, NULL, NULL, NULL), FN_OK);
    assert_same_state(plain, replaced, "the table's own rows");
    fn_state *other = new_state(engine);
    rows[0] += 1.0f;
    segment.state = other;
    assert_int_equal(fn_forward_run(engine->forward, &segment, 1, NULL, NULL, NULL), FN_OK);
    char text[200];
    assert_non_null(fn_state_difference(plain, other, text, sizeof text));
    free(rows);
    fn_state_destroy(plain);
    fn_state_destroy(replaced);
    fn_state_destroy(other);
    fn_engine_close(engine);
}

static void failures_change_no_state(void **unused) {
    (void)unused;
    fn_error err = {0};
    fn_engine *engine = open_model(model_dirs[0], 2, 32, CONTEXT);
    fn_state *a = new_state(engine);
    fn_state *b = new_state(engine);
    fn_state *same = new_state(engine);
    int32_t ids[N];
    make_ids(engine, 40, ids, N);
    run(engine, a, ids, 10, false, NULL);
    run(engine, b, ids, 10, false, NULL);
    run(engine, same, ids, 10, false, NULL);
    int32_t bad[3] = {1, (int32_t)engine->shape.vocab, 2};
    fn_segment segments[2] = {{.state = a, .ids = ids, .n = 3}, {.state = b, .ids = bad, .n = 3}};
    check_error(fn_forward_run(engine->forward, segments, 2, NULL, NULL, &err), &err, FN_E_RANGE,
                "index 1");
    bad[1] = -1;
    err = (fn_error){0};
    check_error(fn_forward_run(engine->forward, segments, 2, NULL, NULL, &err), &err, FN_E_RANGE,
                "-1");
    segments[1] = (fn_segment){.state = b, .ids = ids, .n = 30};
    err = (fn_error){0};
    check_error(fn_forward_run(engine->forward, segments, 2, NULL, NULL, &err), &err, FN_E_RANGE,
                "32");
    assert_same_state(a, same, "first segment");
    assert_same_state(b, same, "second segment");
    segments[0].n = 1;
    segments[1].n = 1;
    for (size_t i = 0; i < CONTEXT - 10; i++) {
        assert_int_equal(fn_forward_run(engine->forward, segments, 2, NULL, NULL, NULL), FN_OK);
    }
    err = (fn_error){0};
    check_error(fn_forward_run(engine->forward, segments, 2, NULL, NULL, &err), &err, FN_E_RANGE,
                "150");
    fn_state_destroy(a);
    fn_state_destroy(b);
    fn_state_destroy(same);
    fn_engine_close(engine);
}

static void a_decode_step_allocates_nothing(void **unused) {
    (void)unused;
    for (size_t m = 0; m < n_model_dirs; m++) {
        fn_engine *engine = open_model(model_dirs[m], 2, 32, CONTEXT);
        fn_session *session = NULL;
        int32_t ids[N];
        make_ids(engine, 50, ids, N);
        assert_int_equal(fn_session_create(engine, &session, NULL), FN_OK);
        fn_alloc_fail_at(-1);
        for (size_t i = 0; i < 2 * N; i++) { /* across page edges too */
            const float *logits = NULL;
            assert_int_equal(fn_session_append(session, ids + i % N, 1, NULL), FN_OK);
            assert_int_equal(fn_session_logits(session, &logits, NULL), FN_OK);
        }
        assert_int_equal(fn_alloc_calls(), 0);
        fn_session_destroy(session);
        fn_engine_close(engine);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_EACH_PRECISION(sequences_together_equal_each_alone),
        IN_EACH_PRECISION(rolling_back_leaves_the_state_of_a_fresh_run),
        cmocka_unit_test(rolling_back_needs_kept_rows),
        IN_EACH_PRECISION(embedding_rows_override_the_table),
        IN_EACH_PRECISION(failures_change_no_state),
        IN_EACH_PRECISION(a_decode_step_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
