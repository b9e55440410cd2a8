#include "engine/prompt_lane.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

/* A share of a job is so many rows' at least, ... */
#define SHARE_ROWS 16
/* ... and a job has so many a thread at most: whoever must leave does so soon. */
#define THREAD_SHARES 16

typedef enum lane_phase { IDLE, STARTED, DONE, LEFT } lane_phase;

struct fn_prompt_lane {
    fn_engine *engine;
    void (*done)(void *ud);
    void *ud;
    pthread_t thread;
    bool running;

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    lane_phase phase; /* like all below under the mutex */
    bool stop;
    fn_prompt_chunk chunk;
    fn_status status;
    fn_error error;
    double seconds;
};

static size_t shares_for(const fn_pool *pool, size_t rows) {
    size_t threads = fn_pool_threads(pool);
    size_t shares = rows / SHARE_ROWS;
    shares = shares < threads ? threads : shares;
    return shares < THREAD_SHARES * threads ? shares : THREAD_SHARES * threads;
}

static fn_status read_chunk(fn_prompt_lane *lane) {
    const fn_prompt_chunk *c = &lane->chunk;
    fn_engine *e = lane->engine;
    double begin = fn_clock_seconds();
    fn_pool_cut(e->pool, shares_for(e->pool, c->rows));
    fn_forward_watch(e->forward, c->go_on, c->ud);
    fn_status status = fn_forward_run(e->forward, c->segments, c->n, c->logits, NULL, &lane->error);
    fn_forward_watch(e->forward, NULL, NULL);
    fn_pool_cut(e->pool, 0);
    lane->seconds = fn_clock_seconds() - begin;
    return status;
}

static bool wait_for(fn_prompt_lane *lane, lane_phase phase) {
    pthread_mutex_lock(&lane->mutex);
    while (lane->phase != phase && !lane->stop) {
        pthread_cond_wait(&lane->changed, &lane->mutex);
    }
    bool there = lane->phase == phase;
    pthread_mutex_unlock(&lane->mutex);
    return there;
}

static void enter(fn_prompt_lane *lane, lane_phase phase) {
    pthread_mutex_lock(&lane->mutex);
    lane->phase = phase;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->mutex);
}

static void *work(void *arg) {
    fn_prompt_lane *lane = arg;
    fn_pool_settle(lane->engine->pool, false);
    while (wait_for(lane, STARTED)) {
        pthread_mutex_lock(&lane->engine->mutex);
        lane->error = (fn_error){0};
        lane->status = read_chunk(lane);
        enter(lane, DONE);
        lane->done(lane->ud);
        (void)wait_for(lane, LEFT);
        pthread_mutex_unlock(&lane->engine->mutex);
        enter(lane, IDLE);
    }
    return NULL;
}

fn_status fn_prompt_lane_create(fn_engine *engine, void (*done)(void *ud), void *ud,
                                fn_prompt_lane **out, fn_error *err) {
    *out = NULL;
    fn_prompt_lane *lane = fn_alloc_zero(1, sizeof *lane);
    if (lane == NULL) {
        return fn_fail_nomem(err, "the scheduler", sizeof *lane);
    }
    lane->engine = engine;
    lane->done = done;
    lane->ud = ud;
    pthread_mutex_init(&lane->mutex, NULL);
    pthread_cond_init(&lane->changed, NULL);
    int failure = pthread_create(&lane->thread, NULL, work, lane);
    lane->running = failure == 0;
    if (failure != 0) {
        fn_prompt_lane_destroy(lane);
        return fn_fail(err, FN_E_FAILED, "cannot start the prompts' thread: %s", strerror(failure));
    }
    *out = lane;
    return FN_OK;
}

void fn_prompt_lane_destroy(fn_prompt_lane *lane) {
    if (lane == NULL) {
        return;
    }
    if (lane->running) {
        pthread_mutex_lock(&lane->mutex);
        lane->stop = true;
        pthread_cond_broadcast(&lane->changed);
        pthread_mutex_unlock(&lane->mutex);
        pthread_join(lane->thread, NULL);
    }
    pthread_cond_destroy(&lane->changed);
    pthread_mutex_destroy(&lane->mutex);
    fn_free(lane);
}

static lane_phase phase_of(fn_prompt_lane *lane) {
    pthread_mutex_lock(&lane->mutex);
    lane_phase phase = lane->phase;
    pthread_mutex_unlock(&lane->mutex);
    return phase;
}

void fn_prompt_lane_start(fn_prompt_lane *lane, const fn_prompt_chunk *chunk) {
    FN_ASSERT(!fn_prompt_lane_busy(lane));
    lane->chunk = *chunk;
    enter(lane, STARTED);
}

bool fn_prompt_lane_busy(fn_prompt_lane *lane) {
    return phase_of(lane) != IDLE;
}

bool fn_prompt_lane_done(fn_prompt_lane *lane) {
    return phase_of(lane) == DONE;
}

void fn_prompt_lane_wait(fn_prompt_lane *lane) {
    FN_ASSERT(fn_prompt_lane_busy(lane));
    (void)wait_for(lane, DONE);
}

fn_status fn_prompt_lane_outcome(fn_prompt_lane *lane, double *seconds, fn_error *err) {
    FN_ASSERT(fn_prompt_lane_done(lane));
    *seconds = lane->seconds;
    return lane->status == FN_OK ? FN_OK : fn_fail(err, lane->status, "%s", lane->error.text);
}

void fn_prompt_lane_free(fn_prompt_lane *lane) {
    FN_ASSERT(fn_prompt_lane_done(lane));
    fn_prompt_lane_limit(lane, fn_pool_threads(lane->engine->pool));
    enter(lane, LEFT);
    (void)wait_for(lane, IDLE);
}

void fn_prompt_lane_limit(fn_prompt_lane *lane, size_t threads) {
    fn_pool_limit(lane->engine->pool, threads);
}
