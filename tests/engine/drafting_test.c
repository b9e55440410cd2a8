/* Drafting changes nothing but the time: texts, logits and every part of a state are those of plain decoding,
 * whoever guesses, however many, whatever holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/stepper.h"
#include "support/alloc_fail.h"
#include "support/check_error.h"
#include "support/model_case.h"

#define CONTEXT 160
#define PROMPT 21
#define DEMO "models/demo"
#define DRAFT_MODEL "models/demo-draft"
#define MINI "tests/data/mini-bf16/checkpoint" /* random weights: its head is mostly wrong */

static fn_engine *open_drafting(const char *dir, fn_drafter_choice draft, size_t tokens,
                                bool fixed) {
    fn_engine *engine = NULL;
    fn_error err = {0};
    fn_engine_options o = fn_engine_options_default();
    o.model_dir = dir;
    o.context = CONTEXT;
    o.threads = 2;
    o.chunk = 16;
    o.draft = draft;
    o.draft_model_dir = draft == FN_DRAFT_MODEL ? DRAFT_MODEL : NULL;
    o.draft_tokens = tokens;
    o.draft_fixed = fixed;
    if (fn_engine_open(&o, &engine, &err) != FN_OK) {
        fail_msg("%s: %s", dir, err.text);
    }
    return engine;
}

static fn_session *prompted(fn_engine *engine, const int32_t *ids, size_t n) {
    fn_session *s = NULL;
    assert_int_equal(fn_session_create(engine, &s, NULL), FN_OK);
    assert_int_equal(fn_session_sync(s, ids, n, NULL, NULL), FN_OK);
    return s;
}

