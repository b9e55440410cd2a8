/* tokens/chat_template.h - a checkpoint's chat template: compiled once, rendered for every request.
 *
 * Path:     chat_template.jinja / tokenizer_config.json -> [this: messages -> prompt text] ->
 * encoder Threads:  a compiled template is immutable: any number of threads may render it at once.
 * Memory:   a render works in its own arena (bounded by the limits) and leaves one text behind.
 *
 * The text is what jinja2 makes of the template under transformers' settings: immutable sandbox,
 * trim_blocks, lstrip_blocks, loop controls, `tojson` without ASCII escapes, raise_exception,
 * strftime_now and the generation tag. Nothing outside the context can be reached from a template.
 *
 * Text that users wrote is tracked: every string (and object key) of a part that is not `trusted`
 * carries a mark through trim, slices, replace, +, ~, join, tojson, ... into the output, so that an
 * encoder can refuse added tokens there. Literals of the template are clean. */
#ifndef FN_TOKENS_CHAT_TEMPLATE_H
#define FN_TOKENS_CHAT_TEMPLATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tokens/text_span.h"

typedef struct fn_chat_template fn_chat_template;

/* Zero in a field means its default (FN_RENDER_*). `now` is what strftime_now prints, in seconds
 * since the epoch, shown in local time; 0 = the clock. */
typedef struct fn_render_limits {
    uint64_t steps;      /* nodes evaluated, plus work on long strings and lists */
    uint32_t depth;      /* nested macro calls and recursive loops */
    size_t output_bytes; /* of the rendered text */
    size_t memory_bytes; /* of all values made while rendering */
    int64_t now;
} fn_render_limits;

#define FN_RENDER_STEPS 20000000u
#define FN_RENDER_DEPTH 100u
#define FN_RENDER_OUTPUT_BYTES ((size_t)64 << 20)
#define FN_RENDER_MEMORY_BYTES ((size_t)1 << 30)

/* One JSON object whose members become variables of the template: either as JSON text (n bytes,
 * integers of any size and the order of keys are kept, of a repeated key the last value counts) or
 * as a jansson object. Of several parts with one name the last counts. Strings of a part with
 * trusted = false are text that users wrote: messages, tools, documents, kwargs of a request. Put
 * bos_token, eos_token and what else comes from the checkpoint into a trusted part.
 * transformers always defines tools, documents (null when there are none) and add_generation_prompt;
 * a caller that wants its prompts does the same. */
typedef struct fn_template_part {
    const char *text;
    size_t n;
    const json_t *object; /* used when text is NULL */
    bool trusted;
} fn_template_part;

typedef struct fn_rendered {
    char *text; /* UTF-8, n bytes and a 0 behind them */
    size_t n;
    fn_text_span *spans; /* what users wrote: ascending, not empty, not touching */
    size_t n_spans;
    int error_line; /* template line of a failed render; 0 = none known */
    bool raised;    /* it failed by raise_exception: the message is the template's own */
} fn_rendered;

/* Compiles n bytes of template source; `name` stands for it in messages and is copied. Fails with
 * FN_E_MODEL ("name: line 12: No filter named 'x'.") or FN_E_NOMEM. */
FN_NODISCARD fn_status fn_chat_template_compile(const char *source, size_t n, const char *name,
                                                fn_chat_template **out, fn_error *err);

/* NULL is allowed. No render may be running. */
void fn_chat_template_free(fn_chat_template *t);

/* Renders with the variables of parts [n_parts]; on FN_OK the caller owns *out (fn_rendered_free).
 * Fails with
 *   FN_E_FAILED  the template raised an error: err has the exception's text exactly as jinja2 words
 *                it (raise_exception: the template's own words), out->error_line the line;
 *   FN_E_RANGE   a limit was reached: "name: line 12: more than 20000000 steps";
 *   FN_E_USAGE   a part is not a JSON object; FN_E_NOMEM.
 * After a failure *out holds no memory. */
FN_NODISCARD fn_status fn_chat_template_render(const fn_chat_template *t,
                                               const fn_template_part *parts, size_t n_parts,
                                               fn_render_limits limits, fn_rendered *out,
                                               fn_error *err);

/* The same for one jansson object: everything in it is users' text but the strings at its top level
 * whose names end in "_token" (bos_token, eos_token, ...). */
FN_NODISCARD fn_status fn_chat_template_render_json(const fn_chat_template *t,
                                                    const json_t *context, fn_render_limits limits,
                                                    fn_rendered *out, fn_error *err);

/* Frees what it holds and zeroes it; NULL is allowed. */
void fn_rendered_free(fn_rendered *rendered);

#endif
