/* Small readers of the program: messages of several lines, JSON slices, ids, splits, UTF-8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/buffer.h"
#include "cli/ids_file.h"
#include "cli/json_slices.h"
#include "cli/multiline.h"
#include "cli/nearest.h"

/* Feeds lines; the message is complete after the last one and not before. */
static void message_is(const char *const *lines, size_t n, const char *want) {
    cli_multiline state = {0};
    cli_buffer out = {0};
    for (size_t i = 0; i < n; i++) {
        bool complete = cli_multiline_add(&state, lines[i], strlen(lines[i]), &out);
        assert_int_equal(complete, i + 1 == n);
    }
    assert_string_equal(cli_buffer_text(&out), want);
    cli_buffer_free(&out);
}

#define MESSAGE(want, ...)                                                                         \
    message_is((const char *const[]){__VA_ARGS__},                                                 \
               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), want)

static void messages_of_several_lines(void **state) {
    (void)state;
    MESSAGE("plain", "plain");
    MESSAGE("", "");
    MESSAGE("a\nb", "a\\", "b");
    MESSAGE("a\n\nb", "a\\", "\\", "b");
    MESSAGE("ends in two \\\\", "ends in two \\\\");
    MESSAGE("one line", "\"\"\"one line\"\"\"");
    MESSAGE("first\n  second \\\nthird", "\"\"\"first", "  second \\", "third\"\"\"");
    MESSAGE("\nalone\n", "\"\"\"", "alone", "\"\"\"");
    MESSAGE("say \"\"\" inside", "say \"\"\" inside");
}

static void slices_are(const char *text, const char *want) {
    cli_json_slices slices = cli_json_slices_begin(text, strlen(text));
    cli_buffer got = {0};
    const char *begin = NULL;
    size_t n = 0;
    while (cli_json_slices_next(&slices, &begin, &n)) {
        cli_buffer_add(&got, begin, n);
        cli_buffer_puts(&got, ";");
    }
    cli_buffer_puts(&got, slices.failed ? "!" : "");
    assert_string_equal(cli_buffer_text(&got), want);
    cli_buffer_free(&got);
}

static void slices_of_a_json_array(void **state) {
    (void)state;
    slices_are("[]", "");
    slices_are(" [ \n] ", "");
    slices_are("[1]", "1;");
    slices_are("[ {\"a\": [1, 2]} , 12345678901234567890123 ,1.50]",
               "{\"a\": [1, 2]};12345678901234567890123;1.50;");
    slices_are("[\"a,]\\\"\", \"\\\\\"]", "\"a,]\\\"\";\"\\\\\";");
    slices_are("", "!");
    slices_are("{}", "!");
    slices_are("[1", "!");
    slices_are("[1,]", "1;!");
    slices_are("[,1]", "!");
    slices_are("[1] x", "!");
    slices_are("[\"open]", "!");
}

static void splits_add_up(void **state) {
    (void)state;
    size_t *lengths = NULL;
    size_t n = 0;
    assert_int_equal(cli_split_read("13,16,1,1", 31, &lengths, &n, NULL), FN_OK);
    assert_int_equal(n, 4);
    assert_int_equal(lengths[1], 16);
    free(lengths);
    static const char *const wrong[] = {"13,16",
                                        "31,",
                                        ",31",
                                        "0,31",
                                        "-1,32",
                                        "31x",
                                        "",
                                        "1e1,21",
                                        "99999999999999999999",
                                        "32,18446744073709551615"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(cli_split_read(wrong[i], 31, &lengths, &n, NULL), FN_E_USAGE);
        assert_null(lengths);
    }
}

static fn_status read_ids(const char *text, cli_id_rows *rows, fn_error *err) {
    char path[] = "/tmp/flashnext-ids-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
    *err = (fn_error){0};
    fn_status status = cli_id_rows_read(path, rows, err);
    (void)unlink(path);
    return status;
}

static void ids_in_one_row_or_several(void **state) {
    (void)state;
    cli_id_rows rows;
    fn_error err;
    assert_int_equal(read_ids("[[1, 2, 3], [4, 5, 2147483647]]", &rows, &err), FN_OK);
    assert_int_equal(rows.rows, 2);
    assert_int_equal(rows.length, 3);
    assert_int_equal(rows.ids[5], INT32_MAX);
    cli_id_rows_free(&rows);
    assert_int_equal(read_ids("[7]", &rows, &err), FN_OK);
    assert_int_equal(rows.rows * rows.length, 1);
    cli_id_rows_free(&rows);
    static const struct {
        const char *text, *words;
    } wrong[] = {
        {"[]", "empty"},
        {"[[]]", "empty"},
        {"{}", "array"},
        {"[1, -1]", "-1"},
        {"[1.5]", "1.5"},
        {"[2147483648]", "2147483648"},
        {"[[1, 2], [3]]", "one length"},
        {"[[1], 2]", "one length"},
        {"[1, [2]]", "[2]"},
        {"[\"a\"]", "\"a\""},
        {"[1, 2", ":1:"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_not_equal(read_ids(wrong[i].text, &rows, &err), FN_OK);
        if (strstr(err.text, wrong[i].words) == NULL) {
            fail_msg("%s: expected '%s' in '%s'", wrong[i].text, wrong[i].words, err.text);
        }
    }
}

/* Table 3-7 of the Unicode standard: what is well formed. */
static void utf8_by_the_standard(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t valid;
    } cases[] = {
        {"abc", 3},
        {"\xC3\xA9", 2},
        {"\xE4\xBD\xA0", 3},
        {"\xF0\x9F\x98\x80", 4},
        {"a\x80", 1},
        {"\xC0\xAF", 0},
        {"\xE0\x80\xAF", 0},
        {"\xED\xA0\x80", 0},
        {"\xF0\x80\x80\x80", 0},
        {"\xF4\x90\x80\x80", 0},
        {"ok\xE4\xBD", 2},
        {"\xFF", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(cli_utf8_valid(cases[i].text, strlen(cases[i].text)), cases[i].valid);
    }
}

static void distance_between_words(void **state) {
    (void)state;
    assert_int_equal(cli_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(cli_edit_distance("temp", "tmep"), 1);
    assert_int_equal(cli_edit_distance("", "abc"), 3);
    assert_int_equal(cli_edit_distance("same", "same"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_several_lines),
        cmocka_unit_test(slices_of_a_json_array),
        cmocka_unit_test(splits_add_up),
        cmocka_unit_test(ids_in_one_row_or_several),
        cmocka_unit_test(utf8_by_the_standard),
        cmocka_unit_test(distance_between_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
