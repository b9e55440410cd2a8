/* The size of prompt chunks beside running answers, on machines made of formulas: how long a gap becomes, and how
 * much later the prompt is read. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/hash.h"
#include "engine/pace.h"

#define CHUNK 512
#define PROMPT 4000

/* Seconds of a forward: it reads the weights once, and multiplies for each row; which of the two takes longer
 * counts. spread: every forward is up to so much slower, one in 200 ten times as slow. */
typedef struct machine {
    double weights, row, fixed, spread;
    uint64_t dice;
} machine;

static double forward(machine *m, size_t rows) {
    double work = (double)rows * m->row;
    double t = m->fixed + (work > m->weights ? work : m->weights);
    m->dice = fn_hash_mix(m->dice + 1);
    t *= 1 + m->spread * (double)(m->dice % 1000) / 1000;
    return m->spread > 0 && m->dice >> 32 < UINT32_MAX / 200 ? 10 * t : t;
}

typedef struct outcome {
    size_t over; /* forwards longer than 3 x one of the answers alone */
    size_t forwards;
    double seconds, alone_seconds;
} outcome;

static outcome enter(machine *m, size_t answers) {
    fn_pace pace = {0};
    outcome o = {0};
    double quiet = m->fixed + fmax(m->weights, (double)answers * m->row);
    for (size_t i = 0; i < 30; i++) {
        fn_pace_learn(&pace, answers, 0, forward(m, answers));
    }
    for (size_t read = 0; read < PROMPT; o.forwards++) {
        size_t room = PROMPT - read < CHUNK - answers ? PROMPT - read : CHUNK - answers;
        size_t n = fn_pace_chunk(&pace, answers, room);
        double t = forward(m, answers + n);
        fn_pace_learn(&pace, answers, n, t);
        o.over += t > 3 * quiet * (1 + m->spread);
        o.seconds += t;
        read += n;
    }
    for (size_t read = 0; read < PROMPT; read += CHUNK) {
        o.alone_seconds += forward(m, PROMPT - read < CHUNK ? PROMPT - read : CHUNK);
    }
    return o;
}

static void gaps_stay_small_and_the_prompt_is_little_later(void **unused) {
    static const machine machines[] = {
        {.weights = 0.100, .row = 0.002, .fixed = 0.002}, /* reading 50 x multiplying a row */
        {.weights = 0.100,
         .row = 0.0005,
         .fixed = 0.002},                                 /* 200 x: a machine good at multiplying */
        {.weights = 0.100, .row = 0.010, .fixed = 0.002}, /* 10 x: a slow one */
    };
    (void)unused;
    for (size_t i = 0; i < 3; i++) {
        for (size_t answers = 1; answers <= 4; answers *= 2) {
            machine m = machines[i];
            outcome o = enter(&m, answers);
            assert_int_equal(o.over, 0);
            assert_true(o.seconds <= 1.5 * o.alone_seconds);
        }
    }
}

static void forwards_that_the_system_holds_up_change_little(void **unused) {
    (void)unused;
    machine m = {.weights = 0.1, .row = 0.002, .fixed = 0.002, .spread = 0.3};
    outcome o = enter(&m, 2);
    assert_true(o.over <= 1 + o.forwards / 50); /* the held-up ones themselves */
    assert_true(o.seconds <= 1.6 * o.alone_seconds);
}

static void alone_a_prompt_gets_all_the_room(void **unused) {
    (void)unused;
    fn_pace pace = {0};
    assert_int_equal(fn_pace_chunk(&pace, 0, 512), 512);
    assert_int_equal(fn_pace_chunk(&pace, 3, 512), 0); /* first learn what 3 answers take */
    fn_pace_learn(&pace, 3, 0, 0.1);
    size_t first = fn_pace_chunk(&pace, 3, 512);
    assert_true(first >= 1 && first <= 32);
    assert_int_equal(fn_pace_chunk(&pace, 3, 2), 2);
    fn_pace_learn(&pace, 3, first, 100); /* however slow it is, the prompt goes on */
    assert_true(fn_pace_chunk(&pace, 3, 512) >= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_stay_small_and_the_prompt_is_little_later),
        cmocka_unit_test(forwards_that_the_system_holds_up_change_little),
        cmocka_unit_test(alone_a_prompt_gets_all_the_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
