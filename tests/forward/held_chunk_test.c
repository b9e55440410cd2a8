/* A chunk that takes several forwards, beside others: the bits of one that goes through the layers at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "support/check_error.h"
#include "support/model_case.h"

#define CONTEXT 150
#define ROWS 64
#define PROMPTS 2 /* in the chunk */
#define ANSWERS 3 /* beside it */
#define LENGTH 40

typedef struct dice {
    uint64_t state;
} dice;

static size_t roll(dice *d, size_t n) {
    d->state = fn_hash_mix(d->state + 1);
    return (size_t)(d->state >> 33) % n;
}

/* Takes as many parts in a forward as it was told, and notes what it was asked. */
typedef struct carrier {
    size_t left, asked, last;
} carrier;

static bool take(void *ud, size_t part) {
    carrier *c = ud;
    c->asked++;
    c->last = part;
    if (c->left == 0) {
        return false;
    }
    c->left--;
    return true;
}

typedef struct sequence {
    int32_t ids[LENGTH];
    fn_state *alone, *here;
    size_t at;
    float *want; /* [LENGTH, V]: alone, id by id */
} sequence;

static fn_state *new_state(fn_engine *engine) {
    fn_state *state = NULL;
    assert_int_equal(fn_state_create(engine->states, CONTEXT, &state, NULL), FN_OK);
    return state;
}

static void start(fn_engine *engine, sequence *q, uint64_t seed) {
    static const uint8_t wants[1] = {1};
    size_t vocab = engine->shape.vocab;
    *q = (sequence){.alone = new_state(engine), .here = new_state(engine)};
    q->want = malloc(LENGTH * vocab * sizeof *q->want);
    assert_non_null(q->want);
    make_ids(engine, seed, q->ids, LENGTH);
    for (size_t i = 0; i < LENGTH; i++) {
        fn_segment one = {.state = q->alone, .ids = q->ids + i, .n = 1, .wants = wants};
        assert_int_equal(fn_forward_run(engine->forward, &one, 1, q->want + i * vocab, NULL, NULL),
                         FN_OK);
    }
}

static void finish(sequence *q) {
    fn_state_destroy(q->alone);
    fn_state_destroy(q->here);
    free(q->want);
}

static void assert_read(const sequence *q, const char *what) {
    char text[200];
    assert_int_equal(fn_state_length(q->here), LENGTH);
    const char *difference = fn_state_difference(q->alone, q->here, text, sizeof text);
    if (difference != NULL) {
        fail_msg("%s: %s", what, difference);
    }
}

/* Rows of one call: up to 3 of each answer, each with its logits; sometimes of none. */
static size_t make_segments(sequence *answers, dice *d, fn_segment *segments, sequence **who) {
    static const uint8_t last[3][3] = {{1}, {0, 1}, {0, 0, 1}};
    size_t n = 0;
    for (size_t i = 0; i < ANSWERS; i++) {
        size_t rows = roll(d, 4);
        rows = rows < LENGTH - answers[i].at ? rows : LENGTH - answers[i].at;
        if (rows > 0) {
            segments[n] = (fn_segment){.state = answers[i].here,
                                       .ids = answers[i].ids + answers[i].at,
                                       .n = rows,
                                       .wants = last[rows - 1]};
            answers[i].at += rows;
            who[n++] = &answers[i];
        }
    }
    return n;
}

static void hold(fn_engine *engine, sequence *prompts, dice *d, uint8_t wants[PROMPTS][LENGTH]) {
    fn_segment segments[PROMPTS];
    size_t n = 0;
    for (size_t i = 0; i < PROMPTS; i++) {
        size_t left = LENGTH - prompts[i].at;
        size_t rows = 1 + roll(d, 25);
        rows = rows < left ? rows : left;
        if (rows > 0) {
            memset(wants[i], 0, LENGTH);
            wants[i][rows - 1] = 1;
            segments[n++] = (fn_segment){.state = prompts[i].here,
                                         .ids = prompts[i].ids + prompts[i].at,
                                         .n = rows,
                                         .wants = wants[i]};
            prompts[i].at += rows;
        }
    }
    assert_int_equal(fn_forward_hold(engine->forward, segments, n, NULL), FN_OK);
    assert_true(fn_forward_holds(engine->forward));
}

