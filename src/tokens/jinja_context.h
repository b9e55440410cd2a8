/* tokens/jinja_context.h - JSON into template values: integers of any size, taint, order of keys.
 *
 * Path:     a request's JSON (text or jansson) -> [this] -> the variables of a render */
#ifndef FN_TOKENS_JINJA_CONTEXT_H
#define FN_TOKENS_JINJA_CONTEXT_H

#include <jansson.h>

#include "tokens/jinja_run.h"

/* Adds the members of a JSON object to context; of a repeated name the last value counts. Failures
 * are kept by the run: FN_E_USAGE for what is no JSON object. */
bool fn_jcontext_add_text(fn_jrun *run, fn_jdict *context, const char *text, size_t n, bool tainted)
    __attribute__((warn_unused_result));

/* With `tokens_clean`, strings whose names end in "_token" are not tainted. */
bool fn_jcontext_add_json(fn_jrun *run, fn_jdict *context, const json_t *object, bool tainted,
                          bool tokens_clean) __attribute__((warn_unused_result));

#endif
