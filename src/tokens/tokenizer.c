#include "tokens/tokenizer.h"

#include "base/json.h"
#include "base/mem.h"
#include "tokens/tokenizer_parts.h"

/* The largest published file of the family has 20 MB. */
#define MAX_FILE_BYTES ((size_t)1 << 28)

void fn_ids_free(fn_ids *ids) {
    fn_free(ids->items);
    *ids = (fn_ids){0};
}

static fn_status read_root(const json_t *root, const char *name, fn_tokenizer **out,
                           fn_error *err) {
    fn_tokenizer *t = fn_alloc_zero(1, sizeof *t);
    fn_status status = t != NULL ? fn_tokenizer_read_json(root, t, err)
                                 : fn_fail_nomem(err, "tokenizer", sizeof *t);
    if (status != FN_OK) {
        fn_error_prefix(err, "%s", name);
        fn_tokenizer_free(t);
        t = NULL;
    }
    *out = t;
    return status;
}

fn_status fn_tokenizer_load(const char *path, fn_tokenizer **out, fn_error *err) {
    json_t *root = NULL;
    *out = NULL;
    fn_status status = fn_json_read_file(path, MAX_FILE_BYTES, &root, err);
    if (status == FN_OK) {
        status = read_root(root, path, out, err);
    }
    json_decref(root);
    return status;
}

fn_status fn_tokenizer_load_bytes(const char *json, size_t n, const char *name, fn_tokenizer **out,
                                  fn_error *err) {
    json_t *root = NULL;
    *out = NULL;
    fn_status status = fn_json_parse(json, n, name, &root, err);
    if (status == FN_OK) {
        status = read_root(root, name, out, err);
    }
    json_decref(root);
    return status;
}

void fn_tokenizer_free(fn_tokenizer *t) {
    if (t != NULL) {
        fn_vocabulary_free(&t->vocabulary);
        fn_bpe_free(t->bpe);
        fn_added_set_free(&t->plain);
        fn_added_set_free(&t->normalized);
        fn_free(t->spellings);
        fn_free(t);
    }
}

size_t fn_tokenizer_size(const fn_tokenizer *t) {
    return t->vocabulary.size;
}

int32_t fn_tokenizer_id(const fn_tokenizer *t, const char *token, size_t n) {
    return fn_vocabulary_find(&t->vocabulary, token, n);
}

const char *fn_tokenizer_token(const fn_tokenizer *t, int32_t id, size_t *n) {
    return fn_vocabulary_bytes(&t->vocabulary, id, n);
}

bool fn_tokenizer_is_added(const fn_tokenizer *t, int32_t id) {
    return (fn_vocabulary_flags(&t->vocabulary, id) & FN_TOKEN_ADDED) != 0;
}

bool fn_tokenizer_is_special(const fn_tokenizer *t, int32_t id) {
    return (fn_vocabulary_flags(&t->vocabulary, id) & FN_TOKEN_SPECIAL) != 0;
}
