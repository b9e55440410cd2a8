/* Sessions: what they refuse, what a saved one is checked for, and that lost memory loses nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "flashnext.h"
#include "support/alloc_fail.h"
#include "support/check_error.h"
#include "support/model_case.h"

#define CONTEXT 96

static fn_session *new_session(fn_engine *engine) {
    fn_session *session = NULL;
    assert_int_equal(fn_session_create(engine, &session, NULL), FN_OK);
    return session;
}

static void refusals_name_what_was_found_and_expected(void **unused) {
    (void)unused;
    fn_error err = {0};
    fn_engine *engine = open_model(model_dirs[0], 1, 16, CONTEXT);
    fn_session *s = new_session(engine);
    const float *logits = NULL;
    int32_t ids[CONTEXT + 1] = {0};
    check_error(fn_session_sync(s, ids, 0, NULL, &err), &err, FN_E_USAGE, "empty");
    err = (fn_error){0};
    check_error(fn_session_logits(s, &logits, &err), &err, FN_E_USAGE, "nothing");
    err = (fn_error){0};
    fn_generation g = fn_generation_default(fn_engine_text(engine));
    check_error(fn_session_generate(s, &g, NULL, &err), &err, FN_E_USAGE, "empty");
    err = (fn_error){0};
    check_error(fn_session_sync(s, ids, CONTEXT + 1, NULL, &err), &err, FN_E_RANGE, "97", "96");
    ids[3] = (int32_t)engine->shape.vocab;
    err = (fn_error){0};
    check_error(fn_session_append(s, ids, 5, &err), &err, FN_E_RANGE, "index 3");
    ids[3] = INT32_MIN;
    err = (fn_error){0};
    check_error(fn_session_append(s, ids, 5, &err), &err, FN_E_RANGE, "-2147483648");
    assert_int_equal(fn_session_length(s), 0);
    assert_int_equal(fn_session_append(s, ids, 3, NULL), FN_OK);
    err = (fn_error){0};
    check_error(fn_session_truncate(s, 2, &err), &err, FN_E_UNSUPPORTED, "snapshot");
    g.sampling.temperature = -1.0f;
    err = (fn_error){0};
    check_error(fn_session_generate(s, &g, NULL, &err), &err, FN_E_USAGE, "temperature");
    fn_session_destroy(s);
    fn_engine_close(engine);
}

static void engine_options_are_checked(void **unused) {
    (void)unused;
    fn_engine *engine = NULL;
    fn_error err = {0};
    fn_engine_options o = fn_engine_options_default();
    check_error(fn_engine_open(&o, &engine, &err), &err, FN_E_USAGE, "model_dir");
    o.model_dir = model_dirs[0];
    o.isa = "sse9";
    err = (fn_error){0};
    check_error(fn_engine_open(&o, &engine, &err), &err, FN_E_USAGE, "sse9", "avx512");
    o.isa = NULL;
    o.context = (size_t)1 << 40;
    err = (fn_error){0};
    check_error(fn_engine_open(&o, &engine, &err), &err, FN_E_RANGE, "1099511627776");
    o.context = 64;
    o.mem_limit = 1000;
    err = (fn_error){0};
    assert_int_equal(fn_engine_open(&o, &engine, &err), FN_E_FIT);
    assert_non_null(strstr(err.text, "limit"));
    assert_non_null(strstr(err.text, "routed experts")); /* the table of classes */
    o.mem_limit = 0;
    o.threads = 100000;
    err = (fn_error){0};
    check_error(fn_engine_open(&o, &engine, &err), &err, FN_E_USAGE, "100000");
    o.threads = 1;
    o.expert_bits = 3;
    err = (fn_error){0};
    check_error(fn_engine_open(&o, &engine, &err), &err, FN_E_USAGE, "expert_bits", "3");
    o.expert_bits = 4;
    o.group_size = 100;
    err = (fn_error){0};
    check_error(fn_engine_open(&o, &engine, &err), &err, FN_E_USAGE, "group_size", "100");
    o.group_size = 0;
    o.model_dir = "tests/data/no-such-model";
    err = (fn_error){0};
    check_error(fn_engine_open(&o, &engine, &err), &err, FN_E_IO, "no-such-model");
    assert_null(engine);
}

