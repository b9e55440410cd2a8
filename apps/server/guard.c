#include "server/guard.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "cli/buffer.h"
#include "cli/progress.h"

#define GRACE_SECONDS 10.0
#define RATE 8192.0     /* bytes in a second */
#define IDLE_SECONDS 75 /* of evhttp: between requests, and for a client that does not read */
#define MAX_UNREAD_BYTES 65536u /* taken from a client while it is being answered */

typedef enum phase { READING, ANSWERING, IDLE } phase;

#define VERSION_LENGTH 8 /* "HTTP/1.1" */

/* How far the head of a request has come: what evhttp's one word for all of its errors, 400, was about. */
typedef struct head {
    size_t n, line; /* bytes of it, and of its last line */
    bool has_first_line, complete;
    char version[VERSION_LENGTH]; /* the last bytes of the first line */
} head;

struct srv_guard {
    struct srv_guard *next;
    srv_guards *guards;
    struct bufferevent *bev; /* a reference of ours */
    phase phase;
    double since; /* when its request began */
    double received;
    head head;
    cli_buffer refusal; /* what is sent instead of evhttp's page */
    bool rewriting;
};

/* evhttp takes its callbacks and their argument off what it frees. */
static bool was_let_go(const srv_guard *guard) {
    void *ud = NULL;
    bufferevent_getcb(guard->bev, NULL, NULL, NULL, &ud);
    return ud == NULL;
}

/* ---- the head --------------------------------------------------------------------------- */

static void take_byte(head *h, char c) {
    h->n++;
    if (c == '\n') {
        h->complete = h->has_first_line && h->line == 0;
        h->has_first_line = true;
        h->line = 0;
    } else if (c != '\r') {
        h->line++;
        if (!h->has_first_line) {
            memmove(h->version, h->version + 1, VERSION_LENGTH - 1);
            h->version[VERSION_LENGTH - 1] = c;
        }
    }
}

/* The last n bytes of the input. */
static void take_head(head *h, struct evbuffer *input, size_t n) {
    char piece[512];
    struct evbuffer_ptr at;
    size_t from = evbuffer_get_length(input) - n;
    while (n > 0 && !h->complete && h->n <= SRV_MAX_HEAD_BYTES) {
        size_t most = n < sizeof piece ? n : sizeof piece;
        if (evbuffer_ptr_set(input, &at, from, EVBUFFER_PTR_SET) != 0 ||
            evbuffer_copyout_from(input, &at, piece, most) != (ev_ssize_t)most) {
            return;
        }
        for (size_t i = 0; i < most && !h->complete; i++) {
            take_byte(h, piece[i]);
        }
        from += most;
        n -= most;
    }
}

/* ---- what evhttp refuses ---------------------------------------------------------------- */

static int status_of(const head *h, int status) {
    if (status != 400) {
        return status;
    }
    if (!h->complete && h->n > SRV_MAX_HEAD_BYTES) {
        return h->has_first_line ? 431 : 414;
    }
    bool foreign = h->has_first_line && memcmp(h->version, "HTTP/", 5) == 0 && h->version[5] != '1';
    return foreign ? 505 : status;
}

/* The status in what waits to be sent, if its headers are complete; else 0. */
static int status_in(struct evbuffer *output) {
    char line[sizeof "HTTP/1.1 400"] = "";
    struct evbuffer_ptr end = evbuffer_search(output, "\r\n\r\n", 4, NULL);
    if (end.pos < 0 ||
        evbuffer_copyout(output, line, sizeof line - 1) < (ev_ssize_t)sizeof line - 1) {
        return 0;
    }
    return (int)strtol(line + sizeof "HTTP/1.1", NULL, 10);
}

static void rewrite(srv_guard *guard, struct evbuffer *output) {
    guard->rewriting = true;
    (void)evbuffer_drain(output, evbuffer_get_length(output));
    (void)evbuffer_add(output, guard->refusal.data, guard->refusal.n);
    guard->rewriting = false;
}

/* Piece by piece, as evhttp puts them in. */
static void take_output(srv_guard *guard, struct evbuffer *output) {
    struct evhttp_connection *connection = NULL;
    int status = guard->refusal.n == 0 ? status_in(output) : 0;
    bufferevent_getcb(guard->bev, NULL, NULL, NULL, (void **)&connection);
    if (status >= 400 && connection != NULL) {
        guard->guards->on_refused(guard->guards->ud, connection, status_of(&guard->head, status),
                                  &guard->refusal);
    }
    if (guard->refusal.n > 0) {
        rewrite(guard, output);
    }
}

/* Bytes that evhttp itself sends: "100 Continue", or a refusal. The front of a socket's output may be closed
 * to all but the bufferevent, which does not write yet. */
static void on_output(struct evbuffer *output, const struct evbuffer_cb_info *info, void *ud) {
    srv_guard *guard = ud;
    char first = 0;
    if (info->n_added == 0 || guard->phase == ANSWERING || guard->rewriting) {
        return;
    }
    bool frozen = evbuffer_copyout(output, &first, 1) < 0;
    if (frozen) {
        (void)evbuffer_unfreeze(output, 1);
    }
    take_output(guard, output);
    if (frozen) {
        (void)evbuffer_freeze(output, 1);
    }
}

