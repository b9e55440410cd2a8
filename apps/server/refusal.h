/* server/refusal.h - the answer to what is no request, in the API's own shape.
 *
 * Path:     guard.c (evhttp has refused) -> [this] -> the socket
 * Threads:  the I/O thread. */
#ifndef SERVER_REFUSAL_H
#define SERVER_REFUSAL_H

#include "server/state.h"

/* ud is the srv_server. A whole response, after which the connection ends; also logged and counted. */
void srv_refusal_write(void *ud, struct evhttp_connection *connection, int status, cli_buffer *out);

#endif
