/* The scheduler: what it computes together is what each request gets alone; it stops, refuses and fails one
 * request without the others. The other way to compute an answer is a session of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/hash.h"
#include "engine/scheduler.h"
#include "sampling/logprobs.h"
#include "support/alloc_fail.h"
#include "support/check_error.h"
#include "support/model_case.h"
#include "support/requests.h"

#define CONTEXT 256

static void sixteen_at_once_equal_each_alone(void **unused) {
    (void)unused;
    for (size_t m = 0; m < n_model_dirs; m++) {
        fn_engine *engine = open_model(model_dirs[m], 2, 40, CONTEXT);
        for (int warm = 0; warm < 2; warm++) {
            fn_scheduler_options options = {.max_running = 16,
                                            .state_bytes = 1 << 28,
                                            .cache_bytes = warm ? 1 << 26 : 0,
                                            .cache_spacing = 20};
            fn_scheduler *s = told_scheduler(engine, options);
            asked all[16];
            told alone[16];
            told together[16];
            for (size_t i = 0; i < 16; i++) {
                all[i] = asked_mixed(engine, i, i % 2 == 0 ? 0.0F : 1.0F);
                told_alone(engine, &all[i], &alone[i]);
            }
            for (int again = 0; again <= warm; again++) {
                for (size_t i = 0; i < 16; i++) {
                    told_start(s, &all[i], NULL, &together[i]);
                }
                for (size_t i = 0; i < 16; i++) {
                    told_wait(&together[i]);
                    assert_same_told(&together[i], &alone[i]);
                    told_free(&together[i]);
                }
            }
            for (size_t i = 0; i < 16; i++) {
                told_free(&alone[i]);
            }
            fn_scheduler_destroy(s);
        }
        fn_engine_close(engine);
    }
}

/* ---- answers to one prompt, prompt log-probabilities, budgets ---- */

static void several_answers_equal_requests_with_the_next_seeds(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[0], 2, 16, CONTEXT);
    for (size_t places = 1; places <= 8; places += 7) {
        fn_scheduler *s = told_scheduler(
            engine, (fn_scheduler_options){.max_running = places, .state_bytes = 1 << 28});
        asked a = asked_mixed(engine, 11, 1.0F);
        fn_request_options options = {.n_answers = 4};
        told together;
        told_start(s, &a, &options, &together);
        told_wait(&together);
        assert_int_equal(together.result.status, FN_OK);
        size_t n_ids = 0;
        for (size_t i = 0; i < 4; i++) {
            told alone;
            a.generation.sampling.seed = asked_mixed(engine, 11, 1.0F).generation.sampling.seed + i;
            told_alone(engine, &a, &alone);
            assert_true(together.answers[i].ended);
            assert_same_answers(&together.answers[i], &alone.answers[0]);
            n_ids += alone.answers[0].n;
            told_free(&alone);
        }
        assert_int_equal(together.result.n_generated, n_ids);
        told_free(&together);
        fn_scheduler_destroy(s);
    }
    fn_engine_close(engine);
}

static void prompt_logprobs_are_those_of_the_logits_read_one_by_one(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[1], 2, 24, CONTEXT);
    size_t vocab = engine->shape.vocab;
    fn_scheduler *s =
        told_scheduler(engine, (fn_scheduler_options){.max_running = 5, .cache_bytes = 1 << 26});
    asked a = asked_mixed(engine, 2, 0);
    a.n = 70;
    make_ids(engine, 44, a.ids, a.n);
    a.generation.n_logprobs = 3;
    float *logits = stepwise_logits(engine, a.ids, a.n);
    for (size_t limit = 0; limit < 2; limit++) { /* with nothing to generate, too */
        told t;
        fn_request_options options = {.prompt_logprobs = true};
        a.generation.max_tokens = 4 * limit;
        told_start(s, &a, &options, &t);
        told_wait(&t);
        assert_int_equal(t.result.status, FN_OK);
        assert_int_equal(t.result.n_cached, 0);
        assert_int_equal(t.prompt.n, a.n);
        assert_memory_equal(t.prompt.ids, a.ids, a.n * sizeof *a.ids);
        for (size_t i = 1; i < a.n; i++) {
            float logprob = 0;
            fn_token_logprob top[3];
            assert_int_equal(
                fn_logprobs(logits + (i - 1) * vocab, vocab, a.ids[i], &logprob, top, 3, NULL),
                FN_OK);
            assert_memory_equal(&t.prompt.logprobs[i], &logprob, sizeof logprob);
            assert_memory_equal(t.prompt.top + 3 * i, top, sizeof top);
        }
        assert_int_equal(t.answers[0].n, 4 * limit);
        assert_int_equal(t.answers[0].generated.finish, FN_FINISH_LENGTH);
        told_free(&t);
    }
    free(logits);
    fn_scheduler_destroy(s);
    fn_engine_close(engine);
}

