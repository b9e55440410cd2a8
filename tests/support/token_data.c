#include "support/token_data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

json_t *token_json(const char *name) {
    char path[256];
    fn_error err = {0};
    json_t *root = NULL;
    (void)snprintf(path, sizeof path, TOKEN_DATA "%s", name);
    if (fn_json_read_file(path, (size_t)1 << 26, &root, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    return root;
}

fn_tokenizer *token_load(const char *name) {
    char path[256];
    fn_error err = {0};
    fn_tokenizer *t = NULL;
    (void)snprintf(path, sizeof path, TOKEN_DATA "%s", name);
    if (fn_tokenizer_load(path, &t, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    return t;
}

bool same_ids(const fn_ids *ids, const json_t *want, const char *what, size_t index) {
    bool same = json_is_array(want) && ids->count == json_array_size(want);
    for (size_t i = 0; same && i < ids->count; i++) {
        same = json_integer_value(json_array_get(want, i)) == ids->items[i];
    }
    if (!same) {
        print_error("%s %zu: found", what, index);
        for (size_t i = 0; i < ids->count && i < 60; i++) {
            print_error(" %d", ids->items[i]);
        }
        print_error("\n  expected");
        for (size_t i = 0; i < json_array_size(want) && i < 60; i++) {
            print_error(" %lld", (long long)json_integer_value(json_array_get(want, i)));
        }
        print_error("\n");
    }
    return same;
}

fn_ids encode(const fn_tokenizer *t, const char *text, size_t n, bool allow_added) {
    fn_error err = {0};
    fn_ids ids = {0};
    if (fn_tokenizer_encode(t, text, n, allow_added, &ids, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    return ids;
}
