/* Drafting for several requests in one forward: it changes no answer, whoever else runs, enters or leaves; how much is
 * drafted follows from measured times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/scheduler.h"
#include "support/model_case.h"
#include "support/requests.h"

#define CONTEXT 256
#define REQUESTS 12

static fn_engine *open_drafting(const char *dir, fn_drafter_choice draft, bool fixed) {
    fn_engine *engine = NULL;
    fn_error err = {0};
    fn_engine_options o = fn_engine_options_default();
    o.model_dir = dir;
    o.context = CONTEXT;
    o.chunk = 64;
    o.threads = 2;
    o.draft = draft;
    o.draft_tokens = 3;
    o.draft_fixed = fixed;
    o.draft_model_dir = draft == FN_DRAFT_MODEL ? "models/demo-draft" : NULL;
    if (fn_engine_open(&o, &engine, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    return engine;
}

static fn_scheduler *new_scheduler(fn_engine *engine, size_t running, uint64_t cache) {
    fn_scheduler_options options = {
        .max_running = running, .state_bytes = 1 << 28, .cache_bytes = cache};
    return told_scheduler(engine, options);
}

/* Two requests a prompt; temperatures, seeds and penalties of their own. */
static asked make_asked(const fn_engine *engine, size_t i) {
    asked a = {.n = 30 + 10 * (i / 2 % 4),
               .generation = fn_generation_default(fn_engine_text(engine))};
    make_ids(engine, 70 + i / 2, a.ids, a.n);
    a.generation.sampling = (fn_sampling){.temperature = i % 2 == 0 ? 0.0F : 0.7F,
                                          .top_p = 1,
                                          .repetition_penalty = i % 3 == 1 ? 1.2F : 1.0F,
                                          .presence_penalty = i % 3 == 2 ? 1.0F : 0.0F,
                                          .frequency_penalty = i % 5 == 2 ? 0.4F : 0.0F,
                                          .seed = 1000 + 17 * i};
    a.generation.ignore_end = true;
    a.generation.max_tokens = 40 + i;
    a.generation.n_logprobs = 2;
    return a;
}

/* Each alone, without drafts. */
static void ask_plainly(const char *dir, asked all[REQUESTS], told alone[REQUESTS]) {
    fn_engine *plain = open_drafting(dir, FN_DRAFT_OFF, false);
    for (size_t i = 0; i < REQUESTS; i++) {
        all[i] = make_asked(plain, i);
        told_alone(plain, &all[i], &alone[i]);
    }
    fn_engine_close(plain);
}

static void free_told(told t[REQUESTS]) {
    for (size_t i = 0; i < REQUESTS; i++) {
        told_free(&t[i]);
    }
}

static void ask_at_once(fn_scheduler *s, asked *all, const told *alone, size_t at_once) {
    for (size_t i = 0; i + at_once <= REQUESTS; i += at_once) {
        told t[REQUESTS];
        for (size_t k = 0; k < at_once; k++) {
            told_start(s, &all[i + k], NULL, &t[k]);
        }
        for (size_t k = 0; k < at_once; k++) {
            told_wait(&t[k]);
            assert_same_told(&t[k], &alone[i + k]);
            assert_true(t[k].result.n_accepted <= t[k].result.n_drafted);
            told_free(&t[k]);
        }
    }
}