/* A thought is closed for the model after so many ids, with the ids of its end, and the answer goes on. */
static void a_thinking_budget_closes_the_thought(void **unused) {
    (void)unused;
    fn_engine *engine = open_model("models/demo", 2, 64, 400);
    const fn_text *text = fn_engine_text(engine);
    fn_scheduler *s = told_scheduler(engine, (fn_scheduler_options){.max_running = 4});
    static const char request[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"What is a cat?\"}]}";
    char *prompt = NULL;
    size_t prompt_n = 0;
    fn_ids ids = {0};
    fn_ids closer = {0};
    assert_int_equal(
        fn_text_render(text, request, strlen(request), false, &prompt, &prompt_n, &ids, NULL),
        FN_OK);
    assert_int_equal(fn_text_encode(text, "\n</think>\n\n", 11, true, &closer, NULL), FN_OK);
    asked a = {.n = ids.count, .generation = fn_generation_default(text)};
    memcpy(a.ids, ids.items, ids.count * sizeof *a.ids);
    a.generation.sampling.temperature = 0;
    a.generation.max_tokens = 60;
    a.generation.starts_in_thought = true;
    for (size_t budget = 0; budget < 6; budget += 2) {
        told t;
        told alone;
        a.generation.thinking_budget = budget;
        told_start(s, &a, NULL, &t);
        told_wait(&t);
        assert_int_equal(t.result.status, FN_OK);
        assert_true(t.answers[0].n >= budget + closer.count);
        assert_memory_equal(t.answers[0].ids + budget, closer.items,
                            closer.count * sizeof *closer.items);
        assert_true(t.result.n_thinking <= budget + closer.count);
        told_alone(engine, &a, &alone);
        assert_same_told(&t, &alone);
        told_free(&alone);
        told_free(&t);
    }
    fn_ids_free(&ids);
    fn_ids_free(&closer);
    fn_string_free(prompt);
    fn_scheduler_destroy(s);
    fn_engine_close(engine);
}

/* ---- conversations ---- */

/* Ten turns, each with a new question. The history keeps the whole answers, or (as templates do) drops their
 * first half, the thought; each turn reads again no more than what is new to it, and is answered as if cold. */
static void conversations_read_only_what_is_new(void **unused) {
    enum { TURNS = 10, QUESTION = 12, ANSWER = 10, OPENER = 3, ROOM = 400 };
    (void)unused;
    for (int keeps_thoughts = 0; keeps_thoughts < 2; keeps_thoughts++) {
        fn_engine *engine = open_model(model_dirs[keeps_thoughts], 2, 16, ROOM);
        fn_scheduler *s = told_scheduler(
            engine, (fn_scheduler_options){.max_running = 2, .cache_bytes = 1 << 26});
        asked a = asked_long(engine, 1, 60, ANSWER); /* the system's message */
        size_t marks[2 * TURNS + 1] = {a.n};
        size_t n_marks = 1;
        size_t before = 0; /* ids of the last prompt without its opener: a marked place */
        for (size_t turn = 0; turn < TURNS; turn++) {
            told t;
            told alone;
            make_ids(engine, 300 + turn, a.ids + a.n, QUESTION + OPENER);
            a.n += QUESTION;
            marks[n_marks++] = a.n;
            size_t message_end = a.n;
            a.n += OPENER;
            fn_request_options options = {.marks = marks, .n_marks = n_marks};
            told_start(s, &a, &options, &t);
            told_wait(&t);
            told_alone(engine, &a, &alone);
            assert_same_told(&t, &alone);
            if (turn > 0) {
                assert_true(t.result.n_cached >=
                            (keeps_thoughts ? before + OPENER + ANSWER : before));
            }
            before = message_end;
            size_t kept = keeps_thoughts ? ANSWER : ANSWER / 2;
            memcpy(a.ids + a.n, t.answers[0].ids + ANSWER - kept, kept * sizeof *a.ids);
            a.n += kept;
            told_free(&t);
            told_free(&alone);
        }
        fn_scheduler_counts counts;
        fn_scheduler_get_counts(s, &counts);
        assert_true(counts.cache_hits >= TURNS - 1);
        fn_scheduler_destroy(s);
        fn_engine_close(engine);
    }
}

/* Hits that leave 0, 1, 2, 3 ids, and two prompts that part after a common beginning. */
static void hits_and_forks_are_answered_as_if_cold(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[0], 2, 32, CONTEXT);
    fn_scheduler *s =
        told_scheduler(engine, (fn_scheduler_options){.max_running = 2, .cache_bytes = 1 << 26});
    asked a = asked_long(engine, 2, 90, 8);
    a.generation.n_logprobs = 5;
    for (size_t i = 0; i < 90; i++) { /* no end ids: only the prompt's end is kept */
        a.ids[i] = a.ids[i] == engine->shape.eos_id ? 1 : a.ids[i];
    }
    asked b = a;
    for (size_t way = 0; way < 6; way++) {
        told t;
        told alone;
        b.n = way == 0 ? 90 : 90 + way - 1;
        make_ids(engine, 50 + way, b.ids + 90, 10); /* what follows differs each time */
        told_start(s, &b, NULL, &t);
        told_wait(&t);
        told_alone(engine, &b, &alone);
        assert_same_told(&t, &alone);
        assert_int_equal(t.result.n_cached, way == 0 ? 0 : 90);
        told_free(&t);
        told_free(&alone);
    }
    fn_scheduler_destroy(s);
    fn_engine_close(engine);
}

