#include "engine/request.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/stepper.h"

/* Kept states closer than this are not worth a chunk of their own. */
#define MARK_GAP 32
#define MAX_ANSWERS 128

fn_request_options fn_request_options_default(const fn_text *text) {
    return (fn_request_options){.generation = fn_generation_default(text), .n_answers = 1};
}

/* ---- copies ---- */

static void free_parts(fn_request *r) {
    for (size_t i = 0; r->stops != NULL && i < r->options.generation.n_stop; i++) {
        fn_free(r->stops[i]);
    }
    fn_free(r->stops);
    fn_free(r->options.generation.sampling.bias);
    fn_free(r->options.ids);
    fn_free(r->options.marks);
    pthread_mutex_destroy(&r->mutex);
    fn_free(r);
}

static void *copy_of(const void *items, size_t n, size_t size) {
    void *copy = fn_alloc(n, size);
    if (copy != NULL && n > 0) {
        memcpy(copy, items, n * size);
    }
    return copy;
}

static bool copy_stops(fn_request *r, const fn_generation *g) {
    r->stops = fn_alloc_zero(g->n_stop, sizeof *r->stops);
    bool ok = r->stops != NULL;
    for (size_t i = 0; ok && i < g->n_stop; i++) {
        r->stops[i] = fn_strndup(g->stop[i], strlen(g->stop[i]));
        ok = r->stops[i] != NULL;
    }
    r->options.generation.stop = (const char *const *)r->stops;
    return ok;
}

