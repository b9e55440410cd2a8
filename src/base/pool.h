/* base/pool.h - threads that compute together: one job at a time, cut into shares.
 *
 * Threads: run is called by one thread at a time, which takes part. Shares are taken by whoever is there:
 *          a thread that the system does not run now delays nobody. Another thread may limit how many take
 *          part, at any time: so two pools that work at once divide the CPUs among them.
 *          Where there are as many threads as CPUs in the process's affinity mask, those that the pool
 *          started are each pinned to one.
 * Memory:  running a job allocates nothing. Waiting threads spin briefly, then sleep. */
#ifndef FN_BASE_POOL_H
#define FN_BASE_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct fn_pool fn_pool;

/* One share of a job. Two that run at once never have the same thread: scratch is kept by that number. */
typedef struct fn_turn {
    size_t share, shares;
    size_t thread; /* below fn_pool_threads */
} fn_turn;

typedef void (*fn_job)(void *ctx, const fn_turn *turn);

/* CPUs this process may run on. */
size_t fn_pool_default_threads(void);

/* threads 0: as many as the process may use. Fails with FN_E_NOMEM or FN_E_FAILED. */
FN_NODISCARD fn_status fn_pool_create(size_t threads, fn_pool **out, fn_error *err);
void fn_pool_destroy(fn_pool *pool);
size_t fn_pool_threads(const fn_pool *pool);

/* Returns when every share is done; what was written is visible to the caller. */
void fn_pool_run(fn_pool *pool, fn_job job, void *ctx);

/* From the next job on: so many shares each; 0, and at first: as many as threads that may take part. More let others
 * leave sooner. From the thread that runs jobs. */
void fn_pool_cut(fn_pool *pool, size_t shares);
/* How many threads may take part, the caller of run among them; at first all. 0: a job stands still. Returns when no
 * more than these are in a share. From one thread at a time, not from one that runs the pool's jobs with 0. */
void fn_pool_limit(fn_pool *pool, size_t threads);

/* The calling thread will run the pool's jobs: where the pool's threads are pinned, it is, too. backwards: from now on
 * the pool takes the CPUs from the last one on, else from the first. */
void fn_pool_settle(fn_pool *pool, bool backwards);

/* The share [*begin, *end) of n things, as even as can be, in order. */
static inline void fn_share(size_t n, size_t share, size_t shares, size_t *begin, size_t *end) {
    *begin = n * share / shares;
    *end = n * (share + 1) / shares;
}

/* The things of a turn. */
static inline void fn_turn_share(const fn_turn *turn, size_t n, size_t *begin, size_t *end) {
    fn_share(n, turn->share, turn->shares, begin, end);
}

#endif
