#include "server/guard.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "cli/buffer.h"
#include "cli/progress.h"

#define GRACE_SECONDS 10.0
#define RATE 8192.0     /* bytes in a second */
#define IDLE_SECONDS 75 /* of evhttp: between requests, and for a client that does not read */
#define MAX_UNREAD_BYTES 65536u /* taken from a client while it is being answered */

typedef enum phase { READING, ANSWERING, IDLE } phase;

struct srv_guard {
    struct srv_guard *next;
    struct bufferevent *bev; /* a reference of ours */
    phase phase;
    double since; /* when its request began */
    double received;
};

/* evhttp takes its callbacks and their argument off what it frees. */
static bool was_let_go(const srv_guard *guard) {
    void *ud = NULL;
    bufferevent_getcb(guard->bev, NULL, NULL, NULL, &ud);
    return ud == NULL;
}

static void on_input(struct evbuffer *input, const struct evbuffer_cb_info *info, void *ud) {
    srv_guard *guard = ud;
    (void)input;
    if (was_let_go(guard)) {
        bufferevent_disable(guard->bev, EV_READ | EV_WRITE); /* nobody will look at it */
        return;
    }
    if (info->n_added == 0 || guard->phase == ANSWERING) {
        return;
    }
    if (guard->phase == IDLE) {
        guard->phase = READING;
        guard->since = cli_now();
        guard->received = 0.0;
    }
    guard->received += (double)info->n_added;
}

void srv_guard_add(srv_guards *guards, struct bufferevent *bev) {
    srv_guard *guard = cli_alloc(sizeof *guard);
    *guard = (srv_guard){.next = guards->first, .bev = bev, .since = cli_now()};
    bufferevent_incref(bev);
    (void)evbuffer_add_cb(bufferevent_get_input(bev), on_input, guard);
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
        /* Part of the next request may be here already. */
        size_t waiting = evbuffer_get_length(bufferevent_get_input(bev));
        guard->phase = waiting > 0 ? READING : IDLE;
        guard->since = cli_now();
        guard->received = (double)waiting;
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
