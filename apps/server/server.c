#include "server/server.h"

#include <errno.h>
#include <malloc.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "cli/progress.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "server/job.h"
#include "server/log.h"
#include "server/refusal.h"
#include "server/routes.h"
#include "server/tls.h"

#define BACKLOG 256
#define LEAST_CACHE_BYTES ((uint64_t)1 << 20)
#define TICK_SECONDS 0.25
#define IDLE_SECONDS 1.0
#define FLUSH_SECONDS 2.0 /* at the end, for the last bytes to leave */

/* ---- loading ---------------------------------------------------------------------------- */

static fn_status create_scheduler(srv_server *server, fn_engine *engine, fn_scheduler **out,
                                  fn_error *err) {
    fn_scheduler_options options = server->options->scheduler;
    uint64_t least =
        options.cache_dir != NULL ? LEAST_CACHE_BYTES : 0; /* for what files are kept */
    for (;;) {
        fn_error failure = {0};
        fn_status status = fn_scheduler_create(engine, &options, out, &failure);
        if (status != FN_E_FIT || !server->options->cache_may_shrink ||
            options.cache_bytes <= least) {
            *err = failure;
            return status;
        }
        options.cache_bytes = options.cache_bytes > LEAST_CACHE_BYTES ? options.cache_bytes / 2 : 0;
    }
}

/* Opening a model takes minutes, and looking through a prefix cache's folder seconds. */
static void *load(void *ud) {
    srv_server *server = ud;
    fn_engine *engine = NULL;
    fn_scheduler *scheduler = NULL;
    srv_model_card card = {0};
    fn_error err = {0};
    fn_status status = server->options->open(server->options->open_ud, &engine, &err);
    if (status == FN_OK) {
        srv_model_card_read(server->options, &card);
        status = create_scheduler(server, engine, &scheduler, &err);
    }
    (void)pthread_mutex_lock(&server->mailbox.lock);
    server->loader.engine = engine;
    server->loader.scheduler = scheduler;
    server->loader.status = status;
    server->loader.err = err;
    server->loader.card = card;
    server->loader.done = true;
    (void)pthread_mutex_unlock(&server->mailbox.lock);
    srv_mailbox_wake(&server->mailbox);
    return NULL;
}

static void end_with(srv_server *server, fn_status status, const fn_error *err) {
    server->status = status;
    server->err = *err;
    (void)event_base_loopbreak(server->base);
}

/* The model is there: requests can be answered. */
static void start_serving(srv_server *server) {
    fn_error err = {0};
    const srv_options *options = server->options;
    fn_engine_get_info(server->loader.engine, &server->info);
    server->card = server->loader.card;
    server->limits = (srv_limits){.text = fn_engine_text(server->loader.engine),
                                  .vocab = server->info.vocab,
                                  .context = server->info.context,
                                  .safe_content = options->safe_content};
    fn_status status = srv_readers_start(&server->readers, &server->limits, &server->mailbox, &err);
    if (status != FN_OK) {
        end_with(server, status, &err);
        return;
    }
    server->scheduler = server->loader.scheduler;
    char drafting[64] = "no drafting";
    if (server->info.draft_tokens > 0) {
        (void)snprintf(drafting, sizeof drafting, "drafting by %s, up to %zu tokens a pass",
                       server->info.drafter, server->info.draft_tokens);
    }
    srv_log_event(options->log_json,
                  "ready: %s, %zu tokens of context, %s kernels, %zu threads, %s", server->card.id,
                  server->info.context, server->info.isa, server->info.threads, drafting);
}

static void look_at_loader(srv_server *server) {
    (void)pthread_mutex_lock(&server->mailbox.lock);
    bool done = server->loader.done;
    (void)pthread_mutex_unlock(&server->mailbox.lock);
    if (!done || !server->loader.running) {
        return;
    }
    (void)pthread_join(server->loader.thread, NULL);
    server->loader.running = false;
    if (server->loader.status != FN_OK) {
        end_with(server, server->loader.status, &server->loader.err);
    } else {
        start_serving(server);
    }
}

/* ---- connections ------------------------------------------------------------------------ */

