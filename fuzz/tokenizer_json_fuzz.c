/* tokenizer.json, then (behind a NUL byte) a text: whatever loads must encode and decode safely. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tokens/detokenize.h"
#include "tokens/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok) {
    if (!ok) {
        abort();
    }
}

static bool has_single_byte_added(const fn_tokenizer *t) {
    for (unsigned byte = 0; byte < 256; byte++) {
        char one = (char)(unsigned char)byte;
        if (fn_tokenizer_is_added(t, fn_tokenizer_id(t, &one, 1))) {
            return true;
        }
    }
    return false;
}

/* Ids are in range and have tokens; in safe mode none is an added one. */
static void check_ids(const fn_tokenizer *t, const fn_ids *ids, bool safe) {
    fn_text_buffer text = {0};
    for (size_t i = 0; i < ids->count; i++) {
        size_t length = 0;
        must(fn_tokenizer_token(t, ids->items[i], &length) != NULL);
        must(!safe || !fn_tokenizer_is_added(t, ids->items[i]));
    }
    must(fn_tokenizer_decode(t, ids->items, ids->count, safe, &text, NULL) == FN_OK);
    must(text.count == 0 ||
         fn_utf8_valid_prefix((const unsigned char *)text.bytes, text.count) == text.count);
    fn_text_buffer_free(&text);
}

static void encode_all_ways(const fn_tokenizer *t, const char *text, size_t n) {
    bool safe = !has_single_byte_added(t);
    fn_ids ids = {0};
    fn_text_span spans[2] = {{n / 4, n / 2}, {n / 2, n - n / 8}};
    must(fn_tokenizer_encode(t, text, n, true, &ids, NULL) == FN_OK);
    check_ids(t, &ids, false);
    ids.count = 0;
    must(fn_tokenizer_encode(t, text, n, false, &ids, NULL) == FN_OK);
    check_ids(t, &ids, safe);
    ids.count = 0;
    must(fn_tokenizer_encode_spans(t, text, n, spans, 2, &ids, NULL) == FN_OK);
    check_ids(t, &ids, false);
    spans[0] = (fn_text_span){0, n};
    ids.count = 0;
    must(fn_tokenizer_encode_spans(t, text, n, spans, 1, &ids, NULL) == FN_OK);
    check_ids(t, &ids, safe);
    fn_ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const uint8_t *end = memchr(data, 0, n);
    size_t n_json = end != NULL ? (size_t)(end - data) : n;
    fn_tokenizer *t = NULL;
    fn_error err = {0};
    fn_status status = fn_tokenizer_load_bytes((const char *)data, n_json, "fuzz.json", &t, &err);
    must((status == FN_OK) == (t != NULL) && err.code == status);
    must(status == FN_OK || strncmp(err.text, "fuzz.json: ", 11) == 0);
    if (t != NULL) {
        size_t at = n_json < n ? n_json + 1 : n;
        encode_all_ways(t, (const char *)data + at, n - at);
    }
    fn_tokenizer_free(t);
    return 0;
}
