/* tokens/text_span.h - a range of bytes in a text.
 *
 * Path:    chat_template.h (which bytes users wrote) -> [this] -> tokenizer.h (safe content) */
#ifndef FN_TOKENS_TEXT_SPAN_H
#define FN_TOKENS_TEXT_SPAN_H

#include <stddef.h>

/* Bytes begin <= i < end. */
typedef struct fn_text_span {
    size_t begin;
    size_t end;
} fn_text_span;

#endif
