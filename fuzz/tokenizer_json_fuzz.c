/* tokenizer.json, then (behind a NUL byte) a text: whatever loads must encode and decode safely, and tables are taken
 * out of a text only where the JSON library reads the same in it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "tokens/detokenize.h"
#include "tokens/tokenizer_tables.h"
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

static void check_lists(const fn_tokenizer_tables *t, const json_t *root) {
    json_t *model = json_object_get(root, "model");
    json_t *vocab = json_object_get(model, "vocab");
    must(json_object_size(vocab) == t->n_vocab);
    for (size_t i = 0; i < t->n_vocab; i++) {
        const fn_vocab_entry *e = &t->vocab[i];
        must(json_integer_value(json_object_getn(vocab, e->text, e->n)) == e->id);
        must(fn_tokenizer_tables_find(t, e->text, e->n) == e->id);
    }
    must(json_array_size(json_object_get(model, "merges")) == t->n_merges);
    for (size_t i = 0; i < t->n_merges; i++) {
        const fn_merge_entry *m = &t->merges[i];
        const json_t *item = json_array_get(json_object_get(model, "merges"), i);
        const json_t *left = json_is_array(item) ? json_array_get(item, 0) : item;
        size_t n = json_is_array(item) ? m->n_left : m->n_left + 1 + m->n_right;
        must(json_string_length(left) == n && memcmp(json_string_value(left), m->left, n) == 0);
        must(!json_is_array(item) || strcmp(json_string_value(json_array_get(item, 1)), "") == 0 ||
             m->n_right > 0);
    }
}

static void check_tables(const char *json, size_t n) {
    fn_tokenizer_tables t;
    json_t *rest = NULL;
    json_t *root = NULL;
    must(fn_tokenizer_tables_take(json, n, &t, NULL) == FN_OK);
    if (t.taken_out && fn_json_parse(t.rest, t.n_rest, "rest", &rest, NULL) == FN_OK) {
        must(fn_json_parse(json, n, "whole", &root, NULL) == FN_OK);
        check_lists(&t, root);
    }
    json_decref(root);
    json_decref(rest);
    fn_tokenizer_tables_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const uint8_t *end = memchr(data, 0, n);
    size_t n_json = end != NULL ? (size_t)(end - data) : n;
    fn_tokenizer *t = NULL;
    fn_error err = {0};
    check_tables((const char *)data, n_json);
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
