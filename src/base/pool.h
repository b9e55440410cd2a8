/* base/pool.h - the engine's threads: one job at a time, cut into as many shares as there are threads.
 *
 * Threads: run is called by one thread at a time, which takes part. Shares are taken by whoever is there:
 *          a thread that the system does not run now delays nobody.
 *          Where there are as many threads as CPUs in the process's affinity mask, those that the pool
 *          started are each pinned to one.
 * Memory:  running a job allocates nothing. Waiting threads spin briefly, then sleep. */
#ifndef FN_BASE_POOL_H
#define FN_BASE_POOL_H

#include <stddef.h>

#include "base/status.h"

typedef struct fn_pool fn_pool;

/* Called once for each share, thread = 0 .. n_threads - 1; two calls at once never have the same number. */
typedef void (*fn_job)(void *ctx, size_t thread, size_t n_threads);

/* CPUs this process may run on. */
size_t fn_pool_default_threads(void);

/* threads 0: as many as the process may use. Fails with FN_E_NOMEM or FN_E_FAILED. */
FN_NODISCARD fn_status fn_pool_create(size_t threads, fn_pool **out, fn_error *err);
void fn_pool_destroy(fn_pool *pool);
size_t fn_pool_threads(const fn_pool *pool);

/* Returns when every share is done; what was written is visible to the caller. */
void fn_pool_run(fn_pool *pool, fn_job job, void *ctx);

/* The thread's share [*begin, *end) of n things, as even as can be, in order. */
static inline void fn_share(size_t n, size_t thread, size_t n_threads, size_t *begin, size_t *end) {
    *begin = n * thread / n_threads;
    *end = n * (thread + 1) / n_threads;
}

#endif
