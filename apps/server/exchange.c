#include "server/exchange.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/util.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/progress.h"
#include "server/state.h"

#define MAX_UNSENT_BYTES (8u << 20) /* of a stream whose client does not read */
#define GONE_STATUS 499             /* in the log alone: the client left before its answer */

static const char *method_name(enum evhttp_cmd_type type) {
    switch (type) {
    case EVHTTP_REQ_GET:
        return "GET";
    case EVHTTP_REQ_POST:
        return "POST";
    case EVHTTP_REQ_HEAD:
        return "HEAD";
    case EVHTTP_REQ_PUT:
        return "PUT";
    case EVHTTP_REQ_DELETE:
        return "DELETE";
    case EVHTTP_REQ_OPTIONS:
        return "OPTIONS";
    case EVHTTP_REQ_PATCH:
        return "PATCH";
    default:
        return "OTHER";
    }
}

const char *srv_reason(int status) {
    static const struct {
        int status;
        const char *reason;
    } known[] = {{200, "OK"},
                 {204, "No Content"},
                 {304, "Not Modified"},
                 {400, "Bad Request"},
                 {401, "Unauthorized"},
                 {403, "Forbidden"},
                 {404, "Not Found"},
                 {405, "Method Not Allowed"},
                 {413, "Content Too Large"},
                 {414, "URI Too Long"},
                 {417, "Expectation Failed"},
                 {429, "Too Many Requests"},
                 {431, "Request Header Fields Too Large"},
                 {500, "Internal Server Error"},
                 {501, "Not Implemented"},
                 {503, "Service Unavailable"},
                 {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].status == status) {
            return known[i].reason;
        }
    }
    return "Unknown";
}

/* Theirs if it can stand in a log and a header, else a random one. */
static void take_id(srv_exchange *x) {
    const char *theirs = srv_exchange_header(x, "X-Request-Id");
    size_t n = theirs != NULL ? strlen(theirs) : 0;
    bool plain = n > 0 && n < sizeof x->id;
    for (size_t i = 0; plain && i < n; i++) {
        plain = theirs[i] > ' ' && theirs[i] < 127 && theirs[i] != '"';
    }
    if (plain) {
        memcpy(x->id, theirs, n + 1);
        return;
    }
    unsigned char random[12];
    evutil_secure_rng_get_bytes(random, sizeof random);
    for (size_t i = 0; i < sizeof random; i++) {
        (void)snprintf(x->id + 2 * i, 3, "%02x", random[i]);
    }
}

static void answered(struct evhttp_request *req, void *ud) {
    srv_server *server = ud;
    srv_guard_answered(&server->guards, evhttp_request_get_connection(req));
}

srv_exchange *srv_exchange_create(srv_server *server, struct evhttp_request *req) {
    srv_exchange *x = cli_alloc(sizeof *x);
    *x = (srv_exchange){.server = server, .req = req, .started = cli_now()};
    struct evhttp_connection *connection = evhttp_request_get_connection(req);
    char *peer = NULL;
    ev_uint16_t port = 0;
    evhttp_connection_get_peer(connection, &peer, &port);
    (void)snprintf(x->remote, sizeof x->remote, "%s", peer != NULL ? peer : "-");
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(req));
    (void)snprintf(x->path, sizeof x->path, "%s", path != NULL && path[0] != 0 ? path : "/");
    for (char *c = x->path; *c != 0; c++) { /* what does not belong into a log line */
        if (*c <= ' ' || *c == 127) {
            *c = '?';
        }
    }
    x->method = method_name(evhttp_request_get_command(req));
    take_id(x);
    srv_exchange_set(x, "X-Request-Id", x->id);
    srv_exchange_set(x, "X-Content-Type-Options", "nosniff");
    srv_guard_answering(&server->guards, connection);
    evhttp_request_set_on_complete_cb(req, answered, server);
    return x;
}

struct evbuffer *srv_exchange_take_body(srv_exchange *x) {
    struct evbuffer *body = evbuffer_new();
    (void)evbuffer_add_buffer(body, evhttp_request_get_input_buffer(x->req));
    return body;
}

const char *srv_exchange_header(const srv_exchange *x, const char *name) {
    return evhttp_find_header(evhttp_request_get_input_headers(x->req), name);
}

void srv_exchange_set(srv_exchange *x, const char *header, const char *value) {
    (void)evhttp_add_header(evhttp_request_get_output_headers(x->req), header, value);
}

/* ---- the end ---------------------------------------------------------------------------- */

/* Its log line; then it is gone. */
static void finish(srv_exchange *x, int status) {
    srv_log_entry *log = &x->log;
    const srv_options *options = x->server->options;
    srv_metrics_count_request(&x->server->metrics, status);
    if (options->log_requests) {
        log->id = x->id;
        log->remote = x->remote;
        log->method = x->method;
        log->path = x->path;
        log->status = status;
        log->seconds = cli_now() - x->started;
        srv_log_request(options->log_json, log);
    }
    free(x);
}

