/* base/read_pool.h - threads that wait for the disk, so that those that compute need not.
 *
 * Path:    a batch of independent reads -> [this: as many at once as there are threads] -> who waits for it.
 * Threads: start and wait from any thread, each batch waited for by one. The threads here sleep while there is
 *          nothing to read; the one that waits takes part instead of watching.
 * Memory:  a batch is the caller's and stays where it is until it has been waited for; starting and waiting
 *          allocate nothing. */
#ifndef FN_BASE_READ_POOL_H
#define FN_BASE_READ_POOL_H

#include <stddef.h>

#include "base/status.h"

typedef struct fn_read_pool fn_read_pool;

/* Does read i of a batch; several run at once, in any order. */
typedef fn_status (*fn_read_job)(void *ctx, size_t i, fn_error *err);

typedef struct fn_read_batch {
    fn_read_job job;
    void *ctx;
    size_t n;   /* reads, numbered from 0 */
    size_t run; /* how many neighbours a thread takes at once, at least 1 */
    /* Private to the pool. */
    size_t next, done, failed;
    fn_error error;
    struct fn_read_batch *behind;
} fn_read_batch;

/* Fails with FN_E_NOMEM or FN_E_FAILED. */
FN_NODISCARD fn_status fn_read_pool_create(size_t threads, fn_read_pool **out, fn_error *err);
/* NULL is allowed; every batch has been waited for. */
void fn_read_pool_destroy(fn_read_pool *pool);

/* Sets job, ctx, n and run, and lets the threads begin. pool NULL: the reads are done by who waits. */
void fn_read_pool_start(fn_read_pool *pool, fn_read_batch *batch);

/* Returns when no read of the batch is running. After a failure the reads that have not begun are left out; the
 * error of the lowest number stands in err. */
FN_NODISCARD fn_status fn_read_pool_wait(fn_read_pool *pool, fn_read_batch *batch, fn_error *err);

#endif
