/* The tables that are taken out of a tokenizer.json's text: what the JSON library reads there, or nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "support/check_error.h"
#include "support/token_data.h"
#include "tokens/tokenizer_tables.h"

static bool taken(const char *json, fn_tokenizer_tables *out) {
    assert_int_equal(fn_tokenizer_tables_take(json, strlen(json), out, NULL), FN_OK);
    return out->taken_out;
}

static bool same_text(const char *text, size_t n, const json_t *want) {
    return json_string_length(want) == n && memcmp(json_string_value(want), text, n) == 0;
}

/* Compares with the tree that jansson makes of the same text. */
static void check_against_tree(const fn_tokenizer_tables *t, const json_t *root) {
    json_t *model = json_object_get(root, "model");
    json_t *vocab = json_object_get(model, "vocab");
    json_t *merges = json_object_get(model, "merges");
    size_t i = 0;
    assert_int_equal(t->n_vocab, json_object_size(vocab));
    for (void *it = json_object_iter(vocab); it != NULL; it = json_object_iter_next(vocab, it)) {
        const char *key = json_object_iter_key(it);
        size_t n = json_object_iter_key_len(it);
        assert_int_equal(t->vocab[i].n, n);
        assert_memory_equal(t->vocab[i].text, key, n);
        assert_int_equal(t->vocab[i].id, json_integer_value(json_object_iter_value(it)));
        assert_int_equal(fn_tokenizer_tables_find(t, key, n), t->vocab[i].id);
        i++;
    }
    assert_int_equal(t->n_merges, json_array_size(merges));
    for (i = 0; i < t->n_merges; i++) {
        const fn_merge_entry *m = &t->merges[i];
        const json_t *item = json_array_get(merges, i);
        if (json_is_array(item)) {
            assert_true(same_text(m->left, m->n_left, json_array_get(item, 0)));
            assert_true(same_text(m->right, m->n_right, json_array_get(item, 1)));
        } else {
            assert_true(same_text(m->left, m->n_left + 1 + m->n_right, item));
            assert_ptr_equal(m->right, m->left + m->n_left + 1);
        }
    }
}

static void tables_are_what_the_json_library_reads(void **state) {
    (void)state;
    static const char *const files[] = {"tokenizer.json", "plain.json"};
    static const size_t forms[] = {JSON_COMPACT, JSON_INDENT(3), JSON_COMPACT | JSON_ESCAPE_SLASH};
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
        for (size_t k = 0; k < sizeof forms / sizeof forms[0]; k++) {
            json_t *root = token_json(files[f]);
            char *text = json_dumps(root, forms[k]);
            fn_tokenizer_tables t;
            assert_true(taken(text, &t));
            check_against_tree(&t, root);
            fn_tokenizer_tables_free(&t);
            free(text);
            json_decref(root);
        }
    }
}

static void escapes_are_read(void **state) {
    (void)state;
    static const char text[] =
        " { \"a\":[{}, \"}\\\"\"], \"model\" : {\"merges\" : [\"\\u0120 \\\"x\" , [ \" "
        "\",\"\\\\\"]]"
        ",\"n\": -1.5e3, \"vocab\":{ \"\\u0120\\u00e9\\u4e2d\\b\\f\\n\\r\\t\\/\\\\\\\"\" : 0,\n"
        "\"\" :17\t,\"\xE4\xB8\xAD\": 123456789}}, \"z\":null}\n";
    json_t *root = json_loads(text, 0, NULL);
    json_t *rest = NULL;
    fn_tokenizer_tables t;
    assert_non_null(root);
    assert_true(taken(text, &t));
    check_against_tree(&t, root);
    assert_int_equal(
        fn_tokenizer_tables_find(&t, "\xC4\xA0\xC3\xA9\xE4\xB8\xAD\b\f\n\r\t/\\\"", 15), 0);
    assert_int_equal(fn_tokenizer_tables_find(&t, "no", 2), -1);
    rest = json_loadb(t.rest, t.n_rest, 0, NULL);
    json_t *model = json_object_get(root, "model");
    assert_int_equal(json_object_clear(json_object_get(model, "vocab")), 0);
    assert_int_equal(json_array_clear(json_object_get(model, "merges")), 0);
    assert_true(json_equal(rest, root));
    json_decref(rest);
    json_decref(root);
    fn_tokenizer_tables_free(&t);
}

