/* The size of prompt chunks beside running answers, and how many of their parts go along, on machines made of formulas:
 * how long a gap becomes, and how much later the prompt is read. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "engine/pace.h"

#define ROOM 2000
#define PROMPT 4000

/* Seconds of a forward through all layers: it reads the weights, and multiplies for each row; which of the two takes
 * longer counts. A part's share of both depends on its kind. spread: every part is up to so much slower, one in 2000
 * takes as long as ten whole forwards of an answer. */
typedef struct machine {
    double weights, row, head, spread;
    size_t parts;
    uint64_t dice;
} machine;

/* A delta net's half layer and its experts, three times; then the same with attention. */
static const double shares[] = {0.9, 1, 0.9, 1, 0.9, 1, 1.3, 1};

static double part_seconds(machine *m, size_t part, size_t rows) {
    double share = shares[part % 8] / (double)m->parts;
    double t = share * fmax(m->weights, (double)rows * m->row);
    m->dice = fn_hash_mix(m->dice + 1);
    t *= 1 + m->spread * (double)(m->dice % 1000) / 1000;
    bool held_up = m->spread > 0 && m->dice >> 32 < UINT32_MAX / 2000;
    return held_up ? t + 10 * m->weights : t;
}

/* A chunk on its way. */
typedef struct chunk {
    size_t rows, part;
} chunk;

static double run_parts(machine *m, fn_pace *p, size_t answers, chunk *c, double now) {
    bool goes = false;
    for (size_t i = answers > 0 ? 0 : c->part; i < p->n_parts; i++) {
        goes = c->rows > 0 && c->part == i && fn_pace_take(p, i, now);
        fn_pace_mark(p, now);
        if (answers + (goes ? c->rows : 0) > 0) {
            now += part_seconds(m, i, answers + (goes ? c->rows : 0));
        }
        c->part += goes;
    }
    if (c->rows > 0 && c->part == p->n_parts && goes) {
        assert_false(fn_pace_take(p, p->n_parts, now));
    }
    return now;
}

/* One step: what is left of a chunk, if the pace says so; the next chunk, of at most *left rows; and the answers with the
 * parts that go along. */
static double step(machine *m, fn_pace *p, size_t answers, chunk *c, size_t *left) {
    double now = 0;
    fn_pace_begin(p, answers);
    if (c->rows > 0 && answers > 0 && fn_pace_ends(p, c->rows, c->part)) {
        now = run_parts(m, p, 0, c, now);
    }
    if (c->part == p->n_parts || c->rows == 0) {
        *c = (chunk){.rows = *left > 0 ? fn_pace_rows(p, answers, *left < ROOM ? *left : ROOM) : 0};
        assert_true(c->rows <= *left);
        *left -= c->rows;
    }
    fn_pace_join(p, answers, c->rows);
    now = run_parts(m, p, answers, c, now + m->head * (1 + m->spread / 2));
    fn_pace_end(p, answers, now);
    return now;
}

typedef struct outcome {
    size_t over; /* steps longer than 3 x one of the answers alone */
    size_t steps;
    double seconds, alone_seconds;
} outcome;

static bool reads(const fn_pace *p, const chunk *c, size_t left) {
    return left > 0 || (c->rows > 0 && c->part < p->n_parts);
}

static outcome enter(machine *m, size_t answers) {
    fn_pace pace;
    outcome o = {0};
    chunk c = {0};
    size_t left = PROMPT;
    size_t none = 0;
    assert_int_equal(fn_pace_init(&pace, m->parts, NULL), FN_OK);
    while (reads(&pace, &c, left)) {
        o.alone_seconds += step(m, &pace, 0, &c, &left);
    }
    c = (chunk){0};
    double quiet = 0;
    for (size_t i = 0; i < 30; i++) {
        quiet += step(m, &pace, answers, &c, &none) / 30;
    }
    for (left = PROMPT; reads(&pace, &c, left); o.steps++) {
        double t = step(m, &pace, answers, &c, &left);
        o.over += t > 3 * quiet;
        o.seconds += t;
    }
    fn_pace_deinit(&pace);
    return o;
}

