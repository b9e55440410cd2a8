/* One arithmetic: the logits at a position are the same bits whatever the chunks, threads, branches, snapshots
 * and files on the way there. The other way to compute them is reading one id at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "flashnext.h"
#include "support/model_case.h"

#define N 61
#define CONTEXT 200

static void append(fn_session *session, const int32_t *ids, size_t n) {
    fn_error err = {0};
    if (fn_session_append(session, ids, n, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
}

static void check_logits(fn_session *session, const float *all, size_t vocab, const char *what) {
    const float *logits = NULL;
    size_t n = fn_session_length(session);
    assert_int_equal(fn_session_logits(session, &logits, NULL), FN_OK);
    assert_same_floats(logits, all + (n - 1) * vocab, vocab, what, n - 1);
}

static void any_split_and_chunk_gives_the_bits_of_single_steps(void **unused) {
    static const size_t splits[][8] = {
        {N}, {13, 16, 1, 1, 30}, {1, 2, 3, 5, 8, 13, 21, 8}, {7, 54}};
    static const size_t chunks[] = {1, 3, 16, 64};
    (void)unused;
    for (size_t m = 0; m < n_model_dirs; m++) {
        float *all = NULL;
        for (size_t c = 0; c < 4; c++) {
            fn_engine *engine = open_model(model_dirs[m], c % 2 + 1, chunks[c], CONTEXT);
            size_t vocab = engine->shape.vocab;
            int32_t ids[N];
            make_ids(engine, m + 1, ids, N);
            all = all != NULL ? all : stepwise_logits(engine, ids, N);
            for (size_t s = 0; s < 4; s++) {
                fn_session *session = NULL;
                assert_int_equal(fn_session_create(engine, &session, NULL), FN_OK);
                size_t at = 0;
                for (size_t i = 0; i < 8 && at < N; at += splits[s][i++]) {
                    append(session, ids + at, splits[s][i]);
                    check_logits(session, all, vocab, model_dirs[m]);
                }
                fn_session_destroy(session);
            }
            fn_engine_close(engine);
        }
        free(all);
    }
}

/* The same promise with weights in groups of codes, quantised while loading or as published; each way with
 * another kernel table. */
static void quantised_weights_keep_the_promise(void **unused) {
    static const struct {
        const char *dir;
        int expert_bits, dense_bits;
        size_t group;
    } cases[] = {{"tests/data/mini-bf16/checkpoint", 4, 8, 0},
                 {"tests/data/mini-f32/checkpoint", 8, 4, 32},
                 {"tests/data/mini-f32/checkpoint", 16, 16, 0},
                 {"tests/data/mini-fp8/checkpoint", 0, 0, 0},
                 {"tests/data/mini-nvfp4/checkpoint", 0, 0, 0},
                 {"tests/data/mini-nvfp4/checkpoint", 0, 8, 64},
                 {"tests/data/mini-gptq/checkpoint", 0, 8, 32}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float *first = NULL;
        for (size_t way = 0; way < 4; way++) {
            static const size_t chunks[] = {1, 13, 64, 5};
            static const char *const isas[] = {NULL, "avx2", "ref", "avx512"};
            fn_engine *engine = NULL;
            fn_engine_options options = {.model_dir = cases[i].dir,
                                         .precision = precision_of_case(),
                                         .isa = isas[way],
                                         .threads = way % 3 + 1,
                                         .chunk = chunks[way],
                                         .context = CONTEXT,
                                         .expert_bits = cases[i].expert_bits,
                                         .dense_bits = cases[i].dense_bits,
                                         .group_size = cases[i].group};
            fn_status status = fn_engine_open(&options, &engine, NULL);
            if (status == FN_E_UNSUPPORTED) {
                print_message("this CPU has no %s: skipped\n", isas[way]);
                continue;
            }
            assert_int_equal(status, FN_OK);
            const float *logits = NULL;
            fn_session *session = NULL;
            int32_t ids[N];
            make_ids(engine, 14, ids, N);
            assert_int_equal(fn_session_create(engine, &session, NULL), FN_OK);
            append(session, ids, N);
            assert_int_equal(fn_session_logits(session, &logits, NULL), FN_OK);
            if (first == NULL) {
                first = malloc(engine->shape.vocab * sizeof *first);
                assert_non_null(first);
                memcpy(first, logits, engine->shape.vocab * sizeof *first);
            }
            assert_same_floats(logits, first, engine->shape.vocab, cases[i].dir, way);
            fn_session_destroy(session);
            fn_engine_close(engine);
        }
        free(first);
    }
}

