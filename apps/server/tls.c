#include "server/tls.h"

#include "cli/report.h"

#ifdef SERVER_HAS_TLS

#include <errno.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509err.h>
#include <stdio.h>
#include <string.h>

/* OpenSSL says where in itself it failed; people need to know what is wrong with their file. */
static fn_status complain(const char *option, const char *path, const char *expected,
                          fn_error *err) {
    unsigned long code = ERR_peek_last_error();
    const char *reason = ERR_reason_error_string(code);
    ERR_clear_error();
    return cli_fail(err, FN_E_IO, "%s %s: expected %s, found none that can be used%s%s", option,
                    path, expected, reason != NULL ? ": " : "", reason != NULL ? reason : "");
}

/* What is not there, a folder or not ours: said before OpenSSL puts it into its own words. */
static fn_status check_readable(const char *option, const char *path, fn_error *err) {
    FILE *file = fopen(path, "rb");
    bool readable = file != NULL && (fgetc(file) != EOF || ferror(file) == 0);
    int failure = errno;
    if (file != NULL) {
        (void)fclose(file);
    }
    return readable ? FN_OK
                    : cli_fail(err, FN_E_IO, "%s %s: cannot be read: %s", option, path,
                               strerror(failure));
}

/* Keys with a passphrase would ask at the terminal, of which a server has none. */
static int no_passphrase(char *out, int room, int writing, void *ud) {
    (void)out;
    (void)room;
    (void)writing;
    (void)ud;
    return 0;
}

static fn_status not_the_key(const char *certificate, const char *key, fn_error *err) {
    ERR_clear_error();
    return cli_fail(err, FN_E_IO,
                    "--tls-key %s: expected the private key of --tls-cert %s, found another one",
                    key, certificate);
}

static fn_status use_files(SSL_CTX *context, const char *certificate, const char *key,
                           fn_error *err) {
    fn_status status = check_readable("--tls-cert", certificate, err);
    status = status == FN_OK ? check_readable("--tls-key", key, err) : status;
    if (status != FN_OK) {
        return status;
    }
    SSL_CTX_set_default_passwd_cb(context, no_passphrase);
    if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1) {
        return complain("--tls-cert", certificate, "a certificate in PEM form", err);
    }
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1) {
        bool other = ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH;
        return other ? not_the_key(certificate, key, err)
                     : complain("--tls-key", key, "a private key in PEM form without a passphrase",
                                err);
    }
    return SSL_CTX_check_private_key(context) == 1 ? FN_OK : not_the_key(certificate, key, err);
}

fn_status srv_tls_open(const char *certificate, const char *key, void **out, fn_error *err) {
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    *out = NULL;
    if (context == NULL) {
        return cli_fail(err, FN_E_FAILED, "TLS could not be started");
    }
    (void)SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    fn_status status = use_files(context, certificate, key, err);
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
