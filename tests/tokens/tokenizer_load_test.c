/* Loading tokenizer.json: what is wrong or not ours is refused by name, never guessed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/alloc_fail.h"
#include "support/check_error.h"
#include "support/token_data.h"
#include "tokens/tokenizer.h"

static fn_status load_text(const char *text, size_t n, fn_error *err) {
    fn_tokenizer *t = NULL;
    fn_status status = fn_tokenizer_load_bytes(text, n, "made.json", &t, err);
    assert_true((status == FN_OK) == (t != NULL));
    fn_tokenizer_free(t);
    return status;
}

static fn_status load_json(json_t *root, fn_error *err) {
    char *text = json_dumps(root, JSON_COMPACT);
    assert_non_null(text);
    fn_status status = load_text(text, strlen(text), err);
    free(text);
    return status;
}

/* Follows "a.b[2].c" to the value's parent and name there. */
static json_t *follow(json_t *root, const char *path, char *last) {
    json_t *at = root;
    json_t *parent = NULL;
    while (*path != '\0') {
        size_t n = strcspn(path, ".[");
        parent = at;
        memcpy(last, path, n);
        last[n] = '\0';
        at = json_is_array(parent) ? json_array_get(parent, (size_t)atoi(last))
                                   : json_object_get(parent, last);
        path += n;
        path += *path == '.' || *path == '[' ? 1 : 0;
        path += *path == ']' ? 1 : 0;
    }
    return parent;
}

/* Puts JSON text (NULL: nothing) in the place of a value of the small tokenizer. */
static json_t *edited(const char *path, const char *value) {
    json_t *root = token_json("plain.json");
    char name[128] = "";
    json_t *parent = follow(root, path, name);
    json_t *made = value != NULL ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
    assert_true(value == NULL || made != NULL);
    if (json_is_array(parent)) {
        assert_int_equal(json_array_set_new(parent, (size_t)atoi(name), made), 0);
    } else if (made != NULL) {
        assert_int_equal(json_object_set_new(parent, name, made), 0);
    } else {
        assert_int_equal(json_object_del(parent, name), 0);
    }
    return root;
}

typedef struct refusal {
    const char *path;
    const char *value;
    fn_status status;
    const char *words[2]; /* that must be in the message */
} refusal;

