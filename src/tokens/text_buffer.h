/* tokens/text_buffer.h - a growing text.
 *
 * Memory:  the buffer's heap block is the caller's (fn_text_buffer_free); reserve once and reset
 *          the count to write without allocating.
 * Threads: one owner at a time. */
#ifndef FN_TOKENS_TEXT_BUFFER_H
#define FN_TOKENS_TEXT_BUFFER_H

#include <stddef.h>

#include "base/status.h"

/* {0} is an empty one. Behind bytes [count] stands a 0 once anything was reserved. */
typedef struct fn_text_buffer {
    char *bytes;
    size_t count;
    size_t capacity;
} fn_text_buffer;

/* Makes room for n more bytes and the 0. Fails with FN_E_NOMEM. */
FN_NODISCARD fn_status fn_text_buffer_reserve(fn_text_buffer *text, size_t n, fn_error *err);

/* Appends bytes [n]. Fails with FN_E_NOMEM; then nothing has changed. */
FN_NODISCARD fn_status fn_text_buffer_append(fn_text_buffer *text, const char *bytes, size_t n,
                                             fn_error *err);

void fn_text_buffer_free(fn_text_buffer *text);

#endif