static fn_generated generate(fn_session *s, const fn_sampling *sampling, size_t n) {
    fn_generated out;
    fn_error err = {0};
    fn_generation g = fn_generation_default(fn_engine_text(s->engine));
    g.sampling = *sampling;
    g.max_tokens = n;
    g.ignore_end = true;
    if (fn_session_generate(s, &g, &out, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(out.n_ids, n);
    return out;
}

/* Ids, logits and every part of the state. */
static void assert_same_sessions(fn_session *a, fn_session *b, const char *what) {
    char text[200];
    const float *x = NULL;
    const float *y = NULL;
    size_t n = fn_session_length(a);
    assert_int_equal(n, fn_session_length(b));
    for (size_t i = 0; i < n; i++) {
        if (a->ids[i] != b->ids[i]) {
            fail_msg("%s: id %zu is %d, not %d", what, i, a->ids[i], b->ids[i]);
        }
    }
    const char *difference = fn_state_difference(a->state, b->state, text, sizeof text);
    if (difference != NULL) {
        fail_msg("%s: after %zu ids: %s", what, n, difference);
    }
    assert_int_equal(fn_session_logits(a, &x, NULL), FN_OK);
    assert_int_equal(fn_session_logits(b, &y, NULL), FN_OK);
    assert_same_floats(x, y, a->engine->shape.vocab, what, n);
}

/* Two of usual settings, one of everything together, and each penalty alone at temperature 0 and 1: what an accepted
 * guess repeats must count for the rows behind it, and what a rejected one repeats never. */
static const fn_sampling samplings[] = {
    {.top_p = 1, .repetition_penalty = 1},
    {.temperature = 1, .top_k = 20, .top_p = 0.95F, .repetition_penalty = 1, .seed = 7},
    {.temperature = 0.8F,
     .top_p = 1,
     .repetition_penalty = 1.1F,
     .presence_penalty = 1.5F,
     .frequency_penalty = 0.2F,
     .seed = 12},
    {.top_p = 1, .repetition_penalty = 1.3F},
    {.top_p = 1, .repetition_penalty = 1, .presence_penalty = 1.5F},
    {.top_p = 1, .repetition_penalty = 1, .frequency_penalty = 0.7F},
    {.temperature = 1, .top_p = 1, .repetition_penalty = 1.3F, .seed = 3},
    {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .presence_penalty = 1.5F, .seed = 4},
    {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .frequency_penalty = 0.7F, .seed = 5}};
#define SAMPLINGS (sizeof samplings / sizeof samplings[0])

static void every_drafter_gives_the_text_of_plain_decoding(void **unused) {
    static const fn_drafter_choice drafters[] = {FN_DRAFT_MTP, FN_DRAFT_LOOKUP, FN_DRAFT_MODEL};
    static const char *const dirs[] = {MINI, DEMO};
    (void)unused;
    for (size_t m = 0; m < 2; m++) {
        fn_engine *plain = open_drafting(dirs[m], FN_DRAFT_OFF, 0, false);
        for (size_t way = 0; way < 3 * 6; way++) {
            char what[100];
            size_t k = way % 6 + 1;
            fn_drafter_choice drafter = drafters[way / 6];
            if (drafter == FN_DRAFT_MODEL && m == 0) {
                continue;
            }
            fn_engine *engine = open_drafting(dirs[m], drafter, k, way % 2 == 0);
            for (size_t i = 0; i < SAMPLINGS; i++) {
                int32_t ids[PROMPT];
                (void)snprintf(what, sizeof what, "%s, drafter %d, %zu drafts, sampling %zu",
                               dirs[m], (int)drafter, k, i);
                make_ids(plain, 100 * way + i, ids, PROMPT);
                fn_session *a = prompted(plain, ids, PROMPT);
                fn_session *b = prompted(engine, ids, PROMPT);
                (void)generate(a, &samplings[i], 24);
                fn_generated out = generate(b, &samplings[i], 24);
                assert_same_sessions(a, b, what);
                assert_true(out.drafting.passes <= 24 && out.drafting.accepted < 24);
                assert_int_equal(out.drafting.passes + out.drafting.accepted, 24);
                fn_session_destroy(a);
                fn_session_destroy(b);
            }
            fn_engine_close(engine);
        }
        fn_engine_close(plain);
    }
}

/* ---- any pattern ---- */

/* Guesses what is known to come, but for the guesses whose bit is set. */
typedef struct planned {
    fn_drafter base;
    const int32_t *truth; /* [CONTEXT] */
    unsigned pattern;     /* of three guesses a pass, least bit first; shifted along */
    size_t vocab;
} planned;

static fn_status propose(fn_draft_request *requests, size_t n, float *logits, fn_error *err) {
    planned *p = (planned *)requests->drafter;
    (void)err;
    (void)logits;
    assert_int_equal(n, 1);
    requests->made = requests->wanted;
    for (size_t i = 0; i < requests->made; i++) {
        int32_t id = p->truth[requests->n + i];
        bool miss = (p->pattern >> i & 1) != 0;
        requests->out[i] = miss ? (int32_t)((size_t)(id + 1) % p->vocab) : id;
    }
    p->pattern = p->pattern >> 3 | p->pattern << 29;
    return FN_OK;
}

static void leave(fn_drafter *drafter) {
    (void)drafter;
}

/* Texts of up to 60 ids, under patterns of hits and misses, against runs that read them whole. */
static void try_patterns(fn_engine *plain, fn_engine *engine, const fn_sampling *sampling,
                         const int32_t prompt[PROMPT], const fn_session *whole) {
    static const fn_drafter_kind kind = {propose, leave};
    for (unsigned seed = 0; seed < 8; seed++) {
        planned p = {{&kind}, whole->ids, seed * 2654435761U, engine->shape.vocab};
        for (size_t n = 1; n <= 60; n = n < 12 ? n + 1 : n + 7) {
            fn_session *s = prompted(engine, prompt, PROMPT - seed % 5);
            assert_int_equal(fn_session_append(s, prompt + PROMPT - seed % 5, seed % 5, NULL),
                             FN_OK);
            fn_drafter_destroy(s->drafter);
            s->drafter = &p.base;
            (void)generate(s, sampling, n);
            fn_session *fresh = prompted(plain, whole->ids, PROMPT + n);
            assert_same_sessions(s, fresh, "a pattern");
            fn_session_destroy(fresh);
            s->drafter = NULL;
            fn_session_destroy(s);
        }
    }
}

/* The second text is full of end ids, at which the n-gram history begins anew. */
static void after_any_pattern_of_hits_and_misses_the_state_is_a_fresh_runs(void **unused) {
    static const char *const dirs[] = {MINI, "tests/data/mini-f32/checkpoint"};
    (void)unused;
    for (size_t m = 0; m < 4; m++) {
        fn_engine *plain = open_drafting(dirs[m / 2], FN_DRAFT_OFF, 0, false);
        fn_engine *engine = open_drafting(dirs[m / 2], FN_DRAFT_LOOKUP, 3, true);
        int32_t prompt[PROMPT];
        fn_logit_bias end = {.id = (int32_t)plain->shape.eos_id, .bias = 4.0F};
        fn_sampling sampling = samplings[1];
        sampling.bias = &end;
        sampling.n_bias = m % 2;
        make_ids(plain, 5 + m, prompt, PROMPT);
        fn_session *whole = prompted(plain, prompt, PROMPT);
        (void)generate(whole, &sampling, 60);
        size_t ends = 0;
        for (size_t i = 0; i < 60; i++) {
            ends += whole->ids[PROMPT + i] == end.id;
        }
        assert_true(m % 2 == 0 || (ends >= 5 && ends <= 50));
        try_patterns(plain, engine, &sampling, prompt, whole);
        fn_session_destroy(whole);
        fn_engine_close(engine);
        fn_engine_close(plain);
    }
}

/* ---- snapshots and files ---- */

static void a_snapshot_and_a_file_go_on_with_drafting(void **unused) {
    char path[] = "/tmp/fn-drafting-XXXXXX";
    int fd = mkstemp(path);
    (void)unused;
    assert_true(fd >= 0);
    close(fd);
    fn_engine *plain = open_drafting(DEMO, FN_DRAFT_OFF, 0, false);
    fn_engine *engine = open_drafting(DEMO, FN_DRAFT_MTP, 3, true);
    int32_t ids[PROMPT];
    make_ids(plain, 31, ids, PROMPT);
    fn_session *a = prompted(plain, ids, PROMPT);
    (void)generate(a, &samplings[0], 10); /* without drafting */
    assert_int_equal(fn_session_save(a, path, NULL), FN_OK);
    (void)generate(a, &samplings[0], 30);
    fn_session *b = NULL;
    fn_error err = {0};
    if (fn_session_load(engine, path, &b, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    fn_snapshot *snapshot = NULL;
    assert_int_equal(fn_session_snapshot(b, &snapshot, NULL), FN_OK);
    for (size_t i = 0; i < 3; i++) { /* a first time, and after each return */
        fn_generated out = generate(b, &samplings[0], 30);
        assert_true(out.drafting.accepted > 0);
        assert_same_sessions(a, b, "after a file or a snapshot");
        assert_int_equal(fn_session_save(b, path, NULL), FN_OK);
        assert_int_equal(fn_session_restore(b, snapshot, NULL), FN_OK);
    }
    fn_session *back = NULL; /* and a file made while drafting, read without */
    assert_int_equal(fn_session_load(plain, path, &back, NULL), FN_OK);
    assert_same_sessions(a, back, "a file made with drafting");
    fn_session_destroy(back);
    fn_snapshot_free(snapshot);
    fn_session_destroy(b);
    fn_session_destroy(a);
    fn_engine_close(engine);

    fn_engine_options o = fn_engine_options_default();
    o.model_dir = DEMO;
    o.no_mtp = true;
    err = (fn_error){0};
    assert_int_equal(fn_engine_open(&o, &engine, NULL), FN_OK);
    check_error(fn_session_load(engine, path, &back, &err), &err, FN_E_MODEL, "parts of state");
    fn_engine_close(engine);
    fn_engine_close(plain);
    (void)unlink(path);
}

/* ---- stopping in the middle ---- */

static bool stop_when_counted(void *ud, const fn_event *event) {
    size_t *left = ud;
    *left -= event->kind == FN_EVENT_TOKEN;
    return *left > 0;
}

/* Whatever place of a pass an answer is stopped at, what follows is what plain decoding says. */
static void a_stopped_answer_goes_on_as_if_it_had_not(void **unused) {
    (void)unused;
    fn_engine *plain = open_drafting(DEMO, FN_DRAFT_OFF, 0, false);
    fn_engine *engine = open_drafting(DEMO, FN_DRAFT_MTP, 5, true);
    int32_t ids[PROMPT];
    make_ids(plain, 3, ids, PROMPT);
    fn_session *whole = prompted(plain, ids, PROMPT);
    (void)generate(whole, &samplings[1], 60);
    for (size_t n = 1; n < 30; n++) {
        size_t left = n;
        fn_session *s = prompted(engine, ids, PROMPT);
        fn_generation g = fn_generation_default(fn_engine_text(engine));
        g.sampling = samplings[1];
        g.ignore_end = true;
        g.on_event = stop_when_counted;
        g.ud = &left;
        fn_generated out;
        assert_int_equal(fn_session_generate(s, &g, &out, NULL), FN_OK);
        assert_int_equal(out.finish, FN_FINISH_CANCELLED);
        assert_int_equal(out.n_ids, n);
        (void)generate(s, &samplings[1], 60 - n);
        assert_same_sessions(whole, s, "stopped");
        fn_session_destroy(s);
    }
    fn_session_destroy(whole);
    fn_engine_close(engine);
    fn_engine_close(plain);
}

/* A guess sees the guesses before it as the choice behind them will; what failed leaves nothing behind. */
static void guesses_count_what_stands_before_them(void **unused) {
    enum { V = 8 };
    static const float logits[V] = {1, 5, 4, 3, 0, 0, 0, 0};
    static const fn_sampling penalties[] = {
        {.top_p = 1, .repetition_penalty = 1, .presence_penalty = 1.5F},
        {.top_p = 1, .repetition_penalty = 1, .frequency_penalty = 1.5F},
        {.top_p = 1, .repetition_penalty = 1.5F}};
    fn_engine *engine = open_drafting(MINI, FN_DRAFT_OFF, 0, false);
    (void)unused;
    for (size_t i = 0; i < 3; i++) {
        fn_generation g = fn_generation_default(fn_engine_text(engine));
        fn_stepper *s = NULL;
        g.sampling = penalties[i];
        g.ignore_end = true;
        fn_stepper_options options = {
            .text = fn_engine_text(engine), .vocab = V, .generation = &g, .room = 50};
        assert_int_equal(fn_stepper_create(&options, &s, NULL), FN_OK);
        for (size_t pass = 0; pass < 4; pass++) {
            int32_t guesses[3];
            int32_t chosen[4];
            assert_int_equal(fn_stepper_choose(s, logits, 4 * pass, &chosen[0], NULL), FN_OK);
            fn_stepper_suppose(s, chosen[0]);
            for (size_t k = 0; k < 3; k++) {
                size_t at = 4 * pass + 1 + k;
                assert_int_equal(fn_stepper_guess(s, logits, at, &guesses[k], NULL), FN_OK);
            }
            fn_stepper_forget(s);
            assert_int_equal(fn_stepper_accept(s, NULL), FN_OK);
            for (size_t k = 0; k < 3; k++) {
                size_t at = 4 * pass + 1 + k;
                assert_int_equal(fn_stepper_choose(s, logits, at, &chosen[k + 1], NULL), FN_OK);
                assert_int_equal(fn_stepper_accept(s, NULL), FN_OK);
                assert_int_equal(chosen[k + 1], guesses[k]);
            }
            if (pass == 0) { /* 5, then the next best for as long as the penalty weighs */
                assert_int_equal(chosen[0], 1);
                assert_int_equal(chosen[1], 2);
            }
        }
        fn_stepper_destroy(s);
    }
    fn_engine_close(engine);
}

/* ---- costs, refusals ---- */

/* The allocator's calls up to each token. */
typedef struct call_counts {
    long calls[64];
    size_t n;
} call_counts;

static bool note_calls(void *ud, const fn_event *event) {
    call_counts *c = ud;
    if (event->kind == FN_EVENT_TOKEN) {
        c->calls[c->n++] = fn_alloc_calls();
    }
    return true;
}

/* The first pass may copy pages that the prompt's kept state shares. */
static void a_pass_allocates_nothing(void **unused) {
    static const fn_drafter_choice drafters[] = {FN_DRAFT_OFF, FN_DRAFT_MTP, FN_DRAFT_LOOKUP,
                                                 FN_DRAFT_MODEL};
    (void)unused;
    for (size_t i = 0; i < 4; i++) {
        call_counts counts = {.n = 0};
        fn_engine *engine = open_drafting(i == 3 ? DEMO : MINI, drafters[i], 3, true);
        int32_t ids[PROMPT];
        make_ids(engine, 8, ids, PROMPT);
        fn_session *s = prompted(engine, ids, PROMPT);
        fn_generation g = fn_generation_default(fn_engine_text(engine));
        g.sampling = samplings[0];
        g.max_tokens = 60; /* over the edge of a page */
        g.ignore_end = true;
        g.on_event = note_calls;
        g.ud = &counts;
        fn_alloc_fail_at(-1);
        assert_int_equal(fn_session_generate(s, &g, NULL, NULL), FN_OK);
        assert_int_equal(counts.n, 60);
        if (i < 3) { /* the demo model's text outgrows its buffer now and then */
            assert_int_equal(counts.calls[59], counts.calls[4]);
        }
        assert_true(counts.calls[59] - counts.calls[4] < 4);
        fn_session_destroy(s);
        fn_engine_close(engine);
    }
}

static void refuse(const fn_engine_options *o, fn_status want, const char *word,
                   const char *other) {
    fn_engine *engine = NULL;
    fn_error err = {0};
    check_error(fn_engine_open(o, &engine, &err), &err, want, word, other);
    assert_null(engine);
}

static void what_cannot_draft_is_refused_at_start(void **unused) {
    (void)unused;
    fn_engine_options o = fn_engine_options_default();
    o.model_dir = "tests/data/mini-f32/checkpoint";
    o.draft = FN_DRAFT_MTP;
    refuse(&o, FN_E_USAGE, "MTP head", "has none");
    o.model_dir = DEMO;
    o.no_mtp = true;
    refuse(&o, FN_E_USAGE, "MTP head", "left out");
    o.draft = FN_DRAFT_MODEL;
    refuse(&o, FN_E_USAGE, "no draft model", "given");
    o.draft_model_dir = "tests/data/mini-f32/checkpoint";
    refuse(&o, FN_E_USAGE, "vocabulary of 130", "expected the model's 6144");
    o.draft_model_dir = "/tmp/fn-no-such-model";
    refuse(&o, FN_E_IO, "draft model", "fn-no-such-model");
    o.draft_model_dir = DRAFT_MODEL;
    o.draft = FN_DRAFT_LOOKUP;
    refuse(&o, FN_E_USAGE, DRAFT_MODEL, "something else");
    o.draft_model_dir = NULL;
    o.draft_tokens = 9;
    refuse(&o, FN_E_USAGE, "found 9", "at most 8");
}

static void fewer_drafts_are_made_where_memory_is_short(void **unused) {
    (void)unused;
    fn_engine *engine = NULL;
    fn_engine_info info;
    fn_engine_options o = fn_engine_options_default();
    o.model_dir = DEMO;
    o.context = CONTEXT;
    o.threads = 2;
    o.chunk = 16;
    o.draft_tokens = 6;
    o.ngram = FN_NGRAM_DISK;
    assert_int_equal(fn_engine_open(&o, &engine, NULL), FN_OK);
    fn_engine_get_info(engine, &info);
    assert_string_equal(info.drafter, "mtp");
    assert_int_equal(info.draft_tokens, 6);
    uint64_t row = engine->layout.recurrent_bytes + engine->shape.vocab * sizeof(float);
    uint64_t all =
        info.weight_bytes + info.state_bytes + fn_forward_bytes(&engine->shape, 16, CONTEXT, 2);
    fn_engine_close(engine);
    o.mem_limit = all - 3 * row;
    assert_int_equal(fn_engine_open(&o, &engine, NULL), FN_OK);
    fn_engine_get_info(engine, &info);
    assert_true(info.draft_tokens > 0 && info.draft_tokens <= 3);
    fn_engine_close(engine);
}

/* A short list of ids the head may guess changes what is guessed, never what is said. */
static void a_shortlist_changes_no_text(void **unused) {
    (void)unused;
    fn_engine *engine = NULL;
    fn_engine *plain = open_drafting(DEMO, FN_DRAFT_OFF, 0, false);
    fn_engine_options o = fn_engine_options_default();
    o.model_dir = DEMO;
    o.context = CONTEXT;
    o.draft_vocab = 1000;
    o.draft_tokens = 3;
    o.draft_fixed = true;
    assert_int_equal(fn_engine_open(&o, &engine, NULL), FN_OK);
    int32_t ids[PROMPT];
    make_ids(plain, 77, ids, PROMPT);
    fn_session *a = prompted(plain, ids, PROMPT);
    fn_session *b = prompted(engine, ids, PROMPT);
    (void)generate(a, &samplings[0], 60);
    (void)generate(b, &samplings[0], 60);
    assert_same_sessions(a, b, "shortlist");
    fn_session_destroy(a);
    fn_session_destroy(b);
    fn_engine_close(engine);
    fn_engine_close(plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_drafter_gives_the_text_of_plain_decoding),
        cmocka_unit_test(after_any_pattern_of_hits_and_misses_the_state_is_a_fresh_runs),
        cmocka_unit_test(a_snapshot_and_a_file_go_on_with_drafting),
        cmocka_unit_test(a_stopped_answer_goes_on_as_if_it_had_not),
        cmocka_unit_test(guesses_count_what_stands_before_them),
        cmocka_unit_test(a_pass_allocates_nothing),
        cmocka_unit_test(what_cannot_draft_is_refused_at_start),
        cmocka_unit_test(fewer_drafts_are_made_where_memory_is_short),
        cmocka_unit_test(a_shortlist_changes_no_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
