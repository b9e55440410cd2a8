/* server/routes.h - from a request line to the function that answers.
 *
 * Path:     evhttp -> [this: access, method, path] -> text_routes.c, info_routes.c; of a POST: reading.h
 * Threads:  the I/O thread. */
#ifndef SERVER_ROUTES_H
#define SERVER_ROUTES_H

#include "server/state.h"

/* evhttp's callback for every request; ud is the srv_server. */
void srv_route(struct evhttp_request *req, void *ud);

/* Each ends the exchange. */
typedef void (*srv_handler)(srv_exchange *x);

void srv_get_tokenizer_info(srv_exchange *x); /* text_routes.c */

/* info_routes.c: the model, the server, the page. */
void srv_get_page(srv_exchange *x);
void srv_get_health(srv_exchange *x);
void srv_get_models(srv_exchange *x);
void srv_get_model(srv_exchange *x);
void srv_get_props(srv_exchange *x);
void srv_get_metrics(srv_exchange *x);

#endif
