/* server/routes.h - from a request line to the function that answers.
 *
 * Path:     evhttp -> [this: access, method, path] -> text_routes.c, info_routes.c, job.c
 * Threads:  the I/O thread. */
#ifndef SERVER_ROUTES_H
#define SERVER_ROUTES_H

#include "server/state.h"

/* evhttp's callback for every request; ud is the srv_server. */
void srv_route(struct evhttp_request *req, void *ud);

/* Each ends the exchange, or hands it to a job. body is the JSON object of a POST, lent (NULL for
 * others). */
typedef void (*srv_handler)(srv_exchange *x, json_t *body);

/* text_routes.c: tokens and templates, nothing is computed. */
void srv_get_tokenizer_info(srv_exchange *x, json_t *body);
void srv_post_tokenize(srv_exchange *x, json_t *body);
void srv_post_detokenize(srv_exchange *x, json_t *body);
void srv_post_apply_template(srv_exchange *x, json_t *body);

/* info_routes.c: the model, the server, the page. */
void srv_get_page(srv_exchange *x, json_t *body);
void srv_get_health(srv_exchange *x, json_t *body);
void srv_get_models(srv_exchange *x, json_t *body);
void srv_get_model(srv_exchange *x, json_t *body);
void srv_get_props(srv_exchange *x, json_t *body);
void srv_get_metrics(srv_exchange *x, json_t *body);

#endif
