/* engine/request.h - one request: what was asked, its callbacks, and what is told of it.
 *
 * Path:    fn_scheduler_submit -> [this: copies, checks] -> queue -> scheduler.c; callbacks back.
 * Threads: the mutex is held while a callback runs and while what callers may ask is changed, so that after
 *          fn_request_free no callback runs or comes. Lock order: a request's mutex, then the scheduler's.
 * Memory:  two owners, the caller and the scheduler; the last to leave frees. */
#ifndef FN_ENGINE_REQUEST_H
#define FN_ENGINE_REQUEST_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/engine.h"

struct fn_request {
    fn_scheduler *scheduler; /* until done */
    pthread_mutex_t mutex;   /* recursive: callbacks may cancel and ask */
    size_t owners;           /* under the mutex, like all up to `generated` */
    bool detached;           /* the caller has freed it: no more callbacks */
    bool done;
    fn_request_phase phase;
    fn_prompt_progress progress;
    size_t generated;
    atomic_bool cancelled;

    fn_request_options options; /* its arrays are ours; generation.on_event goes through us */
    bool (*on_event)(void *ud, const fn_event *event);
    void *on_event_ud;
    char **stops; /* [generation.n_stop] */
    size_t limit; /* ids of an answer at most */
    double submitted;

    /* the scheduler's thread; next and previous under its mutex while waiting */
    fn_request *next, *previous;
    fn_state *prompt_state;     /* after the prompt, while there are answers to start from it */
    size_t n_started, n_ended;  /* answers */
    size_t n_open, n_sequences; /* sequences whose answer has not ended; all of them */
    fn_request_result result;
    fn_error error;
};

/* Copies and checks (FN_E_RANGE, FN_E_USAGE). One owner: the caller. */
FN_NODISCARD fn_status fn_request_make(const fn_request_options *options, const fn_engine *engine,
                                       fn_request **out, fn_error *err);
/* One owner less. */
void fn_request_leave(fn_request *r);

/* Seconds since it was submitted. */
double fn_request_seconds(const fn_request *r);

/* What the scheduler tells; callbacks of a request that its caller has freed are left out. */
void fn_request_tell_prompt(fn_request *r, size_t read, size_t cached);
void fn_request_tell_prompt_id(fn_request *r, size_t index, float logprob,
                               const fn_token_logprob *top, size_t n_top);
void fn_request_tell_answer(fn_request *r, size_t answer, const fn_generated *generated);
/* Also sets done: from now on the scheduler is not asked for it any more. */
void fn_request_tell_done(fn_request *r);

#endif
