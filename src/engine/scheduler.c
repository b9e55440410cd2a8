/* The public side of the scheduler, its queue, and the thread that works it off. */
#include "engine/scheduler.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/machine.h"
#include "base/mem.h"
#include "forward/forward.h"

#define DEFAULT_RUNNING 16
#define DEFAULT_WAITING 64
#define DEFAULT_SPACING 1024
#define MAX_LOGPROBS 1000

fn_scheduler_options fn_scheduler_options_default(void) {
    return (fn_scheduler_options){0};
}

/* ---- the queue ---- */

static void append_waiting(fn_scheduler *s, fn_request *r) {
    r->previous = s->last_waiting;
    r->next = NULL;
    *(s->last_waiting != NULL ? &s->last_waiting->next : &s->first_waiting) = r;
    s->last_waiting = r;
    s->n_waiting++;
}

/* Out of the queue, into the list of those that are worked on. Under the mutex. */
static void activate(fn_scheduler *s, fn_request *r) {
    *(r->previous != NULL ? &r->previous->next : &s->first_waiting) = r->next;
    *(r->next != NULL ? &r->next->previous : &s->last_waiting) = r->previous;
    s->n_waiting--;
    s->counts.running++;
    r->next = NULL;
    r->previous = NULL;
    fn_request **at = &s->active;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = r; /* behind the others: who came first starts its further answers first */
}

/* ---- the thread ---- */

static void fail_request(fn_request *r, const fn_error *error) {
    r->error = r->error.code == FN_OK ? *error : r->error;
    atomic_store(&r->cancelled, true);
}

/* A running request with answers to start, else the first that waits (then active); NULL: none, or there is
 * no memory for it yet. */
static fn_request *next_to_start(fn_scheduler *s) {
    fn_request *r = s->active;
    while (r != NULL && (r->prompt_state == NULL || r->n_started == r->options.n_answers ||
                         atomic_load(&r->cancelled))) {
        r = r->next;
    }
    pthread_mutex_lock(&s->mutex);
    bool waits = r == NULL;
    r = waits ? s->first_waiting : r;
    if (r != NULL && fn_sequence_bytes(s->engine, r, 0) > s->state_limit - s->reserved_bytes) {
        r = NULL;
    }
    if (r != NULL && waits) {
        activate(s, r);
    }
    pthread_mutex_unlock(&s->mutex);
    return r;
}

/* Does a state come with the next forward that a conversation may go on from? */
static bool closes(const fn_scheduler *s) {
    for (size_t i = 0; i < s->max_running; i++) {
        if (s->sequences[i].request != NULL && s->sequences[i].phase == FN_SEQUENCE_CLOSING) {
            return true;
        }
    }
    return false;
}

/* Whoever asks on in the instant of an answer finds what it left: nobody starts before that is kept. */
static void admit(fn_scheduler *s) {
    fn_request *r = NULL;
    if (closes(s)) {
        return;
    }
    while (s->n_running < s->max_running && (r = next_to_start(s)) != NULL) {
        fn_error error = {0};
        if (fn_sequence_start(s, r, &error) != FN_OK) {
            fail_request(r, &error);
        }
        if (r->n_started == r->options.n_answers) {
            fn_state_destroy(r->prompt_state);
            r->prompt_state = NULL;
        }
    }
}

/* Those who left while waiting are worked on at once: settle ends them. */
static void take_cancelled(fn_scheduler *s) {
    pthread_mutex_lock(&s->mutex);
    for (fn_request *r = s->first_waiting; r != NULL;) {
        fn_request *next = r->next;
        if (atomic_load(&r->cancelled)) {
            activate(s, r);
        }
        r = next;
    }
    pthread_mutex_unlock(&s->mutex);
    for (size_t i = 0; i < s->max_running; i++) {
        fn_sequence *q = &s->sequences[i];
        bool over = q->request != NULL && !q->told && atomic_load(&q->request->cancelled);
        if (over && !q->in_chunk) { /* else once the chunk is read: others want it */
            fn_sequence_end(s, q, NULL);
        }
    }
}

static void finish(fn_scheduler *s, fn_request *r) {
    bool complete = r->n_ended == r->options.n_answers;
    fn_error cancelled = {.code = FN_E_CANCELLED, .text = "the request was cancelled"};
    fn_state_destroy(r->prompt_state);
    r->prompt_state = NULL;
    if (!complete) {
        fail_request(r, &cancelled);
        s->ended[FN_FINISH_CANCELLED] += r->error.code == FN_E_CANCELLED;
        s->failed += r->error.code != FN_E_CANCELLED;
    }
    s->cached_ids += r->result.n_cached;
    pthread_mutex_lock(&s->mutex);
    s->counts.running--;
    pthread_mutex_unlock(&s->mutex);
    fn_request_tell_done(r);
}

