/* base/json.h - strict JSON from files and bytes: jansson with our limits and messages.
 *
 * Duplicate keys, invalid UTF-8 and trailing text are refused; depth is bounded by jansson (2048).
 */
#ifndef FN_BASE_JSON_H
#define FN_BASE_JSON_H

#include <jansson.h>

#include "base/status.h"

/* Reads the whole file (at most max_bytes) and parses it. On FN_OK the caller owns *out
 * (json_decref). Fails with FN_E_IO (cannot read), FN_E_MODEL (not JSON: file, line, column). */
FN_NODISCARD fn_status fn_json_read_file(const char *path, size_t max_bytes, json_t **out,
                                         fn_error *err);

/* Parses n bytes; `name` stands for the source in messages. */
FN_NODISCARD fn_status fn_json_parse(const char *text, size_t n, const char *name, json_t **out,
                                     fn_error *err);

/* The word for a value's type in messages: "string", "integer", ... */
const char *fn_json_type_name(const json_t *value);

#endif
