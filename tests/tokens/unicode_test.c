/* The generated tables against what the reference answered for every code point, and NFC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "support/alloc_fail.h"
#include "support/token_data.h"
#include "tokens/nfc.h"
#include "tokens/unicode_tables.h"
#include "tokens/utf8.h"

static unsigned order_of(uint32_t c) {
    for (size_t i = 0; i < fn_unicode_n_orders; i++) {
        if (c >= fn_unicode_orders[i].first && c <= fn_unicode_orders[i].last) {
            return fn_unicode_orders[i].combining_class;
        }
    }
    return 0;
}

static void classes_of_all_code_points_are_the_reference_s(void **state) {
    (void)state;
    static const char *const names[] = {"letters", "marks",     "numbers", "spaces",
                                        "word",    "nfc_check", "ordered"};
    json_t *want = token_json("unicode.json");
    long long counts[7] = {0};
    uint64_t digest = UINT64_C(0xCBF29CE484222325);
    for (uint32_t c = 0; c < 0x110000; c++) {
        unsigned flags = fn_unicode_class(c);
        unsigned order = (flags & FN_UC_ORDERED) != 0 ? order_of(c) : 0;
        digest = (digest ^ flags) * UINT64_C(0x100000001B3);
        digest = (digest ^ order) * UINT64_C(0x100000001B3);
        for (unsigned bit = 0; bit < 7; bit++) {
            counts[bit] += flags >> bit & 1u;
        }
    }
    for (unsigned bit = 0; bit < 7; bit++) {
        assert_int_equal(counts[bit], json_integer_value(json_object_get(want, names[bit])));
    }
    char text[32];
    (void)snprintf(text, sizeof text, "%016" PRIx64, digest);
    assert_string_equal(text, json_string_value(json_object_get(want, "fnv1a")));
    json_decref(want);
}

/* Published: categories of Unicode 16, which Unicode 14 and 15 do not have. */
static void characters_of_recent_versions_are_known(void **state) {
    (void)state;
    assert_int_equal(fn_unicode_class(0x10D4A) & 15u, FN_UC_LETTER); /* Garay, Lo */
    assert_int_equal(fn_unicode_class(0x10D40) & 15u, FN_UC_NUMBER); /* Garay digit, Nd */
    assert_int_equal(fn_unicode_class(0x1611E) & 15u, FN_UC_MARK);   /* Gurung Khema, Mn */
    assert_int_equal(fn_unicode_class(0x2EBF0) & 15u, FN_UC_LETTER); /* CJK extension I (15.1) */
    assert_int_equal(fn_unicode_class(0x180E) & 15u, 0);             /* no space since 6.3 */
}

static fn_text_buffer normalise(const char *text, size_t n) {
    fn_text_buffer out = {0};
    fn_error err = {0};
    if (fn_nfc_append(&(fn_marked_text){.bytes = text, .n = n}, &out, NULL, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    return out;
}

static void check_nfc(const char *in, size_t n, const char *want, size_t n_want) {
    fn_text_buffer out = normalise(in, n);
    assert_int_equal(out.count, n_want);
    assert_memory_equal(n_want > 0 ? out.bytes : "", want, n_want);
    assert_true(!fn_nfc_is_normal(in, n) || (n == n_want && memcmp(in, want, n) == 0));
    fn_text_buffer_free(&out);
}

static void nfc_of_texts_is_the_reference_s(void **state) {
    (void)state;
    json_t *cases = token_json("cases.json");
    const json_t *list = json_object_get(cases, "nfc");
    assert_true(json_array_size(list) > 50);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *in = json_array_get(json_array_get(list, i), 0);
        const json_t *want = json_array_get(json_array_get(list, i), 1);
        check_nfc(json_string_value(in), json_string_length(in), json_string_value(want),
                  json_string_length(want));
    }
    json_decref(cases);
}

/* Examples of Unicode's annex 15. */
static void nfc_of_published_examples(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"\xE2\x84\xAB", "\xC3\x85"},                             /* Angstrom sign */
        {"\xE2\x84\xA6", "\xCE\xA9"},                             /* Ohm sign */
        {"\xE1\xB8\x8B\xCC\xA3", "\xE1\xB8\x8D\xCC\x87"},         /* d, dot above, dot below */
        {"q\xCC\x87\xCC\xA3", "q\xCC\xA3\xCC\x87"},               /* order of marks */
        {"\xEF\xAC\x81", "\xEF\xAC\x81"},                         /* a ligature stays */
        {"\xE1\xBA\x9B\xCC\xA3", "\xE1\xBA\x9B\xCC\xA3"},         /* long s with dots stays */
        {"\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xEA\xB0\x81"}, /* Hangul */
        {"\xEA\xB0\x80\xE1\x86\xA8", "\xEA\xB0\x81"},
        {"a\xCC\xB7\xCC\x81", "\xC3\xA1\xCC\xB7"}, /* class 1 does not block class 230 */
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        check_nfc(pairs[i][0], strlen(pairs[i][0]), pairs[i][1], strlen(pairs[i][1]));
    }
}