static void generating_equals_the_models_own_greedy_loop(void **unused) {
    (void)unused;
    for (size_t m = 0; m < n_model_dirs; m++) {
        fn_engine *engine = open_model(model_dirs[m], 2, 16, CONTEXT);
        size_t vocab = engine->shape.vocab;
        fn_session *s = new_session(engine);
        int32_t ids[CONTEXT];
        make_ids(engine, 60, ids, 20);
        assert_int_equal(fn_session_sync(s, ids, 20, NULL, NULL), FN_OK);
        fn_generation g = fn_generation_default(fn_engine_text(engine));
        g.max_tokens = 30;
        g.ignore_end = true;
        fn_generated out;
        assert_int_equal(fn_session_generate(s, &g, &out, NULL), FN_OK);
        assert_int_equal(out.n_ids, 30);
        assert_int_equal(out.finish, FN_FINISH_LENGTH);
        fn_state *state = NULL;
        float *logits = malloc(vocab * sizeof *logits);
        assert_non_null(logits);
        assert_int_equal(fn_state_create(engine->states, CONTEXT, &state, NULL), FN_OK);
        for (size_t i = 0; i < 50; i++) {
            uint8_t wants = 1;
            fn_segment segment = {.state = state, .ids = ids + i, .n = 1, .wants = &wants};
            assert_int_equal(fn_forward_run(engine->forward, &segment, 1, logits, NULL, NULL),
                             FN_OK);
            size_t best = 0;
            for (size_t v = 1; v < vocab; v++) {
                best = logits[v] > logits[best] ? v : best;
            }
            if (i >= 19 && i < 49) {
                ids[i + 1] = (int32_t)best;
            }
        }
        size_t n = 0;
        assert_memory_equal(fn_session_ids(s, &n), ids, 50 * sizeof *ids);
        assert_int_equal(n, 50);
        free(logits);
        fn_state_destroy(state);
        fn_session_destroy(s);
        fn_engine_close(engine);
    }
}

static void generation_stops_at_a_full_context(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[1], 1, 16, 40);
    fn_session *s = new_session(engine);
    int32_t ids[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    assert_int_equal(fn_session_sync(s, ids, 8, NULL, NULL), FN_OK);
    fn_generation g = fn_generation_default(fn_engine_text(engine));
    fn_generated out;
    g.ignore_end = true;
    assert_int_equal(fn_session_generate(s, &g, &out, NULL), FN_OK);
    assert_int_equal(out.n_ids, 32);
    assert_int_equal(out.finish, FN_FINISH_LENGTH);
    fn_session_destroy(s);
    fn_engine_close(engine);
}

static void one_seed_gives_one_text_and_another_seed_another(void **unused) {
    (void)unused;
    int32_t texts[3][24];
    static const uint64_t seeds[3] = {5, 5, 6};
    for (size_t i = 0; i < 3; i++) {
        fn_engine *engine = open_model(model_dirs[0], i + 1, i == 0 ? 16 : 3, CONTEXT);
        fn_session *s = new_session(engine);
        int32_t ids[20];
        make_ids(engine, 70, ids, 20);
        assert_int_equal(fn_session_sync(s, ids, 20, NULL, NULL), FN_OK);
        fn_generation g = fn_generation_default(fn_engine_text(engine));
        g.sampling.temperature = 1.0f;
        g.sampling.top_k = 20;
        g.sampling.presence_penalty = 0.5f;
        g.sampling.seed = seeds[i];
        g.max_tokens = 24;
        g.ignore_end = true;
        assert_int_equal(fn_session_generate(s, &g, NULL, NULL), FN_OK);
        size_t n = 0;
        memcpy(texts[i], fn_session_ids(s, &n) + 20, sizeof texts[i]);
        fn_session_destroy(s);
        fn_engine_close(engine);
    }
    assert_memory_equal(texts[0], texts[1], sizeof texts[0]);
    assert_memory_not_equal(texts[0], texts[2], sizeof texts[0]);
}

