/* server/exchange.h - one HTTP request and its answer.
 *
 * An exchange ends with exactly one of: a reply, the end of a stream, or the client leaving; each
 * writes the log line and frees it.
 *
 * Path:     routes.c -> handlers -> [this] -> evhttp
 * Threads:  the I/O thread.
 * Memory:   owned by itself, as above; bodies are lent until it ends. */
#ifndef SERVER_EXCHANGE_H
#define SERVER_EXCHANGE_H

#include <event2/http.h>

#include "server/log.h"
#include "server/problem.h"

typedef struct srv_server srv_server;

typedef struct srv_exchange {
    srv_server *server;
    struct evhttp_request *req;
    double started;
    const char *method;
    char path[256]; /* without the query, cut for the log */
    char id[72];    /* X-Request-Id, theirs or ours */
    char remote[64];
    bool streaming;
    double last_sent;          /* when a stream had its last bytes */
    srv_log_entry log;         /* what a handler adds: tokens, finish */
    void (*on_gone)(void *ud); /* the client left; ends with srv_exchange_drop */
    void *on_gone_ud;
} srv_exchange;

srv_exchange *srv_exchange_create(srv_server *server, struct evhttp_request *req);

/* The body; it is the caller's (evbuffer_free). */
struct evbuffer *srv_exchange_take_body(srv_exchange *x);
/* The value of a request header, or NULL. */
const char *srv_exchange_header(const srv_exchange *x, const char *name);
void srv_exchange_set(srv_exchange *x, const char *header, const char *value);

/* The answer will come later: from now on the client's leaving is noticed. */
void srv_exchange_wait(srv_exchange *x, void (*on_gone)(void *ud), void *ud);

/* The words of a status line. */
const char *srv_reason(int status);
/* JSON as it is sent; json is taken. NULL: no memory. The caller frees it. */
char *srv_json_text(json_t *json);
/* Ends. json is taken; text is not. */
void srv_reply_json(srv_exchange *x, int status, json_t *json);
void srv_reply_json_text(srv_exchange *x, int status, const char *text);
void srv_reply_problem(srv_exchange *x, const srv_problem *problem);
void srv_reply_bytes(srv_exchange *x, int status, const char *type, const char *bytes, size_t n);

/* Server-sent events: headers at once; end ends. */
void srv_stream_begin(srv_exchange *x);
void srv_stream_send(srv_exchange *x, const char *bytes, size_t n);
void srv_stream_end(srv_exchange *x);
/* "data: {...}" and an empty line; json is taken. */
void srv_stream_event(srv_exchange *x, json_t *json);

/* Ends without an answer: the client left. */
void srv_exchange_drop(srv_exchange *x);

#endif