/* evhttp lets go of a request whose connection ends before its answer: it is ours to free. */
static void on_close(struct evhttp_connection *connection, void *ud) {
    srv_exchange *x = ud;
    (void)connection;
    evhttp_request_free(x->req);
    x->req = NULL;
    x->on_gone(x->on_gone_ud);
}

void srv_exchange_wait(srv_exchange *x, void (*on_gone)(void *ud), void *ud) {
    struct evhttp_connection *connection = evhttp_request_get_connection(x->req);
    x->on_gone = on_gone;
    x->on_gone_ud = ud;
    evhttp_connection_set_closecb(connection, on_close, x);
    srv_guard_watch(connection);
}

static void stop_waiting(srv_exchange *x) {
    evhttp_connection_set_closecb(evhttp_request_get_connection(x->req), NULL, NULL);
}

void srv_exchange_drop(srv_exchange *x) {
    finish(x, GONE_STATUS);
}

/* ---- replies ---------------------------------------------------------------------------- */

void srv_reply_bytes(srv_exchange *x, int status, const char *type, const char *bytes, size_t n) {
    struct evbuffer *body = evbuffer_new();
    stop_waiting(x);
    if (n > 0) {
        srv_exchange_set(x, "Content-Type", type);
    }
    if (evhttp_request_get_command(x->req) == EVHTTP_REQ_HEAD) {
        char length[32]; /* of the body that a GET would have: evhttp would send it */
        (void)snprintf(length, sizeof length, "%zu", n);
        srv_exchange_set(x, "Content-Length", length);
    } else if (n > 0) {
        (void)evbuffer_add(body, bytes, n);
    }
    if (x->server->draining) {
        srv_exchange_set(x, "Connection", "close");
    }
    evhttp_send_reply(x->req, status, srv_reason(status), body);
    evbuffer_free(body);
    finish(x, status);
}

char *srv_json_text(json_t *json) {
    char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(json);
    return text;
}

void srv_reply_json_text(srv_exchange *x, int status, const char *text) {
    srv_exchange_set(x, "Cache-Control", "no-store");
    srv_reply_bytes(x, status, "application/json", text, strlen(text));
}

void srv_reply_json(srv_exchange *x, int status, json_t *json) {
    static const char failed[] = "{\"error\":{\"message\":\"the answer is not valid JSON\","
                                 "\"type\":\"server_error\",\"param\":null,\"code\":null}}";
    char *text = srv_json_text(json);
    srv_reply_json_text(x, text != NULL ? status : 500, text != NULL ? text : failed);
    free(text);
}

void srv_reply_problem(srv_exchange *x, const srv_problem *problem) {
    if (problem->status == 401) {
        srv_exchange_set(x, "WWW-Authenticate", "Bearer");
    }
    if (problem->status == 429 || problem->status == 503) {
        srv_exchange_set(x, "Retry-After", problem->status == 429 ? "2" : "5");
    }
    srv_reply_json(x, problem->status, srv_problem_json(problem));
}

/* ---- streams ---------------------------------------------------------------------------- */

void srv_stream_begin(srv_exchange *x) {
    x->streaming = true;
    srv_exchange_set(x, "Content-Type", "text/event-stream; charset=utf-8");
    srv_exchange_set(x, "Cache-Control", "no-store");
    srv_exchange_set(x, "X-Accel-Buffering", "no");
    evhttp_send_reply_start(x->req, 200, "OK");
}

void srv_stream_send(srv_exchange *x, const char *bytes, size_t n) {
    struct evhttp_connection *connection = evhttp_request_get_connection(x->req);
    struct bufferevent *bev = evhttp_connection_get_bufferevent(connection);
    struct evbuffer *chunk = evbuffer_new();
    (void)evbuffer_add(chunk, bytes, n);
    evhttp_send_reply_chunk(x->req, chunk);
    evbuffer_free(chunk);
    x->last_sent = cli_now();
    if (evbuffer_get_length(bufferevent_get_output(bev)) > MAX_UNSENT_BYTES) {
        srv_guard_cut(connection);
    }
}

void srv_stream_event(srv_exchange *x, json_t *json) {
    cli_buffer line = {0};
    char *text = srv_json_text(json);
    cli_buffer_puts(&line, "data: ");
    cli_buffer_puts(&line, text != NULL ? text : "{}");
    cli_buffer_puts(&line, "\n\n");
    srv_stream_send(x, line.data, line.n);
    cli_buffer_free(&line);
    free(text);
}

void srv_stream_end(srv_exchange *x) {
    stop_waiting(x);
    evhttp_send_reply_end(x->req);
    finish(x, 200);
}
