/* tests/support/requests.h - asks a session or a scheduler, and records all that is told. */
#ifndef FN_TESTS_REQUESTS_H
#define FN_TESTS_REQUESTS_H

#include <pthread.h>

#include "flashnext.h"

#define ASKED_IDS 4096
#define TOLD_ANSWERS 4

typedef struct asked {
    int32_t ids[ASKED_IDS];
    size_t n;
    fn_generation generation; /* its callbacks are set by told_* */
} asked;

/* One answer: ids, log-probabilities with alternatives, text. */
typedef struct told_answer {
    int32_t *ids;
    fn_token_logprob *top; /* [n, n_logprobs] */
    float *logprobs;
    double *at; /* [n] seconds */
    size_t n, n_top;
    char *text; /* thought and answer in order */
    size_t n_text;
    fn_generated generated;
    bool ended;
} told_answer;

typedef struct told {
    told_answer answers[TOLD_ANSWERS];
    told_answer prompt; /* FN_EVENT_PROMPT */
    fn_request *request;
    fn_request_result result;
    char error[1020];
    bool done;
    size_t n_progress;
    double first_read; /* seconds, as the ids' */
    size_t stop_after; /* on_event returns false after so many ids; 0: never */
    size_t cancel_after;
    bool cancel_at_end;     /* when the end of an answer is told */
    size_t cancel_progress; /* when so many parts of its prompt have been told; 0: never */
    size_t hold_at; /* with so many ids the scheduler stands still, until told_let_go; 0: never */
    struct told *holds; /* or NULL: that one holds at its next id... */
    size_t
        holds_with; /* ...when this one has so many; 0: when a second part of its prompt is read */
    double started;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
} told;

/* A scheduler, or the test fails. */
fn_scheduler *told_scheduler(fn_engine *engine, fn_scheduler_options options);
/* The i-th of many: lengths, limits, sampling, log-probabilities all mixed. */
asked asked_mixed(const fn_engine *engine, size_t i, float temperature);
/* n ids, exactly `limit` ids of an answer, greedy. */
asked asked_long(const fn_engine *engine, size_t seed, size_t n, size_t limit);

/* The answer of a session that nobody else uses. */
void told_alone(fn_engine *engine, const asked *a, told *t);
/* options: NULL or what to add to ids and generation. */
void told_start(fn_scheduler *s, const asked *a, const fn_request_options *options, told *t);
/* Makes room for what will be told; told_start and told_try do it where it was not done. */
void told_prepare(told *t, const asked *a);
fn_status told_try(fn_scheduler *s, const asked *a, const fn_request_options *options, told *t,
                   fn_error *err);
void told_wait(told *t);
/* Goes on with what holds. */
void told_let_go(told *t);
/* Until it has n ids of its first answer or is done. */
void told_wait_ids(told *t, size_t n);
void told_free(told *t); /* frees the request, too */

/* Same ids, log-probability bits, text, finish. */
void assert_same_answers(const told_answer *a, const told_answer *b);
void assert_same_told(const told *a, const told *b);

#endif
