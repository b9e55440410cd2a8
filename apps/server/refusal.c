#include "server/refusal.h"

#include <stdlib.h>
#include <string.h>

#include "server/log.h"

static void explain(const srv_server *server, int status, srv_problem *problem) {
    switch (status) {
    case 413:
        (void)srv_refuse_as(problem, status, NULL,
                            "the body is too long (at most %zu bytes), or the length of a "
                            "chunk is no number",
                            server->options->max_body);
        break;
    case 414:
        (void)srv_refuse_as(problem, status, NULL, "the request line is too long: at most %d bytes",
                            SRV_MAX_HEAD_BYTES);
        break;
    case 417:
        (void)srv_refuse_as(problem, status, NULL, "Expect: only 100-continue is known");
        break;
    case 431:
        (void)srv_refuse_as(problem, status, NULL,
                            "the headers are too long: at most %d bytes with the request line",
                            SRV_MAX_HEAD_BYTES);
        break;
    case 501:
        (void)srv_refuse_as(problem, status, NULL, "this method is not known here");
        break;
    case 505:
        (void)srv_refuse_as(problem, status, NULL, "expected HTTP/1.0 or HTTP/1.1");
        break;
    default:
        (void)srv_refuse_as(problem, status, NULL,
                            "this is no valid HTTP/1.1 request: expected a request line, headers "
                            "and a body as they announce it");
    }
}

static void log_it(srv_server *server, struct evhttp_connection *connection, int status) {
    char *peer = NULL;
    ev_uint16_t port = 0;
    srv_metrics_count_request(&server->metrics, status);
    if (server->options->log_requests) {
        evhttp_connection_get_peer(connection, &peer, &port);
        srv_log_entry entry = {.id = "-",
                               .remote = peer != NULL ? peer : "-",
                               .method = "-",
                               .path = "-",
                               .status = status};
        srv_log_request(server->options->log_json, &entry);
    }
}

void srv_refusal_write(void *ud, struct evhttp_connection *connection, int status,
                       cli_buffer *out) {
    srv_server *server = ud;
    srv_problem problem = {0};
    explain(server, status, &problem);
    char *text = srv_json_text(srv_problem_json(&problem));
    const char *body = text != NULL ? text : "{}";
    cli_buffer_printf(out,
                      "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                      "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                      "Connection: close\r\n\r\n%s",
                      status, srv_reason(status), strlen(body), body);
    free(text);
    log_it(server, connection, status);
}