static void one_and_two_threads_give_the_same_bits(void **unused) {
    (void)unused;
    for (size_t m = 0; m < n_model_dirs; m++) {
        fn_engine *one = open_model(model_dirs[m], 1, 32, CONTEXT);
        int32_t ids[N];
        make_ids(one, 7, ids, N);
        float *all = stepwise_logits(one, ids, N);
        for (size_t threads = 2; threads <= 3; threads++) {
            fn_engine *more = open_model(model_dirs[m], threads, 32, CONTEXT);
            float *same = stepwise_logits(more, ids, N);
            for (size_t i = 0; i < N; i++) {
                assert_same_floats(same + i * one->shape.vocab, all + i * one->shape.vocab,
                                   one->shape.vocab, model_dirs[m], i);
            }
            free(same);
            fn_engine_close(more);
        }
        free(all);
        fn_engine_close(one);
    }
}

static void instruction_sets_give_the_same_bits(void **unused) {
    static const char *const names[] = {"ref", "avx2", "avx512"};
    (void)unused;
    for (size_t m = 0; m < n_model_dirs; m++) {
        float *first = NULL;
        for (size_t i = 0; i < 3; i++) {
            fn_engine *engine = NULL;
            fn_engine_options options = fn_engine_options_default();
            options.model_dir = model_dirs[m];
            options.isa = names[i];
            options.precision = precision_of_case();
            options.context = CONTEXT;
            fn_status status = fn_engine_open(&options, &engine, NULL);
            if (status == FN_E_UNSUPPORTED) {
                print_message("this CPU has no %s: skipped\n", names[i]);
                continue;
            }
            assert_int_equal(status, FN_OK);
            int32_t ids[N];
            make_ids(engine, 3, ids, N);
            float *all = stepwise_logits(engine, ids, N);
            if (first != NULL) {
                assert_same_floats(all, first, N * engine->shape.vocab, names[i], 0);
                free(all);
            } else {
                first = all;
            }
            fn_engine_close(engine);
        }
        free(first);
    }
}

/* At every length up to 20, where blocks open and close and conv tails and history fill up. */
static void snapshot_branch_restore_changes_nothing(void **unused) {
    (void)unused;
    for (size_t m = 0; m < n_weight_cases; m++) {
        const weight_case *c = &weight_cases[m];
        fn_engine *engine = open_model_as(c->dir, 2, 8, CONTEXT, c->expert_bits, c->dense_bits);
        size_t vocab = engine->shape.vocab;
        int32_t ids[N];
        int32_t other[N];
        make_ids(engine, 5, ids, N);
        make_ids(engine, 6, other, N);
        float *all = stepwise_logits(engine, ids, N);
        fn_session *session = NULL;
        assert_int_equal(fn_session_create(engine, &session, NULL), FN_OK);
        for (size_t cut = 0; cut < 20; cut++) {
            fn_snapshot *snapshot = NULL;
            assert_int_equal(fn_session_snapshot(session, &snapshot, NULL), FN_OK);
            append(session, other, 9 + cut);
            assert_int_equal(fn_session_restore(session, snapshot, NULL), FN_OK);
            append(session, ids + cut, N - cut);
            check_logits(session, all, vocab, "after a discarded branch");
            assert_int_equal(fn_session_restore(session, snapshot, NULL), FN_OK);
            fn_snapshot_free(snapshot);
            append(session, ids + cut, 1);
            check_logits(session, all, vocab, "after coming back");
        }
        fn_session_destroy(session);
        free(all);
        fn_engine_close(engine);
    }
}

static void a_fork_and_its_origin_go_on_alone(void **unused) {
    (void)unused;
    for (size_t m = 0; m < n_model_dirs; m++) {
        fn_engine *engine = open_model(model_dirs[m], 2, 16, CONTEXT);
        size_t vocab = engine->shape.vocab;
        int32_t a[N];
        int32_t b[N];
        make_ids(engine, 8, a, N);
        make_ids(engine, 9, b, N);
        memcpy(b, a, 21 * sizeof *a);
        float *all_a = stepwise_logits(engine, a, N);
        float *all_b = stepwise_logits(engine, b, N);
        fn_session *first = NULL;
        fn_session *second = NULL;
        assert_int_equal(fn_session_create(engine, &first, NULL), FN_OK);
        append(first, a, 21);
        assert_int_equal(fn_session_fork(first, &second, NULL), FN_OK);
        for (size_t i = 21; i < N; i++) {
            append(first, a + i, 1);
            append(second, b + i, 1);
            check_logits(first, all_a, vocab, "origin");
            check_logits(second, all_b, vocab, "fork");
        }
        fn_session_destroy(first);
        fn_session_destroy(second);
        free(all_a);
        free(all_b);
        fn_engine_close(engine);
    }
}

