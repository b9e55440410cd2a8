#include "server/problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/buffer.h"

static const char *type_of(int status) {
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    case 503:
        return "unavailable_error";
    default:
        return status < 500 ? "invalid_request_error" : "server_error";
    }
}

__attribute__((format(printf, 4, 0))) static void
fill(srv_problem *problem, int status, const char *code, const char *format, va_list args) {
    problem->status = status;
    problem->type = type_of(status);
    problem->code = code;
    (void)vsnprintf(problem->message, sizeof problem->message, format, args);
    /* A cut may have fallen inside a character. */
    problem->message[cli_utf8_valid(problem->message, strlen(problem->message))] = 0;
}

bool srv_refuse(srv_problem *problem, const char *param, const char *format, ...) {
    if (problem->status == 0) {
        va_list args;
        va_start(args, format);
        fill(problem, 400, NULL, format, args);
        va_end(args);
        (void)snprintf(problem->param, sizeof problem->param, "%s", param != NULL ? param : "");
        problem->param[cli_utf8_valid(problem->param, strlen(problem->param))] = 0;
    }
    return false;
}

bool srv_refuse_as(srv_problem *problem, int status, const char *code, const char *format, ...) {
    if (problem->status == 0) {
        va_list args;
        va_start(args, format);
        fill(problem, status, code, format, args);
        va_end(args);
    }
    return false;
}

bool srv_refuse_capability(srv_problem *problem, const char *param, const char *capability) {
    (void)srv_refuse(problem, param, "%s: this server has no %s", param, capability);
    problem->code = "unsupported_capability";
    return false;
}

bool srv_refuse_status(srv_problem *problem, fn_status status, const fn_error *err) {
    const char *text = err->text[0] != 0 ? err->text : fn_status_name(status);
    switch (status) {
    case FN_E_FAILED: /* the chat template raised it */
    case FN_E_USAGE:
    case FN_E_RANGE:
        return srv_refuse(problem, NULL, "%s", text);
    case FN_E_FIT:
        return srv_refuse_as(problem, 400, "does_not_fit", "%s", text);
    case FN_E_UNSUPPORTED:
        return srv_refuse_as(problem, 501, NULL, "%s", text);
    case FN_E_BUSY:
        return srv_refuse_as(problem, 429, "queue_full", "%s", text);
    default:
        return srv_refuse_as(problem, 500, NULL, "%s", text);
    }
}

json_t *srv_problem_json(const srv_problem *problem) {
    json_t *error =
        json_pack("{s:s, s:s, s:s*, s:s*}", "message", problem->message, "type", problem->type,
                  "param", problem->param[0] != 0 ? problem->param : NULL, "code", problem->code);
    /* Clients read both keys, also when there is nothing to say. */
    if (problem->param[0] == 0) {
        (void)json_object_set_new(error, "param", json_null());
    }
    if (problem->code == NULL) {
        (void)json_object_set_new(error, "code", json_null());
    }
    if (problem->n_context > 0) {
        (void)json_object_set_new(error, "n_prompt_tokens",
                                  json_integer((json_int_t)problem->n_prompt));
        (void)json_object_set_new(error, "n_ctx", json_integer((json_int_t)problem->n_context));
    }
    return json_pack("{s:o}", "error", error);
}