static bool cancel_third(void *ud, const fn_event *event) {
    size_t *count = ud;
    return event->kind != FN_EVENT_TOKEN || ++*count < 3;
}

static void a_cancelled_answer_leaves_a_usable_session(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[0], 2, 16, CONTEXT);
    fn_session *s = new_session(engine);
    int32_t ids[10];
    size_t count = 0;
    make_ids(engine, 80, ids, 10);
    assert_int_equal(fn_session_sync(s, ids, 10, NULL, NULL), FN_OK);
    fn_generation g = fn_generation_default(fn_engine_text(engine));
    fn_generated out;
    g.on_event = cancel_third;
    g.ud = &count;
    g.ignore_end = true;
    assert_int_equal(fn_session_generate(s, &g, &out, NULL), FN_OK);
    assert_int_equal(out.finish, FN_FINISH_CANCELLED);
    assert_int_equal(out.n_ids, 3);
    assert_int_equal(fn_session_length(s), 13);
    assert_int_equal(fn_session_append(s, ids, 5, NULL), FN_OK);
    fn_session_destroy(s);
    fn_engine_close(engine);
}

typedef struct reading {
    const fn_session *session;
    size_t prompt, told;
} reading;

static bool is_not_read_yet(void *ud, const fn_event *event) {
    reading *r = ud;
    if (event->kind == FN_EVENT_TOKEN) {
        assert_int_equal(fn_session_length(r->session), r->prompt + r->told);
        r->told++;
    }
    return true;
}

/* Nobody waits for the forward that only the id behind it needs. */
static void an_id_is_told_before_the_forward_that_reads_it(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[0], 1, 16, CONTEXT);
    fn_session *s = new_session(engine);
    reading r = {.session = s, .prompt = 10};
    int32_t ids[10];
    make_ids(engine, 85, ids, 10);
    assert_int_equal(fn_session_sync(s, ids, 10, NULL, NULL), FN_OK);
    fn_generation g = fn_generation_default(fn_engine_text(engine));
    g.on_event = is_not_read_yet;
    g.ud = &r;
    g.max_tokens = 5;
    g.ignore_end = true;
    assert_int_equal(fn_session_generate(s, &g, NULL, NULL), FN_OK);
    assert_int_equal(r.told, 5);
    assert_int_equal(fn_session_length(s), 15);
    fn_session_destroy(s);
    fn_engine_close(engine);
}

static void not_a_number_is_an_error_never_token_zero(void **unused) {
    (void)unused;
    fn_error err = {0};
    fn_engine *engine = open_model(model_dirs[0], 1, 16, CONTEXT);
    fn_session *s = new_session(engine);
    int32_t ids[4] = {1, 2, 3, 4};
    assert_int_equal(fn_session_sync(s, ids, 4, NULL, NULL), FN_OK);
    /* As a broken weight would: the final mixer's norm. */
    float *norm = (float *)(uintptr_t)engine->weights->mixer.norm;
    memset(norm, 0xff, sizeof *norm);
    fn_generation g = fn_generation_default(fn_engine_text(engine));
    g.max_tokens = 2;
    check_error(fn_session_generate(s, &g, NULL, &err), &err, FN_E_NUMERIC, "not a number");
    fn_session_destroy(s);
    fn_engine_close(engine);
}

/* ---- saved sessions ---- */

static void write_bytes(const char *path, const char *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static char *read_bytes(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *n = (size_t)ftell(f);
    rewind(f);
    char *bytes = malloc(*n + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *n, f), *n);
    fclose(f);
    return bytes;
}