static bool all_read(const sequence *q, size_t n) {
    bool read = true;
    for (size_t i = 0; i < n; i++) {
        read = read && q[i].at == LENGTH;
    }
    return read;
}

static void check_logits(fn_engine *engine, sequence *const *who, size_t n, const float *logits) {
    size_t vocab = engine->shape.vocab;
    for (size_t i = 0; i < n; i++) {
        assert_same_floats(logits + i * vocab, who[i]->want + (who[i]->at - 1) * vocab, vocab,
                           "beside a chunk", who[i]->at - 1);
    }
}

/* One forward: some rows, some parts. */
static void step(fn_engine *engine, sequence *answers, sequence *prompts, dice *d, float *logits) {
    fn_forward *f = engine->forward;
    fn_segment segments[ANSWERS];
    sequence *who[ANSWERS + PROMPTS];
    size_t before[PROMPTS];
    for (size_t i = 0; i < PROMPTS; i++) {
        before[i] = fn_state_length(prompts[i].here);
    }
    carrier c = {.left = roll(d, 4) == 0 ? 100 : roll(d, 5)};
    fn_carry carry = {take, &c};
    bool held = fn_forward_holds(f);
    size_t n = make_segments(answers, d, segments, who);
    if (n == 0 && !held) {
        return;
    }
    assert_int_equal(fn_forward_run_beside(f, segments, n, &carry, logits, NULL), FN_OK);
    if (held && !fn_forward_holds(f)) {
        assert_int_equal(c.last, fn_forward_parts(f));
        for (size_t i = 0; i < PROMPTS; i++) {
            if (prompts[i].at > before[i]) {
                assert_int_equal(fn_state_length(prompts[i].here), prompts[i].at);
                who[n++] = &prompts[i];
            }
        }
    }
    check_logits(engine, who, n, logits);
}

static void read_all(fn_engine *engine, uint64_t seed, const char *what) {
    sequence answers[ANSWERS];
    sequence prompts[PROMPTS];
    uint8_t wants[PROMPTS][LENGTH];
    dice d = {seed};
    float *logits = malloc((ANSWERS + PROMPTS) * engine->shape.vocab * sizeof *logits);
    assert_non_null(logits);
    for (size_t i = 0; i < ANSWERS; i++) {
        start(engine, &answers[i], 10 * seed + i);
    }
    for (size_t i = 0; i < PROMPTS; i++) {
        start(engine, &prompts[i], 10 * seed + 5 + i);
    }
    for (bool held = false; held || !all_read(prompts, PROMPTS) || !all_read(answers, ANSWERS);) {
        if (!held && !all_read(prompts, PROMPTS)) {
            hold(engine, prompts, &d, wants);
        }
        held = fn_forward_holds(engine->forward);
        if (held || !all_read(answers, ANSWERS)) {
            step(engine, answers, prompts, &d, logits);
        }
        held = fn_forward_holds(engine->forward);
    }
    for (size_t i = 0; i < ANSWERS; i++) {
        assert_read(&answers[i], what);
        finish(&answers[i]);
    }
    for (size_t i = 0; i < PROMPTS; i++) {
        assert_read(&prompts[i], what);
        finish(&prompts[i]);
    }
    free(logits);
}

static void a_chunk_in_parts_has_the_bits_of_one_at_once(void **unused) {
    (void)unused;
    for (size_t m = 0; m < n_weight_cases; m++) {
        const weight_case *c = &weight_cases[m];
        fn_engine *engine = open_model_as(c->dir, 2, ROWS, CONTEXT, c->expert_bits, c->dense_bits);
        for (uint64_t seed = 1; seed <= 5; seed++) {
            read_all(engine, seed, c->dir);
        }
        fn_engine_close(engine);
    }
}

static bool stop(void *ud) {
    (void)ud;
    return false;
}