static struct bufferevent *on_connection(struct event_base *base, void *ud) {
    srv_server *server = ud;
    struct bufferevent *bev = server->tls != NULL
                                  ? srv_tls_accept(server->tls, base)
                                  : bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    if (bev != NULL) {
        srv_guard_add(&server->guards, bev);
    }
    if (server->guards.count >= server->options->max_connections) {
        (void)evconnlistener_disable(server->listener);
        server->accepting = false;
    }
    return bev;
}

static void accept_again(srv_server *server) {
    if (!server->accepting && server->listener != NULL &&
        server->guards.count < server->options->max_connections) {
        (void)evconnlistener_enable(server->listener);
        server->accepting = true;
    }
}

static uint16_t port_of(evutil_socket_t fd) {
    struct sockaddr_storage address = {0};
    socklen_t n = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &n) != 0) {
        return 0;
    }
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

/* Says where it listens, in a line that scripts can read. */
static void announce(const srv_server *server, evutil_socket_t fd) {
    const srv_options *options = server->options;
    bool ipv6 = strchr(options->host, ':') != NULL && options->host[0] != '[';
    srv_log_event(options->log_json, "listening on %s://%s%s%s:%u",
                  server->tls != NULL ? "https" : "http", ipv6 ? "[" : "", options->host,
                  ipv6 ? "]" : "", (unsigned)port_of(fd));
}

static fn_status listen_on(srv_server *server, const struct addrinfo *address, fn_error *err) {
    const srv_options *options = server->options;
    struct evconnlistener *listener = evconnlistener_new_bind(
        server->base, NULL, NULL, LEV_OPT_REUSEABLE | LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC,
        BACKLOG, address->ai_addr, (int)address->ai_addrlen);
    if (listener == NULL) {
        return cli_fail(err, FN_E_IO, "%s port %u: %s", options->host, (unsigned)options->port,
                        strerror(errno));
    }
    evutil_socket_t fd = evconnlistener_get_fd(listener);
    int yes = 1; /* connections inherit it: a token is sent when it is there */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    server->bound = evhttp_bind_listener(server->http, listener);
    if (server->bound == NULL) {
        evconnlistener_free(listener);
        return cli_fail(err, FN_E_NOMEM, "no memory for the listener");
    }
    server->listener = listener;
    server->accepting = true;
    announce(server, fd);
    return FN_OK;
}

static fn_status open_socket(srv_server *server, fn_error *err) {
    const srv_options *options = server->options;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    char port[16];
    (void)snprintf(port, sizeof port, "%u", (unsigned)options->port);
    int failed = getaddrinfo(options->host, port, &hints, &found);
    if (failed != 0) {
        return cli_fail(err, FN_E_IO, "--host %s: %s", options->host, gai_strerror(failed));
    }
    fn_status status = listen_on(server, found, err);
    freeaddrinfo(found);
    return status;
}

/* ---- the end ---------------------------------------------------------------------------- */

static void start_draining(srv_server *server, double now) {
    server->draining = true;
    server->drain_until = now + server->options->drain_seconds;
    srv_log_event(server->options->log_json, "shutting down: answers have %.0f s to end",
                  server->options->drain_seconds);
    if (server->bound != NULL) {
        evhttp_del_accept_socket(server->http, server->bound);
        server->bound = NULL;
        server->listener = NULL;
    }
}

static void drain(srv_server *server, double now) {
    if (server->jobs != NULL && now >= server->drain_until) {
        srv_jobs_fail_all(server);
        server->drain_until = now;
    }
    bool flushed = srv_guard_count_answering(&server->guards) == 0 ||
                   now >= server->drain_until + FLUSH_SECONDS;
    if (server->jobs == NULL && flushed) {
        (void)event_base_loopbreak(server->base);
    }
}

/* What many requests took and freed is scattered over the heap, and their states over the engine's pool; a
 * second after the last one it goes back to the system. */
static void give_back_memory(srv_server *server, double now) {
    if (server->jobs != NULL || srv_guard_count_answering(&server->guards) > 0) {
        server->busy_until = now;
    } else if (server->used && now - server->busy_until > IDLE_SECONDS) {
        server->used = false;
        (void)malloc_trim(0);
        if (server->scheduler != NULL) {
            fn_engine_trim(server->loader.engine);
        }
    }
}