static bool ends_message(const fn_engine *e, int32_t id) {
    for (size_t i = 0; i < e->text->n_end_ids; i++) {
        if (e->text->end_ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* The caller's marks and what follows end ids, ascending, thinned; the last one always stays. */
static bool copy_marks(fn_request *r, const fn_request_options *o, const fn_engine *e) {
    size_t *marks = NULL;
    size_t capacity = 0;
    size_t n = 0;
    size_t theirs = 0;
    size_t last = 0;
    r->options.marks = NULL;
    for (size_t at = 1; at < o->n_ids && !o->no_cache; at++) {
        while (theirs < o->n_marks && o->marks[theirs] < at) {
            theirs++;
        }
        bool mark =
            (theirs < o->n_marks && o->marks[theirs] == at) || ends_message(e, o->ids[at - 1]);
        last = mark ? at : last;
        if (!mark || (n > 0 && at - marks[n - 1] < MARK_GAP)) {
            continue;
        }
        if (!fn_grow((void **)&marks, &capacity, n + 2, sizeof *marks)) {
            fn_free(marks);
            return false;
        }
        marks[n++] = at;
    }
    if (n > 0 && marks[n - 1] != last) {
        marks[n++] = last;
    }
    r->options.marks = marks;
    r->options.n_marks = n;
    return true;
}

static bool relay(void *ud, const fn_event *event) {
    fn_request *r = ud;
    bool more = true;
    pthread_mutex_lock(&r->mutex);
    r->generated += event->kind == FN_EVENT_TOKEN;
    r->phase = FN_REQUEST_ANSWER;
    if (!r->detached && r->on_event != NULL) {
        more = r->on_event(r->on_event_ud, event);
    }
    pthread_mutex_unlock(&r->mutex);
    return more;
}

static bool copy_parts(fn_request *r, const fn_request_options *o, const fn_engine *e) {
    fn_generation *g = &r->options.generation;
    r->options.ids = copy_of(o->ids, o->n_ids, sizeof *o->ids);
    g->sampling.bias = copy_of(g->sampling.bias, g->sampling.n_bias, sizeof *g->sampling.bias);
    bool stops = copy_stops(r, &o->generation);
    bool marks = copy_marks(r, o, e);
    return stops && marks && r->options.ids != NULL && g->sampling.bias != NULL;
}

/* ---- checks ---- */

static fn_status check_ids(const fn_request_options *o, const fn_engine *e, fn_error *err) {
    size_t wanted = o->generation.max_tokens > 0 ? 1 : 0;
    if (o->n_ids == 0) {
        return fn_fail(err, FN_E_USAGE, "the prompt is empty: at least one token is needed");
    }
    if (o->n_ids > e->context || e->context - o->n_ids < wanted) {
        return fn_fail(err, FN_E_RANGE,
                       "context limit: the prompt has %zu tokens, but the limit is %zu, the answer "
                       "included",
                       o->n_ids, e->context);
    }
    for (size_t i = 0; i < o->n_ids; i++) {
        if (o->ids[i] < 0 || (size_t)o->ids[i] >= e->shape.vocab) {
            return fn_fail(err, FN_E_RANGE, "token id at index %zu: found %d, expected 0 to %zu", i,
                           (int)o->ids[i], e->shape.vocab - 1);
        }
    }
    return FN_OK;
}

static fn_status check(const fn_request_options *o, const fn_engine *e, fn_error *err) {
    if (o->n_answers > MAX_ANSWERS) {
        return fn_fail(err, FN_E_USAGE, "n_answers: found %zu, expected at most %d", o->n_answers,
                       MAX_ANSWERS);
    }
    for (size_t i = 1; i < o->n_marks; i++) {
        if (o->marks[i] < o->marks[i - 1]) {
            return fn_fail(err, FN_E_USAGE, "marks: found %zu after %zu, expected ascending ones",
                           o->marks[i], o->marks[i - 1]);
        }
    }
    fn_status status = check_ids(o, e, err);
    return status == FN_OK ? fn_generation_check(&o->generation, e->text, e->shape.vocab, err)
                           : status;
}

/* ---- life ---- */

fn_status fn_request_make(const fn_request_options *options, const fn_engine *engine,
                          fn_request **out, fn_error *err) {
    *out = NULL;
    fn_status status = check(options, engine, err);
    if (status != FN_OK) {
        return status;
    }
    fn_request *r = fn_alloc_zero(1, sizeof *r);
    if (r == NULL) {
        return fn_fail_nomem(err, "a request", sizeof *r);
    }
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&r->mutex, &recursive);
    pthread_mutexattr_destroy(&recursive);
    r->owners = 1;
    r->options = *options;
    r->options.n_answers = options->n_answers > 0 ? options->n_answers : 1;
    r->on_event = options->generation.on_event;
    r->on_event_ud = options->generation.ud;
    r->options.generation.on_event = relay;
    r->options.generation.ud = r;
    r->submitted = fn_clock_seconds();
    r->progress.total = options->n_ids;
    size_t room = engine->context - options->n_ids;
    r->limit = options->generation.max_tokens < room ? options->generation.max_tokens : room;
    if (!copy_parts(r, options, engine)) {
        free_parts(r);
        return fn_fail_nomem(err, "a request", options->n_ids * sizeof *options->ids);
    }
    *out = r;
    return FN_OK;
}

void fn_request_leave(fn_request *r) {
    pthread_mutex_lock(&r->mutex);
    bool last = --r->owners == 0;
    pthread_mutex_unlock(&r->mutex);
    if (last) {
        free_parts(r);
    }
}

double fn_request_seconds(const fn_request *r) {
    return fn_clock_seconds() - r->submitted;
}

/* ---- telling ---- */

void fn_request_tell_prompt(fn_request *r, size_t read, size_t cached) {
    pthread_mutex_lock(&r->mutex);
    r->phase = FN_REQUEST_PROMPT;
    r->progress.read = read;
    r->progress.cached = cached;
    r->progress.seconds = fn_request_seconds(r) - r->result.started;
    if (!r->detached && r->options.on_progress != NULL) {
        r->options.on_progress(r->options.ud, &r->progress);
    }
    pthread_mutex_unlock(&r->mutex);
}

void fn_request_tell_prompt_id(fn_request *r, size_t index, float logprob,
                               const fn_token_logprob *top, size_t n_top) {
    fn_event event = {.kind = FN_EVENT_PROMPT,
                      .id = r->options.ids[index],
                      .logprob = logprob,
                      .top = top,
                      .n_top = n_top};
    pthread_mutex_lock(&r->mutex);
    if (!r->detached && r->on_event != NULL && !r->on_event(r->on_event_ud, &event)) {
        atomic_store(&r->cancelled, true);
    }
    pthread_mutex_unlock(&r->mutex);
}

void fn_request_tell_answer(fn_request *r, size_t answer, const fn_generated *generated) {
    pthread_mutex_lock(&r->mutex);
    if (!r->detached && r->options.on_answer != NULL) {
        r->options.on_answer(r->options.ud, answer, generated);
    }
    pthread_mutex_unlock(&r->mutex);
}

void fn_request_tell_done(fn_request *r) {
    pthread_mutex_lock(&r->mutex);
    r->result.end = fn_request_seconds(r);
    r->result.status = r->error.code;
    r->result.error = r->error.text;
    r->phase = FN_REQUEST_DONE;
    r->done = true;
    if (!r->detached && r->options.on_done != NULL) {
        r->options.on_done(r->options.ud, &r->result);
    }
    pthread_mutex_unlock(&r->mutex);
}