static void drafted_answers_equal_plain_ones(void **unused) {
    static const struct {
        const char *dir;
        fn_drafter_choice draft;
        bool fixed;
    } ways[] = {{"models/demo", FN_DRAFT_MTP, true},
                {"models/demo", FN_DRAFT_MTP, false},
                {"models/demo", FN_DRAFT_LOOKUP, true},
                {"models/demo", FN_DRAFT_MODEL, true},
                {"tests/data/mini-bf16/checkpoint", FN_DRAFT_MTP, true},
                {"tests/data/mini-bf16/checkpoint", FN_DRAFT_MTP, false}};
    (void)unused;
    asked all[REQUESTS];
    told alone[REQUESTS];
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        if (w == 0 || strcmp(ways[w].dir, ways[w - 1].dir) != 0) {
            ask_plainly(ways[w].dir, all, alone);
        }
        fn_engine *engine = open_drafting(ways[w].dir, ways[w].draft, ways[w].fixed);
        fn_scheduler *s = new_scheduler(engine, 12, 1 << 26);
        for (size_t at_once = 1; at_once <= REQUESTS; at_once = at_once == 1 ? 4 : 3 * at_once) {
            ask_at_once(s, all, alone, at_once);
        }
        fn_scheduler_counts counts;
        fn_scheduler_get_counts(s, &counts);
        assert_true(counts.cache_hits > 0);
        if (ways[w].fixed) {
            assert_true(counts.drafting.drafted > 0);
            assert_true(counts.drafting.accepted_at[0] > 0 || w >= 4);
        }
        fn_scheduler_destroy(s);
        fn_engine_close(engine);
        if (w + 1 == sizeof ways / sizeof ways[0] || strcmp(ways[w].dir, ways[w + 1].dir) != 0) {
            free_told(alone);
        }
    }
}

/* A prompt with the log-probabilities of its ids enters while others draft: rows of both kinds in one forward. */
static void drafting_goes_on_while_prompts_enter(void **unused) {
    (void)unused;
    fn_engine *plain = open_drafting("models/demo", FN_DRAFT_OFF, false);
    asked running = make_asked(plain, 0);
    running.generation.max_tokens = 150;
    asked entering = make_asked(plain, 3);
    entering.n = 200;
    make_ids(plain, 5, entering.ids, entering.n);
    fn_request_options scored = fn_request_options_default(fn_engine_text(plain));
    scored.prompt_logprobs = true;
    told want, want_entering;
    told_alone(plain, &running, &want);
    fn_scheduler *s = new_scheduler(plain, 4, 0);
    told_start(s, &entering, &scored, &want_entering);
    told_wait(&want_entering);
    fn_scheduler_destroy(s);
    fn_engine_close(plain);

    fn_engine *engine = open_drafting("models/demo", FN_DRAFT_MTP, true);
    s = new_scheduler(engine, 4, 0);
    told t, u;
    told_start(s, &running, NULL, &t);
    told_wait_ids(&t, 10);
    told_start(s, &entering, &scored, &u);
    told_wait(&t);
    told_wait(&u);
    assert_same_told(&t, &want);
    assert_same_told(&u, &want_entering);
    assert_int_equal(u.prompt.n, want_entering.prompt.n);
    assert_memory_equal(u.prompt.logprobs, want_entering.prompt.logprobs,
                        u.prompt.n * sizeof *u.prompt.logprobs);
    /* in every pass but the first, those beside the prompt among them */
    assert_true(t.result.n_drafted >= 3 * (t.answers[0].generated.drafting.passes - 2) - 3);
    told_free(&t);
    told_free(&u);
    told_free(&want);
    told_free(&want_entering);
    fn_scheduler_destroy(s);
    fn_engine_close(engine);
}

/* Forwards of an answer that always guesses are never seen without guesses: a prompt enters beside them all the same. */
static void a_prompt_waits_for_no_answer_that_always_guesses(void **unused) {
    (void)unused;
    fn_engine *engine = open_drafting("models/demo", FN_DRAFT_MTP, true);
    fn_scheduler *s = new_scheduler(engine, 4, 0);
    asked running = make_asked(engine, 0);
    running.generation.max_tokens = 200;
    asked entering = make_asked(engine, 3);
    entering.generation.max_tokens = 1;
    told first;
    told second;
    told_prepare(&first, &running);
    first.hold_at = 5;
    assert_int_equal(told_try(s, &running, NULL, &first, NULL), FN_OK);
    told_wait_ids(&first, 5);
    told_start(s, &entering, NULL, &second);
    told_let_go(&first);
    told_wait(&second);
    told_wait(&first);
    assert_int_equal(first.answers[0].n, 200);
    assert_true(first.result.n_drafted > 0);
    assert_true(second.answers[0].at[0] < first.answers[0].at[199]);
    told_free(&first);
    told_free(&second);
    fn_scheduler_destroy(s);
    fn_engine_close(engine);
}

