/* Log-probabilities of the raw distribution. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "sampling/logprobs.h"

static void equals_log_softmax(void **state) {
    (void)state;
    /* log_softmax of 1, 2, 3, 4: x - 4 - ln(1 + e^-1 + e^-2 + e^-3) */
    const float logits[4] = {1, 2, 3, 4};
    const float log_sum = 0.44018969856119544F;
    fn_token_logprob top[6];
    float logprob = 0;
    fn_error err = {0};
    assert_int_equal(fn_logprobs(logits, 4, 1, &logprob, top, 6, &err), FN_OK);
    assert_float_equal(logprob, -2 - log_sum, 1e-6F);
    for (int32_t i = 0; i < 4; i++) {
        assert_int_equal(top[i].id, 3 - i);
        assert_float_equal(top[i].logprob, -(float)i - log_sum, 1e-6F);
    }
    assert_int_equal(top[4].id, -1);
    assert_true(isinf(top[5].logprob));
}

static void large_logits_do_not_overflow_and_ties_are_ordered(void **state) {
    (void)state;
    const float logits[4] = {3e38F, -3e38F, 3e38F, -INFINITY};
    fn_token_logprob top[2];
    float logprob = 0;
    fn_error err = {0};
    assert_int_equal(fn_logprobs(logits, 4, 2, &logprob, top, 2, &err), FN_OK);
    assert_float_equal(logprob, -0.69314718F, 1e-6F);
    assert_int_equal(top[0].id, 0);
    assert_int_equal(top[1].id, 2);
}

static void infinite_logits_share_all_probability(void **state) {
    (void)state;
    const float logits[4] = {INFINITY, 1, INFINITY, 2};
    fn_token_logprob top[3];
    float logprob = 0;
    fn_error err = {0};
    assert_int_equal(fn_logprobs(logits, 4, 3, &logprob, top, 3, &err), FN_OK);
    assert_true(isinf(logprob) && logprob < 0);
    assert_float_equal(top[1].logprob, -0.69314718F, 1e-6F);
    assert_int_equal(top[2].id, -1);
}

static void nan_nothing_and_wrong_ids_are_errors(void **state) {
    (void)state;
    const float nan_logit[2] = {1, NAN};
    const float nothing[2] = {-INFINITY, -INFINITY};
    const float usual[2] = {1, 2};
    float logprob = 0;
    assert_int_equal(fn_logprobs(nan_logit, 2, 0, &logprob, NULL, 0, NULL), FN_E_NUMERIC);
    assert_int_equal(fn_logprobs(nothing, 2, 0, &logprob, NULL, 0, NULL), FN_E_NUMERIC);
    assert_int_equal(fn_logprobs(usual, 2, 2, &logprob, NULL, 0, NULL), FN_E_RANGE);
    assert_int_equal(fn_logprobs(usual, 2, -1, &logprob, NULL, 0, NULL), FN_E_RANGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_log_softmax),
        cmocka_unit_test(large_logits_do_not_overflow_and_ties_are_ordered),
        cmocka_unit_test(infinite_logits_share_all_probability),
        cmocka_unit_test(nan_nothing_and_wrong_ids_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
