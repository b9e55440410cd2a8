#define _GNU_SOURCE
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

/* About 20-50 microseconds: longer than the gap between two jobs of a step, shorter than anyone minds. */
#define SPINS 4000

/* The round in the upper bits, the next share nobody has taken in the lower ones. */
#define SHARE_BITS 16
#define SHARE_MASK ((UINT64_C(1) << SHARE_BITS) - 1)

typedef struct worker {
    fn_pool *pool;
    pthread_t thread;
} worker;

/* A job is cut into as many shares as there are threads, but any thread may take any share: where the
 * machine is busy and a thread is not running, the others do its part instead of waiting for it. A share
 * is the `thread` number that a job sees, so scratch by that number is never used by two at once. */
struct fn_pool {
    size_t threads;
    worker *workers; /* [threads - 1] */
    size_t started;
    fn_job job; /* of the round; unchanged until all its shares are done */
    void *ctx;
    _Atomic uint64_t ticket;
    atomic_size_t left; /* shares of the round that are not done */
    atomic_bool stop;
    pthread_mutex_t mutex; /* only for those that sleep */
    pthread_cond_t wake, done;
    size_t sleeping; /* under mutex */
};

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Takes the next share of the running round, if there is one left. */
static bool take_share(fn_pool *pool, size_t *share) {
    uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    while ((ticket & SHARE_MASK) < pool->threads) {
        if (atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket + 1,
                                                  memory_order_acq_rel, memory_order_acquire)) {
            *share = (size_t)(ticket & SHARE_MASK);
            return true;
        }
    }
    return false;
}

static void run_shares(fn_pool *pool) {
    size_t share = 0;
    while (take_share(pool, &share)) {
        pool->job(pool->ctx, share, pool->threads);
        if (atomic_fetch_sub_explicit(&pool->left, 1, memory_order_acq_rel) == 1) {
            pthread_mutex_lock(&pool->mutex);
            pthread_cond_signal(&pool->done);
            pthread_mutex_unlock(&pool->mutex);
        }
    }
}

/* Until the ticket is no longer `seen`. */
static uint64_t wait_for_work(fn_pool *pool, uint64_t seen) {
    for (size_t spin = 0; spin < SPINS; spin++) {
        uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
        if (ticket != seen) {
            return ticket;
        }
        relax();
    }
    pthread_mutex_lock(&pool->mutex);
    pool->sleeping++;
    while (atomic_load(&pool->ticket) == seen) {
        pthread_cond_wait(&pool->wake, &pool->mutex);
    }
    pool->sleeping--;
    pthread_mutex_unlock(&pool->mutex);
    return atomic_load(&pool->ticket);
}

static void *work(void *arg) {
    fn_pool *pool = ((worker *)arg)->pool;
    for (;;) {
        run_shares(pool);
        uint64_t seen = atomic_load(&pool->ticket);
        if (atomic_load(&pool->stop)) {
            return NULL;
        }
        if ((seen & SHARE_MASK) >= pool->threads) {
            (void)wait_for_work(pool, seen);
        }
    }
}

static void start_round(fn_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    uint64_t round = atomic_load(&pool->ticket) >> SHARE_BITS;
    atomic_store(&pool->ticket, (round + 1) << SHARE_BITS);
    if (pool->sleeping > 0) {
        pthread_cond_broadcast(&pool->wake);
    }
    pthread_mutex_unlock(&pool->mutex);
}

static void wait_for_shares(fn_pool *pool) {
    for (size_t spin = 0; spin < SPINS; spin++) {
        if (atomic_load_explicit(&pool->left, memory_order_acquire) == 0) {
            return;
        }
        relax();
    }
    pthread_mutex_lock(&pool->mutex);
    while (atomic_load(&pool->left) != 0) {
        pthread_cond_wait(&pool->done, &pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
}

void fn_pool_run(fn_pool *pool, fn_job job, void *ctx) {
    if (pool->threads == 1) {
        job(ctx, 0, 1);
        return;
    }
    pool->job = job;
    pool->ctx = ctx;
    atomic_store_explicit(&pool->left, pool->threads, memory_order_release);
    start_round(pool);
    run_shares(pool);
    wait_for_shares(pool);
}

/* Worker i stays on CPU i + 1 of the process's mask and leaves the first to the caller, whose own affinity is not
 * ours to change. Only where every CPU gets a thread: fewer may be moved away from other programs. A failure
 * costs speed alone. */
static void pin_workers(fn_pool *pool) {
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask) != 0 ||
        (size_t)CPU_COUNT(&mask) != pool->threads) {
        return;
    }
    size_t next = 0;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &mask)) {
            continue;
        }
        if (next > 0) {
            cpu_set_t own;
            CPU_ZERO(&own);
            CPU_SET(cpu, &own);
            (void)pthread_setaffinity_np(pool->workers[next - 1].thread, sizeof own, &own);
        }
        next++;
    }
}

size_t fn_pool_default_threads(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return 1;
    }
    int n = CPU_COUNT(&set);
    return n > 0 ? (size_t)n : 1;
}

fn_status fn_pool_create(size_t threads, fn_pool **out, fn_error *err) {
    *out = NULL;
    if (threads == 0) {
        threads = fn_pool_default_threads();
    }
    if (threads > 1024) {
        return fn_fail(err, FN_E_USAGE, "threads: found %zu, expected at most 1024", threads);
    }
    fn_pool *pool = fn_alloc_zero(1, sizeof *pool);
    worker *workers = fn_alloc_zero(threads, sizeof *workers);
    if (pool == NULL || workers == NULL) {
        fn_free(pool);
        fn_free(workers);
        return fn_fail_nomem(err, "the thread pool", sizeof *pool + threads * sizeof *workers);
    }
    pool->threads = threads;
    pool->workers = workers;
    atomic_store(&pool->ticket, threads); /* no share of a round zero */
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    for (size_t i = 0; i + 1 < threads; i++) {
        workers[i].pool = pool;
        int failure = pthread_create(&workers[i].thread, NULL, work, &workers[i]);
        if (failure != 0) {
            fn_pool_destroy(pool);
            return fn_fail(err, FN_E_FAILED, "cannot start thread %zu of %zu: %s", i + 2, threads,
                           strerror(failure));
        }
        pool->started++;
    }
    pin_workers(pool);
    *out = pool;
    return FN_OK;
}

void fn_pool_destroy(fn_pool *pool) {
    if (pool == NULL) {
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->stop, true);
    atomic_fetch_add(&pool->ticket, UINT64_C(1) << SHARE_BITS); /* another round without shares */
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
    for (size_t i = 0; i < pool->started; i++) {
        pthread_join(pool->workers[i].thread, NULL);
    }
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->mutex);
    fn_free(pool->workers);
    fn_free(pool);
}

size_t fn_pool_threads(const fn_pool *pool) {
    return pool->threads;
}
