/* tests/support/token_data.h - the small tokenizers of tests/data/tokens and what the reference
 * answered with them (made by tools/make_tokenizer_data.py).
 *
 * Memory:  what is handed out belongs to the test; a failure to load fails the test. */
#ifndef FN_TESTS_TOKEN_DATA_H
#define FN_TESTS_TOKEN_DATA_H

#include "base/json.h"
#include "tokens/detokenize.h"

#define TOKEN_DATA "tests/data/tokens/"

/* A file of tests/data/tokens, parsed. */
json_t *token_json(const char *name);

/* "tokenizer.json" or "plain.json", loaded. */
fn_tokenizer *token_load(const char *name);

/* Is the list of integers what ids holds? Prints both if not. */
bool same_ids(const fn_ids *ids, const json_t *want, const char *what, size_t index);

/* The ids of a text; fails the test on errors. */
fn_ids encode(const fn_tokenizer *t, const char *text, size_t n, bool allow_added);

#endif
