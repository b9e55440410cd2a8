/* How many ids are guessed ahead, for passes of known cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "drafting/draft_pace.h"

/* Passes against a machine whose forward of 1 + k rows takes 1 + k * row seconds and a draft `draft`, and a
 * head whose draft i holds in every pass but each `miss`-th; the sum of drafts in the last 100 of n passes. */
static size_t drafts_late(fn_draft_pace *pace, size_t n, double row, double draft, size_t miss) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        size_t k = fn_draft_pace_choose(pace);
        size_t held = miss > 0 && i % miss == 0 ? 0 : k;
        fn_draft_outcome pass = {k, k, held, draft * (double)k, 1 + row * (double)k};
        fn_draft_pace_note(pace, &pass);
        sum += i + 100 >= n ? k : 0;
    }
    return sum;
}

static void cheap_rows_and_good_guesses_draft_all_that_may_be(void **unused) {
    fn_draft_pace pace;
    (void)unused;
    fn_draft_pace_init(&pace, 4, false);
    assert_int_equal(drafts_late(&pace, 300, 0.1, 0.02, 0), 400);
    assert_int_equal(fn_draft_pace_choose(&pace), 4);
}

static void where_drafting_loses_next_to_nothing_is_drafted(void **unused) {
    fn_draft_pace pace;
    (void)unused;
    fn_draft_pace_init(&pace, 4, false);
    assert_true(drafts_late(&pace, 600, 0.3, 0.1, 1) <= 2); /* all miss */
    fn_draft_pace_init(&pace, 4, false);
    assert_true(drafts_late(&pace, 600, 1.2, 0.1, 0) <= 2); /* all hold, but rows cost too much */
}

static void a_head_that_recovers_is_noticed(void **unused) {
    fn_draft_pace pace;
    (void)unused;
    fn_draft_pace_init(&pace, 3, false);
    assert_true(drafts_late(&pace, 300, 0.2, 0.05, 1) <= 2);
    assert_true(drafts_late(&pace, 5000, 0.2, 0.05, 0) >= 250);
}

static void a_fixed_number_is_kept(void **unused) {
    fn_draft_pace pace;
    (void)unused;
    fn_draft_pace_init(&pace, 5, true);
    assert_int_equal(drafts_late(&pace, 200, 2.0, 1.0, 1), 500);
}

static void seconds_that_were_not_measured_lie_on_a_line(void **unused) {
    fn_draft_pace pace;
    (void)unused;
    fn_draft_pace_init(&pace, 8, false);
    assert_true(fn_draft_pace_seconds(&pace, 3) <= 0.0);
    fn_draft_pace_note(&pace, &(fn_draft_outcome){.forward_seconds = 1.0});
    fn_draft_pace_note(&pace, &(fn_draft_outcome){4, 4, 2, 0.1, 1.5});
    assert_true(fn_draft_pace_seconds(&pace, 2) > 1.24 && fn_draft_pace_seconds(&pace, 2) < 1.26);
    assert_true(fn_draft_pace_seconds(&pace, 2.5) > 1.30 &&
                fn_draft_pace_seconds(&pace, 2.5) < 1.32);
    assert_true(fn_draft_pace_seconds(&pace, 8) > 1.99 && fn_draft_pace_seconds(&pace, 8) < 2.01);
}

/* A head that is never sure computes a guess and makes none: that is a cost, too. */
static void a_drafter_that_always_gives_up_is_seldom_asked(void **unused) {
    size_t asked = 0;
    fn_draft_pace pace;
    (void)unused;
    fn_draft_pace_init(&pace, 4, false);
    for (size_t i = 0; i < 1000; i++) {
        size_t wanted = fn_draft_pace_choose(&pace);
        asked += wanted > 0;
        fn_draft_outcome pass = {
            .wanted = wanted, .guess_seconds = wanted > 0 ? 0.12 : 0, .forward_seconds = 1};
        fn_draft_pace_note(&pace, &pass);
    }
    assert_true(asked < 30); /* of 1000: 0.4 % of the time */
}

/* Prompt look-up: saying nothing costs nothing, and what it says pays. */
static void a_drafter_that_costs_nothing_is_always_asked(void **unused) {
    size_t asked = 0;
    fn_draft_pace pace;
    (void)unused;
    fn_draft_pace_init(&pace, 4, false);
    for (size_t i = 0; i < 1000; i++) {
        size_t wanted = fn_draft_pace_choose(&pace);
        size_t made = i % 10 == 0 ? wanted : 0;
        asked += wanted > 0;
        fn_draft_outcome pass = {wanted, made, made, 1e-6, 1 + 0.1 * (double)made};
        fn_draft_pace_note(&pace, &pass);
    }
    assert_true(asked > 900);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cheap_rows_and_good_guesses_draft_all_that_may_be),
        cmocka_unit_test(where_drafting_loses_next_to_nothing_is_drafted),
        cmocka_unit_test(a_head_that_recovers_is_noticed),
        cmocka_unit_test(a_fixed_number_is_kept),
        cmocka_unit_test(a_drafter_that_always_gives_up_is_seldom_asked),
        cmocka_unit_test(a_drafter_that_costs_nothing_is_always_asked),
        cmocka_unit_test(seconds_that_were_not_measured_lie_on_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
