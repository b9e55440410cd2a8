#include "tokens/detokenize.h"

#include <string.h>

#include "tokens/utf8.h"

void fn_detokenizer_init(fn_detokenizer *d, const fn_tokenizer *t, bool skip_special) {
    *d = (fn_detokenizer){.tokenizer = t, .skip_special = skip_special};
}

static void put_replacement(fn_text_buffer *out) {
    memcpy(out->bytes + out->count, "\xEF\xBF\xBD", 3);
    out->count += 3;
}

/* Reads held bytes and then token [n] as one stream, four bytes at a time as a character may start
 * in one and end in the other. What is left is the start of a character, at most 3 bytes. */
static void decode(fn_detokenizer *d, const char *token, size_t n, fn_text_buffer *out) {
    unsigned char window[4] = {0};
    size_t n_held = d->n_held;
    size_t total = n_held + n;
    size_t at = 0;
    size_t have = 0;
    while (at < total) {
        have = total - at < 4 ? total - at : 4;
        for (size_t i = 0; i < have; i++) {
            size_t from = at + i;
            window[i] = from < n_held ? d->held[from] : (unsigned char)token[from - n_held];
        }
        size_t length = 0;
        fn_utf8_kind kind = fn_utf8_next(window, have, &length);
        if (kind == FN_UTF8_INCOMPLETE) {
            break;
        }
        if (kind == FN_UTF8_CHARACTER) {
            memcpy(out->bytes + out->count, window, length);
            out->count += length;
        } else {
            put_replacement(out);
        }
        at += length;
    }
    d->n_held = (uint8_t)(total - at);
    memcpy(d->held, window, total - at);
    out->bytes[out->count] = '\0';
}

fn_status fn_detokenizer_push(fn_detokenizer *d, int32_t id, fn_text_buffer *out, fn_error *err) {
    size_t n = 0;
    const char *token = fn_tokenizer_token(d->tokenizer, id, &n);
    if (token == NULL || (d->skip_special && fn_tokenizer_is_special(d->tokenizer, id))) {
        return FN_OK;
    }
    /* Worst case: every byte is an invalid part of its own. */
    fn_status status = fn_text_buffer_reserve(out, (d->n_held + n) * 3, err);
    if (status == FN_OK) {
        decode(d, token, n, out);
    }
    return status;
}

fn_status fn_detokenizer_finish(fn_detokenizer *d, fn_text_buffer *out, fn_error *err) {
    fn_status status = fn_text_buffer_reserve(out, 3, err);
    if (status == FN_OK && d->n_held > 0) {
        put_replacement(out);
        out->bytes[out->count] = '\0';
        d->n_held = 0;
    }
    return status;
}

fn_status fn_tokenizer_decode(const fn_tokenizer *t, const int32_t *ids, size_t n,
                              bool skip_special, fn_text_buffer *out, fn_error *err) {
    fn_detokenizer d;
    size_t before = out->count;
    fn_status status = FN_OK;
    fn_detokenizer_init(&d, t, skip_special);
    for (size_t i = 0; i < n && status == FN_OK; i++) {
        status = fn_detokenizer_push(&d, ids[i], out, err);
    }
    if (status == FN_OK) {
        status = fn_detokenizer_finish(&d, out, err);
    }
    if (status != FN_OK) {
        out->count = before;
    }
    return status;
}
