#include "support/requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "support/model_case.h"

/* Grown by realloc of libc: the recorder must not disturb counted allocations, so it takes room at once. */
static void make_answer(told_answer *a, size_t room, size_t n_top) {
    a->ids = calloc(room, sizeof *a->ids);
    a->logprobs = calloc(room, sizeof *a->logprobs);
    a->at = calloc(room, sizeof *a->at);
    a->top = calloc(room * (n_top + 1), sizeof *a->top);
    a->text = calloc(room, 64);
    a->n_top = n_top;
    assert_true(a->ids != NULL && a->logprobs != NULL && a->at != NULL && a->top != NULL &&
                a->text != NULL);
}

void told_prepare(told *t, const asked *a) {
    *t = (told){.started = fn_clock_seconds()};
    size_t limit = a->generation.max_tokens < ASKED_IDS ? a->generation.max_tokens : ASKED_IDS;
    for (size_t i = 0; i < TOLD_ANSWERS; i++) {
        make_answer(&t->answers[i], limit + 1, a->generation.n_logprobs);
    }
    make_answer(&t->prompt, a->n + 1, a->generation.n_logprobs);
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->changed, NULL);
}

static void record_id(told_answer *a, const fn_event *event) {
    a->ids[a->n] = event->id;
    a->logprobs[a->n] = event->logprob;
    a->at[a->n] = fn_clock_seconds();
    if (event->n_top > 0) {
        memcpy(a->top + a->n * a->n_top, event->top, event->n_top * sizeof *a->top);
    }
    a->n++;
}

/* Under t's mutex. */
static void hold_other(const told *t) {
    pthread_mutex_lock(&t->holds->mutex);
    t->holds->hold_at = t->holds->answers[0].n + 1;
    pthread_mutex_unlock(&t->holds->mutex);
}

static bool on_event(void *ud, const fn_event *event) {
    told *t = ud;
    pthread_mutex_lock(&t->mutex);
    told_answer *a = &t->answers[event->answer];
    if (event->kind == FN_EVENT_TOKEN) {
        record_id(a, event);
    } else if (event->kind == FN_EVENT_PROMPT) {
        record_id(&t->prompt, event);
    } else {
        memcpy(a->text + a->n_text, event->text, event->n);
        a->n_text += event->n;
    }
    bool more = t->stop_after == 0 || a->n < t->stop_after;
    bool cancel = t->cancel_after > 0 && a->n >= t->cancel_after;
    if (t->holds != NULL && event->kind == FN_EVENT_TOKEN && a->n == t->holds_with) {
        hold_other(t);
    }
    pthread_cond_broadcast(&t->changed);
    while (t->hold_at > 0 && a->n >= t->hold_at) {
        pthread_cond_wait(&t->changed, &t->mutex);
    }
    pthread_mutex_unlock(&t->mutex);
    if (cancel && t->request != NULL) {
        fn_request_cancel(t->request);
    }
    return more;
}

static void on_progress(void *ud, const fn_prompt_progress *progress) {
    told *t = ud;
    pthread_mutex_lock(&t->mutex);
    t->n_progress++;
    if (t->first_read <= 0 && progress->read > progress->cached) {
        t->first_read = fn_clock_seconds();
    }
    assert_true(progress->read <= progress->total && progress->cached <= progress->read);
    if (t->holds != NULL && t->holds_with == 0 && t->n_progress == 2) {
        hold_other(t);
    }
    bool leaves = t->n_progress == t->cancel_progress;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->mutex);
    if (leaves) {
        fn_request_cancel(t->request);
    }
}

static void on_answer(void *ud, size_t answer, const fn_generated *generated) {
    told *t = ud;
    pthread_mutex_lock(&t->mutex);
    assert_false(t->answers[answer].ended);
    t->answers[answer].ended = true;
    t->answers[answer].generated = *generated;
    pthread_mutex_unlock(&t->mutex);
    if (t->cancel_at_end) {
        fn_request_cancel(t->request);
    }
}

static void on_done(void *ud, const fn_request_result *result) {
    told *t = ud;
    pthread_mutex_lock(&t->mutex);
    assert_false(t->done);
    t->result = *result;
    (void)snprintf(t->error, sizeof t->error, "%s", result->error);
    t->done = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->mutex);
}

void told_alone(fn_engine *engine, const asked *a, told *t) {
    fn_session *session = NULL;
    fn_error err = {0};
    told_prepare(t, a);
    fn_generation g = a->generation;
    g.on_event = on_event;
    g.ud = t;
    assert_int_equal(fn_session_create(engine, &session, NULL), FN_OK);
    fn_status status = fn_session_sync(session, a->ids, a->n, NULL, &err);
    status =
        status == FN_OK ? fn_session_generate(session, &g, &t->answers[0].generated, &err) : status;
    if (status != FN_OK) {
        fail_msg("%s", err.text);
    }
    fn_session_destroy(session);
}

