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
#define MOST_THREADS 1024
#define MOST_SHARES SHARE_MASK

/* A ticket: the round, how many shares it has, the next that nobody has taken. */
#define ROUND_BITS 32
#define SHARE_BITS 16
#define SHARE_MASK ((UINT64_C(1) << SHARE_BITS) - 1)

/* One cache line each: a thread writes its own with every share. */
typedef struct member {
    _Alignas(64) atomic_bool inside; /* may be in a share */
    fn_pool *pool;
    pthread_t thread; /* of all but number 0, the caller of run */
} member;

/* Any thread may take any share: where the machine is busy and a thread is not running, the others do its part
 * instead of waiting for it. */
struct fn_pool {
    size_t threads;
    member *members; /* [threads] */
    size_t started;  /* the first one included */
    cpu_set_t cpus;  /* that the process may use */
    bool pinned;     /* one thread to each */
    fn_job job;      /* of the round; unchanged until all its shares are done */
    void *ctx;
    size_t cut; /* 0: shares as threads */
    _Atomic uint64_t ticket;
    atomic_size_t left;  /* shares of the round that are not done */
    atomic_size_t limit; /* members below it take shares */
    atomic_bool watched; /* somebody waits until others have left */
    atomic_bool stop;
    pthread_mutex_t mutex; /* only for those that sleep */
    pthread_cond_t wake, done, raised, gone;
    size_t sleeping; /* under mutex */
};

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static size_t next_of(uint64_t ticket) {
    return (size_t)(ticket & SHARE_MASK);
}

static size_t shares_of(uint64_t ticket) {
    return (size_t)(ticket >> SHARE_BITS & SHARE_MASK);
}

static uint64_t next_round(uint64_t ticket, size_t shares) {
    return ((ticket >> ROUND_BITS) + 1) << ROUND_BITS | (uint64_t)shares << SHARE_BITS;
}

/* Takes the next share of the running round, if there is one left. */
static bool take_share(fn_pool *pool, fn_turn *turn) {
    uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    while (next_of(ticket) < shares_of(ticket)) {
        if (atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket + 1,
                                                  memory_order_acq_rel, memory_order_acquire)) {
            turn->share = next_of(ticket);
            turn->shares = shares_of(ticket);
            return true;
        }
    }
    return false;
}

static void leave(fn_pool *pool, size_t me) {
    atomic_store(&pool->members[me].inside, false);
    if (atomic_load(&pool->watched)) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->gone);
        pthread_mutex_unlock(&pool->mutex);
    }
}

/* May this member take shares? Whoever lowers the limit then sees it inside, or it sees the new limit. */
static bool enter(fn_pool *pool, size_t me) {
    atomic_store(&pool->members[me].inside, true);
    if (me < atomic_load(&pool->limit)) {
        return true;
    }
    leave(pool, me);
    return false;
}

/* Until the limit leaves room for this member, or the pool ends. */
static void wait_for_room(fn_pool *pool, size_t me) {
    pthread_mutex_lock(&pool->mutex);
    while (me >= atomic_load(&pool->limit) && !atomic_load(&pool->stop)) {
        pthread_cond_wait(&pool->raised, &pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
}

static void finish_share(fn_pool *pool) {
    if (atomic_fetch_sub_explicit(&pool->left, 1, memory_order_acq_rel) == 1) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_signal(&pool->done);
        pthread_mutex_unlock(&pool->mutex);
    }
}

/* As long as there are shares, and room. False: there is no room. */
static bool run_shares(fn_pool *pool, size_t me) {
    fn_turn turn = {.thread = me};
    for (;;) {
        if (!enter(pool, me)) {
            return false;
        }
        bool took = take_share(pool, &turn);
        if (took) {
            pool->job(pool->ctx, &turn);
        }
        leave(pool, me);
        if (!took) {
            return true;
        }
        finish_share(pool);
    }
}

/* Until the ticket is no longer `seen`. */
static void wait_for_work(fn_pool *pool, uint64_t seen) {
    for (size_t spin = 0; spin < SPINS; spin++) {
        if (atomic_load_explicit(&pool->ticket, memory_order_acquire) != seen) {
            return;
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
}

static void *work(void *arg) {
    fn_pool *pool = ((member *)arg)->pool;
    size_t me = (size_t)((member *)arg - pool->members);
    for (;;) {
        bool room = run_shares(pool, me);
        uint64_t seen = atomic_load(&pool->ticket);
        if (atomic_load(&pool->stop)) {
            return NULL;
        }
        if (!room) {
            wait_for_room(pool, me);
        } else if (next_of(seen) >= shares_of(seen)) {
            wait_for_work(pool, seen);
        }
    }
}

/* ---- a job ---- */

static void start_round(fn_pool *pool, size_t shares) {
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->ticket, next_round(atomic_load(&pool->ticket), shares));
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
    size_t limit = atomic_load(&pool->limit);
    size_t shares = pool->cut > 0 ? pool->cut : limit > 0 ? limit : 1;
    if (shares == 1 && limit > 0) {
        job(ctx, &(fn_turn){.share = 0, .shares = 1, .thread = 0});
        return;
    }
    pool->job = job;
    pool->ctx = ctx;
    atomic_store_explicit(&pool->left, shares, memory_order_release);
    start_round(pool, shares);
    while (!run_shares(pool, 0)) {
        wait_for_room(pool, 0);
    }
    wait_for_shares(pool);
}

/* ---- how many take part ---- */

void fn_pool_cut(fn_pool *pool, size_t shares) {
    FN_ASSERT(shares <= MOST_SHARES);
    pool->cut = shares;
}

static bool somebody_inside(fn_pool *pool, size_t from) {
    bool inside = false;
    for (size_t i = from; i < pool->threads && !inside; i++) {
        inside = atomic_load(&pool->members[i].inside);
    }
    return inside;
}

/* Sleeps instead of spinning: who is inside may need this very CPU. */
void fn_pool_limit(fn_pool *pool, size_t threads) {
    pthread_mutex_lock(&pool->mutex);
    bool raise = threads > atomic_load(&pool->limit);
    atomic_store(&pool->limit, threads);
    if (raise) {
        pthread_cond_broadcast(&pool->raised);
    } else {
        atomic_store(&pool->watched, true);
        while (somebody_inside(pool, threads)) {
            pthread_cond_wait(&pool->gone, &pool->mutex);
        }
        atomic_store(&pool->watched, false);
    }
    pthread_mutex_unlock(&pool->mutex);
}

/* ---- CPUs ---- */

/* To CPU number `me` of the pool's, counted from either end. A failure costs speed alone. */
static void pin(const fn_pool *pool, size_t me, pthread_t thread, bool backwards) {
    size_t left = backwards ? pool->threads - 1 - me : me;
    cpu_set_t own;
    CPU_ZERO(&own);
    for (size_t cpu = 0; pool->pinned && cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &pool->cpus) && left-- == 0) {
            CPU_SET(cpu, &own);
            (void)pthread_setaffinity_np(thread, sizeof own, &own);
            return;
        }
    }
}