static void damaged_saved_sessions_are_refused(void **unused) {
    (void)unused;
    char path[] = "/tmp/fn-saved-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    fn_engine *engine = open_model(model_dirs[0], 1, 16, CONTEXT);
    fn_session *s = new_session(engine);
    fn_session *loaded = NULL;
    int32_t ids[21];
    make_ids(engine, 90, ids, 21);
    assert_int_equal(fn_session_append(s, ids, 21, NULL), FN_OK);
    assert_int_equal(fn_session_save(s, path, NULL), FN_OK);
    size_t n = 0;
    char *bytes = read_bytes(path, &n);
    for (size_t i = 0; i < 200; i++) { /* one flipped bit, anywhere */
        size_t at = i < 100 ? i : (i * 7919) % n;
        fn_error err = {0};
        bytes[at] = (char)(bytes[at] ^ 4);
        write_bytes(path, bytes, n);
        fn_status status = fn_session_load(engine, path, &loaded, &err);
        assert_true(status == FN_E_MODEL || status == FN_E_RANGE);
        assert_null(loaded);
        assert_non_null(strstr(err.text, path));
        bytes[at] = (char)(bytes[at] ^ 4);
    }
    for (size_t cut = 0; cut < n; cut += 1 + n / 40) { /* cut short: every part missing once */
        fn_error err = {0};
        write_bytes(path, bytes, cut);
        check_error(fn_session_load(engine, path, &loaded, &err), &err, FN_E_MODEL, "ends early");
    }
    bytes[n] = 'x';
    write_bytes(path, bytes, n + 1);
    fn_error err = {0};
    check_error(fn_session_load(engine, path, &loaded, &err), &err, FN_E_MODEL, "follow");
    write_bytes(path, bytes, n);
    assert_int_equal(fn_session_load(engine, path, &loaded, NULL), FN_OK);
    fn_session_destroy(loaded);
    free(bytes);
    fn_session_destroy(s);
    fn_engine_close(engine);
    unlink(path);
}

static void saved_sessions_of_another_kind_are_refused(void **unused) {
    (void)unused;
    char path[] = "/tmp/fn-saved-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    fn_engine *engine = open_model(model_dirs[0], 1, 16, CONTEXT);
    fn_session *s = new_session(engine);
    fn_session *loaded = NULL;
    int32_t ids[30];
    make_ids(engine, 91, ids, 30);
    assert_int_equal(fn_session_append(s, ids, 30, NULL), FN_OK);
    assert_int_equal(fn_session_save(s, path, NULL), FN_OK);
    fn_session_destroy(s);
    fn_engine_close(engine);

    fn_error err = {0};
    engine = open_model(model_dirs[1], 1, 16, CONTEXT);
    check_error(fn_session_load(engine, path, &loaded, &err), &err, FN_E_MODEL,
                "another checkpoint");
    fn_engine_close(engine);

    fn_engine_options o = fn_engine_options_default();
    o.model_dir = model_dirs[0];
    o.isa = "ref";
    err = (fn_error){0};
    assert_int_equal(fn_engine_open(&o, &engine, NULL), FN_OK); /* the default: fast */
    check_error(fn_session_load(engine, path, &loaded, &err), &err, FN_E_MODEL, "precision exact",
                "fast");
    fn_engine_close(engine);

    o.precision = FN_PRECISION_EXACT;
    err = (fn_error){0};
    assert_int_equal(fn_engine_open(&o, &engine, NULL), FN_OK);
    if (fn_kernels_best() != fn_kernels_for(FN_ISA_REF)) {
        check_error(fn_session_load(engine, path, &loaded, &err), &err, FN_E_MODEL,
                    "instruction set", "ref");
    }
    fn_engine_close(engine);

    err = (fn_error){0};
    engine = open_model_as(model_dirs[0], 1, 16, CONTEXT, 4, 8);
    check_error(fn_session_load(engine, path, &loaded, &err), &err, FN_E_MODEL, "weights",
                "experts 0", "experts 4, dense 8");
    fn_engine_close(engine);

    err = (fn_error){0};
    engine = open_model(model_dirs[0], 1, 16, 29);
    check_error(fn_session_load(engine, path, &loaded, &err), &err, FN_E_RANGE, "30", "29");
    err = (fn_error){0};
    write_bytes(path, "hello", 5);
    check_error(fn_session_load(engine, path, &loaded, &err), &err, FN_E_MODEL, "ends early");
    err = (fn_error){0};
    check_error(fn_session_load(engine, "/tmp/fn-no-such-file", &loaded, &err), &err, FN_E_IO,
                "fn-no-such-file");
    fn_engine_close(engine);
    unlink(path);
}

