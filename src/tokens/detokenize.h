/* tokens/detokenize.h - ids back to text, one at a time, never half a character.
 *
 * Path:    sampled ids -> [this: UTF-8] -> dialogue/ (stop strings, events)
 * Text:    what has come out after any push is valid UTF-8; all deltas joined are what decoding all
 *          ids at once gives. Bytes that cannot become a character are U+FFFD, one for each maximal
 *          invalid part, as `tokenizers` and bytes.decode(errors="replace") have it. A U+FFFD that
 *          the model wrote itself passes like any other character.
 * Threads: one detokenizer belongs to one thread at a time.
 * Memory:  a fixed struct without heap parts: copying it forks the stream. Only the caller's buffer
 *          grows, by less than the token's bytes * 3 + 9. */
#ifndef FN_TOKENS_DETOKENIZE_H
#define FN_TOKENS_DETOKENIZE_H

#include "tokens/text_buffer.h"
#include "tokens/tokenizer.h"

typedef struct fn_detokenizer {
    const fn_tokenizer *tokenizer;
    unsigned char held[4]; /* the start of a character whose end has not come yet */
    uint8_t n_held;
    bool skip_special;
} fn_detokenizer;

/* skip_special: special added tokens give no text. The tokenizer is lent. */
void fn_detokenizer_init(fn_detokenizer *d, const fn_tokenizer *t, bool skip_special);

/* Appends to out what id completes; ids without a token give nothing. On failure (FN_E_NOMEM)
 * nothing has changed. */
FN_NODISCARD fn_status fn_detokenizer_push(fn_detokenizer *d, int32_t id, fn_text_buffer *out,
                                           fn_error *err);

/* Appends the U+FFFD for a character that stayed incomplete, if any; the stream starts afresh. */
FN_NODISCARD fn_status fn_detokenizer_finish(fn_detokenizer *d, fn_text_buffer *out, fn_error *err);

/* The text of ids [n] in one call, appended to out. */
FN_NODISCARD fn_status fn_tokenizer_decode(const fn_tokenizer *t, const int32_t *ids, size_t n,
                                           bool skip_special, fn_text_buffer *out, fn_error *err);

#endif
