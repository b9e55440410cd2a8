/* cli/json_slices.h - the elements of a JSON array as they were written.
 *
 * A parser would round 1e400 and 20-digit integers; a template must see them as they are.
 *
 * Path:     standard input -> [this] -> tokenize --chat --json -> fn_text_render
 * Memory:   slices point into the text. */
#ifndef CLI_JSON_SLICES_H
#define CLI_JSON_SLICES_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cli_json_slices {
    const char *at, *end; /* what is left of the text */
    bool failed;          /* it is no array */
} cli_json_slices;

/* Begins with text [n], which should be one array. */
cli_json_slices cli_json_slices_begin(const char *text, size_t n);
/* The next element, without blanks around it: only brackets and strings are understood, what is
 * inside must be parsed by who takes it. False at the end, or when failed is set. */
bool cli_json_slices_next(cli_json_slices *slices, const char **begin, size_t *n);

#endif