static const refusal refusals[] = {
    {"model", NULL, FN_E_MODEL, {"model", "object"}},
    {"model.type", "\"WordPiece\"", FN_E_UNSUPPORTED, {"model.type", "WordPiece"}},
    {"model.type", NULL, FN_E_UNSUPPORTED, {"model.type", "nothing"}},
    {"model.dropout", "0.1", FN_E_UNSUPPORTED, {"model.dropout", "0.1"}},
    {"model.continuing_subword_prefix", "\"##\"", FN_E_UNSUPPORTED, {"continuing_subword", "##"}},
    {"model.end_of_word_suffix", "\"</w>\"", FN_E_UNSUPPORTED, {"end_of_word_suffix", "</w>"}},
    {"model.ignore_merges", "true", FN_E_UNSUPPORTED, {"model.ignore_merges", "true"}},
    {"normalizer", "{\"type\":\"NFKC\"}", FN_E_UNSUPPORTED, {"normalizer", "NFKC"}},
    {"normalizer",
     "{\"type\":\"Sequence\",\"normalizers\":[]}",
     FN_E_UNSUPPORTED,
     {"normalizer", "Sequence"}},
    {"pre_tokenizer", "null", FN_E_UNSUPPORTED, {"pre_tokenizer", "null"}},
    {"pre_tokenizer.pretokenizers[0].pattern.Regex",
     "\"\\\\w+\"",
     FN_E_UNSUPPORTED,
     {"pretokenizers[0].pattern.Regex", "\\\\w+"}},
    {"pre_tokenizer.pretokenizers[0].pattern",
     "{\"String\":\" \"}",
     FN_E_UNSUPPORTED,
     {"pattern", "String"}},
    {"pre_tokenizer.pretokenizers[0].behavior",
     "\"Removed\"",
     FN_E_UNSUPPORTED,
     {"behavior", "Removed"}},
    {"pre_tokenizer.pretokenizers[0].invert", "true", FN_E_UNSUPPORTED, {"invert", "true"}},
    {"pre_tokenizer.pretokenizers[0].type",
     "\"Digits\"",
     FN_E_UNSUPPORTED,
     {"pretokenizers[0]", "Digits"}},
    {"pre_tokenizer.pretokenizers[1].add_prefix_space",
     "true",
     FN_E_UNSUPPORTED,
     {"add_prefix_space", "true"}},
    {"pre_tokenizer.pretokenizers[1].use_regex", "true", FN_E_UNSUPPORTED, {"use_regex", "true"}},
    {"pre_tokenizer.pretokenizers[1].use_regex", NULL, FN_E_UNSUPPORTED, {"use_regex", "nothing"}},
    {"pre_tokenizer.pretokenizers[1].type",
     "\"Metaspace\"",
     FN_E_UNSUPPORTED,
     {"pretokenizers[1]", "Metaspace"}},
    {"post_processor",
     "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}"
     "},"
     "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}]}",
     FN_E_UNSUPPORTED,
     {"post_processor", "TemplateProcessing"}},
    {"decoder", "null", FN_E_UNSUPPORTED, {"decoder", "ByteLevel"}},
    {"model.vocab", "[]", FN_E_MODEL, {"model.vocab", "array"}},
    {"model.vocab", NULL, FN_E_MODEL, {"model.vocab", "nothing"}},
    {"model.vocab.er", "\"5\"", FN_E_MODEL, {"\"er\"", "a string"}},
    {"model.vocab.er", "-1", FN_E_MODEL, {"\"er\"", "-1"}},
    {"model.vocab.er", "16777216", FN_E_MODEL, {"\"er\"", "16777216"}},
    {"model.vocab.er", "99999999999", FN_E_MODEL, {"\"er\"", "99999999999"}},
    {"model.vocab.er", "65", FN_E_MODEL, {"id 65", "er"}},
    {"model.vocab.a", NULL, FN_E_MODEL, {"0x61", "256"}},
    {"model.merges", "{}", FN_E_MODEL, {"model.merges", "array"}},
    {"model.merges[7]", "\"abc\"", FN_E_MODEL, {"model.merges[7]", "abc"}},
    {"model.merges[7]", "\"a b c\"", FN_E_MODEL, {"model.merges[7]", "a b c"}},
    {"model.merges[7]", "[\"a\"]", FN_E_MODEL, {"model.merges[7]", "array"}},
    {"model.merges[7]", "[\"a\",1]", FN_E_MODEL, {"model.merges[7]", "array"}},
    {"model.merges[7]", "5", FN_E_MODEL, {"model.merges[7]", "an integ"}},
    {"model.merges[7]", "\"nope a\"", FN_E_MODEL, {"model.merges[7]", "left part \"nope\""}},
    {"model.merges[7]", "\"a nope\"", FN_E_MODEL, {"model.merges[7]", "right part \"nope\""}},
    {"model.merges[7]", "\"Z Q\"", FN_E_MODEL, {"model.merges[7]", "\"ZQ\" is not in model.vocab"}},
    {"added_tokens", "{}", FN_E_MODEL, {"added_tokens", "array"}},
    {"added_tokens[1]",
     "{\"id\":701,\"content\":\"x\"}",
     FN_E_MODEL,
     {"added_tokens[1]", "single_word"}},
    {"added_tokens[1].content", "\"\"", FN_E_MODEL, {"added_tokens[1].content", "empty"}},
    {"added_tokens[1].id", "5000", FN_E_MODEL, {"added_tokens[1]", "id 5000"}},
    {"added_tokens[1].id", "-4", FN_E_MODEL, {"added_tokens[1]", "id -4"}},
    {"added_tokens[2].content",
     "\"<|end|>\"",
     FN_E_MODEL,
     {"added_tokens", "\"<|end|>\" is there twice"}},
    {"added_tokens[2].special", "1", FN_E_MODEL, {"added_tokens[2]", "true or false"}},
};