/* ---- lost memory ---- */

static fn_status whole_use(const char *save_path, fn_error *err) {
    fn_engine *engine = NULL;
    fn_session *s = NULL;
    fn_session *fork = NULL;
    fn_session *loaded = NULL;
    fn_snapshot *snapshot = NULL;
    int32_t ids[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    fn_engine_options o = fn_engine_options_default();
    o.model_dir = model_dirs[0];
    o.threads = 2;
    o.context = CONTEXT;
    fn_status status = fn_engine_open(&o, &engine, err);
    status = status == FN_OK ? fn_session_create(engine, &s, err) : status;
    status = status == FN_OK ? fn_session_sync(s, ids, 9, NULL, err) : status;
    status = status == FN_OK ? fn_session_fork(s, &fork, err) : status;
    status = status == FN_OK ? fn_session_snapshot(s, &snapshot, err) : status;
    if (status == FN_OK) {
        fn_generation g = fn_generation_default(fn_engine_text(engine));
        g.max_tokens = 3;
        g.n_logprobs = 2;
        status = fn_session_generate(s, &g, NULL, err);
    }
    status = status == FN_OK ? fn_session_restore(s, snapshot, err) : status;
    status = status == FN_OK ? fn_session_save(s, save_path, err) : status;
    status = status == FN_OK ? fn_session_load(engine, save_path, &loaded, err) : status;
    fn_session_destroy(loaded);
    fn_snapshot_free(snapshot);
    fn_session_destroy(fork);
    fn_session_destroy(s);
    fn_engine_close(engine);
    return status;
}

static void a_failed_allocation_is_reported_and_loses_nothing(void **unused) {
    (void)unused;
    char path[] = "/tmp/fn-saved-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    fn_alloc_fail_at(-1);
    assert_int_equal(whole_use(path, NULL), FN_OK);
    long calls = fn_alloc_calls();
    assert_true(calls > 100);
    for (long n = 0; n < calls; n++) {
        fn_alloc_fail_at(n);
        fn_error err = {0};
        fn_status status = whole_use(path, &err);
        fn_alloc_fail_at(-1);
        /* A thread's own allocations may shift the count: it may pass, it may not fail otherwise.
         * (jansson's own are left alone: it aborts on some of them.) */
        if (status != FN_OK && status != FN_E_NOMEM && status != FN_E_IO && status != FN_E_FAILED) {
            fail_msg("allocation %ld of %ld: %s: %s", n, calls, fn_status_name(status), err.text);
        }
    }
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_name_what_was_found_and_expected),
        cmocka_unit_test(engine_options_are_checked),
        cmocka_unit_test(generating_equals_the_models_own_greedy_loop),
        cmocka_unit_test(generation_stops_at_a_full_context),
        cmocka_unit_test(one_seed_gives_one_text_and_another_seed_another),
        cmocka_unit_test(a_cancelled_answer_leaves_a_usable_session),
        cmocka_unit_test(an_id_is_told_before_the_forward_that_reads_it),
        cmocka_unit_test(not_a_number_is_an_error_never_token_zero),
        cmocka_unit_test(damaged_saved_sessions_are_refused),
        cmocka_unit_test(saved_sessions_of_another_kind_are_refused),
        cmocka_unit_test(a_failed_allocation_is_reported_and_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
