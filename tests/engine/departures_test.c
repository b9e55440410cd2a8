/* Whoever leaves the scheduler, at any moment, disturbs nobody: the others get what they get alone, and nothing is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/hash.h"
#include "engine/scheduler.h"
#include "support/check_error.h"
#include "support/model_case.h"
#include "support/requests.h"

#define CONTEXT 256

static void who_leaves_disturbs_nobody(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[0], 2, 8, CONTEXT);
    fn_scheduler *s = told_scheduler(
        engine,
        (fn_scheduler_options){.max_running = 2, .state_bytes = 1 << 28, .cache_bytes = 1 << 26});
    asked a = asked_long(engine, 8, 20, 200);
    asked b = asked_long(engine, 9, 240, 10);
    told alone;
    told t[4];
    told_alone(engine, &a, &alone);
    told_prepare(&t[0], &a);
    t[0].hold_at = 3; /* so that nobody is done before the others leave */
    assert_int_equal(told_try(s, &a, NULL, &t[0], NULL), FN_OK);
    told_wait_ids(&t[0], 3);
    told_prepare(&t[1], &b);
    t[1].holds = &t[0];
    assert_int_equal(told_try(s, &b, NULL, &t[1], NULL), FN_OK); /* reads its prompt */
    told_start(s, &b, NULL, &t[2]);                              /* waits */
    told_start(s, &b, NULL, &t[3]);
    fn_request_cancel(t[2].request);
    told_let_go(&t[0]);
    told_wait(&t[2]);
    assert_int_equal(t[2].result.status, FN_E_CANCELLED);
    assert_int_equal(t[2].result.n_generated, 0);
    pthread_mutex_lock(&t[1].mutex);
    while (t[1].n_progress < 2) {
        pthread_cond_wait(&t[1].changed, &t[1].mutex);
    }
    pthread_mutex_unlock(&t[1].mutex);
    fn_request_cancel(t[1].request);
    fn_request_cancel(t[1].request);
    told_let_go(&t[0]);
    told_wait(&t[1]);
    assert_int_equal(t[1].result.status, FN_E_CANCELLED);
    assert_false(t[1].answers[0].ended);
    told_wait(&t[3]);
    assert_int_equal(t[3].result.status, FN_OK);
    assert_true(t[3].result.n_cached > 0); /* what the one before had read was kept */
    told_wait(&t[0]);
    assert_same_told(&t[0], &alone);
    fn_request_cancel(t[0].request); /* too late: harmless */
    for (size_t i = 0; i < 4; i++) {
        told_free(&t[i]);
    }
    told_free(&alone);
    /* In the middle of an answer, by its callback and from outside. */
    for (size_t way = 0; way < 3; way++) {
        told_prepare(&t[0], &a);
        t[0].stop_after = way == 0 ? 7 : 0;
        t[0].cancel_after = way == 1 ? 7 : 0;
        if (way == 2) {
            told_start(s, &a, NULL, &t[1]);
            t[0].holds = &t[1];
            t[0].holds_with = 7;
        }
        assert_int_equal(told_try(s, &a, NULL, &t[0], NULL), FN_OK);
        if (way == 2) {
            told_wait_ids(&t[0], 7);
            fn_request_cancel(t[0].request);
            told_let_go(&t[1]);
            told_free(&t[1]);
        }
        told_wait(&t[0]);
        assert_int_equal(t[0].result.status, way == 0 ? FN_OK : FN_E_CANCELLED);
        assert_true(t[0].answers[0].n >= 7 && t[0].answers[0].n < 200);
        assert_int_equal(t[0].result.n_generated, t[0].answers[0].n);
        if (way == 0) {
            assert_int_equal(t[0].answers[0].generated.finish, FN_FINISH_CANCELLED);
        }
        told_free(&t[0]);
    }
    fn_scheduler_destroy(s);
    fn_engine_close(engine);
}