/* Answers go on while a long prompt enters: it is not read in one piece, nor in two. */
static void a_long_prompt_leaves_room_for_running_answers(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[0], 1, 128, 600);
    fn_scheduler *s =
        told_scheduler(engine, (fn_scheduler_options){.max_running = 2, .state_bytes = 1 << 28});
    asked a = asked_long(engine, 3, 10, 500);
    asked b = asked_long(engine, 4, 256, 2);
    told running;
    told entering;
    told_start(s, &a, NULL, &running);
    told_wait_ids(&running, 10);
    told_start(s, &b, NULL, &entering);
    told_wait(&entering);
    fn_request_cancel(running.request);
    told_wait(&running);
    size_t between = 0;
    for (size_t i = 0; i < running.answers[0].n; i++) {
        between += running.answers[0].at[i] > entering.started + entering.result.started &&
                   running.answers[0].at[i] < entering.answers[0].at[0];
    }
    assert_true(between >= 3);
    assert_true(entering.n_progress >= 4);
    told_free(&running);
    told_free(&entering);
    fn_scheduler_destroy(s);
    fn_engine_close(engine);
}

/* Each prompt in a chunk costs a reading of its recurrent state: few have large shares, and the others come next.
 * A chunk has room for 133 ids. */
static void prompts_take_turns_with_shares_that_are_worth_it(void **unused) {
    (void)unused;
    enum { PROMPTS = 4, LENGTH = 240, SHARE = 64 };
    fn_engine *engine = open_model(model_dirs[0], 2, 128 + PROMPTS + 1, CONTEXT);
    fn_scheduler *s = told_scheduler(
        engine, (fn_scheduler_options){.max_running = PROMPTS + 1, .state_bytes = 1 << 28});
    asked first = asked_long(engine, 1, 3, 1);
    told holder;
    told t[PROMPTS];
    double last_begun = 0;
    told_prepare(&holder, &first);
    holder.hold_at = 1; /* until all prompts are there */
    assert_int_equal(told_try(s, &first, NULL, &holder, NULL), FN_OK);
    told_wait_ids(&holder, 1);
    for (size_t i = 0; i < PROMPTS; i++) {
        asked a = asked_long(engine, 20 + i, LENGTH, 1);
        for (size_t j = 0; j < LENGTH; j++) { /* no end of a message, where a chunk ends */
            a.ids[j] = a.ids[j] == engine->shape.eos_id ? 1 : a.ids[j];
        }
        told_start(s, &a, NULL, &t[i]);
    }
    told_let_go(&holder);
    for (size_t i = 0; i < PROMPTS; i++) {
        told_wait(&t[i]);
        assert_int_equal(t[i].n_progress, 1 + (LENGTH + SHARE - 1) / SHARE); /* 1: it begins */
        last_begun = t[i].first_read > last_begun ? t[i].first_read : last_begun;
    }
    for (size_t i = 0; i < PROMPTS; i++) {
        assert_true(t[i].answers[0].at[0] > last_begun);
        told_free(&t[i]);
    }
    told_wait(&holder);
    told_free(&holder);
    fn_scheduler_destroy(s);
    fn_engine_close(engine);
}

