#include "tokens/text_buffer.h"

#include <stdint.h>
#include <string.h>

#include "base/mem.h"

fn_status fn_text_buffer_reserve(fn_text_buffer *text, size_t n, fn_error *err) {
    void *bytes = text->bytes;
    if (n > SIZE_MAX - 1 - text->count ||
        !fn_grow(&bytes, &text->capacity, text->count + n + 1, 1)) {
        return fn_fail_nomem(err, "text", n);
    }
    text->bytes = bytes;
    text->bytes[text->count] = '\0';
    return FN_OK;
}

fn_status fn_text_buffer_append(fn_text_buffer *text, const char *bytes, size_t n, fn_error *err) {
    fn_status status = fn_text_buffer_reserve(text, n, err);
    if (status == FN_OK && n > 0) {
        memcpy(text->bytes + text->count, bytes, n);
        text->count += n;
        text->bytes[text->count] = '\0';
    }
    return status;
}

void fn_text_buffer_free(fn_text_buffer *text) {
    fn_free(text->bytes);
    *text = (fn_text_buffer){0};
}