/* Between the end of an answer and the forward that reads its last id. */
static void who_leaves_at_the_end_of_an_answer_holds_nobody_up(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[0], 2, 8, CONTEXT);
    fn_scheduler *s = told_scheduler(
        engine,
        (fn_scheduler_options){.max_running = 2, .state_bytes = 1 << 28, .cache_bytes = 1 << 26});
    asked a = asked_long(engine, 8, 20, 10);
    told alone;
    told t[2];
    told_alone(engine, &a, &alone);
    told_prepare(&t[0], &a);
    t[0].hold_at = 1; /* until its handle is there */
    t[0].cancel_at_end = true;
    assert_int_equal(told_try(s, &a, NULL, &t[0], NULL), FN_OK);
    told_let_go(&t[0]);
    told_wait(&t[0]);
    told_start(s, &a, NULL, &t[1]);
    for (size_t i = 0; i < 2; i++) {
        told_wait(&t[i]);
        assert_same_told(&t[i], &alone);
        told_free(&t[i]);
    }
    told_free(&alone);
    fn_scheduler_destroy(s);
    fn_engine_close(engine);
}

/* Between two chunks of a prompt that nobody else shares: it is not begun anew, for ever; and of those that share one, who
 * left is read no further. */
static void who_leaves_while_a_prompt_is_read_holds_nobody_up(void **unused) {
    (void)unused;
    enum { SHARING = 4, CHUNK = 64 };
    fn_engine *engine = open_model(model_dirs[0], 2, CHUNK, CONTEXT);
    fn_scheduler *s = told_scheduler(
        engine, (fn_scheduler_options){.max_running = SHARING, .state_bytes = 1 << 28});
    asked a = asked_long(engine, 8, CONTEXT - 20, 10);
    const fn_request_options whole = {.no_cache = true}; /* no piece so short that it rides */
    told alone;
    told t[SHARING];
    told_alone(engine, &a, &alone);
    for (size_t leaving = 1; leaving <= SHARING; leaving++) {
        fn_scheduler_counts before;
        fn_scheduler_counts after;
        size_t stays = leaving == SHARING ? 1 : 0; /* one of those who share */
        fn_scheduler_get_counts(s, &before);
        told_prepare(&t[0], &a); /* holds the thread, so that the others begin together */
        t[0].hold_at = 1;
        assert_int_equal(told_try(s, &a, &whole, &t[0], NULL), FN_OK);
        told_wait_ids(&t[0], 1);
        for (size_t i = 1; i < leaving; i++) {
            told_prepare(&t[i], &a);
            t[i].cancel_progress = i == stays ? 0 : 2;
            assert_int_equal(told_try(s, &a, &whole, &t[i], NULL), FN_OK);
        }
        told_let_go(&t[0]);
        for (size_t i = 0; i < leaving; i++) {
            told_wait(&t[i]);
            if (i == 0 || i == stays) {
                assert_same_told(&t[i], &alone);
            } else {
                assert_int_equal(t[i].result.status, FN_E_CANCELLED);
            }
            told_free(&t[i]);
        }
        fn_scheduler_get_counts(s, &after);
        assert_true(after.prompt_ids - before.prompt_ids <=
                    (stays > 0 ? 2 : 1) * a.n + (leaving - 1) * 2 * CHUNK);
    }
    told_prepare(&t[0], &a);
    t[0].cancel_progress = 2; /* alone */
    assert_int_equal(told_try(s, &a, &whole, &t[0], NULL), FN_OK);
    told_wait(&t[0]);
    told_free(&t[0]);
    told_start(s, &a, &whole, &t[0]);
    told_wait(&t[0]);
    assert_same_told(&t[0], &alone);
    told_free(&t[0]);
    told_free(&alone);
    fn_scheduler_destroy(s);
    fn_engine_close(engine);
}

