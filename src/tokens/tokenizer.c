#include "tokens/tokenizer.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tokens/tokenizer_parts.h"

/* The largest published file of the family has 20 MB. */
#define MAX_FILE_BYTES ((size_t)1 << 28)

void fn_ids_free(fn_ids *ids) {
    fn_free(ids->items);
    *ids = (fn_ids){0};
}

/* The JSON around the tables, or all of it. Where the tables were taken out and the rest is no JSON, the whole text
 * is read for the place of the fault. */
static fn_status parse(const char *json, size_t n, const char *name, fn_tokenizer_tables *tables,
                       json_t **root, fn_error *err) {
    *root = NULL;
    fn_status status = fn_tokenizer_tables_take(json, n, tables, err);
    if (status != FN_OK) {
        fn_error_prefix(err, "%s", name);
        return status;
    }
    if (tables->taken_out) {
        if (fn_json_parse(tables->rest, tables->n_rest, name, root, NULL) == FN_OK) {
            return FN_OK;
        }
        fn_tokenizer_tables_free(tables);
    }
    return fn_json_parse(json, n, name, root, err);
}

static fn_status read_parsed(const json_t *root, fn_tokenizer_tables *tables, const char *name,
                             fn_tokenizer **out, fn_error *err) {
    fn_tokenizer *t = fn_alloc_zero(1, sizeof *t);
    fn_status status = t != NULL ? fn_tokenizer_read_json(root, tables, t, err)
                                 : fn_fail_nomem(err, "tokenizer", sizeof *t);
    if (status != FN_OK) {
        fn_error_prefix(err, "%s", name);
        fn_tokenizer_free(t);
        t = NULL;
    }
    *out = t;
    return status;
}

fn_status fn_tokenizer_load_bytes(const char *json, size_t n, const char *name, fn_tokenizer **out,
                                  fn_error *err) {
    fn_tokenizer_tables tables = {0};
    json_t *root = NULL;
    *out = NULL;
    fn_status status = parse(json, n, name, &tables, &root, err);
    if (status == FN_OK) {
        status = read_parsed(root, &tables, name, out, err);
    }
    json_decref(root);
    fn_tokenizer_tables_free(&tables);
    return status;
}

fn_status fn_tokenizer_load(const char *path, fn_tokenizer **out, fn_error *err) {
    char *json = NULL;
    size_t n = 0;
    *out = NULL;
    fn_status status = fn_file_read_all(path, MAX_FILE_BYTES, &json, &n, err);
    if (status == FN_OK) {
        status = fn_tokenizer_load_bytes(json, n, path, out, err);
    }
    fn_free(json);
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