/* ---- refusals ---- */

static void prompts_at_and_over_the_limit(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[0], 1, 64, CONTEXT);
    fn_scheduler *s = told_scheduler(engine, (fn_scheduler_options){0});
    told t;
    fn_error err = {0};
    asked a = asked_long(engine, 1, CONTEXT - 1, FN_UNLIMITED);
    told_start(s, &a, NULL, &t);
    told_wait(&t);
    assert_int_equal(t.result.status, FN_OK);
    assert_int_equal(t.answers[0].n, 1);
    assert_int_equal(t.answers[0].generated.finish, FN_FINISH_LENGTH);
    told_free(&t);
    static const size_t over[] = {CONTEXT, CONTEXT + 1, 3 * CONTEXT};
    for (size_t i = 0; i < 3; i++) {
        char number[32];
        a = asked_long(engine, 1, over[i], 5);
        (void)snprintf(number, sizeof number, "%zu", over[i]);
        t = (told){0};
        err = (fn_error){0};
        check_error(told_try(s, &a, NULL, &t, &err), &err, FN_E_RANGE, number, "256");
        told_free(&t);
    }
    a = asked_long(engine, 1, 5, 5);
    a.ids[3] = -7;
    t = (told){0};
    err = (fn_error){0};
    check_error(told_try(s, &a, NULL, &t, &err), &err, FN_E_RANGE, "index 3", "-7");
    told_free(&t);
    a.ids[3] = 0;
    a.generation.sampling.temperature = -1;
    t = (told){0};
    err = (fn_error){0};
    check_error(told_try(s, &a, NULL, &t, &err), &err, FN_E_USAGE, "temperature");
    told_free(&t);
    a.generation.sampling.temperature = 0;
    a.n = 0;
    t = (told){0};
    err = (fn_error){0};
    check_error(told_try(s, &a, NULL, &t, &err), &err, FN_E_USAGE, "empty");
    told_free(&t);
    fn_scheduler_destroy(s);
    fn_engine_close(engine);
}

static void a_full_queue_refuses_and_the_others_are_answered(void **unused) {
    (void)unused;
    enum { RUNNING = 2, WAITING = 3 };
    fn_engine *engine = open_model(model_dirs[0], 1, 16, CONTEXT);
    fn_scheduler *s = told_scheduler(engine, (fn_scheduler_options){.max_running = RUNNING,
                                                                    .max_waiting = WAITING,
                                                                    .state_bytes = 1 << 28});
    told t[RUNNING + WAITING];
    told refused = {0};
    asked a = asked_long(engine, 3, 100, 150);
    fn_error err = {0};
    for (size_t i = 0; i < RUNNING + WAITING; i++) {
        told_start(s, &a, NULL, &t[i]);
    }
    check_error(told_try(s, &a, NULL, &refused, &err), &err, FN_E_BUSY, "wait");
    told_free(&refused);
    fn_request_state state;
    fn_request_get_state(t[RUNNING + WAITING - 1].request, &state);
    assert_int_equal(state.phase, FN_REQUEST_WAITING);
    assert_true(state.ahead >= WAITING - 1);
    for (size_t i = 0; i < RUNNING + WAITING; i++) {
        told_wait(&t[i]);
        assert_int_equal(t[i].result.status, FN_OK);
        assert_same_answers(&t[i].answers[0], &t[0].answers[0]);
    }
    for (size_t i = 0; i < RUNNING + WAITING; i++) {
        told_free(&t[i]);
    }
    fn_scheduler_counts counts;
    fn_scheduler_get_counts(s, &counts);
    assert_int_equal(counts.refused_busy, 1);
    assert_int_equal(counts.submitted, RUNNING + WAITING);
    assert_int_equal(counts.waiting, 0);
    fn_scheduler_destroy(s);
    fn_engine_close(engine);
}