static void nfc_twice_is_nfc_once_for_all_code_points(void **state) {
    (void)state;
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xD800 && c <= 0xDFFF) {
            continue;
        }
        char text[16] = "a";
        size_t n = 1 + fn_utf8_put(c, (unsigned char *)text + 1);
        n += fn_utf8_put(0x323, (unsigned char *)text + n);
        fn_text_buffer once = normalise(text, n);
        fn_text_buffer twice = normalise(once.bytes, once.count);
        assert_int_equal(once.count, twice.count);
        assert_memory_equal(once.bytes, twice.bytes, once.count);
        fn_text_buffer_free(&once);
        fn_text_buffer_free(&twice);
    }
}

static void nfc_survives_failing_allocations(void **state) {
    (void)state;
    char text[200];
    for (size_t i = 0; i < sizeof text; i += 4) {
        memcpy(text + i, i % 8 == 0 ? "\xCC\x81\xCC\xA3" : "\xCC\xB7\xCD\x85", 4);
    }
    fn_status status = FN_E_NOMEM;
    for (long fail = 0; status != FN_OK; fail++) {
        fn_text_buffer out = {0};
        fn_alloc_fail_at(fail);
        status =
            fn_nfc_append(&(fn_marked_text){.bytes = text, .n = sizeof text}, &out, NULL, NULL);
        fn_alloc_fail_at(-1);
        assert_true(status == FN_OK || status == FN_E_NOMEM);
        fn_text_buffer_free(&out);
    }
}

static void utf8_is_judged_as_unicode_says(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        fn_utf8_kind kind;
        size_t length;
    } rows[] = {
        {"a", 1, FN_UTF8_CHARACTER, 1},
        {"\xC2\x80", 2, FN_UTF8_CHARACTER, 2},
        {"\xC1\x80", 2, FN_UTF8_INVALID, 1},
        {"\x80", 1, FN_UTF8_INVALID, 1},
        {"\xE0\xA0\x80", 3, FN_UTF8_CHARACTER, 3},
        {"\xE0\x9F\x80", 3, FN_UTF8_INVALID, 1},
        {"\xED\x9F\xBF", 3, FN_UTF8_CHARACTER, 3},
        {"\xED\xA0\x80", 3, FN_UTF8_INVALID, 1},
        {"\xF0\x90\x80\x80", 4, FN_UTF8_CHARACTER, 4},
        {"\xF4\x8F\xBF\xBF", 4, FN_UTF8_CHARACTER, 4},
        {"\xF4\x90\x80\x80", 4, FN_UTF8_INVALID, 1},
        {"\xF5", 1, FN_UTF8_INVALID, 1},
        {"\xE4\xB8", 2, FN_UTF8_INCOMPLETE, 2},
        {"\xE4\xB8z", 3, FN_UTF8_INVALID, 2},
        {"\xF0\x9F\x91", 3, FN_UTF8_INCOMPLETE, 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t length = 0;
        assert_int_equal(fn_utf8_next((const unsigned char *)rows[i].bytes, rows[i].n, &length),
                         rows[i].kind);
        assert_int_equal(length, rows[i].length);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_of_all_code_points_are_the_reference_s),
        cmocka_unit_test(characters_of_recent_versions_are_known),
        cmocka_unit_test(nfc_of_texts_is_the_reference_s),
        cmocka_unit_test(nfc_of_published_examples),
        cmocka_unit_test(nfc_twice_is_nfc_once_for_all_code_points),
        cmocka_unit_test(nfc_survives_failing_allocations),
        cmocka_unit_test(utf8_is_judged_as_unicode_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
