#include "server/routes.h"

#include <string.h>

#include "server/access.h"
#include "server/reading.h"

/* ---- what is generated ------------------------------------------------------------------------- */

static bool read_chat(const srv_limits *limits, json_t *body, srv_outcome *out) {
    return srv_chat_request_read(limits, json_incref(body), &out->request, &out->problem);
}

static bool read_completion(const srv_limits *limits, json_t *body, srv_outcome *out) {
    return srv_completion_request_read(limits, json_incref(body), &out->request, &out->problem);
}

/* ---- the table -------------------------------------------------------------------------- */

enum { OPEN = 1, EARLY = 2 }; /* needs no key; works while the model is loading */

typedef struct endpoint {
    const char *path; /* one that ends in a slash is a prefix, "/" excepted */
    unsigned traits;
    srv_handler get;      /* NULL: it takes POST */
    srv_body_reader read; /* of a POST's body */
} endpoint;

static const endpoint endpoints[] = {
    {"/", OPEN | EARLY, srv_get_page, NULL},
    {"/health", OPEN | EARLY, srv_get_health, NULL},
    {"/v1/health", OPEN | EARLY, srv_get_health, NULL},
    {"/metrics", EARLY, srv_get_metrics, NULL},
    {"/v1/models", 0, srv_get_models, NULL},
    {"/models", 0, srv_get_models, NULL},
    {"/v1/models/", 0, srv_get_model, NULL},
    {"/props", 0, srv_get_props, NULL},
    {"/v1/props", 0, srv_get_props, NULL},
    {"/tokenizer_info", 0, srv_get_tokenizer_info, NULL},
    {"/v1/tokenizer_info", 0, srv_get_tokenizer_info, NULL},
    {"/tokenize", 0, NULL, srv_read_tokenize},
    {"/v1/tokenize", 0, NULL, srv_read_tokenize},
    {"/detokenize", 0, NULL, srv_read_detokenize},
    {"/v1/detokenize", 0, NULL, srv_read_detokenize},
    {"/apply-template", 0, NULL, srv_read_apply_template},
    {"/v1/chat/completions", 0, NULL, read_chat},
    {"/chat/completions", 0, NULL, read_chat},
    {"/v1/completions", 0, NULL, read_completion},
    {"/completions", 0, NULL, read_completion},
};

static bool matches(const endpoint *candidate, const char *path) {
    size_t n = strlen(candidate->path);
    bool prefix = n > 1 && candidate->path[n - 1] == '/';
    return prefix ? strncmp(path, candidate->path, n) == 0 && path[n] != 0
                  : strcmp(path, candidate->path) == 0;
}

static const endpoint *find_endpoint(srv_exchange *x, enum evhttp_cmd_type method,
                                     srv_problem *problem) {
    const char *allowed = NULL;
    for (size_t i = 0; i < sizeof endpoints / sizeof endpoints[0]; i++) {
        if (matches(&endpoints[i], x->path)) {
            bool gets = endpoints[i].get != NULL;
            if (gets ? method == EVHTTP_REQ_GET || method == EVHTTP_REQ_HEAD
                     : method == EVHTTP_REQ_POST) {
                return &endpoints[i];
            }
            allowed = gets ? "GET, HEAD" : "POST";
        }
    }
    if (allowed != NULL) {
        srv_exchange_set(x, "Allow", allowed);
        (void)srv_refuse_as(problem, 405, NULL, "%s does not take %s but %s", x->path, x->method,
                            allowed);
    } else {
        (void)srv_refuse_as(problem, 404, NULL, "there is no %s here", x->path);
    }
    return NULL;
}

/* ---- before a handler ------------------------------------------------------------------- */

/* The browser asks whether it may ask. */
static void preflight(srv_exchange *x) {
    srv_exchange_set(x, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    srv_exchange_set(x, "Access-Control-Allow-Headers",
                     "Authorization, Content-Type, X-Api-Key, X-Request-Id");
    srv_exchange_set(x, "Access-Control-Max-Age", "600");
    srv_reply_bytes(x, 204, "", NULL, 0);
}

static bool is_ready(const srv_server *server, const endpoint *found, srv_problem *problem) {
    if (server->draining) {
        return srv_refuse_as(problem, 503, "shutting_down", "the server is shutting down");
    }
    return server->scheduler != NULL || (found->traits & EARLY) != 0 ||
           srv_refuse_as(problem, 503, "loading", "Loading model");
}

void srv_route(struct evhttp_request *req, void *ud) {
    srv_server *server = ud;
    srv_exchange *x = srv_exchange_create(server, req);
    srv_problem problem = {0};
    enum evhttp_cmd_type method = evhttp_request_get_command(req);
    const endpoint *found = NULL;
    bool allowed = srv_access_headers(req, &problem) &&
                   srv_access_host(server->options, req, &problem) &&
                   srv_access_origin(server->options, req, &problem);
    if (allowed && method == EVHTTP_REQ_OPTIONS) {
        preflight(x);
        return;
    }
    if (allowed) {
        found = find_endpoint(x, method, &problem);
    }
    if (found == NULL ||
        ((found->traits & OPEN) == 0 && !srv_access_key(server->options, req, &problem)) ||
        !is_ready(server, found, &problem)) {
        srv_reply_problem(x, &problem);
        return;
    }
    if (found->get != NULL) {
        found->get(x);
    } else {
        server->used = true;
        srv_reading_begin(&server->readers, x, found->read);
    }
}