static void destroying_ends_everybody_and_handles_stay_valid(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[0], 1, 16, CONTEXT);
    fn_scheduler *s =
        told_scheduler(engine, (fn_scheduler_options){.max_running = 2, .state_bytes = 1 << 28});
    told t[5];
    asked a = asked_long(engine, 3, 100, 150);
    for (size_t i = 0; i < 5; i++) {
        told_start(s, &a, NULL, &t[i]);
    }
    told_wait_ids(&t[0], 2);
    fn_request_free(t[4].request);
    t[4].request = NULL;
    fn_scheduler_destroy(s);
    for (size_t i = 0; i < 4; i++) {
        fn_request_state state;
        fn_request_get_state(t[i].request, &state);
        assert_int_equal(state.phase, FN_REQUEST_DONE);
        assert_true(t[i].done);
        assert_int_equal(t[i].result.status, FN_E_CANCELLED);
        fn_request_cancel(t[i].request);
        told_free(&t[i]);
    }
    assert_false(t[4].done);
    told_free(&t[4]);
    fn_engine_close(engine);
}

/* Disconnects at any moment, over and over; in between and at the end requests that must be right. */
static void random_departures_lose_nothing(void **unused) {
    (void)unused;
    enum { KINDS = 6, PLACES = 10, ROUNDS = 300 };
    fn_engine *engine = open_model(model_dirs[0], 2, 16, CONTEXT);
    fn_scheduler *s = told_scheduler(engine, (fn_scheduler_options){.max_running = 4,
                                                                    .max_waiting = 100,
                                                                    .state_bytes = 1 << 21,
                                                                    .cache_bytes = 1 << 20,
                                                                    .cache_spacing = 24});
    asked kinds[KINDS];
    told alone[KINDS];
    told t[PLACES] = {0};
    size_t kind_of[PLACES] = {0};
    for (size_t k = 0; k < KINDS; k++) {
        kinds[k] = asked_mixed(engine, k, k % 2 == 0 ? 0.0F : 1.0F);
        memcpy(kinds[k].ids, kinds[0].ids,
               sizeof kinds[k].ids[0] * (k % 3)); /* some share a start */
        told_alone(engine, &kinds[k], &alone[k]);
    }
    for (size_t round = 0; round < ROUNDS; round++) {
        uint64_t dice = fn_hash_mix(round);
        size_t place = dice % PLACES;
        if (t[place].request != NULL && dice >> 60 < 8) {
            told_free(&t[place]); /* wherever it is */
        } else if (t[place].request != NULL) {
            told_wait(&t[place]);
            assert_same_told(&t[place], &alone[kind_of[place]]);
            told_free(&t[place]);
        }
        if (t[place].request == NULL) {
            kind_of[place] = (dice >> 20) % KINDS;
            told_start(s, &kinds[kind_of[place]], NULL, &t[place]);
        }
        if ((dice >> 30) % 4 == 0) {
            nanosleep(&(struct timespec){.tv_nsec = (long)((dice >> 40) % 2000000)}, NULL);
        }
    }
    for (size_t place = 0; place < PLACES; place++) {
        if (t[place].request != NULL) {
            told_wait(&t[place]);
            assert_same_told(&t[place], &alone[kind_of[place]]);
            told_free(&t[place]);
        }
    }
    fn_scheduler_counts counts;
    do { /* those that left without waiting are still leaving */
        fn_scheduler_get_counts(s, &counts);
    } while (counts.running > 0 || counts.state_bytes > 0);
    assert_true(counts.cache_bytes <= counts.cache_limit);
    assert_int_equal(counts.failed, 0);
    for (size_t k = 0; k < KINDS; k++) {
        told_free(&alone[k]);
    }
    fn_scheduler_destroy(s);
    assert_int_equal(fn_state_pool_kept_bytes(engine->states), 0);
    fn_engine_close(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_leaves_disturbs_nobody),
        cmocka_unit_test(who_leaves_at_the_end_of_an_answer_holds_nobody_up),
        cmocka_unit_test(who_leaves_while_a_prompt_is_read_holds_nobody_up),
        cmocka_unit_test(destroying_ends_everybody_and_handles_stay_valid),
        cmocka_unit_test(random_departures_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
