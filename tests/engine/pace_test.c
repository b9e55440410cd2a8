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
    size_t layers;
    uint64_t dice;
} machine;

static const double shares[] = {
    [FN_PACE_DELTA] = 0.9, [FN_PACE_ATTENTION] = 1.3, [FN_PACE_EXPERTS] = 1.0};

static double part_seconds(machine *m, const fn_pace *p, size_t part, size_t rows) {
    double share = shares[p->kinds[part]] / (double)p->n_parts;
    double t = share * fmax(m->weights, (double)rows * m->row);
    m->dice = fn_hash_mix(m->dice + 1);
    t *= 1 + m->spread * (double)(m->dice % 1000) / 1000;
    bool held_up = m->spread > 0 && m->dice >> 32 < UINT32_MAX / 2000;
    return held_up ? t + 10 * m->weights : t;
}

static fn_shape shape_of(const machine *m) {
    fn_shape shape = {.n_layers = m->layers};
    for (size_t i = 0; i < m->layers; i++) {
        shape.layer_kind[i] = i % 4 == 3 ? FN_LAYER_ATTENTION : FN_LAYER_DELTA;
    }
    return shape;
}

/* A forward over so many rows of answers, and of the chunk the parts that the pace takes from *part on. */
static double forward(machine *m, fn_pace *p, size_t answers, size_t chunk, size_t *part) {
    double now = m->head * (1 + m->spread / 2);
    bool goes = false;
    fn_pace_begin(p, answers, chunk);
    for (size_t i = answers > 0 ? 0 : *part; i < p->n_parts; i++) {
        goes = chunk > 0 && *part == i && fn_pace_take(p, i, now);
        if (answers + (goes ? chunk : 0) > 0) {
            now += part_seconds(m, p, i, answers + (goes ? chunk : 0));
        }
        *part += goes;
    }
    if (chunk > 0 && *part == p->n_parts && goes) {
        assert_false(fn_pace_take(p, p->n_parts, now));
    }
    fn_pace_end(p, answers, now);
    return now;
}

typedef struct outcome {
    size_t over; /* forwards longer than 3 x one of the answers alone */
    size_t forwards;
    double seconds, alone_seconds;
} outcome;

static outcome enter(machine *m, size_t answers) {
    fn_pace pace;
    fn_shape shape = shape_of(m);
    outcome o = {0};
    size_t part = 0;
    assert_int_equal(fn_pace_init(&pace, &shape, false, NULL), FN_OK);
    for (size_t read = 0; read < PROMPT; part = 0) {
        size_t n = fn_pace_rows(&pace, 0, PROMPT - read < ROOM ? PROMPT - read : ROOM);
        o.alone_seconds += forward(m, &pace, 0, n, &part);
        read += n;
    }
    double quiet = 0;
    for (size_t i = 0; i < 30; i++) {
        quiet += forward(m, &pace, answers, 0, &part) / 30;
    }
    for (size_t read = 0; read < PROMPT;) {
        size_t n = fn_pace_rows(&pace, answers, PROMPT - read < ROOM ? PROMPT - read : ROOM);
        assert_true(n > 0 && n <= PROMPT - read);
        for (part = 0; part < pace.n_parts; o.forwards++) {
            double t = forward(m, &pace, answers, n, &part);
            o.over += t > 3 * quiet;
            o.seconds += t;
        }
        read += n;
    }
    fn_pace_deinit(&pace);
    return o;
}

static void gaps_stay_small_and_the_prompt_is_little_later(void **unused) {
    static const machine machines[] = {
        {.weights = 0.100, .row = 0.002, .head = 0.01, .layers = 8},  /* reading is 50 rows' time */
        {.weights = 0.100, .row = 0.0005, .head = 0.01, .layers = 8}, /* 200 */
        {.weights = 0.100, .row = 0.002, .head = 0.01, .layers = 48},
        {.weights = 0.100, .row = 0.0005, .head = 0.01, .layers = 48},
        {.weights = 0.100, .row = 0.010, .head = 0.01, .layers = 48}, /* 10: it multiplies slowly */
    };
    (void)unused;
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        for (size_t answers = 1; answers <= 4; answers *= 2) {
            machine m = machines[i];
            outcome o = enter(&m, answers);
            assert_int_equal(o.over, 0);
            assert_true(o.seconds <= 1.75 * o.alone_seconds);
        }
    }
}

static void forwards_that_the_system_holds_up_change_little(void **unused) {
    (void)unused;
    machine m = {.weights = 0.1, .row = 0.002, .head = 0.01, .spread = 0.3, .layers = 16};
    outcome o = enter(&m, 2);
    assert_true(o.over <= 2 + o.forwards / 20); /* the held-up ones themselves */
    assert_true(o.seconds <= 1.8 * o.alone_seconds);
}

static void alone_a_prompt_gets_all_the_room(void **unused) {
    (void)unused;
    machine m = {.layers = 4};
    fn_shape shape = shape_of(&m);
    fn_pace pace;
    assert_int_equal(fn_pace_init(&pace, &shape, true, NULL), FN_OK);
    assert_int_equal(pace.n_parts, 9);
    assert_int_equal(fn_pace_rows(&pace, 0, 512), 512);
    fn_pace_begin(&pace, 0, 512);
    for (size_t i = 0; i < pace.n_parts; i++) {
        assert_true(fn_pace_take(&pace, i, 100.0 * (double)i));
    }
    assert_false(fn_pace_take(&pace, pace.n_parts, 1000));
    fn_pace_deinit(&pace);
}

static void however_slow_a_part_is_the_prompt_goes_on(void **unused) {
    (void)unused;
    machine m = {.layers = 4};
    fn_shape shape = shape_of(&m);
    fn_pace pace;
    size_t forwards = 0;
    assert_int_equal(fn_pace_init(&pace, &shape, false, NULL), FN_OK);
    assert_false(fn_pace_knows(&pace, 3)); /* first learn what 3 answers take */
    fn_pace_begin(&pace, 3, 0);
    fn_pace_end(&pace, 3, 0.1);
    assert_true(fn_pace_knows(&pace, 3));
    for (size_t part = 0; part < pace.n_parts; forwards++) {
        fn_pace_begin(&pace, 3, 64);
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

/* 8 parts of 12.5 ms for the answer and 0.875 ms for each further row, in 2.7 times 100 ms: 24.3 rows. */
static void a_short_prompt_rides_where_the_gap_has_room(void **unused) {
    (void)unused;
    machine m = {.layers = 4};
    fn_shape shape = shape_of(&m);
    fn_pace pace;
    assert_int_equal(fn_pace_init(&pace, &shape, false, NULL), FN_OK);
    fn_pace_begin(&pace, 0, 100);
    for (size_t i = 0; i <= pace.n_parts; i++) {
        (void)fn_pace_take(&pace, i, 0.1 * (double)i);
    }
    fn_pace_end(&pace, 0, 0.8);
    fn_pace_begin(&pace, 1, 0);
    fn_pace_end(&pace, 1, 0.1);
    assert_int_equal(fn_pace_ride(&pace, 1, 512), 24);
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