/* Requests whose answers have all ended are done; they go when the last of their states is kept. */
static void settle(fn_scheduler *s) {
    for (fn_request **at = &s->active; *at != NULL;) {
        fn_request *r = *at;
        bool over =
            r->n_ended == r->options.n_answers || (atomic_load(&r->cancelled) && r->n_open == 0);
        if (over && r->result.end <= 0) {
            finish(s, r);
        }
        if (over && r->n_sequences == 0) {
            *at = r->next;
            fn_request_leave(r);
        } else {
            at = &r->next;
        }
    }
}

static void publish(fn_scheduler *s) {
    fn_prefix_cache_counts cache = {0};
    if (s->cache != NULL) {
        cache = fn_prefix_cache_get_counts(s->cache);
    }
    pthread_mutex_lock(&s->mutex);
    fn_scheduler_counts *c = &s->counts;
    c->stopped = s->ended[FN_FINISH_STOP];
    c->reached_limit = s->ended[FN_FINISH_LENGTH];
    c->cancelled = s->ended[FN_FINISH_CANCELLED];
    c->failed = s->failed;
    c->prompt_ids = s->prompt_ids;
    c->cached_ids = s->cached_ids;
    c->generated_ids = s->generated_ids;
    c->drafting = s->drafting;
    c->drafting.drafter = fn_draft_name(&s->engine->draft);
    c->answer_seconds = s->answer_seconds;
    c->plain_seconds = s->plain_seconds;
    c->forwards = s->forwards;
    c->rows = s->rows;
    c->busy_seconds = s->busy_seconds;
    c->state_bytes = s->reserved_bytes;
    c->cache_lookups = cache.lookups;
    c->cache_hits = cache.hits;
    c->cache_evictions = cache.evictions;
    c->cache_states = cache.states;
    c->cache_bytes = cache.bytes;
    c->disk_states = cache.disk_states;
    c->disk_bytes = cache.disk_bytes;
    c->disk_hits = cache.disk_hits;
    pthread_mutex_unlock(&s->mutex);
}

/* Waits for news. Returns false when it is time for the answers' next forward. Under the mutex. */
static bool wait_for_news(fn_scheduler *s) {
    if (s->n_chunk == 0 || !s->waits) {
        pthread_cond_wait(&s->work, &s->mutex);
        return true;
    }
    double whole = floor(s->next_step);
    struct timespec until = {.tv_sec = (time_t)whole,
                             .tv_nsec = (long)(1e9 * (s->next_step - whole))};
    return pthread_cond_timedwait(&s->work, &s->mutex, &until) != ETIMEDOUT;
}

/* idle: nothing else can be done before there is news, or the answers' next forward is due. */
static void wait_for_work(fn_scheduler *s, bool idle) {
    bool waits = true;
    pthread_mutex_lock(&s->mutex);
    while (waits && !atomic_load(&s->stop) &&
           (s->active == NULL ? s->first_waiting == NULL : idle && s->news == s->seen)) {
        waits = wait_for_news(s);
    }
    s->seen = s->news;
    pthread_mutex_unlock(&s->mutex);
}

/* Are there sequences that wait for the disk? Those whose wait is over go on. */
static bool take_fetched(fn_scheduler *s) {
    bool waits = false;
    for (size_t i = 0; i < s->max_running; i++) {
        fn_sequence *q = &s->sequences[i];
        if (q->request != NULL && q->phase == FN_SEQUENCE_FETCH) {
            fn_sequence_try_begin(s, q);
            waits = waits || (q->request != NULL && q->phase == FN_SEQUENCE_FETCH);
        }
    }
    return waits;
}

/* Everybody leaves, cancelled. */
static void close_down(fn_scheduler *s) {
    pthread_mutex_lock(&s->mutex);
    while (s->first_waiting != NULL) {
        activate(s, s->first_waiting);
    }
    pthread_mutex_unlock(&s->mutex);
    for (fn_request *r = s->active; r != NULL; r = r->next) {
        atomic_store(&r->cancelled, true);
    }
    fn_batch_chunk_drop(s);
    for (size_t i = 0; i < s->max_running; i++) {
        if (s->sequences[i].request != NULL) {
            fn_sequence_end(s, &s->sequences[i], NULL);
        }
    }
    settle(s);
}

