/* Reads of many batches at once: each done exactly once, one error of several, nothing left running. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/read_pool.h"
#include "support/alloc_fail.h"
#include "support/check_error.h"

enum { N = 500 };

typedef struct counted {
    atomic_int times[N];
    size_t fail_from; /* reads from this number on fail */
    atomic_int running;
    bool slow;
} counted;

static fn_status count(void *ctx, size_t i, fn_error *err) {
    counted *c = ctx;
    (void)atomic_fetch_add(&c->running, 1);
    (void)atomic_fetch_add(&c->times[i], 1);
    if (c->slow) {
        struct timespec nap = {0, 200000};
        (void)nanosleep(&nap, NULL);
    }
    (void)atomic_fetch_sub(&c->running, 1);
    return i < c->fail_from ? FN_OK : fn_fail(err, FN_E_IO, "read %zu failed", i);
}

static fn_read_pool *new_pool(size_t threads) {
    fn_read_pool *pool = NULL;
    assert_int_equal(fn_read_pool_create(threads, &pool, NULL), FN_OK);
    return pool;
}

static void run_once(fn_read_pool *pool, size_t n, size_t run) {
    counted c = {.fail_from = N};
    fn_error err = {0};
    fn_read_batch batch = {.job = count, .ctx = &c, .n = n, .run = run};
    fn_read_pool_start(pool, &batch);
    assert_int_equal(fn_read_pool_wait(pool, &batch, &err), FN_OK);
    assert_int_equal(err.code, FN_OK);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(atomic_load(&c.times[i]), i < n ? 1 : 0);
    }
}

static void every_read_is_done_once(void **unused) {
    static const size_t threads[] = {1, 3, 16};
    (void)unused;
    for (size_t t = 0; t < 3; t++) {
        fn_read_pool *pool = new_pool(threads[t]);
        for (size_t n = 0; n < 40; n++) {
            run_once(pool, n, 1 + n % 5);
        }
        run_once(pool, N, 7);
        fn_read_pool_destroy(pool);
    }
    run_once(NULL, N, 3);
    fn_read_pool_destroy(NULL);
}

static void batches_wait_for_their_own_reads_alone(void **unused) {
    (void)unused;
    fn_read_pool *pool = new_pool(4);
    static counted c[5];
    fn_read_batch batches[5];
    for (size_t b = 0; b < 5; b++) {
        c[b].fail_from = b == 2 ? 5 : N;
        c[b].slow = b == 0;
        batches[b] = (fn_read_batch){.job = count, .ctx = &c[b], .n = 60 + b, .run = 1 + b};
        fn_read_pool_start(pool, &batches[b]);
    }
    static const size_t order[] = {3, 2, 4, 1, 0};
    for (size_t k = 0; k < 5; k++) {
        size_t b = order[k];
        fn_error err = {0};
        fn_status status = fn_read_pool_wait(pool, &batches[b], &err);
        assert_int_equal(atomic_load(&c[b].running), 0);
        if (b == 2) {
            check_error(status, &err, FN_E_IO, "read 5 failed");
            continue;
        }
        assert_int_equal(status, FN_OK);
        for (size_t i = 0; i < 60 + b; i++) {
            assert_int_equal(atomic_load(&c[b].times[i]), 1);
        }
    }
    fn_read_pool_destroy(pool);
}

static void after_a_failure_nothing_runs_and_the_lowest_is_told(void **unused) {
    static const size_t threads[] = {0, 1, 8};
    (void)unused;
    for (size_t t = 0; t < 3; t++) {
        fn_read_pool *pool = threads[t] > 0 ? new_pool(threads[t]) : NULL;
        for (size_t round = 0; round < 50; round++) {
            counted c = {.fail_from = round};
            fn_error err = {0};
            fn_read_batch batch = {.job = count, .ctx = &c, .n = N, .run = 1};
            fn_read_pool_start(pool, &batch);
            fn_status status = fn_read_pool_wait(pool, &batch, &err);
            assert_int_equal(atomic_load(&c.running), 0);
            assert_int_equal(status, FN_E_IO);
            size_t failed = 0;
            while (failed < N && !(failed >= round && atomic_load(&c.times[failed]) == 1)) {
                failed++;
            }
            char text[40];
            (void)snprintf(text, sizeof text, "read %zu failed", failed);
            assert_string_equal(err.text, text);
        }
        fn_read_pool_destroy(pool);
    }
}

static void *wait_in_a_thread(void *arg) {
    for (size_t i = 0; i < 100; i++) {
        run_once(arg, 20, 2);
    }
    return NULL;
}

static void two_threads_use_one_pool(void **unused) {
    (void)unused;
    fn_read_pool *pool = new_pool(3);
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, wait_in_a_thread, pool), 0);
    (void)wait_in_a_thread(pool);
    assert_int_equal(pthread_join(other, NULL), 0);
    fn_read_pool_destroy(pool);
}

static void reading_allocates_nothing_and_lost_memory_is_told(void **unused) {
    (void)unused;
    fn_read_pool *pool = new_pool(4);
    run_once(pool, 16, 1);
    fn_alloc_fail_at(-1);
    run_once(pool, 16, 1);
    run_once(pool, N, 4);
    assert_int_equal(fn_alloc_calls(), 0);
    fn_read_pool_destroy(pool);
    for (long n = 0; n < 2; n++) {
        fn_error err = {0};
        fn_alloc_fail_at(n);
        fn_status status = fn_read_pool_create(2, &pool, &err);
        fn_alloc_fail_at(-1);
        check_error(status, &err, FN_E_NOMEM, "reading threads");
        assert_null(pool);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_read_is_done_once),
        cmocka_unit_test(batches_wait_for_their_own_reads_alone),
        cmocka_unit_test(after_a_failure_nothing_runs_and_the_lowest_is_told),
        cmocka_unit_test(two_threads_use_one_pool),
        cmocka_unit_test(reading_allocates_nothing_and_lost_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