/* Many requests, one after the other and some of them cancelled: the same ones are drafted as well as at first. */
static void acceptance_does_not_fade(void **unused) {
    enum { ROUNDS = 10, EACH = 10 };
    size_t first[EACH] = {0};
    (void)unused;
    fn_engine *engine = open_drafting("models/demo", FN_DRAFT_MTP, true);
    fn_scheduler *s = new_scheduler(engine, 4, 1 << 24);
    size_t sum = 0;
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < EACH; i++) {
            asked a = make_asked(engine, 2 * i);
            told t, leaving;
            bool cancels = (round + i) % 7 == 3;
            if (cancels) {
                told_prepare(&leaving, &a);
                leaving.stop_after = 1 + (round + 3 * i) % 20;
                assert_int_equal(told_try(s, &a, NULL, &leaving, NULL), FN_OK);
                told_wait(&leaving);
                told_free(&leaving);
            }
            told_start(s, &a, NULL, &t);
            told_wait(&t);
            size_t accepted = t.result.n_accepted;
            first[i] = round == 0 ? accepted : first[i];
            assert_int_equal(accepted, first[i]);
            sum += accepted;
            told_free(&t);
        }
    }
    assert_true(sum > 0);
    fn_scheduler_destroy(s);
    fn_engine_close(engine);
}

/* Where the memory of a request has no room for all drafts it makes fewer, or none, and is answered all the same. */
static void fewer_drafts_are_made_where_memory_is_short(void **unused) {
    (void)unused;
    fn_engine *engine = open_drafting("models/demo", FN_DRAFT_MTP, true);
    asked a = make_asked(engine, 0);
    fn_request request = {.options = {.ids = a.ids, .n_ids = a.n, .n_answers = 1}, .limit = 40};
    told want;
    told_alone(engine, &a, &want);
    for (size_t drafts = 0; drafts <= 3; drafts++) {
        fn_scheduler *s = NULL;
        fn_scheduler_options options = {
            .max_running = 2, .state_bytes = fn_sequence_bytes(engine, &request, drafts) + 64};
        assert_int_equal(fn_scheduler_create(engine, &options, &s, NULL), FN_OK);
        told t;
        told_start(s, &a, NULL, &t);
        told_wait(&t);
        assert_same_told(&t, &want);
        const fn_drafting *did = &t.answers[0].generated.drafting;
        for (size_t i = 0; i < FN_MAX_DRAFTS; i++) {
            assert_true((did->drafted_at[i] > 0) == (i < drafts));
        }
        told_free(&t);
        fn_scheduler_destroy(s);
    }
    told_free(&want);
    fn_engine_close(engine);
}

/* ---- how many, by cost ---- */

typedef struct machine {
    double row, guess; /* seconds of a row and of a guess beside a forward of 1 second */
} machine;

