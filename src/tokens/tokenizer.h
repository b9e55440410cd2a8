/* tokens/tokenizer.h - text to token ids and back to bytes, from a Hugging Face tokenizer.json.
 *
 * Path:    tokenizer.json + rendered prompt -> [this: ids] -> engine; ids -> tokens/detokenize.h
 * Gives exactly the ids of the `tokenizers` package for the Qwen family: byte-level BPE, NFC or no
 *          normaliser, one of the two known split rules, added tokens with all their flags. A file
 *          that asks for anything else is refused with the field's name.
 * Text:    UTF-8 of any length, NUL bytes included. Invalid bytes count as U+FFFD, one for each
 *          maximal invalid part, as bytes.decode(errors="replace") in Python does.
 * Threads: a loaded tokenizer never changes; any number of threads may use one at once.
 * Memory:  load and encode use the heap, look-ups do not; strings handed out are the tokenizer's.
 */
#ifndef FN_TOKENS_TOKENIZER_H
#define FN_TOKENS_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tokens/text_span.h"

typedef struct fn_tokenizer fn_tokenizer;

/* Reads `path` (tokenizer.json). On FN_OK the caller owns *out. Fails with FN_E_IO, FN_E_MODEL (not
 * JSON, or wrong in itself: duplicate or dangling entries, with their place), FN_E_UNSUPPORTED (a
 * model, normaliser, split rule, post-processor or decoder that is not ours) or FN_E_NOMEM. */
FN_NODISCARD fn_status fn_tokenizer_load(const char *path, fn_tokenizer **out, fn_error *err);

/* The same from n bytes of JSON; `name` stands for the file in messages. */
FN_NODISCARD fn_status fn_tokenizer_load_bytes(const char *json, size_t n, const char *name,
                                               fn_tokenizer **out, fn_error *err);

/* NULL is allowed. */
void fn_tokenizer_free(fn_tokenizer *t);

/* The highest id + 1. Ids below it may be without a token. */
size_t fn_tokenizer_size(const fn_tokenizer *t);

/* Appends the ids of text [n] to out. allow_added: added tokens (special or not) are found anywhere
 * in the text, as transformers does; without it they are spelt as plain BPE and no added id comes
 * out. On failure (FN_E_NOMEM) out is as it was. */
FN_NODISCARD fn_status fn_tokenizer_encode(const fn_tokenizer *t, const char *text, size_t n,
                                           bool allow_added, fn_ids *out, fn_error *err);

/* Like allow_added = true, but no added token may match a byte inside of `spans` [n_spans]
 * (ascending, not overlapping, within the text: else FN_E_RANGE): what users wrote is data. An
 * added token half inside a span does not match either, so no text of a user can complete one.
 * Nothing else happens at the edges: letters on both sides of one still form one piece, and a text
 * whose spans hold no added token gets the ids fn_tokenizer_encode gives. */
FN_NODISCARD fn_status fn_tokenizer_encode_spans(const fn_tokenizer *t, const char *text, size_t n,
                                                 const fn_text_span *spans, size_t n_spans,
                                                 fn_ids *out, fn_error *err);

/* The id of an added token's text, or of the raw bytes of a vocabulary entry; -1 if there is none.
 */
int32_t fn_tokenizer_id(const fn_tokenizer *t, const char *token, size_t n);

/* The raw bytes id stands for (an added token's: its text), [*n] and a 0 behind them; often not
 * whole UTF-8 characters. NULL if no token has this id. */
const char *fn_tokenizer_token(const fn_tokenizer *t, int32_t id, size_t *n);

/* Is id an added token; is it an added token marked special (left out of shown text). */
bool fn_tokenizer_is_added(const fn_tokenizer *t, int32_t id);
bool fn_tokenizer_is_special(const fn_tokenizer *t, int32_t id);

#endif