/* ---- connections ------------------------------------------------------------------------ */

static void begin_reading(srv_guard *guard, struct evbuffer *input) {
    size_t waiting = evbuffer_get_length(input);
    guard->phase = READING;
    guard->since = cli_now();
    guard->received = (double)waiting;
    guard->head = (head){0};
    take_head(&guard->head, input, waiting);
}

static void on_input(struct evbuffer *input, const struct evbuffer_cb_info *info, void *ud) {
    srv_guard *guard = ud;
    if (was_let_go(guard)) {
        bufferevent_disable(guard->bev, EV_READ | EV_WRITE); /* nobody will look at it */
        return;
    }
    if (info->n_added == 0 || guard->phase == ANSWERING) {
        return;
    }
    if (guard->phase == IDLE) {
        begin_reading(guard, input);
        return;
    }
    guard->received += (double)info->n_added;
    take_head(&guard->head, input, info->n_added);
}

void srv_guard_add(srv_guards *guards, struct bufferevent *bev) {
    srv_guard *guard = cli_alloc(sizeof *guard);
    *guard = (srv_guard){.next = guards->first, .guards = guards, .bev = bev, .since = cli_now()};
    bufferevent_incref(bev);
    (void)evbuffer_add_cb(bufferevent_get_input(bev), on_input, guard);
    (void)evbuffer_add_cb(bufferevent_get_output(bev), on_output, guard);
    guards->first = guard;
    guards->count++;
}

static srv_guard *find(srv_guards *guards, struct evhttp_connection *connection) {
    struct bufferevent *bev = evhttp_connection_get_bufferevent(connection);
    srv_guard *guard = guards->first;
    while (guard != NULL && guard->bev != bev) {
        guard = guard->next;
    }
    return guard;
}

void srv_guard_answering(srv_guards *guards, struct evhttp_connection *connection) {
    srv_guard *guard = find(guards, connection);
    if (guard != NULL) {
        guard->phase = ANSWERING;
    }
}

void srv_guard_answered(srv_guards *guards, struct evhttp_connection *connection) {
    struct bufferevent *bev = evhttp_connection_get_bufferevent(connection);
    srv_guard *guard = find(guards, connection);
    bufferevent_setwatermark(bev, EV_READ, 0, 0);
    evhttp_connection_set_timeout(connection, IDLE_SECONDS);
    if (guard != NULL) {
        struct evbuffer *input = bufferevent_get_input(bev);
        guard->phase = IDLE;
        if (evbuffer_get_length(input) > 0) { /* part of the next request is here already */
            begin_reading(guard, input);
        }
    }
}

void srv_guard_watch(struct evhttp_connection *connection) {
    static const struct timeval write_timeout = {.tv_sec = IDLE_SECONDS};
    struct bufferevent *bev = evhttp_connection_get_bufferevent(connection);
    bufferevent_data_cb write_cb = NULL;
    bufferevent_event_cb event_cb = NULL;
    void *ud = NULL;
    /* evhttp takes bytes that come now for an error of its own and ends the process: it must not
     * see them before the answer is out. */
    bufferevent_getcb(bev, NULL, &write_cb, &event_cb, &ud);
    bufferevent_setcb(bev, NULL, write_cb, event_cb, ud);
    bufferevent_set_timeouts(bev, NULL, &write_timeout);
    bufferevent_setwatermark(bev, EV_READ, 0, MAX_UNREAD_BYTES);
    bufferevent_enable(bev, EV_READ);
}

static void cut(struct bufferevent *bev) {
    evutil_socket_t fd = bufferevent_getfd(bev);
    if (fd >= 0) {
        (void)shutdown(fd, SHUT_RDWR);
    }
}

void srv_guard_cut(struct evhttp_connection *connection) {
    cut(evhttp_connection_get_bufferevent(connection));
}

static void forget(srv_guard *guard) {
    (void)evbuffer_remove_cb(bufferevent_get_input(guard->bev), on_input, guard);
    (void)evbuffer_remove_cb(bufferevent_get_output(guard->bev), on_output, guard);
    cli_buffer_free(&guard->refusal);
    (void)bufferevent_decref(guard->bev);
    free(guard);
}

void srv_guard_sweep(srv_guards *guards, double now) {
    for (srv_guard **at = &guards->first; *at != NULL;) {
        srv_guard *guard = *at;
        double allowed = GRACE_SECONDS + guard->received / RATE;
        if (was_let_go(guard)) {
            *at = guard->next;
            guards->count--;
            forget(guard);
            continue;
        }
        if (guard->phase == READING && now - guard->since > allowed) {
            cut(guard->bev);
        }
        at = &guard->next;
    }
}

size_t srv_guard_count_answering(const srv_guards *guards) {
    size_t n = 0;
    for (const srv_guard *guard = guards->first; guard != NULL; guard = guard->next) {
        n += guard->phase == ANSWERING && !was_let_go(guard);
    }
    return n;
}

void srv_guard_free(srv_guards *guards) {
    while (guards->first != NULL) {
        srv_guard *next = guards->first->next;
        forget(guards->first);
        guards->first = next;
    }
    guards->count = 0;
}