/* Guesses for `answers` sequences with equal odds, of which as many are wanted as pay. */
static size_t wanted_on(machine m, size_t answers, double held, bool prompts) {
    fn_engine engine = {.chunk = 256, .draft = {.most = 4}};
    fn_request request;
    fn_drafter drafter = {NULL};
    fn_scheduler s = {.engine = &engine, .max_running = answers, .guess_tried = true};
    s.sequences = calloc(answers, sizeof *s.sequences);
    fn_engine *plain = open_drafting("tests/data/mini-bf16/checkpoint", FN_DRAFT_OFF, false);
    fn_generation generation = fn_generation_default(fn_engine_text(plain));
    fn_stepper_options options = {
        .text = fn_engine_text(plain), .vocab = 130, .generation = &generation, .room = 100};
    fn_draft_patience_init(&s.patience);
    for (size_t i = 0; i < answers; i++) {
        fn_sequence *q = &s.sequences[i];
        *q = (fn_sequence){.request = &request,
                           .phase = FN_SEQUENCE_ANSWER,
                           .drafter = &drafter,
                           .most_drafts = 4};
        assert_int_equal(fn_stepper_create(&options, &q->stepper, NULL), FN_OK);
        fn_draft_odds_init(&q->odds);
        for (size_t k = 0; k < FN_MAX_DRAFTS; k++) {
            q->odds.held[k] = held;
        }
    }
    for (size_t rows = 1; rows <= 64; rows++) {
        fn_row_times_learn(&s.pace.alone, rows, 1 + m.row * (double)rows);
        fn_row_times_learn(&s.guess_times, rows, m.guess);
    }
    fn_batch_choose(&s, answers, prompts, FN_GUESS_ROWS);
    size_t sum = 0;
    for (size_t i = 0; i < answers; i++) {
        sum += s.sequences[i].wanted;
        fn_stepper_destroy(s.sequences[i].stepper);
    }
    free(s.sequences);
    fn_engine_close(plain);
    return sum;
}

static void as_many_guesses_are_wanted_as_pay(void **unused) {
    (void)unused;
    assert_int_equal(wanted_on((machine){0.05, 0.05}, 1, 0.9, false), 4);
    assert_int_equal(wanted_on((machine){0.05, 0.05}, 8, 0.9, false), 32); /* of eight answers */
    assert_int_equal(wanted_on((machine){0.6, 0.05}, 8, 0.7, false), 0); /* rows that cost a lot */
    assert_int_equal(wanted_on((machine){0.05, 0.9}, 1, 0.7, false), 0); /* guesses that do */
    assert_int_equal(wanted_on((machine){0.05, 0.05}, 1, 0.02, false), 0); /* that never hold */
    /* Beside a prompt forwards begin further apart, in proportion to what they take: as many pay. */
    assert_int_equal(wanted_on((machine){0.5, 0.1}, 1, 0.6, true),
                     wanted_on((machine){0.5, 0.1}, 1, 0.6, false));
    assert_int_equal(wanted_on((machine){0.05, 0.05}, 2, 0.9, true), 8);
}

static void times_of_rows_lie_on_lines(void **unused) {
    fn_row_times t = {{0}};
    (void)unused;
    assert_true(fn_row_times_near(&t, 3) <= 0);
    fn_row_times_learn(&t, 2, 1.0);
    assert_true(fn_row_times_near(&t, 7) >= 1.0 && fn_row_times_near(&t, 7) <= 1.0);
    assert_false(fn_row_times_beyond(&t, 2));
    fn_row_times_learn(&t, 6, 2.0);
    assert_true(fn_row_times_beyond(&t, 2));
    assert_true(fn_row_times_near(&t, 4) > 1.49 && fn_row_times_near(&t, 4) < 1.51);
    assert_true(fn_row_times_near(&t, 10) > 2.99 && fn_row_times_near(&t, 10) < 3.01);
    assert_true(fn_row_times_of(&t, 4) <= 0);
    fn_row_times_learn(&t, 6, 100.0); /* held up: counts as half as much again */
    assert_true(fn_row_times_of(&t, 6) < 2.31);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drafted_answers_equal_plain_ones),
        cmocka_unit_test(drafting_goes_on_while_prompts_enter),
        cmocka_unit_test(a_prompt_waits_for_no_answer_that_always_guesses),
        cmocka_unit_test(acceptance_does_not_fade),
        cmocka_unit_test(fewer_drafts_are_made_where_memory_is_short),
        cmocka_unit_test(as_many_guesses_are_wanted_as_pay),
        cmocka_unit_test(times_of_rows_lie_on_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
