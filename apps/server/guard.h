/* server/guard.h - watches connections: slow senders, clients that leave, how many there are.
 *
 * evhttp's own timeouts start again with every byte, so a client that sends one byte a second would
 * stay for hours. Here a request has to arrive at a rate: after GRACE seconds, at least RATE bytes
 * for every second since it began, head and body alike.
 *
 * While an answer is on its way the connection is read from only to see its end: what a client sends
 * meanwhile waits, up to a limit.
 *
 * What is no request (malformed, too long, an unknown method) never comes to routes.c: evhttp answers
 * with a page of HTML. That page is replaced while it lies in the output buffer: evhttp writes nothing
 * to the socket before the page is complete.
 *
 * Path:     evhttp's bevcb -> [this] -> sockets shut down, which evhttp sees as any other end
 * Threads:  the I/O thread.
 * Memory:   a guard holds a reference to its bufferevent until the next sweep after evhttp let go. Its
 *           socket must live as long (BEV_OPT_CLOSE_ON_FREE): closed earlier, its number could be
 *           another connection's, whose bytes it would read. */
#ifndef SERVER_GUARD_H
#define SERVER_GUARD_H

#include <event2/bufferevent.h>
#include <event2/http.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli/buffer.h"

#define SRV_MAX_HEAD_BYTES 16384

typedef struct srv_guard srv_guard;

typedef struct srv_guards {
    srv_guard *first;
    size_t count;
    /* Writes what is sent instead of evhttp's page: status line, headers, body. */
    void (*on_refused)(void *ud, struct evhttp_connection *connection, int status, cli_buffer *out);
    void *ud;
} srv_guards;

/* For each connection that comes in. */
void srv_guard_add(srv_guards *guards, struct bufferevent *bev);
/* The whole request is here; and: its answer is out. */
void srv_guard_answering(srv_guards *guards, struct evhttp_connection *connection);
void srv_guard_answered(srv_guards *guards, struct evhttp_connection *connection);
/* Makes evhttp notice when this client leaves, though no answer has begun. */
void srv_guard_watch(struct evhttp_connection *connection);
/* Ends a connection as if the client had. */
void srv_guard_cut(struct evhttp_connection *connection);

/* Once a second: cuts who is too slow, forgets who has left. */
void srv_guard_sweep(srv_guards *guards, double now);
/* Connections whose answer is not out yet. */
size_t srv_guard_count_answering(const srv_guards *guards);
/* At the end. */
void srv_guard_free(srv_guards *guards);

#endif