static void pin_others(const fn_pool *pool, bool backwards) {
    for (size_t i = 1; i < pool->threads; i++) {
        pin(pool, i, pool->members[i].thread, backwards);
    }
}

void fn_pool_settle(fn_pool *pool, bool backwards) {
    pin_others(pool, backwards);
    pin(pool, 0, pthread_self(), backwards);
}

size_t fn_pool_default_threads(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return 1;
    }
    int n = CPU_COUNT(&set);
    return n > 0 ? (size_t)n : 1;
}

/* ---- life ---- */

static void init(fn_pool *pool, member *members, size_t threads) {
    pool->threads = threads;
    pool->members = members;
    pool->started = 1;
    atomic_store(&pool->limit, threads);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    pthread_cond_init(&pool->raised, NULL);
    pthread_cond_init(&pool->gone, NULL);
    for (size_t i = 0; i < threads; i++) {
        members[i].pool = pool;
    }
}

fn_status fn_pool_create(size_t threads, fn_pool **out, fn_error *err) {
    *out = NULL;
    threads = threads > 0 ? threads : fn_pool_default_threads();
    if (threads > MOST_THREADS) {
        return fn_fail(err, FN_E_USAGE, "threads: found %zu, expected at most %d", threads,
                       MOST_THREADS);
    }
    fn_pool *pool = fn_alloc_zero(1, sizeof *pool);
    member *members = fn_alloc_aligned(threads, sizeof *members);
    if (pool == NULL || members == NULL) {
        fn_free(pool);
        fn_free(members);
        return fn_fail_nomem(err, "the thread pool", sizeof *pool + threads * sizeof *members);
    }
    memset(members, 0, threads * sizeof *members);
    init(pool, members, threads);
    for (; pool->started < threads; pool->started++) {
        member *m = &members[pool->started];
        int failure = pthread_create(&m->thread, NULL, work, m);
        if (failure != 0) {
            size_t n = pool->started + 1;
            fn_pool_destroy(pool);
            return fn_fail(err, FN_E_FAILED, "cannot start thread %zu of %zu: %s", n, threads,
                           strerror(failure));
        }
    }
    pool->pinned = sched_getaffinity(0, sizeof pool->cpus, &pool->cpus) == 0 &&
                   (size_t)CPU_COUNT(&pool->cpus) == threads; /* fewer may be moved away */
    pin_others(pool, false);
    *out = pool;
    return FN_OK;
}

void fn_pool_destroy(fn_pool *pool) {
    if (pool == NULL) {
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->stop, true);
    atomic_store(&pool->ticket, next_round(atomic_load(&pool->ticket), 0));
    pthread_cond_broadcast(&pool->wake);
    pthread_cond_broadcast(&pool->raised);
    pthread_mutex_unlock(&pool->mutex);
    for (size_t i = 1; i < pool->started; i++) {
        pthread_join(pool->members[i].thread, NULL);
    }
    pthread_cond_destroy(&pool->gone);
    pthread_cond_destroy(&pool->raised);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->mutex);
    fn_free(pool->members);
    fn_free(pool);
}

size_t fn_pool_threads(const fn_pool *pool) {
    return pool->threads;
}