fn_status told_try(fn_scheduler *s, const asked *a, const fn_request_options *options, told *t,
                   fn_error *err) {
    fn_request_options o = options != NULL ? *options : (fn_request_options){0};
    if (t->answers[0].ids == NULL) {
        told_prepare(t, a);
    }
    o.ids = a->ids;
    o.n_ids = a->n;
    o.generation = a->generation;
    o.generation.on_event = on_event;
    o.generation.ud = t;
    o.on_progress = on_progress;
    o.on_answer = on_answer;
    o.on_done = on_done;
    o.ud = t;
    return fn_scheduler_submit(s, &o, &t->request, err);
}

void told_start(fn_scheduler *s, const asked *a, const fn_request_options *options, told *t) {
    fn_error err = {0};
    told_prepare(t, a);
    if (told_try(s, a, options, t, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
}

void told_wait(told *t) {
    pthread_mutex_lock(&t->mutex);
    while (!t->done) {
        pthread_cond_wait(&t->changed, &t->mutex);
    }
    pthread_mutex_unlock(&t->mutex);
}

void told_let_go(told *t) {
    pthread_mutex_lock(&t->mutex);
    t->hold_at = 0;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->mutex);
}

void told_wait_ids(told *t, size_t n) {
    pthread_mutex_lock(&t->mutex);
    while (!t->done && t->answers[0].n < n) {
        pthread_cond_wait(&t->changed, &t->mutex);
    }
    pthread_mutex_unlock(&t->mutex);
}

static void free_answer(told_answer *a) {
    free(a->ids);
    free(a->logprobs);
    free(a->at);
    free(a->top);
    free(a->text);
}

void told_free(told *t) {
    fn_request_free(t->request);
    for (size_t i = 0; i < TOLD_ANSWERS; i++) {
        free_answer(&t->answers[i]);
    }
    free_answer(&t->prompt);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->mutex);
    *t = (told){0};
}

void assert_same_answers(const told_answer *a, const told_answer *b) {
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->ids, b->ids, a->n * sizeof *a->ids);
    assert_memory_equal(a->logprobs, b->logprobs, a->n * sizeof *a->logprobs);
    assert_memory_equal(a->top, b->top, a->n * a->n_top * sizeof *a->top);
    assert_int_equal(a->n_text, b->n_text);
    assert_memory_equal(a->text, b->text, a->n_text);
    assert_int_equal(a->generated.finish, b->generated.finish);
    assert_int_equal(a->generated.end_id, b->generated.end_id);
    assert_int_equal(a->generated.n_ids, b->generated.n_ids);
    assert_int_equal(a->generated.n_thinking_ids, b->generated.n_thinking_ids);
}

void assert_same_told(const told *a, const told *b) {
    if (a->result.status != FN_OK) {
        fail_msg("%s", a->error);
    }
    assert_same_answers(&a->answers[0], &b->answers[0]);
}

/* ---- what is asked ---- */

fn_scheduler *told_scheduler(fn_engine *engine, fn_scheduler_options options) {
    fn_scheduler *s = NULL;
    fn_error err = {0};
    if (fn_scheduler_create(engine, &options, &s, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    return s;
}

asked asked_mixed(const fn_engine *engine, size_t i, float temperature) {
    asked a = {.n = 3 + 29 * i % 90, .generation = fn_generation_default(fn_engine_text(engine))};
    make_ids(engine, 100 + i, a.ids, a.n);
    a.generation.sampling.temperature = temperature;
    a.generation.sampling.top_k = i % 3 == 0 ? 0 : 5 + (int32_t)i;
    a.generation.sampling.top_p = i % 4 == 1 ? 0.9F : 1.0F;
    a.generation.sampling.min_p = 0;
    a.generation.sampling.repetition_penalty = i % 5 == 2 ? 1.3F : 1.0F;
    a.generation.sampling.seed = 7 * i;
    a.generation.max_tokens = 5 + 7 * i % 40;
    a.generation.ignore_end = i % 2 == 0;
    a.generation.n_logprobs = i % 3;
    return a;
}

asked asked_long(const fn_engine *engine, size_t seed, size_t n, size_t limit) {
    asked a = {.n = n, .generation = fn_generation_default(fn_engine_text(engine))};
    make_ids(engine, seed, a.ids, n);
    a.generation.sampling = (fn_sampling){.top_p = 1, .repetition_penalty = 1};
    a.generation.ignore_end = true;
    a.generation.max_tokens = limit;
    return a;
}
