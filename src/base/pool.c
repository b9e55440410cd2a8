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

typedef struct worker {
    fn_pool *pool;
    size_t index;
    pthread_t thread;
} worker;

struct fn_pool {
    size_t threads;
    worker *workers; /* [threads - 1] */
    size_t started;
    fn_job job;
    void *ctx;
    atomic_size_t round; /* counts jobs; a change wakes the workers */
    atomic_size_t left;  /* workers that have not finished this round */
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

static size_t wait_for_round(fn_pool *pool, size_t seen) {
    for (size_t spin = 0; spin < SPINS; spin++) {
        size_t round = atomic_load_explicit(&pool->round, memory_order_acquire);
        if (round != seen) {
            return round;
        }
        relax();
    }
    pthread_mutex_lock(&pool->mutex);
    pool->sleeping++;
    while (atomic_load(&pool->round) == seen) {
        pthread_cond_wait(&pool->wake, &pool->mutex);
    }
    pool->sleeping--;
    pthread_mutex_unlock(&pool->mutex);
    return atomic_load(&pool->round);
}

static void *work(void *arg) {
    worker *self = arg;
    fn_pool *pool = self->pool;
    size_t seen = 0;
    for (;;) {
        seen = wait_for_round(pool, seen);
        if (atomic_load(&pool->stop)) {
            return NULL;
        }
        pool->job(pool->ctx, self->index, pool->threads);
        if (atomic_fetch_sub_explicit(&pool->left, 1, memory_order_acq_rel) == 1) {
            pthread_mutex_lock(&pool->mutex);
            pthread_cond_signal(&pool->done);
            pthread_mutex_unlock(&pool->mutex);
        }
    }
}

static void start_round(fn_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add_explicit(&pool->round, 1, memory_order_acq_rel);
    if (pool->sleeping > 0) {
        pthread_cond_broadcast(&pool->wake);
    }
    pthread_mutex_unlock(&pool->mutex);
}

static void wait_for_workers(fn_pool *pool) {
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
    atomic_store_explicit(&pool->left, pool->threads - 1, memory_order_release);
    start_round(pool);
    job(ctx, 0, pool->threads);
    wait_for_workers(pool);
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
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    for (size_t i = 0; i + 1 < threads; i++) {
        workers[i] = (worker){.pool = pool, .index = i + 1};
        int failure = pthread_create(&workers[i].thread, NULL, work, &workers[i]);
        if (failure != 0) {
            fn_pool_destroy(pool);
            return fn_fail(err, FN_E_FAILED, "cannot start thread %zu of %zu: %s", i + 2, threads,
                           strerror(failure));
        }
        pool->started++;
    }
    *out = pool;
    return FN_OK;
}

void fn_pool_destroy(fn_pool *pool) {
    if (pool == NULL) {
        return;
    }
    atomic_store(&pool->stop, true);
    start_round(pool);
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
