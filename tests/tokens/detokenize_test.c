/* Streaming ids to text: whole characters only, and the same text as all at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "support/alloc_fail.h"
#include "support/token_data.h"
#include "tokens/detokenize.h"
#include "tokens/utf8.h"

/* Pushes ids one by one; each delta must be valid UTF-8. */
static fn_text_buffer stream(const fn_tokenizer *t, const int32_t *ids, size_t n, bool skip) {
    fn_detokenizer d;
    fn_text_buffer all = {0};
    fn_text_buffer delta = {0};
    fn_detokenizer_init(&d, t, skip);
    for (size_t i = 0; i <= n; i++) {
        delta.count = 0;
        assert_int_equal(i < n ? fn_detokenizer_push(&d, ids[i], &delta, NULL)
                               : fn_detokenizer_finish(&d, &delta, NULL),
                         FN_OK);
        const char *bytes = delta.count > 0 ? delta.bytes : "";
        assert_int_equal(fn_utf8_valid_prefix((const unsigned char *)bytes, delta.count),
                         delta.count);
        assert_int_equal(fn_text_buffer_append(&all, bytes, delta.count, NULL), FN_OK);
    }
    fn_text_buffer_free(&delta);
    return all;
}

static void check_stream(const fn_tokenizer *t, const int32_t *ids, size_t n, bool skip,
                         const char *want, size_t n_want) {
    fn_text_buffer streamed = stream(t, ids, n, skip);
    fn_text_buffer whole = {0};
    assert_int_equal(fn_tokenizer_decode(t, ids, n, skip, &whole, NULL), FN_OK);
    assert_int_equal(streamed.count, n_want);
    assert_int_equal(whole.count, n_want);
    if (n_want > 0) {
        assert_memory_equal(streamed.bytes, want, n_want);
        assert_memory_equal(whole.bytes, want, n_want);
    }
    fn_text_buffer_free(&streamed);
    fn_text_buffer_free(&whole);
}

static void random_ids_give_the_reference_text(void **state) {
    (void)state;
    static const char *const names[] = {"tokenizer.json", "plain.json"};
    json_t *cases = token_json("cases.json");
    for (size_t k = 0; k < 2; k++) {
        fn_tokenizer *t = token_load(names[k]);
        const json_t *list = json_object_get(json_object_get(cases, names[k]), "decode");
        assert_true(json_array_size(list) >= 40);
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *item = json_array_get(list, i);
            const json_t *ids = json_object_get(item, "ids");
            const json_t *text = json_object_get(item, "text");
            const json_t *without = json_object_get(item, "without_special");
            int32_t values[32];
            size_t n = json_array_size(ids);
            assert_true(n <= 32);
            for (size_t j = 0; j < n; j++) {
                values[j] = (int32_t)json_integer_value(json_array_get(ids, j));
            }
            check_stream(t, values, n, false, json_string_value(text), json_string_length(text));
            check_stream(t, values, n, true, json_string_value(without),
                         json_string_length(without));
        }
        fn_tokenizer_free(t);
    }
    json_decref(cases);
}

/* One id a byte. */
static void check_bytes(const char *bytes, size_t n, const char *want) {
    fn_tokenizer *t = token_load("tokenizer.json");
    int32_t ids[64];
    assert_true(n <= 64);
    for (size_t i = 0; i < n; i++) {
        ids[i] = fn_tokenizer_id(t, bytes + i, 1);
    }
    check_stream(t, ids, n, false, want, strlen(want));
    fn_tokenizer_free(t);
}

static void emoji_sequences_come_whole_from_single_bytes(void **state) {
    (void)state;
    const char *family = "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7";
    check_bytes(family, strlen(family), family);
}

static void a_character_is_sent_once_when_its_end_comes(void **state) {
    (void)state;
    fn_tokenizer *t = token_load("tokenizer.json");
    const char *text = "A \xE4\xB8\x96";
    fn_text_buffer out = {0};
    fn_detokenizer d;
    fn_detokenizer_init(&d, t, false);
    for (size_t i = 0; i < 5; i++) {
        int32_t id = fn_tokenizer_id(t, text + i, 1);
        assert_int_equal(fn_detokenizer_push(&d, id, &out, NULL), FN_OK);
        assert_int_equal(out.count, i < 2 ? i + 1 : i < 4 ? 2 : 5);
    }
    assert_string_equal(out.bytes, text);
    fn_text_buffer_free(&out);
    fn_tokenizer_free(t);
}