static void *work(void *arg) {
    fn_scheduler *s = arg;
    bool idle = false;
    fn_pool_settle(s->pool, true);
    while (!atomic_load(&s->stop)) {
        wait_for_work(s, idle);
        take_cancelled(s);
        bool fetches = take_fetched(s);
        admit(s);
        bool ran = fn_batch_run(s);
        idle = !ran && (fetches || s->n_chunk > 0);
        settle(s);
        publish(s);
    }
    close_down(s);
    publish(s);
    return NULL;
}

/* ---- life ---- */

static fn_status check_options(const fn_scheduler *s, const fn_scheduler_options *o,
                               fn_error *err) {
    size_t chunk = s->engine->chunk;
    if (s->max_running > FN_PACE_MAX_ANSWERS || s->max_running > chunk / 2) {
        return fn_fail(err, FN_E_USAGE,
                       "max_running: found %zu, expected at most %d and half the engine's chunk "
                       "(%zu)",
                       s->max_running, FN_PACE_MAX_ANSWERS, chunk);
    }
    if (o->cache_dir != NULL && o->cache_bytes == 0) {
        return fn_fail(err, FN_E_USAGE, "cache_dir: %s, but cache_bytes is 0", o->cache_dir);
    }
    return FN_OK;
}

/* What is not in the engine's plan must be there, too. */
static fn_status check_memory(const fn_scheduler *s, const fn_scheduler_options *o, fn_error *err) {
    const fn_engine *e = s->engine;
    uint64_t planned =
        e->sessions * fn_session_bytes(&e->shape, &e->layout, e->context, e->draft.most);
    uint64_t lanes = fn_answers_bytes(e, s->max_running);
    uint64_t lanes_planned = fn_answers_bytes(e, e->answers);
    uint64_t more = (s->state_limit > planned ? s->state_limit - planned : 0) +
                    (lanes > lanes_planned ? lanes - lanes_planned : 0);
    uint64_t room = e->reserve_bytes + e->spare_bytes;
    if (e->mem_limit == 0) {
        uint64_t available = fn_machine_memory_now().available;
        room = available == 0 ? UINT64_MAX : available; /* 0: unknown */
    }
    return o->cache_bytes <= room && more <= room - o->cache_bytes
               ? FN_OK
               : fn_fail(err, FN_E_FIT,
                         "the prefix cache needs %llu bytes on top of the plan, requests %llu, but "
                         "there are %llu for them",
                         (unsigned long long)o->cache_bytes, (unsigned long long)more,
                         (unsigned long long)room);
}

static fn_status make_buffers(fn_scheduler *s, fn_error *err) {
    size_t n = s->max_running;
    s->sequences = fn_alloc_zero(n, sizeof *s->sequences);
    s->segments = fn_alloc_zero(n, sizeof *s->segments);
    s->in_batch = fn_alloc_zero(n, sizeof *s->in_batch);
    s->wants = fn_alloc_zero(fn_answer_rows(n, s->engine->draft.most), sizeof *s->wants);
    s->chunk = fn_alloc_zero(n, sizeof *s->chunk);
    s->chunk_segments = fn_alloc_zero(n, sizeof *s->chunk_segments);
    s->chunk_wants = fn_alloc_zero(s->engine->chunk, sizeof *s->chunk_wants);
    s->top = fn_alloc_zero(n * MAX_LOGPROBS, sizeof *s->top);
    s->logprob = fn_alloc_zero(n, sizeof *s->logprob);
    s->logprob_status = fn_alloc_zero(n, sizeof *s->logprob_status);
    s->requests = fn_alloc_zero(n, sizeof *s->requests);
    size_t vocab = s->engine->shape.vocab;
    size_t rows = n + fn_guess_rows(n, s->engine->draft.most);
    s->logits = fn_alloc_aligned(rows * vocab, sizeof *s->logits);
    s->chunk_logits = fn_alloc_aligned(n * vocab, sizeof *s->chunk_logits);
    s->score_logits = fn_alloc_aligned(n * vocab, sizeof *s->score_logits);
    bool ok = s->sequences != NULL && s->segments != NULL && s->in_batch != NULL &&
              s->wants != NULL && s->chunk != NULL && s->chunk_segments != NULL &&
              s->chunk_wants != NULL && s->top != NULL && s->logprob != NULL &&
              s->logprob_status != NULL && s->requests != NULL && s->logits != NULL &&
              s->chunk_logits != NULL && s->score_logits != NULL;
    return ok ? FN_OK
              : fn_fail_nomem(err, "the scheduler", (rows + 2 * n) * vocab * sizeof *s->logits);
}

