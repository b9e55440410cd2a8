/* server/log.h - what the server did, one line each, on standard error.
 *
 * Text for people, or one JSON object a line (--log-format json). No prompt, answer or key is ever
 * written.
 *
 * Path:     exchange.c (one line a request), server.c -> [this] -> stderr
 * Threads:  any. */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct srv_log_entry {
    const char *id, *remote, *method, *path;
    int status;
    double seconds;
    size_t n_prompt, n_cached, n_generated; /* tokens; 0 where nothing was generated */
    const char *finish;                     /* or NULL */
} srv_log_entry;

void srv_log_request(bool as_json, const srv_log_entry *entry);
void srv_log_event(bool as_json, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
