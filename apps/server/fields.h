/* server/fields.h - fields of a request's JSON object, with their types checked and named.
 *
 * A field that is absent or null leaves *out as it is; unknown fields are nobody's business. All
 * return false, with the problem filled, when the type or the range is wrong.
 *
 * Path:     the body as JSON -> [this] -> chat_request.c, completion_request.c, text_routes.c
 * Memory:   texts and lists are lent by the object. */
#ifndef SERVER_FIELDS_H
#define SERVER_FIELDS_H

#include <stdint.h>

#include "server/problem.h"

/* Bytes into a JSON object: UTF-8, nested at most 128 deep. The caller owns *out. */
bool srv_parse_object(const char *bytes, size_t n, json_t **out, srv_problem *problem);

/* "a string", "an array", ... */
const char *srv_type_name(const json_t *value);
/* NULL also for a null. */
const json_t *srv_field(const json_t *object, const char *key);

bool srv_field_bool(const json_t *object, const char *key, bool *out, srv_problem *problem);
bool srv_field_number(const json_t *object, const char *key, double low, double high, double *out,
                      srv_problem *problem);
bool srv_field_float(const json_t *object, const char *key, double low, double high, float *out,
                     srv_problem *problem);
/* Also a number such as 16.0. */
bool srv_field_whole(const json_t *object, const char *key, int64_t low, int64_t high, int64_t *out,
                     srv_problem *problem);
bool srv_field_text(const json_t *object, const char *key, const char **out, srv_problem *problem);
bool srv_field_object(const json_t *object, const char *key, const json_t **out,
                      srv_problem *problem);
bool srv_field_array(const json_t *object, const char *key, const json_t **out,
                     srv_problem *problem);

#endif