static void a_cut_character_is_one_replacement_before_what_follows(void **state) {
    (void)state;
    check_bytes("A\xE4\xB8\x96\xE4\xB8z", 7, "A\xE4\xB8\x96\xEF\xBF\xBDz");
    check_bytes("\xF0\x9F\x91", 3, "\xEF\xBF\xBD");
    check_bytes("\xE4\xB8\xC3\xA9\xC3", 5, "\xEF\xBF\xBD\xC3\xA9\xEF\xBF\xBD");
    check_bytes("\xED\xA0\x80", 3, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

static void a_replacement_character_the_model_wrote_does_not_stall(void **state) {
    (void)state;
    check_bytes("a\xEF\xBF\xBD"
                "b\xEF\xBF\xBD",
                8,
                "a\xEF\xBF\xBD"
                "b\xEF\xBF\xBD");
}

static void nul_bytes_are_text(void **state) {
    (void)state;
    fn_tokenizer *t = token_load("tokenizer.json");
    int32_t ids[3] = {fn_tokenizer_id(t, "a", 1), fn_tokenizer_id(t, "\0", 1),
                      fn_tokenizer_id(t, "b", 1)};
    check_stream(t, ids, 3, false, "a\0b", 3);
    fn_tokenizer_free(t);
}

static void special_tokens_are_left_out_within_a_character(void **state) {
    (void)state;
    fn_tokenizer *t = token_load("tokenizer.json");
    int32_t ids[4] = {fn_tokenizer_id(t, "\xC3", 1), fn_tokenizer_id(t, "<|im_end|>", 10),
                      fn_tokenizer_id(t, "\xA9", 1), fn_tokenizer_id(t, "<think>", 7)};
    check_stream(t, ids, 4, true, "\xC3\xA9<think>", 9);
    check_stream(t, ids, 4, false, "\xEF\xBF\xBD<|im_end|>\xEF\xBF\xBD<think>", 23);
    fn_tokenizer_free(t);
}

static void ids_without_a_token_give_nothing(void **state) {
    (void)state;
    fn_tokenizer *t = token_load("tokenizer.json");
    int32_t ids[4] = {-1, (int32_t)fn_tokenizer_size(t), INT32_MAX, fn_tokenizer_id(t, "x", 1)};
    check_stream(t, ids, 4, false, "x", 1);
    fn_tokenizer_free(t);
}

static void a_copied_detokenizer_goes_its_own_way(void **state) {
    (void)state;
    fn_tokenizer *t = token_load("tokenizer.json");
    fn_text_buffer a = {0};
    fn_text_buffer b = {0};
    fn_detokenizer d;
    fn_detokenizer_init(&d, t, false);
    assert_int_equal(fn_detokenizer_push(&d, fn_tokenizer_id(t, "\xC3", 1), &a, NULL), FN_OK);
    fn_detokenizer fork = d;
    assert_int_equal(fn_detokenizer_push(&d, fn_tokenizer_id(t, "\xA9", 1), &a, NULL), FN_OK);
    assert_int_equal(fn_detokenizer_finish(&fork, &b, NULL), FN_OK);
    assert_string_equal(a.bytes, "\xC3\xA9");
    assert_string_equal(b.bytes, "\xEF\xBF\xBD");
    fn_text_buffer_free(&a);
    fn_text_buffer_free(&b);
    fn_tokenizer_free(t);
}

static void no_allocation_once_the_buffer_is_large_enough(void **state) {
    (void)state;
    fn_tokenizer *t = token_load("tokenizer.json");
    fn_text_buffer out = {0};
    fn_detokenizer d;
    fn_detokenizer_init(&d, t, true);
    assert_int_equal(fn_text_buffer_reserve(&out, 4096, NULL), FN_OK);
    fn_alloc_fail_at(-1);
    for (int32_t id = 0; id < 200; id++) {
        out.count = 0;
        assert_int_equal(fn_detokenizer_push(&d, id, &out, NULL), FN_OK);
    }
    assert_int_equal(fn_alloc_calls(), 0);
    fn_text_buffer_free(&out);
    fn_tokenizer_free(t);
}

static void a_failed_push_changes_nothing(void **state) {
    (void)state;
    fn_tokenizer *t = token_load("tokenizer.json");
    fn_text_buffer out = {0};
    fn_detokenizer d;
    fn_error err = {0};
    fn_detokenizer_init(&d, t, false);
    fn_alloc_fail_at(0);
    assert_int_equal(fn_detokenizer_push(&d, fn_tokenizer_id(t, "\xC3", 1), &out, &err),
                     FN_E_NOMEM);
    fn_alloc_fail_at(-1);
    assert_int_equal(out.count, 0);
    assert_int_equal(fn_detokenizer_push(&d, fn_tokenizer_id(t, "\xC3", 1), &out, NULL), FN_OK);
    assert_int_equal(fn_detokenizer_push(&d, fn_tokenizer_id(t, "\xA9", 1), &out, NULL), FN_OK);
    assert_string_equal(out.bytes, "\xC3\xA9");
    fn_text_buffer_free(&out);
    fn_tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_ids_give_the_reference_text),
        cmocka_unit_test(emoji_sequences_come_whole_from_single_bytes),
        cmocka_unit_test(a_character_is_sent_once_when_its_end_comes),
        cmocka_unit_test(a_cut_character_is_one_replacement_before_what_follows),
        cmocka_unit_test(a_replacement_character_the_model_wrote_does_not_stall),
        cmocka_unit_test(nul_bytes_are_text),
        cmocka_unit_test(special_tokens_are_left_out_within_a_character),
        cmocka_unit_test(ids_without_a_token_give_nothing),
        cmocka_unit_test(a_copied_detokenizer_goes_its_own_way),
        cmocka_unit_test(no_allocation_once_the_buffer_is_large_enough),
        cmocka_unit_test(a_failed_push_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
