/* tokens/nfc.h - Unicode normalisation form C, as the reference tokenizer's normaliser has it.
 *
 * Path:    text between added tokens -> [this] -> pretokenize
 * Time:    linear in the text, also for endless runs of marks.
 * Threads: pure functions.
 * Memory:  one scratch block for the longest run of characters that belong together. */
#ifndef FN_TOKENS_NFC_H
#define FN_TOKENS_NFC_H

#include <stdbool.h>

#include "tokens/marked_text.h"

/* Is valid UTF-8 text [n] in form C already? May say no for a text that is. */
bool fn_nfc_is_normal(const char *text, size_t n);

/* Appends form C of a valid UTF-8 text to out; its spans follow into `spans` [text->n_spans], an
 * edge between characters that join widens its span. Fails with FN_E_NOMEM. */
FN_NODISCARD fn_status fn_nfc_append(const fn_marked_text *text, fn_text_buffer *out,
                                     fn_text_span *spans, fn_error *err);

#endif
