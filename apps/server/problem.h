/* server/problem.h - what is wrong with a request, in the API's own shape.
 *
 * Path:     parsers and the library's fn_error -> [this] -> {"error": {...}}, whole or as an event
 * Threads:  one at a time. */
#ifndef SERVER_PROBLEM_H
#define SERVER_PROBLEM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "flashnext.h"

typedef struct srv_problem {
    int status;       /* of HTTP; 0: nothing is wrong */
    const char *type; /* "invalid_request_error", ...; constant */
    const char *code; /* constant, or NULL */
    char param[64];   /* the field, or "" */
    char message[1024];
    size_t n_prompt, n_context; /* of a prompt that is too long, else 0 */
} srv_problem;

/* Fills the problem unless it is filled already; false, to be returned. param may be NULL. */
bool srv_refuse(srv_problem *problem, const char *param, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with a status other than 400 and a code. */
bool srv_refuse_as(srv_problem *problem, int status, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A capability that this server lacks, such as "image input"; param names the field. */
bool srv_refuse_capability(srv_problem *problem, const char *param, const char *capability);
/* What the library said. */
bool srv_refuse_status(srv_problem *problem, fn_status status, const fn_error *err);

/* {"error": {message, type, param, code}}; the caller owns it. */
json_t *srv_problem_json(const srv_problem *problem);

#endif
