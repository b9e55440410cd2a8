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
        fn_draft_pace_note(pace, k, held, draft * (double)k, 1 + row * (double)k);
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
    fn_draft_pace_note(&pace, 0, 0, 0, 1.0);
    fn_draft_pace_note(&pace, 4, 2, 0.1, 1.5);
    assert_true(fn_draft_pace_seconds(&pace, 2) > 1.24 && fn_draft_pace_seconds(&pace, 2) < 1.26);
    assert_true(fn_draft_pace_seconds(&pace, 8) > 1.99 && fn_draft_pace_seconds(&pace, 8) < 2.01);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cheap_rows_and_good_guesses_draft_all_that_may_be),
        cmocka_unit_test(where_drafting_loses_next_to_nothing_is_drafted),
        cmocka_unit_test(a_head_that_recovers_is_noticed),
        cmocka_unit_test(a_fixed_number_is_kept),
        cmocka_unit_test(seconds_that_were_not_measured_lie_on_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