/* There is news for the thread. */
static void wake(void *ud) {
    fn_scheduler *s = ud;
    pthread_mutex_lock(&s->mutex);
    s->news++;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->mutex);
}

static fn_status make_cache(fn_scheduler *s, const fn_scheduler_options *o, fn_error *err) {
    fn_cache_files *files = NULL;
    if (o->cache_bytes == 0) {
        return FN_OK;
    }
    fn_status status = FN_OK;
    if (o->cache_dir != NULL) {
        uint64_t bytes = o->cache_dir_bytes > 0 ? o->cache_dir_bytes : 8 * o->cache_bytes;
        status = fn_cache_files_open(s->engine, o->cache_dir, bytes, &files, err);
    }
    if (files != NULL) {
        fn_cache_files_on_fetched(files, wake, s);
    }
    return status == FN_OK
               ? fn_prefix_cache_create(s->engine, o->cache_bytes, files, &s->cache, err)
               : status;
}

/* What the answers' forwards need, and what reads prompts beside them. */
static fn_status make_lanes(fn_scheduler *s, fn_error *err) {
    fn_engine *e = s->engine;
    size_t rows = fn_answer_rows(s->max_running, e->draft.most);
    size_t threads = fn_pool_threads(e->pool);
    s->threads_beside = threads > 1 ? threads / 2 : 1; /* read as fast as memory is, or nearly */
    s->pace.part = (double)s->threads_beside / (double)threads;
    fn_status status = fn_pool_create(threads, &s->pool, err);
    fn_model model = fn_engine_model(e, s->pool);
    status =
        status == FN_OK ? fn_forward_create(&model, rows, e->context, &s->forward, err) : status;
    if (status == FN_OK) {
        fn_forward_touch(
            s->forward); /* answers shall not wait for its pages, whatever comes together */
    }
    return status == FN_OK ? fn_prompt_lane_create(e, wake, s, &s->lane, err) : status;
}

static fn_status start_thread(fn_scheduler *s, fn_error *err) {
    int failure = pthread_create(&s->thread, NULL, work, s);
    if (failure != 0) {
        return fn_fail(err, FN_E_FAILED, "cannot start the scheduler: %s", strerror(failure));
    }
    s->started = true;
    return FN_OK;
}

/* Its waits end at times of fn_clock_seconds. */
static void init_condition(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

fn_status fn_scheduler_create(fn_engine *engine, const fn_scheduler_options *options,
                              fn_scheduler **out, fn_error *err) {
    *out = NULL;
    if (atomic_exchange(&engine->scheduled, true)) {
        return fn_fail(err, FN_E_USAGE,
                       "the engine has a scheduler already: one is enough for all");
    }
    fn_scheduler *s = fn_alloc_zero(1, sizeof *s);
    if (s == NULL) {
        atomic_store(&engine->scheduled, false);
        return fn_fail_nomem(err, "the scheduler", sizeof *s);
    }
    size_t half = engine->chunk / 2 > 0 ? engine->chunk / 2 : 1;
    size_t usual = half < DEFAULT_RUNNING ? half : DEFAULT_RUNNING;
    s->engine = engine;
    s->max_running = options->max_running > 0 ? options->max_running : usual;
    s->max_waiting = options->max_waiting > 0 ? options->max_waiting : DEFAULT_WAITING;
    s->cache_spacing = options->cache_spacing > 0 ? options->cache_spacing : DEFAULT_SPACING;
    s->state_limit = options->state_bytes > 0
                         ? options->state_bytes
                         : engine->sessions * fn_session_bytes(&engine->shape, &engine->layout,
                                                               engine->context, engine->draft.most);
    fn_draft_patience_init(&s->patience);
    fn_draft_odds_init(&s->odds);
    s->counts.state_limit = s->state_limit;
    s->counts.cache_limit = options->cache_bytes;
    pthread_mutex_init(&s->mutex, NULL);
    init_condition(&s->work);
    fn_status status = check_options(s, options, err);
    status = status == FN_OK ? check_memory(s, options, err) : status;
    status = status == FN_OK ? make_buffers(s, err) : status;
    status = status == FN_OK ? make_lanes(s, err) : status;
    status = status == FN_OK ? make_cache(s, options, err) : status;
    status = status == FN_OK ? start_thread(s, err) : status;
    if (status != FN_OK) {
        fn_scheduler_destroy(s);
        return status;
    }
    *out = s;
    return FN_OK;
}

void fn_scheduler_destroy(fn_scheduler *s) {
    if (s == NULL) {
        return;
    }
    if (s->started) {
        atomic_store(&s->stop, true);
        wake(s);
        pthread_join(s->thread, NULL);
    }
    fn_prefix_cache_destroy(s->cache);
    fn_prompt_lane_destroy(s->lane);
    fn_forward_destroy(s->forward);
    fn_pool_destroy(s->pool);
    fn_free(s->sequences);
    fn_free(s->segments);
    fn_free(s->in_batch);
    fn_free(s->wants);
    fn_free(s->chunk);
    fn_free(s->chunk_segments);
    fn_free(s->chunk_wants);
    fn_free(s->requests);
    fn_free(s->top);
    fn_free(s->logprob);
    fn_free(s->logprob_status);
    fn_free(s->logits);
    fn_free(s->chunk_logits);
    fn_free(s->score_logits);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->mutex);
    atomic_store(&s->engine->scheduled, false);
    fn_free(s);
}

