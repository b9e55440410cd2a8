/* A forward whose n-gram rows come from a disk that fails, is slow, or is left alone half-way: one clear error, no
 * state changed, and the same bits afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/check_error.h"
#include "support/model_case.h"
#include "support/read_fail.h"

enum { N = 40, CONTEXT = 150 };

#define MODEL "tests/data/mini-f32/checkpoint"

static fn_session *new_session(fn_engine *engine) {
    fn_session *session = NULL;
    assert_int_equal(fn_session_create(engine, &session, NULL), FN_OK);
    return session;
}

static void check_logits(fn_session *session, const float *want, size_t vocab, size_t at) {
    const float *got = NULL;
    assert_int_equal(fn_session_logits(session, &got, NULL), FN_OK);
    assert_same_floats(got, want, vocab, "after the disk failed", at);
}

/* Both at once: a chunk, which is spread over the reading threads, and single tokens. */
static void a_failing_disk_changes_nothing_and_is_forgotten(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(MODEL, 2, 16, CONTEXT);
    size_t vocab = engine->shape.vocab;
    int32_t ids[N];
    make_ids(engine, 9, ids, N);
    float *want = stepwise_logits(engine, ids, N);
    for (size_t step = 1; step <= 16; step += 15) {
        for (long call = 0; call < 6; call++) {
            fn_session *session = new_session(engine);
            fn_error err = {0};
            assert_int_equal(fn_session_append(session, ids, 8, NULL), FN_OK);
            fn_read_fail_at(call);
            fn_status status = fn_session_append(session, ids + 8, step, &err);
            fn_read_fail_at(-1);
            check_error(status, &err, FN_E_IO, MODEL, ".safetensors", "16 bytes at offset",
                        "Input/output error");
            assert_int_equal(fn_session_length(session), 8);
            check_logits(session, want + 7 * vocab, vocab, 7);
            assert_int_equal(fn_session_append(session, ids + 8, N - 8, NULL), FN_OK);
            check_logits(session, want + (N - 1) * vocab, vocab, N - 1);
            fn_session_destroy(session);
        }
    }
    free(want);
    fn_engine_close(engine);
}

/* Asked before each layer; says no when it was asked so many times. */
static bool go_on(void *ud) {
    int *left = ud;
    return (*left)-- > 0;
}

static void a_forward_that_is_stopped_leaves_no_reads_behind(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(MODEL, 2, 32, CONTEXT);
    size_t vocab = engine->shape.vocab;
    int32_t ids[N];
    float got[400];
    assert_true(vocab <= 400);
    make_ids(engine, 10, ids, N);
    float *want = stepwise_logits(engine, ids, N);
    fn_state *state = NULL;
    assert_int_equal(fn_state_create(engine->states, CONTEXT, &state, NULL), FN_OK);
    fn_read_short(3); /* slower, and never from the page cache */
    for (int layers = 0; layers < 4; layers++) {
        int left = layers;
        uint8_t wants[30] = {0};
        fn_error err = {0};
        fn_segment segment = {.state = state, .ids = ids, .n = 30, .wants = wants};
        fn_forward_watch(engine->forward, go_on, &left);
        check_error(fn_forward_run(engine->forward, &segment, 1, NULL, NULL, &err), &err,
                    FN_E_CANCELLED, "stopped");
        fn_forward_watch(engine->forward, NULL, NULL);
        assert_int_equal(fn_state_length(state), 0);
    }
    uint8_t last[30] = {0};
    last[29] = 1;
    fn_segment segment = {.state = state, .ids = ids, .n = 30, .wants = last};
    assert_int_equal(fn_forward_run(engine->forward, &segment, 1, got, NULL, NULL), FN_OK);
    fn_read_short(0);
    assert_same_floats(got, want + 29 * vocab, vocab, "after stopping", 29);
    fn_state_destroy(state);
    free(want);
    fn_engine_close(engine);
}

static void in_memory_nothing_is_read_any_more(void **unused) {
    (void)unused;
    fn_error err = {0};
    fn_engine *engine = NULL;
    fn_engine *disk = open_model(MODEL, 1, 16, CONTEXT);
    fn_engine_options options = fn_engine_options_default();
    options.model_dir = MODEL;
    options.precision = FN_PRECISION_EXACT;
    options.context = CONTEXT;
    options.ngram = FN_NGRAM_RAM;
    if (fn_engine_open(&options, &engine, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    int32_t ids[N];
    make_ids(engine, 11, ids, N);
    float *want = stepwise_logits(disk, ids, N);
    fn_read_fail_at(0);
    float *got = stepwise_logits(engine, ids, N);
    fn_read_fail_at(-1);
    assert_same_floats(got, want, N * engine->shape.vocab, "in memory", 0);
    free(want);
    free(got);
    fn_engine_close(engine);
    fn_engine_close(disk);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failing_disk_changes_nothing_and_is_forgotten),
        cmocka_unit_test(a_forward_that_is_stopped_leaves_no_reads_behind),
        cmocka_unit_test(in_memory_nothing_is_read_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