#define MODEL(vocab, merges) "{\"model\":{\"vocab\":" vocab ",\"merges\":" merges "}}"

static void what_is_unusual_is_left_to_the_json_library(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",
        "null",
        "[]",
        "{}",
        "{\"model\":{}}",
        "{\"model\":[{\"vocab\":{},\"merges\":[]}]}",
        "{\"vocab\":{},\"merges\":[]}",
        "{\"model\":{\"vocab\":{}}}",
        "{\"model\":{\"merges\":[]}}",
        "{\"model\":{\"vocab\":{},\"merges\":[],\"vocab\":{}}}",
        "{\"mode\\u006c\":{\"vocab\":{},\"merges\":[]}}",
        "{\"model\":{\"vocab\":{},\"merges\":[]}",
        MODEL("[]", "[]"),
        MODEL("{}", "{}"),
        MODEL("null", "[]"),
        MODEL("{\"a\":0,\"a\":1}", "[]"),
        MODEL("{\"a\":0,\"\\u0061\":1}", "[]"),
        MODEL("{\"a\":-1}", "[]"),
        MODEL("{\"a\":01}", "[]"),
        MODEL("{\"a\":1.0}", "[]"),
        MODEL("{\"a\":1e2}", "[]"),
        MODEL("{\"a\":1234567890}", "[]"),
        MODEL("{\"a\":\"1\"}", "[]"),
        MODEL("{\"a\":}", "[]"),
        MODEL("{\"a\":1,}", "[]"),
        MODEL("{\"a\":1 \"b\":2}", "[]"),
        MODEL("{\"a\" 1}", "[]"),
        MODEL("{\"a:1}", "[]"),
        MODEL("{a:1}", "[]"),
        MODEL("{\"a\nb\":1}", "[]"),
        MODEL("{\"\\u000a\x01\":1}", "[]"),
        MODEL("{\"\\u0000\":1}", "[]"),
        MODEL("{\"\\ud83d\\ude00\":1}", "[]"),
        MODEL("{\"\\u00g0\":1}", "[]"),
        MODEL("{\"\\x\":1}", "[]"),
        MODEL("{\"\xC3\":1}", "[]"),
        MODEL("{\"\xED\xA0\x80\":1}", "[]"),
        MODEL("{\"\\n\xC0\x80\":1}", "[]"),
        MODEL("{}", "[\"ab\"]"),
        MODEL("{}", "[\"a b c\"]"),
        MODEL("{}", "[[\"a\"]]"),
        MODEL("{}", "[[\"a\",\"b\",\"c\"]]"),
        MODEL("{}", "[[\"a\",1]]"),
        MODEL("{}", "[5]"),
        MODEL("{}", "[\"a b\",]"),
        MODEL("{}", "[\"a b\" \"c d\"]"),
        MODEL("{}", "[\"a b\""),
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fn_tokenizer_tables t;
        if (taken(texts[i], &t)) {
            fail_msg("%s", texts[i]);
        }
        assert_null(t.vocab);
        assert_null(t.rest);
    }
}

/* A text of `n` bytes in a block of its own, so that reading behind it is found. */
static void cut_texts_are_never_read_past_their_end(void **state) {
    (void)state;
    static const char text[] = "{\"x\\\\\":[\"\\\"\"],\"model\":{\"vocab\":{\"\\u0120\\n\":12},"
                               "\"merges\":[\"a b\",[\"\\u0120\",\"d\"]]}} ";
    size_t whole = strlen(text) - 1;
    for (size_t n = 0; n <= whole; n++) {
        char *copy = malloc(n > 0 ? n : 1);
        fn_tokenizer_tables t;
        assert_non_null(copy);
        memcpy(copy, text, n);
        assert_int_equal(fn_tokenizer_tables_take(copy, n, &t, NULL), FN_OK);
        assert_int_equal(t.taken_out, n == whole);
        fn_tokenizer_tables_free(&t);
        free(copy);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_what_the_json_library_reads),
        cmocka_unit_test(escapes_are_read),
        cmocka_unit_test(what_is_unusual_is_left_to_the_json_library),
        cmocka_unit_test(cut_texts_are_never_read_past_their_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
