/* server/job_reply.h - answers in the API's shapes: whole, or chunk by chunk.
 *
 * A stream's order: for each answer a first chunk with the role (chat) or the echo, then text and
 * thoughts with the log-probabilities of their tokens, then one chunk with the finish reason; after
 * the last, usage if asked, and [DONE]. No chunk is empty: some clients count chunks as tokens.
 *
 * Path:     job.c -> [this] -> exchange.c
 * Threads:  the I/O thread. */
#ifndef SERVER_JOB_REPLY_H
#define SERVER_JOB_REPLY_H

#include "server/job.h"

/* Of a stream: */
void srv_job_send_text(srv_job *job, srv_part *part, size_t answer, bool is_thought,
                       const char *text, size_t n);
void srv_job_send_progress(srv_job *job, const fn_prompt_progress *progress);
void srv_job_send_finish(srv_job *job, srv_part *part, size_t answer);
/* Usage and [DONE]; ends the exchange. */
void srv_job_send_end(srv_job *job);

/* Of the rest: everything; ends the exchange. */
void srv_job_reply(srv_job *job);

/* "stop" or "length" */
const char *srv_finish_name(fn_finish finish);

#endif