static void requests_that_do_not_fit_together_take_turns(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[0], 2, 32, CONTEXT);
    asked a = asked_long(engine, 5, 150, 100);
    asked b = asked_long(engine, 6, 120, 130);
    told alone_a;
    told alone_b;
    told_alone(engine, &a, &alone_a);
    told_alone(engine, &b, &alone_b);
    fn_request *probe = NULL;
    fn_request_options options = {.ids = a.ids, .n_ids = a.n, .generation = a.generation};
    assert_int_equal(fn_request_make(&options, engine, &probe, NULL), FN_OK);
    uint64_t bytes = fn_sequence_bytes(engine, probe, 0);
    fn_request_leave(probe);
    fn_scheduler *s = told_scheduler(
        engine, (fn_scheduler_options){.max_running = 4, .state_bytes = bytes * 10 / 7});
    told t[2];
    told_start(s, &a, NULL, &t[0]);
    told_start(s, &b, NULL, &t[1]);
    told_wait(&t[0]);
    told_wait(&t[1]);
    assert_same_told(&t[0], &alone_a);
    assert_same_told(&t[1], &alone_b);
    assert_true(t[1].answers[0].at[0] > t[0].answers[0].at[99]);
    told_free(&t[0]);
    told_free(&t[1]);
    fn_scheduler_destroy(s);
    s = told_scheduler(engine, (fn_scheduler_options){.max_running = 4, .state_bytes = bytes / 2});
    fn_error err = {0};
    t[0] = (told){0};
    check_error(told_try(s, &a, NULL, &t[0], &err), &err, FN_E_FIT, "250 tokens");
    told_free(&t[0]);
    fn_scheduler_destroy(s);
    told_free(&alone_a);
    told_free(&alone_b);
    fn_engine_close(engine);
}

/* ---- memory ---- */

/* Any one allocation of the library fails: the answer is right or says that memory is out, and the next request
 * is as ever. */
static void lost_memory_fails_one_request_at_most(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[0], 1, 16, CONTEXT);
    asked a = asked_long(engine, 17, 50, 6);
    told alone;
    told_alone(engine, &a, &alone);
    bool complete = false;
    for (long n = 0; !complete; n++) {
        fn_scheduler_options options = {.max_running = 2, .cache_bytes = 1 << 22};
        fn_scheduler *s = NULL;
        told t = {0};
        fn_error err = {0};
        told_prepare(&t, &a);
        fn_alloc_fail_at(n);
        fn_status status = fn_scheduler_create(engine, &options, &s, &err);
        status = status == FN_OK ? told_try(s, &a, NULL, &t, &err) : status;
        if (status == FN_OK) {
            told_wait(&t);
        }
        complete = fn_alloc_calls() <= n;
        fn_alloc_fail_at(-1);
        if (status != FN_OK || t.result.status != FN_OK) {
            assert_true(status == FN_E_NOMEM || status == FN_E_FAILED ||
                        t.result.status == FN_E_NOMEM);
        } else {
            assert_same_told(&t, &alone);
        }
        told_free(&t);
        if (s != NULL) {
            told_start(s, &a, NULL, &t);
            told_wait(&t);
            assert_same_told(&t, &alone);
            told_free(&t);
        }
        fn_scheduler_destroy(s);
    }
    told_free(&alone);
    fn_engine_close(engine);
}

