/* How prompts and answers share the machine, on machines made of formulas: how long a gap becomes, and how much later the
 * prompt is read. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/hash.h"
#include "engine/pace.h"

#define ROOM 2048
#define PROMPT 4000

/* Seconds of a forward of answers on all threads and on its part of them; of a prompt's row on all. spread: each forward
 * is up to so much slower, and one in 50 five times as slow. */
typedef struct machine {
    double quiet, beside, row, part, spread;
    uint64_t dice;
} machine;

static double now_and_then(machine *m, double seconds) {
    m->dice = fn_hash_mix(m->dice + 1);
    bool held_up = m->spread > 0 && (m->dice >> 20) % 50 == 0;
    return seconds * (1 + m->spread * (double)(m->dice % 1000) / 1000) * (held_up ? 5 : 1);
}

typedef struct outcome {
    double
        gap; /* the longest, over one alone; but for the first, when it is not known what one takes beside */
    double later;
} outcome;

/* A prompt enters beside an answer: as the scheduler does it, a forward of the answer each period, in which the chunk
 * goes on with the other threads. */
static outcome enter(machine *m) {
    fn_pace pace = {.part = m->part};
    outcome o = {0};
    for (size_t i = 0; i < 20; i++) {
        fn_pace_learn(&pace, 1, 0, false, now_and_then(m, m->quiet));
    }
    double time = 0;
    size_t chunks = 0;
    size_t steps = 0;
    for (double left = PROMPT; left > 0;) {
        double rows = (double)fn_pace_rows(&pace, true, ROOM);
        rows = rows < left ? rows : left;
        double began = time;
        for (double undone = rows * m->row; undone > 0;) {
            double step = now_and_then(m, m->beside);
            double period = fmax(step, fn_pace_period(&pace, 1));
            double done = step * (1 - m->part) + (period - step);
            period = done > undone ? period * undone / done : period;
            undone -= done;
            time += period;
            assert_true(m->spread > 0 || period <= 2.801 * m->quiet);
            o.gap = steps++ > 0 ? fmax(o.gap, period / m->quiet) : 0;
            fn_pace_learn(&pace, 1, 0, true, step);
        }
        fn_pace_learn_chunk(&pace, (size_t)rows, time - began);
        left -= rows;
        chunks++;
    }
    assert_true(chunks >= 2 || PROMPT * m->row < 2);
    o.later = time / (PROMPT * m->row);
    return o;
}

/* The promise: no gap above 2.8 times; and where a part of the threads reads nearly as fast as all, smaller gaps with
 * prompts that take at most 1 / (1 - 0.28) times as long. */
static void gaps_stay_small_and_the_prompt_is_little_later(void **unused) {
    (void)unused;
    machine half = {.quiet = 0.032, .beside = 0.042, .row = 0.0015, .part = 0.5};
    outcome o = enter(&half);
    assert_true(o.gap <= 2.4 && o.later <= 1.41);
    machine sixteen = {.quiet = 0.100, .beside = 0.105, .row = 0.002, .part = 0.5};
    o = enter(&sixteen);
    assert_true(o.gap <= 1.9 && o.later <= 1.41);
    machine fast = {.quiet = 0.022, .beside = 0.041, .row = 0.0015, .part = 0.5};
    o = enter(&fast);
    assert_true(o.gap <= 2.81 && o.later <= 1.52);
    machine multiplies = {.quiet = 0.1, .beside = 0.2, .row = 0.002, .part = 0.5};
    o = enter(&multiplies);
    assert_true(o.gap <= 2.81 && o.later <= 1.57);
    machine single = {.quiet = 0.1, .beside = 0.1, .row = 0.004, .part = 1}; /* takes turns */
    o = enter(&single);
    assert_true(o.gap <= 2.81 && o.later <= 1.57);
}

static void forwards_that_the_system_holds_up_change_little(void **unused) {
    (void)unused;
    machine m = {.quiet = 0.032, .beside = 0.042, .row = 0.0015, .part = 0.5, .spread = 0.3};
    outcome o = enter(&m);
    assert_true(o.later <= 1.7);
    fn_pace pace = {.part = 0.5};
    for (size_t i = 0; i < 20; i++) {
        fn_pace_learn(&pace, 1, 0, false, i == 15 ? 3.0 : 0.032);
    }
    assert_true(fn_pace_period(&pace, 1) < 1.1 * 2.8 * 0.032);
}

static void alone_a_prompt_gets_all_the_room(void **unused) {
    (void)unused;
    fn_pace pace = {.part = 0.5};
    assert_false(fn_pace_knows(&pace));
    assert_int_equal(fn_pace_rows(&pace, false, ROOM), ROOM);
    fn_pace_learn_chunk(&pace, 2048, 10);
    assert_int_equal(fn_pace_rows(&pace, false, ROOM), ROOM);
}

/* Who comes later waits for a chunk's end: it takes a second, unless so few rows would read every weight for little. */
static void a_chunk_beside_others_is_short(void **unused) {
    (void)unused;
    static const struct {
        double rate;
        size_t room, rows;
    } cases[] = {{100, 2048, 512}, {800, 2048, 800}, {5000, 2048, 2048}, {100, 64, 64}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fn_pace pace = {.part = 0.5};
        assert_true(fn_pace_rows(&pace, true, cases[i].room) <= 512);
        fn_pace_learn_chunk(&pace, 1000, 1000 / cases[i].rate);
        size_t rows = fn_pace_rows(&pace, true, cases[i].room);
        assert_true(rows >= cases[i].rows - 1 && rows <= cases[i].rows);
    }
}

static void a_short_prompt_rides_where_the_gap_has_room(void **unused) {
    (void)unused;
    fn_pace pace = {.part = 0.5};
    assert_int_equal(fn_pace_ride(&pace, 0, false, 64), 64); /* nobody waits */
    fn_pace_learn(&pace, 1, 0, false, 0.1);
    assert_int_equal(fn_pace_ride(&pace, 1, false, 64), 16); /* not known what it costs */
    assert_int_equal(fn_pace_ride(&pace, 1, false, 8), 8);
    for (size_t beside = 0; beside < 2; beside++) { /* 0.1 + 0.01 a row */
        fn_pace_learn(&pace, 3, 2, beside, 0.12);
        fn_pace_learn(&pace, 11, 10, beside, 0.2);
        size_t ids = fn_pace_ride(&pace, 1, beside, 64);
        double seconds = 0.09 + 0.01 * (double)(1 + ids);
        assert_true(seconds <= fn_pace_period(&pace, 1));
        assert_true(ids == 64 || seconds + 0.02 > fn_pace_period(&pace, 1));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_stay_small_and_the_prompt_is_little_later),
        cmocka_unit_test(forwards_that_the_system_holds_up_change_little),
        cmocka_unit_test(alone_a_prompt_gets_all_the_room),
        cmocka_unit_test(a_chunk_beside_others_is_short),
        cmocka_unit_test(a_short_prompt_rides_where_the_gap_has_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
