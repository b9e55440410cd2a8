#include "server/routes.h"

#include <string.h>

#include "server/access.h"
#include "server/fields.h"
#include "server/job.h"

/* ---- generation ------------------------------------------------------------------------- */

typedef bool (*request_reader)(const srv_limits *limits, json_t *root, srv_request *out,
                               srv_problem *problem);

static void generate(srv_exchange *x, json_t *body, request_reader read) {
    srv_request request;
    srv_problem problem = {0};
    if (read(&x->server->limits, json_incref(body), &request, &problem)) {
        srv_job_start(x->server, x, &request);
    } else {
        srv_request_free(&request);
        srv_reply_problem(x, &problem);
    }
}

static void post_chat(srv_exchange *x, json_t *body) {
    generate(x, body, srv_chat_request_read);
}

static void post_completion(srv_exchange *x, json_t *body) {
    generate(x, body, srv_completion_request_read);
}

/* ---- the table -------------------------------------------------------------------------- */

enum { OPEN = 1, EARLY = 2 }; /* needs no key; works while the model is loading */

typedef struct endpoint {
    const char *path; /* one that ends in a slash is a prefix, "/" excepted */
    enum evhttp_cmd_type method;
    unsigned traits;
    srv_handler handler;
} endpoint;

static const endpoint endpoints[] = {
    {"/", EVHTTP_REQ_GET, OPEN | EARLY, srv_get_page},
    {"/health", EVHTTP_REQ_GET, OPEN | EARLY, srv_get_health},
    {"/v1/health", EVHTTP_REQ_GET, OPEN | EARLY, srv_get_health},
    {"/metrics", EVHTTP_REQ_GET, EARLY, srv_get_metrics},
    {"/v1/models", EVHTTP_REQ_GET, 0, srv_get_models},
    {"/models", EVHTTP_REQ_GET, 0, srv_get_models},
    {"/v1/models/", EVHTTP_REQ_GET, 0, srv_get_model},
    {"/props", EVHTTP_REQ_GET, 0, srv_get_props},
    {"/v1/props", EVHTTP_REQ_GET, 0, srv_get_props},
    {"/tokenizer_info", EVHTTP_REQ_GET, 0, srv_get_tokenizer_info},
    {"/v1/tokenizer_info", EVHTTP_REQ_GET, 0, srv_get_tokenizer_info},
    {"/tokenize", EVHTTP_REQ_POST, 0, srv_post_tokenize},
    {"/v1/tokenize", EVHTTP_REQ_POST, 0, srv_post_tokenize},
    {"/detokenize", EVHTTP_REQ_POST, 0, srv_post_detokenize},
    {"/v1/detokenize", EVHTTP_REQ_POST, 0, srv_post_detokenize},
    {"/apply-template", EVHTTP_REQ_POST, 0, srv_post_apply_template},
    {"/v1/chat/completions", EVHTTP_REQ_POST, 0, post_chat},
    {"/chat/completions", EVHTTP_REQ_POST, 0, post_chat},
    {"/v1/completions", EVHTTP_REQ_POST, 0, post_completion},
    {"/completions", EVHTTP_REQ_POST, 0, post_completion},
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
    method = method == EVHTTP_REQ_HEAD ? EVHTTP_REQ_GET : method;
    for (size_t i = 0; i < sizeof endpoints / sizeof endpoints[0]; i++) {
        if (matches(&endpoints[i], x->path)) {
            if (endpoints[i].method == method) {
                return &endpoints[i];
            }
            allowed = endpoints[i].method == EVHTTP_REQ_GET ? "GET, HEAD" : "POST";
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

static void answer(srv_exchange *x, const endpoint *found) {
    srv_problem problem = {0};
    json_t *body = NULL;
    if (found->method == EVHTTP_REQ_POST) {
        size_t n = 0;
        const char *bytes = srv_exchange_body(x, &n);
        if (!srv_parse_object(bytes, n, &body, &problem)) {
            srv_reply_problem(x, &problem);
            return;
        }
    }
    found->handler(x, body);
    json_decref(body);
}

void srv_route(struct evhttp_request *req, void *ud) {
    srv_server *server = ud;
    srv_exchange *x = srv_exchange_create(server, req);
    srv_problem problem = {0};
    enum evhttp_cmd_type method = evhttp_request_get_command(req);
    const endpoint *found = NULL;
    bool allowed = srv_access_host(server->options, req, &problem) &&
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
    answer(x, found);
}
