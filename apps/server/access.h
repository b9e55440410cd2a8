/* server/access.h - who may ask: API keys, the Host header, other web sites.
 *
 * - With keys set, a request carries one as `Authorization: Bearer KEY` or `X-Api-Key: KEY`. Keys are
 *   compared in constant time.
 * - Without keys on loopback, Host must be a loopback name, so that a web site whose name is made to
 *   point here (DNS rebinding) gets nothing.
 * - A request with an Origin of another site is refused, unless --cors-origin names it: a page
 *   somewhere must not use a server that only listens on loopback.
 *
 * Path:     headers of a request -> [this] -> routes.c
 * Threads:  the I/O thread. */
#ifndef SERVER_ACCESS_H
#define SERVER_ACCESS_H

#include <event2/http.h>

#include "server/problem.h"
#include "server/server.h"

bool srv_access_key(const srv_options *options, struct evhttp_request *req, srv_problem *problem);
/* Headers that say where the request ends, or whom it is for, are there once: a proxy in front could take another. Where not,
 * the connection ends with the reply. */
bool srv_access_headers(struct evhttp_request *req, srv_problem *problem);
bool srv_access_host(const srv_options *options, struct evhttp_request *req, srv_problem *problem);
/* Adds the Access-Control headers of an origin that is allowed. */
bool srv_access_origin(const srv_options *options, struct evhttp_request *req,
                       srv_problem *problem);

/* "127.0.0.1", "localhost", "::1", ... */
bool srv_is_loopback(const char *host);

/* What a browser may send as Origin: "https://name", "http://name:port", "null". */
bool srv_is_origin(const char *text);

#endif