static void wrong_files_are_refused_by_field(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal *r = &refusals[i];
        json_t *root = edited(r->path, r->value);
        fn_error err = {0};
        fn_status status = load_json(root, &err);
        if (status == FN_OK) {
            print_error("%s: %s\n", r->path, r->value);
        }
        check_error(status, &err, r->status, "made.json", r->words[0], r->words[1]);
        json_decref(root);
    }
}

static void harmless_differences_load(void **state) {
    (void)state;
    static const refusal same[] = {
        {.path = "model.dropout", .value = "0.0"},
        {.path = "model.continuing_subword_prefix", .value = "\"\""},
        {.path = "model.byte_fallback", .value = NULL},
        {.path = "post_processor", .value = "{\"type\":\"ByteLevel\",\"trim_offsets\":false}"},
        {.path = "post_processor",
         .value = "{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\","
                  "\"type_id\":0}}]}"},
        {.path = "normalizer", .value = "{\"type\":\"NFC\"}"},
        {.path = "truncation", .value = "{\"max_length\":3}"},
        {.path = "added_tokens", .value = NULL},
        {.path = "added_tokens", .value = "null"},
        {.path = "model.merges", .value = "[]"},
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        json_t *root = edited(same[i].path, same[i].value);
        fn_error err = {0};
        if (load_json(root, &err) != FN_OK) {
            fail_msg("%s: %s", same[i].path, err.text);
        }
        json_decref(root);
    }
}

static void a_merge_listed_twice_is_refused_with_both_places(void **state) {
    (void)state;
    json_t *root = token_json("plain.json");
    json_t *merges = json_object_get(json_object_get(root, "model"), "merges");
    fn_error err = {0};
    assert_int_equal(json_array_insert(merges, 20, json_array_get(merges, 3)), 0);
    fn_status status = load_json(root, &err);
    check_error(status, &err, FN_E_MODEL, "model.merges[20]", "merges[3] already");
    json_decref(root);
}

static void an_entry_listed_twice_is_refused_with_its_place(void **state) {
    (void)state;
    static const char text[] = "{\"model\":{\"type\":\"BPE\",\n\"vocab\":{\"a\":0,\n\"a\":1}}}";
    fn_error err = {0};
    fn_status status = load_text(text, sizeof text - 1, &err);
    check_error(status, &err, FN_E_MODEL, "made.json", "line 3", "duplicate");
}

/* Whether the tables come from the text or, as where characters are written as surrogates, from a tree of it. */
static void a_file_loads_alike_in_every_spelling(void **state) {
    (void)state;
    static const size_t forms[] = {JSON_COMPACT, JSON_INDENT(2), JSON_ENSURE_ASCII};
    static const char text[] = "Stra\xC3\x9F"
                               "e \xF0\x9F\x98\x80\xF0\x9F\x98\x80 the end";
    fn_tokenizer *plain = token_load("plain.json");
    fn_ids want = encode(plain, text, sizeof text - 1, false);
    for (size_t k = 0; k < sizeof forms / sizeof forms[0]; k++) {
        json_t *root = token_json("plain.json");
        json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
        fn_tokenizer *t = NULL;
        /* An entry outside of the byte alphabet, which is never made by merges. */
        assert_int_equal(json_object_del(root, "added_tokens"), 0);
        assert_int_equal(json_object_set_new(vocab, "\xF0\x9F\x98\x80", json_integer(16000)), 0);
        char *json = json_dumps(root, forms[k]);
        assert_int_equal(fn_tokenizer_load_bytes(json, strlen(json), "made.json", &t, NULL), FN_OK);
        fn_ids ids = encode(t, text, sizeof text - 1, false);
        assert_int_equal(ids.count, want.count);
        assert_memory_equal(ids.items, want.items, want.count * sizeof *want.items);
        assert_int_equal(fn_tokenizer_id(t, "\xF0\x9F\x98\x80", 4), 16000);
        fn_ids_free(&ids);
        fn_tokenizer_free(t);
        free(json);
        json_decref(root);
    }
    fn_ids_free(&want);
    fn_tokenizer_free(plain);
}