static void answering_allocates_nothing(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[0], 2, 16, CONTEXT);
    fn_scheduler *s = told_scheduler(
        engine,
        (fn_scheduler_options){.max_running = 4, .state_bytes = 1 << 28, .cache_bytes = 1 << 26});
    told t[3];
    asked a = asked_long(engine, 5, 40, 200);
    for (size_t i = 0; i < 3; i++) {
        told_start(s, &a, NULL, &t[i]);
    }
    for (size_t i = 0; i < 3; i++) {
        told_wait_ids(&t[i], 5);
    }
    fn_alloc_fail_at(-1);
    told_wait_ids(&t[0], 150);
    assert_int_equal(fn_alloc_calls(), 0);
    for (size_t i = 0; i < 3; i++) {
        told_wait(&t[i]);
        told_free(&t[i]);
    }
    fn_scheduler_destroy(s);
    fn_engine_close(engine);
}

static void settings_are_checked(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[0], 1, 16, CONTEXT);
    fn_scheduler *s = NULL;
    fn_error err = {0};
    fn_scheduler_options o = {.max_running = 9};
    check_error(fn_scheduler_create(engine, &o, &s, &err), &err, FN_E_USAGE, "max_running", "9",
                "16");
    o = (fn_scheduler_options){.cache_dir = "x"};
    err = (fn_error){0};
    check_error(fn_scheduler_create(engine, &o, &s, &err), &err, FN_E_USAGE, "cache_dir",
                "cache_bytes");
    o = (fn_scheduler_options){.cache_bytes = UINT64_C(1) << 60};
    err = (fn_error){0};
    check_error(fn_scheduler_create(engine, &o, &s, &err), &err, FN_E_FIT, "1152921504606846976");
    assert_null(s);
    fn_engine_close(engine);
    /* Under a limit: what the plan leaves of it, and what it was asked to leave. */
    fn_engine_options limited = fn_engine_options_default();
    limited.model_dir = model_dirs[0];
    limited.context = CONTEXT;
    limited.chunk = 16;
    limited.mem_limit = 1 << 28;
    limited.reserve_bytes = 1 << 20;
    assert_int_equal(fn_engine_open(&limited, &engine, NULL), FN_OK);
    o = (fn_scheduler_options){.cache_bytes = 1 << 28};
    err = (fn_error){0};
    check_error(fn_scheduler_create(engine, &o, &s, &err), &err, FN_E_FIT, "268435456");
    o.cache_bytes = 1 << 27;
    assert_int_equal(fn_scheduler_create(engine, &o, &s, NULL), FN_OK);
    fn_scheduler *second = NULL;
    err = (fn_error){0};
    check_error(fn_scheduler_create(engine, &o, &second, &err), &err, FN_E_USAGE, "already");
    assert_null(second);
    fn_scheduler_destroy(s);
    assert_int_equal(fn_scheduler_create(engine, &o, &s, NULL), FN_OK); /* the next one may */
    fn_scheduler_destroy(s);
    fn_scheduler_destroy(NULL);
    fn_request_free(NULL);
    fn_engine_close(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixteen_at_once_equal_each_alone),
        cmocka_unit_test(several_answers_equal_requests_with_the_next_seeds),
        cmocka_unit_test(prompt_logprobs_are_those_of_the_logits_read_one_by_one),
        cmocka_unit_test(a_thinking_budget_closes_the_thought),
        cmocka_unit_test(conversations_read_only_what_is_new),
        cmocka_unit_test(hits_and_forks_are_answered_as_if_cold),
        cmocka_unit_test(a_long_prompt_leaves_room_for_running_answers),
        cmocka_unit_test(prompts_take_turns_with_shares_that_are_worth_it),
        cmocka_unit_test(prompts_at_and_over_the_limit),
        cmocka_unit_test(a_full_queue_refuses_and_the_others_are_answered),
        cmocka_unit_test(requests_that_do_not_fit_together_take_turns),
        cmocka_unit_test(lost_memory_fails_one_request_at_most),
        cmocka_unit_test(answering_allocates_nothing),
        cmocka_unit_test(settings_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
