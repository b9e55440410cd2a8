/* The thread pool: every share runs once a job, with a number of its own, whatever the threads do. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/pool.h"
#include "support/alloc_fail.h"
#include "support/check_error.h"

#define MOST 9
#define MOST_SHARES (3 * MOST)

typedef struct tally {
    atomic_int calls[MOST_SHARES]; /* of each share */
    atomic_int inside[MOST];       /* each thread */
    atomic_int clashes;
    size_t threads, shares;
    int plain; /* written by one share, read by the caller afterwards */
} tally;

static void count(void *ctx, const fn_turn *turn) {
    tally *t = ctx;
    if (turn->shares != t->shares || turn->share >= turn->shares || turn->thread >= t->threads ||
        atomic_fetch_add(&t->inside[turn->thread], 1) != 0) {
        atomic_fetch_add(&t->clashes, 1);
        return;
    }
    atomic_fetch_add(&t->calls[turn->share], 1);
    if (turn->share == turn->shares - 1) {
        t->plain++;
    }
    atomic_fetch_sub(&t->inside[turn->thread], 1);
}

static void every_share_runs_once_a_job(void **unused) {
    (void)unused;
    for (size_t threads = 1; threads <= MOST; threads++) {
        fn_pool *pool = NULL;
        assert_int_equal(fn_pool_create(threads, &pool, NULL), FN_OK);
        assert_int_equal(fn_pool_threads(pool), threads);
        for (size_t cut = 0; cut <= 3 * threads; cut += threads) {
            tally t = {.threads = threads, .shares = cut > 0 ? cut : threads};
            fn_pool_cut(pool, cut);
            for (int round = 1; round <= 500; round++) {
                fn_pool_run(pool, count, &t);
                assert_int_equal(t.plain, round);
                for (size_t i = 0; i < t.shares; i++) {
                    assert_int_equal(atomic_load(&t.calls[i]), round);
                }
            }
            assert_int_equal(atomic_load(&t.clashes), 0);
        }
        fn_pool_destroy(pool);
    }
}

/* ---- how many take part ---- */

typedef struct crowd {
    fn_pool *pool;
    atomic_size_t allowed, inside;
    atomic_int too_many, jobs;
    atomic_bool stop;
} crowd;

static void join_crowd(void *ctx, const fn_turn *turn) {
    crowd *c = ctx;
    size_t inside = atomic_fetch_add(&c->inside, 1) + 1;
    if (inside > atomic_load(&c->allowed) || turn->thread >= atomic_load(&c->allowed)) {
        atomic_fetch_add(&c->too_many, 1);
    }
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    atomic_fetch_sub(&c->inside, 1);
}

static void *run_jobs(void *arg) {
    crowd *c = arg;
    while (!atomic_load(&c->stop)) {
        fn_pool_run(c->pool, join_crowd, c);
        atomic_fetch_add(&c->jobs, 1);
    }
    return NULL;
}

/* Another thread changes the limit while jobs run: when it returns, nobody more is in a share, and none comes; with
 * none allowed everything stands still; with more it goes on. */
static void never_more_take_part_than_are_allowed(void **unused) {
    enum { THREADS = 4 };
    crowd c = {0};
    pthread_t runner;
    (void)unused;
    assert_int_equal(fn_pool_create(THREADS, &c.pool, NULL), FN_OK);
    fn_pool_cut(c.pool, (size_t)3 * THREADS);
    atomic_store(&c.allowed, THREADS);
    assert_int_equal(pthread_create(&runner, NULL, run_jobs, &c), 0);
    for (size_t round = 0; round < 200; round++) {
        size_t limit = round * 7 % (THREADS + 1);
        bool raise = limit > atomic_load(&c.allowed);
        if (raise) {
            atomic_store(&c.allowed, limit);
        }
        fn_pool_limit(c.pool, limit);
        atomic_store(&c.allowed, limit);
        assert_true(atomic_load(&c.inside) <= limit);
        int before = atomic_load(&c.jobs);
        nanosleep(&(struct timespec){.tv_nsec = 400000}, NULL);
        assert_true(limit > 0 || atomic_load(&c.jobs) <= before + 1); /* done, not counted */
    }
    int before = atomic_load(&c.jobs);
    fn_pool_limit(c.pool, 1); /* from three */
    atomic_store(&c.allowed, 1);
    while (atomic_load(&c.jobs) < before + 3) { /* one alone does all shares */
        nanosleep(&(struct timespec){.tv_nsec = 400000}, NULL);
    }
    atomic_store(&c.stop, true);
    assert_int_equal(pthread_join(runner, NULL), 0);
    assert_int_equal(atomic_load(&c.too_many), 0);
    fn_pool_destroy(c.pool);
}

static void shares_are_as_many_as_may_take_part(void **unused) {
    (void)unused;
    fn_pool *pool = NULL;
    assert_int_equal(fn_pool_create(5, &pool, NULL), FN_OK);
    for (size_t limit = 5; limit >= 1; limit--) {
        tally t = {.threads = limit, .shares = limit};
        fn_pool_limit(pool, limit);
        for (int round = 0; round < 200; round++) {
            fn_pool_run(pool, count, &t);
        }
        assert_int_equal(atomic_load(&t.clashes), 0);
        assert_int_equal(t.plain, 200);
    }
    fn_pool_destroy(pool);
}

/* A pool that runs on the same CPUs as another, settled from the other end, does its jobs all the same. */
static void two_pools_work_side_by_side(void **unused) {
    enum { ROUNDS = 300 };
    size_t threads = fn_pool_default_threads();
    crowd c = {.pool = NULL};
    pthread_t runner;
    fn_pool *other = NULL;
    (void)unused;
    threads = threads < MOST ? threads : MOST;
    tally t = {.threads = threads, .shares = threads};
    assert_int_equal(fn_pool_create(threads, &c.pool, NULL), FN_OK);
    assert_int_equal(fn_pool_create(threads, &other, NULL), FN_OK);
    atomic_store(&c.allowed, threads);
    assert_int_equal(pthread_create(&runner, NULL, run_jobs, &c), 0);
    for (int round = 0; round < ROUNDS; round++) {
        fn_pool_run(other, count, &t);
    }
    assert_int_equal(t.plain, ROUNDS);
    assert_int_equal(atomic_load(&t.clashes), 0);
    atomic_store(&c.stop, true);
    assert_int_equal(pthread_join(runner, NULL), 0);
    assert_int_equal(atomic_load(&c.too_many), 0);
    fn_pool_destroy(c.pool);
    fn_pool_destroy(other);
}

static void running_a_job_allocates_nothing(void **unused) {
    (void)unused;
    fn_pool *pool = NULL;
    tally t = {.threads = 3, .shares = 3};
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
        cmocka_unit_test(never_more_take_part_than_are_allowed),
        cmocka_unit_test(shares_are_as_many_as_may_take_part),
        cmocka_unit_test(two_pools_work_side_by_side),
        cmocka_unit_test(running_a_job_allocates_nothing),
        cmocka_unit_test(pools_come_and_go_without_a_job),
        cmocka_unit_test(shares_cover_everything_in_order),
        cmocka_unit_test(too_many_threads_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
