#include "server/access.h"

#include <event2/keyvalq_struct.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *header(struct evhttp_request *req, const char *name) {
    return evhttp_find_header(evhttp_request_get_input_headers(req), name);
}

/* Takes as long for a near miss as for a far one. */
static bool same_secret(const char *given, const char *secret) {
    size_t n = strlen(given);
    size_t n_secret = strlen(secret);
    unsigned difference = n == n_secret ? 0 : 1;
    for (size_t i = 0; i < n; i++) {
        difference |=
            (unsigned char)given[i] ^ (unsigned char)secret[n_secret > 0 ? i % n_secret : 0];
    }
    return difference == 0;
}

bool srv_access_key(const srv_options *options, struct evhttp_request *req, srv_problem *problem) {
    static const char scheme[] = "Bearer ";
    const char *given = header(req, "X-Api-Key");
    const char *authorization = header(req, "Authorization");
    if (authorization != NULL && strncasecmp(authorization, scheme, sizeof scheme - 1) == 0) {
        given = authorization + sizeof scheme - 1;
    }
    bool known = options->n_api_keys == 0;
    for (size_t i = 0; i < options->n_api_keys && given != NULL; i++) {
        known |= same_secret(given, options->api_keys[i]);
    }
    return known || srv_refuse_as(problem, 401, "invalid_api_key",
                                  given == NULL ? "an API key is needed: Authorization: Bearer KEY"
                                                : "this API key is not known");
}

/* Numbers that begin with "127." only: "127.evil.example" is a name. */
bool srv_is_loopback(const char *host) {
    return strcasecmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
           strcmp(host, "[::1]") == 0 ||
           (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == strlen(host));
}

bool srv_is_origin(const char *text) {
    static const char scheme[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.";
    size_t n = strspn(text, scheme);
    const char *name = strncmp(text + n, "://", 3) == 0 ? text + n + 3 : "";
    bool site = n > 0 && name[0] != 0 && strpbrk(name, "/?#@,\\ ") == NULL;
    return site || strcmp(text, "null") == 0;
}

/* "name:80" without the port. */
static void host_name(const char *host, char *out, size_t size) {
    const char *bracket = host[0] == '[' ? strchr(host, ']') : NULL;
    size_t n = bracket != NULL ? (size_t)(bracket - host) + 1 : strcspn(host, ":");
    (void)snprintf(out, size, "%.*s", (int)(n < size ? n : size - 1), host);
}

static size_t count_headers(struct evhttp_request *req, const char *name) {
    const struct evkeyvalq *all = evhttp_request_get_input_headers(req);
    size_t n = 0;
    for (const struct evkeyval *h = all->tqh_first; h != NULL; h = h->next.tqe_next) {
        n += strcasecmp(h->key, name) == 0;
    }
    return n;
}

bool srv_access_headers(struct evhttp_request *req, srv_problem *problem) {
    static const char *const once[] = {"Content-Length", "Transfer-Encoding", "Host"};
    bool both = count_headers(req, once[0]) > 0 && count_headers(req, once[1]) > 0;
    const char *wrong = both ? "Content-Length beside Transfer-Encoding" : NULL;
    for (size_t i = 0; i < sizeof once / sizeof once[0] && wrong == NULL; i++) {
        wrong = count_headers(req, once[i]) > 1 ? once[i] : NULL;
    }
    if (wrong == NULL) {
        return true;
    }
    (void)evhttp_add_header(evhttp_request_get_output_headers(req), "Connection", "close");
    return srv_refuse_as(problem, 400, "invalid_header", "the request's headers: found %s %s",
                         wrong, both ? "" : "more than once");
}

bool srv_access_host(const srv_options *options, struct evhttp_request *req, srv_problem *problem) {
    char name[256];
    const char *host = header(req, "Host");
    if (options->n_api_keys > 0 || !srv_is_loopback(options->host) || host == NULL) {
        return true;
    }
    host_name(host, name, sizeof name);
    return srv_is_loopback(name) || strcasecmp(name, options->host) == 0 ||
           srv_refuse_as(problem, 403, "wrong_host",
                         "the Host header names no loopback address: use an API key to be reached "
                         "by other names");
}

/* "http://name:port" against the request's own Host. */
static bool is_same_origin(struct evhttp_request *req, const char *origin) {
    const char *host = header(req, "Host");
    const char *name = strstr(origin, "://");
    return host != NULL && name != NULL && strcasecmp(name + 3, host) == 0;
}

bool srv_access_origin(const srv_options *options, struct evhttp_request *req,
                       srv_problem *problem) {
    const char *origin = header(req, "Origin");
    if (origin == NULL || is_same_origin(req, origin)) {
        return true;
    }
    struct evkeyvalq *out = evhttp_request_get_output_headers(req);
    for (size_t i = 0; i < options->n_cors_origins; i++) {
        const char *allowed = options->cors_origins[i];
        if (strcmp(allowed, "*") == 0 || strcasecmp(allowed, origin) == 0) {
            (void)evhttp_add_header(out, "Access-Control-Allow-Origin", origin);
            (void)evhttp_add_header(out, "Vary", "Origin");
            (void)evhttp_add_header(out, "Access-Control-Expose-Headers", "X-Request-Id");
            return true;
        }
    }
    return srv_refuse_as(problem, 403, "origin_not_allowed",
                         "requests from other web sites are refused: --cors-origin allows them");
}
