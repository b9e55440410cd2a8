/* server/job.h - a generation under way: its prompts in the scheduler, its answers on the way out.
 *
 * Prompts of one request (a list of them is common in evaluations) enter the queue a few at a time,
 * so that a long list does not fill it. A job ends when every prompt is done, when one fails, when
 * the client leaves, or when the server stops.
 *
 * Path:     reading.h (a checked srv_request) -> [this] -> fn_scheduler; notes of mailbox.h -> [this]
 *           -> job_reply.c -> exchange.c
 * Threads:  the I/O thread; the scheduler's thread only posts notes.
 * Memory:   a job owns its request, its exchange and its fn_requests. */
#ifndef SERVER_JOB_H
#define SERVER_JOB_H

#include "server/state.h"
#include "server/tokens.h"

typedef struct srv_answer {
    cli_buffer text, thought; /* all of it; a stream keeps none */
    srv_tokens tokens;        /* not sent yet */
    fn_generated generated;
    bool begun, ended;
    double last_token; /* when it came; 0: none did */
} srv_answer;

struct srv_part {
    srv_job *job;
    size_t index;
    fn_request *handle; /* NULL: not submitted */
    bool done;
    srv_answer *answers;      /* [request.n_answers] */
    srv_tokens prompt_tokens; /* of an echo with log-probabilities */
    fn_request_result result; /* when done; its error is not kept */
};

struct srv_job {
    struct srv_job *next;
    srv_server *server;
    srv_exchange *x;
    srv_request request;
    srv_part *parts; /* [request.n_prompts] */
    size_t n_submitted, n_done;
    size_t last_part, last_answer; /* the answer that ended last */
    size_t n_generated;            /* ids that came so far */
    double first_token;            /* when the first of them came */
    char id[40];
    int64_t created; /* Unix time */
};

/* Takes the request over. Replies itself, also with what is wrong. */
void srv_job_start(srv_server *server, srv_exchange *x, const srv_request *request);

void srv_job_on_note(srv_server *server, const srv_note *note);
/* Prompts that still wait to enter the queue; comments in silent streams. */
void srv_jobs_tick(srv_server *server, double now);
/* All that are left fail: the server stops. */
void srv_jobs_fail_all(srv_server *server);

#endif
