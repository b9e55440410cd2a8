/* The thread pool: every share runs once a job, with a number of its own, whatever the threads do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/pool.h"
#include "support/alloc_fail.h"
#include "support/check_error.h"

#define MOST 9

typedef struct tally {
    atomic_int calls[MOST];
    atomic_int inside[MOST];
    atomic_int clashes;
    size_t threads;
    int plain; /* written by one share, read by the caller afterwards */
} tally;

static void count(void *ctx, size_t thread, size_t n_threads) {
    tally *t = ctx;
    if (n_threads != t->threads || thread >= n_threads ||
        atomic_fetch_add(&t->inside[thread], 1) != 0) {
        atomic_fetch_add(&t->clashes, 1);
        return;
    }
    atomic_fetch_add(&t->calls[thread], 1);
    if (thread == n_threads - 1) {
        t->plain++;
    }
    atomic_fetch_sub(&t->inside[thread], 1);
}

static void every_share_runs_once_a_job(void **unused) {
    (void)unused;
    for (size_t threads = 1; threads <= MOST; threads++) {
        fn_pool *pool = NULL;
        tally t = {.threads = threads};
        assert_int_equal(fn_pool_create(threads, &pool, NULL), FN_OK);
        assert_int_equal(fn_pool_threads(pool), threads);
        for (int round = 1; round <= 2000; round++) {
            fn_pool_run(pool, count, &t);
            assert_int_equal(t.plain, round);
            for (size_t i = 0; i < threads; i++) {
                assert_int_equal(atomic_load(&t.calls[i]), round);
            }
        }
        assert_int_equal(atomic_load(&t.clashes), 0);
        fn_pool_destroy(pool);
    }
}

static void running_a_job_allocates_nothing(void **unused) {
    (void)unused;
    fn_pool *pool = NULL;
    tally t = {.threads = 3};
    assert_int_equal(fn_pool_create(3, &pool, NULL), FN_OK);
    fn_alloc_fail_at(-1);
    for (int round = 0; round < 100; round++) {
        fn_pool_run(pool, count, &t);
    }
    assert_int_equal(fn_alloc_calls(), 0);
    fn_pool_destroy(pool);
}

static void pools_come_and_go_without_a_job(void **unused) {
    (void)unused;
    for (size_t i = 0; i < 200; i++) {
        fn_pool *pool = NULL;
        assert_int_equal(fn_pool_create(1 + i % 5, &pool, NULL), FN_OK);
        fn_pool_destroy(pool);
    }
    fn_pool_destroy(NULL);
}

static void shares_cover_everything_in_order(void **unused) {
    (void)unused;
    for (size_t n = 0; n < 40; n++) {
        for (size_t threads = 1; threads <= MOST; threads++) {
            size_t at = 0;
            for (size_t i = 0; i < threads; i++) {
                size_t begin;
                size_t end;
                fn_share(n, i, threads, &begin, &end);
                assert_int_equal(begin, at);
                assert_true(end - begin <= n / threads + 1);
                at = end;
            }
            assert_int_equal(at, n);
        }
    }
}

static void too_many_threads_are_refused(void **unused) {
    (void)unused;
    fn_error err = {0};
    fn_pool *pool = NULL;
    check_error(fn_pool_create(1025, &pool, &err), &err, FN_E_USAGE, "1025", "1024");
    assert_null(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_share_runs_once_a_job),
        cmocka_unit_test(running_a_job_allocates_nothing),
        cmocka_unit_test(pools_come_and_go_without_a_job),
        cmocka_unit_test(shares_cover_everything_in_order),
        cmocka_unit_test(too_many_threads_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
