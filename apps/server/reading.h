/* server/reading.h - bodies of POST requests, read on threads of their own.
 *
 * JSON, the chat template and the tokenizer take as long as a body is large: on the I/O thread they
 * would hold up every stream and every other client. One thread reads whatever is next, the other
 * only what is small, so that a large body holds up no small one either.
 *
 * Path:     routes.c -> [this: a body_reader] -> a reply, a problem, or a srv_request for job.c
 * Threads:  readers run on the threads here; everything else from the I/O thread, which the mailbox
 *           wakes when something has been read.
 * Memory:   a reading owns the body, which is no longer the exchange's, and what it became. */
#ifndef SERVER_READING_H
#define SERVER_READING_H

#include <jansson.h>
#include <pthread.h>

#include "server/exchange.h"
#include "server/mailbox.h"
#include "server/request.h"

#define SRV_READER_THREADS 2

/* What a body became, if nothing is wrong with it. */
typedef struct srv_outcome {
    srv_problem problem; /* status 0: nothing is wrong */
    json_t *reply;       /* the answer; or NULL */
    srv_request request; /* to be generated, where there is no reply; freed in any case */
} srv_outcome;

/* body is lent; false: the problem says why. */
typedef bool (*srv_body_reader)(const srv_limits *limits, json_t *body, srv_outcome *out);

typedef struct srv_reading srv_reading;

typedef struct srv_readers {
    const srv_limits *limits;
    srv_mailbox *mailbox;
    pthread_t threads[SRV_READER_THREADS];
    size_t n_threads;
    bool ready;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wake;
    srv_reading *waiting, *done; /* oldest first */
    bool stop;
} srv_readers;

/* limits are those of the model: nothing may begin before they are known. */
fn_status srv_readers_start(srv_readers *readers, const srv_limits *limits, srv_mailbox *mailbox,
                            fn_error *err);
/* Answers or starts what has been read. */
void srv_readers_take(srv_readers *readers);
/* Waits for what is being read; nothing begins any more. */
void srv_readers_stop(srv_readers *readers);
/* After all exchanges are gone. */
void srv_readers_deinit(srv_readers *readers);

/* Reads the exchange's body; the exchange is answered, or handed to a job, when that is done. */
void srv_reading_begin(srv_readers *readers, srv_exchange *x, srv_body_reader read);

/* text_routes.c */
bool srv_read_tokenize(const srv_limits *limits, json_t *body, srv_outcome *out);
bool srv_read_detokenize(const srv_limits *limits, json_t *body, srv_outcome *out);
bool srv_read_apply_template(const srv_limits *limits, json_t *body, srv_outcome *out);

#endif
