#include "base/read_pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

/* Reading needs little; many threads should not cost much address space. */
#define STACK_BYTES ((size_t)256 << 10)

struct fn_read_pool {
    pthread_mutex_t mutex; /* over all that follows, and the private part of every batch */
    pthread_cond_t work, done;
    fn_read_batch *first, *last; /* batches with reads nobody has taken */
    size_t sleeping;
    bool stop;
    size_t started;
    pthread_t *threads;
};

/* ---- under the mutex ------------------------------------------------------------------------ */

static void append(fn_read_pool *pool, fn_read_batch *batch) {
    batch->behind = NULL;
    if (pool->last != NULL) {
        pool->last->behind = batch;
    } else {
        pool->first = batch;
    }
    pool->last = batch;
}

static void unlink_batch(fn_read_pool *pool, const fn_read_batch *batch) {
    fn_read_batch *before = NULL;
    fn_read_batch *at = pool->first;
    while (at != NULL && at != batch) {
        before = at;
        at = at->behind;
    }
    if (at == NULL) {
        return;
    }
    if (before != NULL) {
        before->behind = at->behind;
    } else {
        pool->first = at->behind;
    }
    if (pool->last == at) {
        pool->last = before;
    }
}

/* Takes the next reads [*begin, *end); a batch with nothing left leaves the list. */
static void take(fn_read_pool *pool, fn_read_batch *batch, size_t *begin, size_t *end) {
    size_t left = batch->n - batch->next;
    *begin = batch->next;
    *end = batch->next + (left < batch->run ? left : batch->run);
    batch->next = *end;
    if (batch->next == batch->n) {
        unlink_batch(pool, batch);
    }
}

/* Notes reads [begin, end) as done. Those that follow a failure are never begun. */
static void give_back(fn_read_pool *pool, fn_read_batch *batch, size_t begin, size_t end,
                      size_t failed, const fn_error *error) {
    batch->done += end - begin;
    if (failed < end) {
        if (failed < batch->failed) {
            batch->failed = failed;
            batch->error = *error;
        }
        if (batch->next < batch->n) {
            batch->done += batch->n - batch->next;
            batch->next = batch->n;
            unlink_batch(pool, batch);
        }
    }
    if (batch->done == batch->n) {
        pthread_cond_broadcast(&pool->done);
    }
}

/* ---- reading -------------------------------------------------------------------------------- */

/* The number of the read that failed, or end. */
static size_t run_reads(const fn_read_batch *batch, size_t begin, size_t end, fn_error *error) {
    for (size_t i = begin; i < end; i++) {
        if (batch->job(batch->ctx, i, error) != FN_OK) {
            return i;
        }
    }
    return end;
}

/* With the mutex held at both ends. */
static void do_some(fn_read_pool *pool, fn_read_batch *batch) {
    size_t begin;
    size_t end;
    fn_error error = {0};
    take(pool, batch, &begin, &end);
    pthread_mutex_unlock(&pool->mutex);
    size_t failed = run_reads(batch, begin, end, &error);
    pthread_mutex_lock(&pool->mutex);
    give_back(pool, batch, begin, end, failed, &error);
}

static void *work(void *arg) {
    fn_read_pool *pool = arg;
    pthread_mutex_lock(&pool->mutex);
    while (!pool->stop) {
        if (pool->first != NULL) {
            do_some(pool, pool->first);
        } else {
            pool->sleeping++;
            pthread_cond_wait(&pool->work, &pool->mutex);
            pool->sleeping--;
        }
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

void fn_read_pool_start(fn_read_pool *pool, fn_read_batch *batch) {
    FN_ASSERT(batch->run > 0);
    batch->next = 0;
    batch->done = 0;
    batch->failed = batch->n;
    batch->error = (fn_error){0};
    if (pool == NULL || batch->n == 0) {
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    append(pool, batch);
    size_t wanted = (batch->n + batch->run - 1) / batch->run;
    if (wanted >= pool->sleeping) {
        pthread_cond_broadcast(&pool->work);
    } else {
        for (size_t i = 0; i < wanted; i++) {
            pthread_cond_signal(&pool->work);
        }
    }
    pthread_mutex_unlock(&pool->mutex);
}

fn_status fn_read_pool_wait(fn_read_pool *pool, fn_read_batch *batch, fn_error *err) {
    if (pool == NULL) {
        batch->failed = run_reads(batch, 0, batch->n, &batch->error);
    } else {
        pthread_mutex_lock(&pool->mutex);
        while (batch->next < batch->n) {
            do_some(pool, batch);
        }
        while (batch->done < batch->n) {
            pthread_cond_wait(&pool->done, &pool->mutex);
        }
        pthread_mutex_unlock(&pool->mutex);
    }
    return batch->failed == batch->n ? FN_OK
                                     : fn_fail(err, batch->error.code, "%s", batch->error.text);
}

/* ---- beginning and end ---------------------------------------------------------------------- */

static int start_thread(fn_read_pool *pool) {
    pthread_attr_t attributes;
    int failure = pthread_attr_init(&attributes);
    if (failure == 0) {
        (void)pthread_attr_setstacksize(&attributes, STACK_BYTES); /* else the default's */
        failure = pthread_create(&pool->threads[pool->started], &attributes, work, pool);
        (void)pthread_attr_destroy(&attributes);
    }
    return failure;
}

fn_status fn_read_pool_create(size_t threads, fn_read_pool **out, fn_error *err) {
    *out = NULL;
    fn_read_pool *pool = fn_alloc_zero(1, sizeof *pool);
    pthread_t *ids = fn_alloc_zero(threads, sizeof *ids);
    if (pool == NULL || ids == NULL) {
        fn_free(pool);
        fn_free(ids);
        return fn_fail_nomem(err, "the reading threads", sizeof *pool + threads * sizeof *ids);
    }
    pool->threads = ids;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    for (; pool->started < threads; pool->started++) {
        int failure = start_thread(pool);
        if (failure != 0) {
            size_t number = pool->started + 1;
            fn_read_pool_destroy(pool);
            return fn_fail(err, FN_E_FAILED, "cannot start reading thread %zu of %zu: %s", number,
                           threads, strerror(failure));
        }
    }
    *out = pool;
    return FN_OK;
}

void fn_read_pool_destroy(fn_read_pool *pool) {
    if (pool == NULL) {
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    FN_ASSERT(pool->first == NULL);
    pool->stop = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    for (size_t i = 0; i < pool->started; i++) {
        pthread_join(pool->threads[i], NULL);
    }
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
    fn_free(pool->threads);
    fn_free(pool);
}
