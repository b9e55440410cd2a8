/* server/tls.h - HTTPS by certificate files, where the build has OpenSSL.
 *
 * Path:     --tls-cert, --tls-key -> [this] -> a bufferevent for each connection
 * Threads:  the I/O thread.
 * Memory:   the context is the caller's until srv_tls_free. */
#ifndef SERVER_TLS_H
#define SERVER_TLS_H

#include <event2/bufferevent.h>

#include "flashnext.h"

/* Reads both PEM files. Fails with FN_E_IO, or FN_E_UNSUPPORTED in a build without OpenSSL. */
fn_status srv_tls_open(const char *certificate, const char *key, void **out, fn_error *err);
void srv_tls_free(void *tls);
/* NULL: no memory. */
struct bufferevent *srv_tls_accept(void *tls, struct event_base *base);

#endif