/* ---- requests ---- */

static fn_status queue(fn_scheduler *s, fn_request *r, fn_error *err) {
    uint64_t bytes = fn_sequence_bytes(s->engine, r, 0);
    if (bytes > s->state_limit) {
        return fn_fail(err, FN_E_FIT,
                       "the request needs %llu bytes for %zu tokens of prompt and answer, but all "
                       "requests together have %llu",
                       (unsigned long long)bytes, r->options.n_ids + r->limit,
                       (unsigned long long)s->state_limit);
    }
    fn_status status = FN_OK;
    pthread_mutex_lock(&s->mutex);
    size_t places = s->max_running > s->counts.running ? s->max_running - s->counts.running : 0;
    if (s->n_waiting >= s->max_waiting + places) {
        s->counts.refused_busy++;
        status = fn_fail(err, FN_E_BUSY, "%zu requests wait already", s->n_waiting);
    } else {
        r->scheduler = s;
        r->owners = 2;
        s->counts.submitted++;
        append_waiting(s, r);
        s->news++;
        pthread_cond_signal(&s->work);
    }
    pthread_mutex_unlock(&s->mutex);
    return status;
}

fn_status fn_scheduler_submit(fn_scheduler *s, const fn_request_options *options, fn_request **out,
                              fn_error *err) {
    fn_request *r = NULL;
    *out = NULL;
    fn_status status = fn_request_make(options, s->engine, &r, err);
    if (status != FN_OK) {
        return status;
    }
    status = queue(s, r, err);
    if (status != FN_OK) {
        fn_request_leave(r);
        return status;
    }
    *out = r;
    return FN_OK;
}

/* Under the request's mutex: while it is not done the scheduler is there. */
static void cancel(fn_request *r) {
    if (!r->done) {
        atomic_store(&r->cancelled, true);
        wake(r->scheduler);
    }
}

void fn_request_cancel(fn_request *r) {
    pthread_mutex_lock(&r->mutex);
    cancel(r);
    pthread_mutex_unlock(&r->mutex);
}

void fn_request_free(fn_request *r) {
    if (r == NULL) {
        return;
    }
    pthread_mutex_lock(&r->mutex);
    r->detached = true;
    cancel(r);
    pthread_mutex_unlock(&r->mutex);
    fn_request_leave(r);
}

static size_t ahead_of(fn_scheduler *s, const fn_request *r) {
    size_t n = 0;
    pthread_mutex_lock(&s->mutex);
    const fn_request *at = s->first_waiting;
    for (; at != NULL && at != r; at = at->next) {
        n++;
    }
    pthread_mutex_unlock(&s->mutex);
    return at == r ? n : 0;
}

void fn_request_get_state(fn_request *r, fn_request_state *out) {
    pthread_mutex_lock(&r->mutex);
    *out =
        (fn_request_state){.phase = r->phase, .prompt = r->progress, .n_generated = r->generated};
    if (!r->done && r->phase == FN_REQUEST_WAITING) {
        out->ahead = ahead_of(r->scheduler, r);
    }
    pthread_mutex_unlock(&r->mutex);
}

void fn_scheduler_get_counts(fn_scheduler *s, fn_scheduler_counts *out) {
    pthread_mutex_lock(&s->mutex);
    *out = s->counts;
    out->waiting = s->n_waiting;
    pthread_mutex_unlock(&s->mutex);
}
