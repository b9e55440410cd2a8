/* server/server.h - flashnext behind HTTP: the OpenAI API, a page to chat in, metrics.
 *
 * One thread reads and writes all connections (libevent); a second loads the model; the scheduler of
 * the library computes in threads of its own. What they have to say comes to the first thread
 * through mailbox.h.
 *
 * Path:     cli/serve.c -> [this] -> sockets, fn_scheduler
 * Threads:  srv_run belongs to the main thread, which also gets the signals (cli/signals.h).
 * Memory:   options are lent until srv_run returns. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flashnext.h"

typedef struct srv_options {
    const char *host;
    uint16_t port;          /* 0: any free one */
    const char *model_name; /* what clients call it; NULL: the directory's name */
    const char *model_dir, *template_path;
    const char *const *api_keys; /* [n_api_keys] */
    size_t n_api_keys;
    const char *const *cors_origins; /* [n_cors_origins]; "*": any */
    size_t n_cors_origins;
    const char *tls_certificate, *tls_key; /* PEM files; both or none */
    bool safe_content;
    bool log_json, log_requests;
    size_t max_body;        /* bytes of a request */
    size_t max_connections; /* at once; more wait to be accepted */
    double drain_seconds;   /* how long answers may go on after SIGTERM */
    double ping_seconds;    /* a stream is never silent for longer */
    fn_scheduler_options scheduler;
    bool cache_may_shrink; /* a prefix cache that does not fit is made smaller */
    /* Loads the model, in a thread of its own. */
    fn_status (*open)(void *ud, fn_engine **out, fn_error *err);
    void *open_ud;
} srv_options;

/* Serves until SIGTERM or Ctrl-C, then lets answers finish. Fails with FN_E_IO when the address
 * cannot be used or a certificate cannot be read, and with what open fails with. The engine stays
 * the caller's. */
fn_status srv_run(const srv_options *options, fn_error *err);

#endif