static void gaps_stay_small_and_the_prompt_is_little_later(void **unused) {
    static const machine machines[] = {
        {.weights = 0.100, .row = 0.002, .head = 0.01, .parts = 16},  /* reading is 50 rows' time */
        {.weights = 0.100, .row = 0.0005, .head = 0.01, .parts = 16}, /* 200 */
        {.weights = 0.100, .row = 0.002, .head = 0.01, .parts = 96},
        {.weights = 0.100, .row = 0.0005, .head = 0.01, .parts = 96},
        {.weights = 0.100, .row = 0.010, .head = 0.01, .parts = 96}, /* 10: it multiplies slowly */
    };
    (void)unused;
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        for (size_t answers = 1; answers <= 4; answers *= 2) {
            machine m = machines[i];
            outcome o = enter(&m, answers);
            assert_int_equal(o.over, 0);
            assert_true(o.seconds <= 1.4 * o.alone_seconds);
        }
    }
}

static void forwards_that_the_system_holds_up_change_little(void **unused) {
    (void)unused;
    machine m = {.weights = 0.1, .row = 0.002, .head = 0.01, .spread = 0.3, .parts = 32};
    outcome o = enter(&m, 2);
    assert_true(o.over <= 2 + o.steps / 20); /* the held-up ones themselves */
    assert_true(o.seconds <= 1.8 * o.alone_seconds);
}

static void alone_a_prompt_gets_all_the_room(void **unused) {
    (void)unused;
    fn_pace pace;
    assert_int_equal(fn_pace_init(&pace, 9, NULL), FN_OK);
    assert_int_equal(fn_pace_rows(&pace, 0, 512), 512);
    fn_pace_begin(&pace, 0);
    fn_pace_join(&pace, 0, 512);
    for (size_t i = 0; i < pace.n_parts; i++) {
        assert_true(fn_pace_take(&pace, i, 100.0 * (double)i));
    }
    assert_false(fn_pace_take(&pace, pace.n_parts, 1000));
    fn_pace_deinit(&pace);
}

static void however_slow_a_part_is_the_prompt_goes_on(void **unused) {
    (void)unused;
    fn_pace pace;
    size_t forwards = 0;
    assert_int_equal(fn_pace_init(&pace, 8, NULL), FN_OK);
    assert_false(fn_pace_knows(&pace, 3)); /* first learn what 3 answers take */
    fn_pace_begin(&pace, 3);
    fn_pace_join(&pace, 3, 0);
    fn_pace_end(&pace, 3, 0.1);
    assert_true(fn_pace_knows(&pace, 3));
    assert_true(fn_pace_knows(&pace, 1)); /* also where these never run without guesses */
    for (size_t part = 0; part < pace.n_parts; forwards++) {
        fn_pace_begin(&pace, 3);
        fn_pace_join(&pace, 3, 64);
        assert_true(fn_pace_take(&pace, part, 0));
        part++;
        assert_false(fn_pace_take(&pace, part, 100));
        fn_pace_end(&pace, 3, 100.1);
    }
    assert_int_equal(forwards, 8);
    size_t rows = fn_pace_rows(&pace, 3, 512);
    assert_true(rows >= 1 && rows <= 16);
    assert_true(fn_pace_ride(&pace, 3, 512) == 0);
    fn_pace_deinit(&pace);
}

/* 8 parts of 12.5 ms for the answer and 0.875 ms for each further row, in 2.6 times 100 ms: 22.9 rows. */
static void a_short_prompt_rides_where_the_gap_has_room(void **unused) {
    (void)unused;
    fn_pace pace;
    assert_int_equal(fn_pace_init(&pace, 8, NULL), FN_OK);
    fn_pace_begin(&pace, 0);
    fn_pace_join(&pace, 0, 100);
    for (size_t i = 0; i <= pace.n_parts; i++) {
        (void)fn_pace_take(&pace, i, 0.1 * (double)i);
    }
    fn_pace_end(&pace, 0, 0.8);
    fn_pace_begin(&pace, 1);
    fn_pace_join(&pace, 1, 0);
    fn_pace_end(&pace, 1, 0.1);
    assert_int_equal(fn_pace_ride(&pace, 1, 512), 22);
    assert_int_equal(fn_pace_ride(&pace, 1, 5), 5);
    assert_int_equal(fn_pace_ride(&pace, 0, 512), 64);
    fn_pace_deinit(&pace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_stay_small_and_the_prompt_is_little_later),
        cmocka_unit_test(forwards_that_the_system_holds_up_change_little),
        cmocka_unit_test(alone_a_prompt_gets_all_the_room),
        cmocka_unit_test(however_slow_a_part_is_the_prompt_goes_on),
        cmocka_unit_test(a_short_prompt_rides_where_the_gap_has_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