/* Dropped, stopped, or beside a call that fails: as if it had never begun. */
static void a_chunk_that_ends_early_changes_no_state(void **unused) {
    (void)unused;
    static const uint8_t none[LENGTH];
    fn_engine *engine = open_model(model_dirs[0], 2, ROWS, CONTEXT);
    fn_forward *f = engine->forward;
    sequence q;
    sequence beside;
    start(engine, &q, 7);
    start(engine, &beside, 8);
    fn_segment chunk = {.state = q.here, .ids = q.ids, .n = LENGTH, .wants = none};
    fn_segment one = {.state = beside.here, .ids = beside.ids, .n = 1};
    for (size_t how = 0; how < 3; how++) {
        fn_error err = {0};
        carrier c = {.left = 3};
        fn_carry carry = {take, &c};
        one.ids = beside.ids + fn_state_length(beside.here);
        assert_int_equal(fn_forward_hold(f, &chunk, 1, NULL), FN_OK);
        assert_int_equal(fn_forward_run_beside(f, &one, 1, &carry, NULL, NULL), FN_OK);
        assert_true(fn_forward_holds(f));
        assert_int_equal(fn_forward_room(f), ROWS - LENGTH);
        if (how == 0) {
            fn_forward_drop(f);
        } else if (how == 1) {
            fn_forward_watch(f, stop, NULL);
            check_error(fn_forward_run_beside(f, NULL, 0, &carry, NULL, &err), &err, FN_E_CANCELLED,
                        "stopped");
            fn_forward_watch(f, NULL, NULL);
        } else {
            int32_t bad = -1;
            fn_segment wrong = {.state = beside.here, .ids = &bad, .n = 1};
            check_error(fn_forward_run_beside(f, &wrong, 1, &carry, NULL, &err), &err, FN_E_RANGE,
                        "-1");
        }
        assert_false(fn_forward_holds(f));
        assert_int_equal(fn_state_length(q.here), 0);
        assert_int_equal(fn_state_length(beside.here), how + 1);
    }
    carrier all = {.left = 1000};
    fn_carry carry = {take, &all};
    assert_int_equal(fn_forward_hold(f, &chunk, 1, NULL), FN_OK);
    assert_int_equal(fn_forward_run_beside(f, NULL, 0, &carry, NULL, NULL), FN_OK);
    assert_int_equal(all.asked, fn_forward_parts(f) + 1);
    assert_read(&q, "read after all");
    finish(&q);
    finish(&beside);
    fn_engine_close(engine);
}

/* A call that takes nothing along, of another owner of the same engine, has its bits, and less room. */
static void what_is_held_leaves_others_alone(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[0], 2, ROWS, CONTEXT);
    fn_forward *f = engine->forward;
    fn_error err = {0};
    sequence q;
    sequence other;
    start(engine, &q, 17);
    start(engine, &other, 18);
    fn_segment chunk = {.state = q.here, .ids = q.ids, .n = LENGTH};
    assert_int_equal(fn_forward_hold(f, &chunk, 1, NULL), FN_OK);
    fn_segment too_many = {.state = other.here, .ids = other.ids, .n = ROWS - LENGTH + 1};
    check_error(fn_forward_run(f, &too_many, 1, NULL, NULL, &err), &err, FN_E_RANGE, "24 rows");
    for (size_t at = 0; at < LENGTH; at += 20) {
        carrier c = {.left = 2};
        fn_carry carry = {take, &c};
        fn_segment part = {.state = other.here, .ids = other.ids + at, .n = 20};
        assert_int_equal(fn_forward_run(f, &part, 1, NULL, NULL, NULL), FN_OK);
        assert_int_equal(fn_forward_run_beside(f, NULL, 0, &carry, NULL, NULL), FN_OK);
        assert_true(fn_forward_holds(f));
    }
    assert_read(&other, "beside what is held");
    carrier all = {.left = 1000};
    fn_carry carry = {take, &all};
    assert_int_equal(fn_forward_run_beside(f, NULL, 0, &carry, NULL, NULL), FN_OK);
    assert_read(&q, "held");
    finish(&q);
    finish(&other);
    fn_engine_close(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_EACH_PRECISION(a_chunk_in_parts_has_the_bits_of_one_at_once),
        IN_EACH_PRECISION(a_chunk_that_ends_early_changes_no_state),
        IN_EACH_PRECISION(what_is_held_leaves_others_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
