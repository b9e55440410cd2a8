/* server/state.h - everything the I/O thread knows.
 *
 * Threads:  the I/O thread; loader is shared with the thread that loads, under the mailbox's lock. */
#ifndef SERVER_STATE_H
#define SERVER_STATE_H

#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <pthread.h>

#include "server/exchange.h"
#include "server/guard.h"
#include "server/mailbox.h"
#include "server/metrics.h"
#include "server/model_card.h"
#include "server/reading.h"
#include "server/server.h"

typedef struct srv_job srv_job;

typedef struct srv_loader {
    pthread_t thread;
    bool running, done;
    fn_engine *engine;
    fn_scheduler *scheduler;
    srv_model_card card;
    fn_status status;
    fn_error err;
} srv_loader;

struct srv_server {
    const srv_options *options;
    struct event_base *base;
    struct evhttp *http;
    struct evconnlistener *listener; /* http's; NULL when it no longer listens */
    struct evhttp_bound_socket *bound;
    bool accepting;
    void *tls; /* tls.h; NULL: none */
    srv_guards guards;
    srv_mailbox mailbox;
    srv_readers readers;
    srv_loader loader;
    srv_metrics metrics;
    srv_model_card card; /* the loader's */
    srv_limits limits;
    fn_engine_info info;
    fn_scheduler *scheduler; /* NULL while the model is loading */
    srv_job *jobs;           /* those that wait for the scheduler, a list */
    bool used;               /* something was asked for since memory was given back last */
    double busy_until;       /* when something was last under way */
    bool draining;
    double drain_until;
    fn_status status; /* why it ended */
    fn_error err;
};

#endif
