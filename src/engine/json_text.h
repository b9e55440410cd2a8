/* engine/json_text.h - building the JSON that the tools hand out, with one check at the end.
 *
 * A value that could not be made (no memory) is NULL; putting it anywhere makes the whole NULL, and
 * fn_json_take_text reports that. */
#ifndef FN_ENGINE_JSON_TEXT_H
#define FN_ENGINE_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* An integer; beyond 2^63 - 1 it stays there. */
json_t *fn_json_u64(uint64_t value);

typedef struct fn_json_number {
    const char *name;
    uint64_t value;
} fn_json_number;

/* {name: value, ...} */
json_t *fn_json_numbers(const fn_json_number *numbers, size_t n);

/* Puts value (taken) into *object or *array; on failure they are freed and become NULL. */
void fn_json_set(json_t **object, const char *key, json_t *value);
void fn_json_append(json_t **array, json_t *value);

/* The text of value (taken, NULL when it could not be made), freed with fn_string_free. */
FN_NODISCARD fn_status fn_json_take_text(json_t *value, char **text, fn_error *err);

#endif