/* The place is that in the file, wherever the fault stands. */
static void a_fault_behind_the_tables_is_told_with_its_line(void **state) {
    (void)state;
    json_t *root = token_json("plain.json");
    char *text = json_dumps(root, JSON_INDENT(1));
    char want[32];
    size_t lines = 1;
    fn_error err = {0};
    text[strlen(text) - 1] = ']';
    for (const char *at = text; *at != '\0'; at++) {
        lines += *at == '\n' ? 1 : 0;
    }
    (void)snprintf(want, sizeof want, "line %zu,", lines);
    fn_status status = load_text(text, strlen(text), &err);
    check_error(status, &err, FN_E_MODEL, "made.json", want);
    free(text);
    json_decref(root);
}

static void broken_and_empty_files_are_refused(void **state) {
    (void)state;
    static const char *const texts[] = {"",   "null",          "[]",           "{",
                                        "{}", "\"tokenizer\"", "{\"model\":5}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fn_error err = {0};
        fn_status status = load_text(texts[i], strlen(texts[i]), &err);
        check_error(status, &err, FN_E_MODEL, "made.json");
    }
    fn_error err = {0};
    fn_tokenizer *t = NULL;
    fn_status status = fn_tokenizer_load("tests/data/tokens/no_such_file.json", &t, &err);
    check_error(status, &err, FN_E_IO, "no_such_file.json");
    assert_null(t);
}

/* Cut anywhere: an error with the file's name, never a tokenizer of what was left. */
static void a_truncated_file_is_refused(void **state) {
    (void)state;
    json_t *root = token_json("plain.json");
    char *text = json_dumps(root, JSON_COMPACT);
    size_t n = strlen(text);
    for (size_t keep = 0; keep < n; keep += 97) {
        fn_error err = {0};
        fn_status status = load_text(text, keep, &err);
        check_error(status, &err, FN_E_MODEL, "made.json", "JSON");
    }
    free(text);
    json_decref(root);
}

/* Of our own allocations: jansson's reader loses characters silently when one of its fails. */
static void failing_allocations_are_errors(void **state) {
    (void)state;
    json_t *root = edited("model.merges", "[\"a b\",\"ab c\"]");
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    assert_int_equal(json_object_set_new(vocab, "ab", json_integer(16000)), 0);
    assert_int_equal(json_object_set_new(vocab, "abc", json_integer(16001)), 0);
    assert_int_equal(json_object_del(root, "added_tokens"), 0);
    char *text = json_dumps(root, JSON_COMPACT);
    fn_status status = FN_E_NOMEM;
    for (long fail = 0; status != FN_OK; fail++) {
        fn_error err = {0};
        fn_alloc_fail_at(fail);
        status = load_text(text, strlen(text), &err);
        fn_alloc_fail_at(-1);
        assert_int_equal(err.code, status);
        assert_true(status == FN_OK || status == FN_E_NOMEM);
    }
    free(text);
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_files_are_refused_by_field),
        cmocka_unit_test(harmless_differences_load),
        cmocka_unit_test(a_merge_listed_twice_is_refused_with_both_places),
        cmocka_unit_test(an_entry_listed_twice_is_refused_with_its_place),
        cmocka_unit_test(a_file_loads_alike_in_every_spelling),
        cmocka_unit_test(a_fault_behind_the_tables_is_told_with_its_line),
        cmocka_unit_test(broken_and_empty_files_are_refused),
        cmocka_unit_test(a_truncated_file_is_refused),
        cmocka_unit_test(failing_allocations_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