static void on_tick(evutil_socket_t fd, short what, void *ud) {
    srv_server *server = ud;
    double now = cli_now();
    (void)fd;
    (void)what;
    look_at_loader(server);
    srv_guard_sweep(&server->guards, now);
    accept_again(server);
    if (cli_stop_asked() && !server->draining) {
        start_draining(server, now);
    }
    srv_jobs_tick(server, now);
    give_back_memory(server, now);
    if (server->draining) {
        drain(server, now);
    }
}

/* ---- all of it -------------------------------------------------------------------------- */

static void on_note(void *ud, const srv_note *note) {
    srv_job_on_note(ud, note);
}

static void on_wake(void *ud) {
    srv_server *server = ud;
    look_at_loader(server);
    srv_readers_take(&server->readers);
}

static fn_status open_server(srv_server *server, fn_error *err) {
    const srv_options *options = server->options;
    server->base = event_base_new();
    server->http = server->base != NULL ? evhttp_new(server->base) : NULL;
    if (server->http == NULL) {
        return cli_fail(err, FN_E_NOMEM, "no memory for the server");
    }
    evhttp_set_max_headers_size(server->http, SRV_MAX_HEAD_BYTES);
    evhttp_set_max_body_size(server->http, (ev_ssize_t)options->max_body);
    evhttp_set_timeout(server->http, 75);
    evhttp_set_allowed_methods(server->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD |
                                                 EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |
                                                 EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH);
    evhttp_set_default_content_type(server->http, NULL);
    server->guards.on_refused = srv_refusal_write;
    server->guards.ud = server;
    evhttp_set_bevcb(server->http, on_connection, server);
    evhttp_set_gencb(server->http, srv_route, server);
    server->mailbox.on_note = on_note;
    server->mailbox.on_wake = on_wake;
    server->mailbox.ud = server;
    fn_status status = srv_mailbox_init(&server->mailbox, server->base, err);
    if (status == FN_OK && options->tls_certificate != NULL) {
        status = srv_tls_open(options->tls_certificate, options->tls_key, &server->tls, err);
    }
    return status == FN_OK ? open_socket(server, err) : status;
}

static fn_status serve(srv_server *server, fn_error *err) {
    struct timeval period = {.tv_usec = (long)(TICK_SECONDS * 1e6)};
    struct event *tick = event_new(server->base, -1, EV_PERSIST, on_tick, server);
    if (tick == NULL || event_add(tick, &period) != 0) {
        return cli_fail(err, FN_E_NOMEM, "no memory for events");
    }
    if (pthread_create(&server->loader.thread, NULL, load, server) != 0) {
        event_free(tick);
        return cli_fail(err, FN_E_FAILED, "a thread could not be started");
    }
    server->loader.running = true;
    (void)event_base_dispatch(server->base);
    event_free(tick);
    if (server->status != FN_OK) {
        *err = server->err;
    }
    return server->status;
}

static void close_server(srv_server *server) {
    if (server->loader.running) { /* its progress callback sees the signal too */
        (void)pthread_join(server->loader.thread, NULL);
    }
    srv_readers_stop(&server->readers);
    srv_jobs_fail_all(server);
    fn_scheduler_destroy(server->loader.scheduler);
    if (server->http != NULL) {
        evhttp_free(server->http);
    }
    srv_readers_deinit(&server->readers);
    srv_guard_free(&server->guards);
    if (server->base != NULL) {
        srv_mailbox_deinit(&server->mailbox);
        event_base_free(server->base);
    }
    srv_tls_free(server->tls);
    srv_model_card_free(&server->loader.card);
}

fn_status srv_run(const srv_options *options, fn_error *err) {
    srv_server server = {.options = options};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGPIPE, &ignore, NULL); /* a client that left is no reason to end */
    fn_status status = open_server(&server, err);
    if (status == FN_OK) {
        status = serve(&server, err);
    }
    close_server(&server);
    return status;
}