/* What a conversation does: the same head, another tail. */
static void sync_rereads_only_what_changed_and_keeps_the_bits(void **unused) {
    (void)unused;
    for (size_t m = 0; m < n_model_dirs; m++) {
        fn_engine *engine = open_model(model_dirs[m], 2, 16, CONTEXT);
        size_t vocab = engine->shape.vocab;
        int32_t ids[N];
        make_ids(engine, 10, ids, N);
        fn_session *session = NULL;
        assert_int_equal(fn_session_create(engine, &session, NULL), FN_OK);
        size_t reused = 99;
        assert_int_equal(fn_session_sync(session, ids, 30, &reused, NULL), FN_OK);
        assert_int_equal(reused, 0);
        assert_int_equal(fn_session_sync(session, ids, 45, &reused, NULL), FN_OK);
        assert_int_equal(reused, 30);
        ids[40] = (ids[40] + 1) % (int32_t)vocab; /* behind the state kept at 30 */
        float *all = stepwise_logits(engine, ids, N);
        assert_int_equal(fn_session_sync(session, ids, N, &reused, NULL), FN_OK);
        assert_int_equal(reused, 30);
        check_logits(session, all, vocab, "after going back to 30");
        assert_int_equal(fn_session_sync(session, ids, N, &reused, NULL), FN_OK);
        assert_int_equal(reused,
                         N); /* the whole prompt is there: logits come from the kept streams */
        check_logits(session, all, vocab, "whole prompt kept");
        assert_int_equal(fn_session_sync(session, ids, 30, &reused, NULL), FN_OK);
        assert_int_equal(reused, 30);
        check_logits(session, all, vocab, "shorter prompt");
        free(all);
        fn_session_destroy(session);
        fn_engine_close(engine);
    }
}

/* The child is another process with an engine of its own. */
static void child_continues(const weight_case *c, const char *path, const int32_t *ids,
                            const float *want) {
    fn_error err = {0};
    fn_engine *engine = NULL;
    fn_session *session = NULL;
    const float *logits = NULL;
    fn_engine_options options = fn_engine_options_default();
    options.model_dir = c->dir;
    options.expert_bits = c->expert_bits;
    options.dense_bits = c->dense_bits;
    options.precision = precision_of_case();
    options.threads = 1;
    options.context = CONTEXT;
    if (fn_engine_open(&options, &engine, &err) != FN_OK ||
        fn_session_load(engine, path, &session, &err) != FN_OK ||
        fn_session_append(session, ids + 37, N - 37, &err) != FN_OK ||
        fn_session_logits(session, &logits, &err) != FN_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        _exit(2);
    }
    _exit(memcmp(logits, want, engine->shape.vocab * sizeof *want) == 0 ? 0 : 3);
}

static void saved_sessions_go_on_in_a_new_process(void **unused) {
    (void)unused;
    for (size_t m = 0; m < n_weight_cases; m++) {
        const weight_case *c = &weight_cases[m];
        char path[] = "/tmp/fn-session-XXXXXX";
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        close(fd);
        fn_engine *engine = open_model_as(c->dir, 2, 16, CONTEXT, c->expert_bits, c->dense_bits);
        int32_t ids[N];
        make_ids(engine, 12, ids, N);
        float *all = stepwise_logits(engine, ids, N);
        fn_session *session = NULL;
        assert_int_equal(fn_session_create(engine, &session, NULL), FN_OK);
        append(session, ids, 37);
        assert_int_equal(fn_session_save(session, path, NULL), FN_OK);
        fn_session_destroy(session);
        const float *want = all + (N - 1) * engine->shape.vocab;
        float *copy = malloc(engine->shape.vocab * sizeof *copy);
        assert_non_null(copy);
        memcpy(copy, want, engine->shape.vocab * sizeof *copy);
        fn_engine_close(engine); /* its threads end: a fork keeps only this one */
        pid_t pid = fork();
        if (pid == 0) {
            child_continues(c, path, ids, copy);
        }
        int code = 0;
        assert_int_equal(waitpid(pid, &code, 0), pid);
        assert_true(WIFEXITED(code));
        assert_int_equal(WEXITSTATUS(code), 0);
        free(copy);
        free(all);
        unlink(path);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_EACH_PRECISION(any_split_and_chunk_gives_the_bits_of_single_steps),
        IN_EACH_PRECISION(quantised_weights_keep_the_promise),
        IN_EACH_PRECISION(one_and_two_threads_give_the_same_bits),
        IN_EACH_PRECISION(instruction_sets_give_the_same_bits),
        IN_EACH_PRECISION(snapshot_branch_restore_changes_nothing),
        IN_EACH_PRECISION(a_fork_and_its_origin_go_on_alone),
        IN_EACH_PRECISION(sync_rereads_only_what_changed_and_keeps_the_bits),
        IN_EACH_PRECISION(saved_sessions_go_on_in_a_new_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
