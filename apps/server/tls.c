#include "server/tls.h"

#include "cli/report.h"

#ifdef SERVER_HAS_TLS

#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

static fn_status complain(const char *path, fn_error *err) {
    char text[256];
    ERR_error_string_n(ERR_get_error(), text, sizeof text);
    return cli_fail(err, FN_E_IO, "%s: %s", path, text);
}

fn_status srv_tls_open(const char *certificate, const char *key, void **out, fn_error *err) {
    fn_status status = FN_OK;
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    *out = NULL;
    if (context == NULL) {
        return complain("TLS", err);
    }
    (void)SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1) {
        status = complain(certificate, err);
    } else if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1) {
        status = complain(key, err);
    } else if (SSL_CTX_check_private_key(context) != 1) {
        status = cli_fail(err, FN_E_IO, "%s: is not the key of %s", key, certificate);
    }
    if (status != FN_OK) {
        SSL_CTX_free(context);
        return status;
    }
    *out = context;
    return FN_OK;
}

void srv_tls_free(void *tls) {
    SSL_CTX_free(tls);
}

struct bufferevent *srv_tls_accept(void *tls, struct event_base *base) {
    SSL *ssl = SSL_new(tls);
    if (ssl == NULL) {
        return NULL;
    }
    struct bufferevent *bev = bufferevent_openssl_socket_new(
        base, -1, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
    if (bev != NULL) {
        /* Many clients close without TLS's own good-bye. */
        bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    }
    return bev;
}

#else

fn_status srv_tls_open(const char *certificate, const char *key, void **out, fn_error *err) {
    (void)certificate;
    (void)key;
    *out = NULL;
    return cli_fail(err, FN_E_UNSUPPORTED,
                    "this build has no TLS: libevent's openssl part was "
                    "not there");
}

void srv_tls_free(void *tls) {
    (void)tls;
}

struct bufferevent *srv_tls_accept(void *tls, struct event_base *base) {
    (void)tls;
    (void)base;
    return NULL;
}

#endif
