/* What templates render to: jinja2's own answers, the official template, contexts of every kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tokens/chat_template.h"

#define DATA FN_SOURCE_DIR "/tests/data/template/"
#define SHARED FN_SOURCE_DIR "/../shared/"

static fn_chat_template *compile(const char *source) {
    fn_chat_template *t = NULL;
    fn_error err = {0};
    if (fn_chat_template_compile(source, strlen(source), "t", &t, &err) != FN_OK) {
        fail_msg("%s: %s", source, err.text);
    }
    return t;
}

static fn_status render_text(const fn_chat_template *t, const char *context, fn_rendered *out,
                             fn_error *err) {
    fn_template_part part = {.text = context, .n = strlen(context)};
    return fn_chat_template_render(t, &part, 1, (fn_render_limits){0}, out, err);
}

/* The text of `source` with `context`, which must succeed and equal `want`. */
static void check_text(const char *source, const char *context, const char *want) {
    fn_chat_template *t = compile(source);
    fn_rendered out;
    fn_error err = {0};
    if (render_text(t, context, &out, &err) != FN_OK) {
        fail_msg("%s: %s", source, err.text);
    }
    assert_string_equal(out.text, want);
    fn_rendered_free(&out);
    fn_chat_template_free(t);
}

static json_t *read_json(const char *path) {
    json_t *json = NULL;
    fn_error err = {0};
    if (fn_json_read_file(path, (size_t)64 << 20, &json, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    return json;
}

static char *read_text(const char *path) {
    char *text = NULL;
    size_t n = 0;
    fn_error err = {0};
    if (fn_file_read_all(path, (size_t)1 << 20, &text, &n, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    return text;
}

static const char *member(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static bool check_broken(const json_t *json, fn_status status, const fn_error *err) {
    char want[1200];
    (void)snprintf(want, sizeof want, "t: line %d: %s",
                   (int)json_integer_value(json_object_get(json, "line")),
                   member(json, "compile_error"));
    bool same = status == FN_E_MODEL && strcmp(err->text, want) == 0;
    if (!same) {
        print_error("%s: expected '%s', found '%s'\n", member(json, "name"), want, err->text);
    }
    return same;
}

static bool check_rendered(const json_t *json, const fn_chat_template *t, const char *context) {
    fn_rendered out;
    fn_error err = {0};
    fn_status status = render_text(t, context, &out, &err);
    const json_t *text = json_object_get(json, "expected");
    const char *error = member(json, "error");
    bool same = status == FN_E_FAILED && error != NULL && strcmp(err.text, error) == 0;
    if (text != NULL) {
        same = status == FN_OK && out.n == json_string_length(text) &&
               memcmp(out.text, json_string_value(text), out.n) == 0;
    }
    if (!same) {
        print_error("%s: expected '%s', found '%s'\n", member(json, "name"),
                    text != NULL ? json_string_value(text) : error,
                    status == FN_OK ? out.text : err.text);
    }
    fn_rendered_free(&out);
    return same;
}

static bool check_case(const json_t *json, const char *common_context) {
    const char *file = member(json, "file");
    char path[512];
    (void)snprintf(path, sizeof path, DATA "%s", file != NULL ? file : "");
    char *from_file = file != NULL ? read_text(path) : NULL;
    const json_t *inline_source = json_object_get(json, "template");
    const char *source = file != NULL ? from_file : json_string_value(inline_source);
    size_t n = file != NULL ? strlen(source) : json_string_length(inline_source);
    const char *context = member(json, "context");
    fn_chat_template *t = NULL;
    fn_error err = {0};
    fn_status status = fn_chat_template_compile(source, n, "t", &t, &err);
    bool same = false;
    if (json_object_get(json, "compile_error") != NULL || status != FN_OK) {
        same = json_object_get(json, "compile_error") != NULL && check_broken(json, status, &err);
    } else {
        same = check_rendered(json, t, context != NULL ? context : common_context);
    }
    fn_chat_template_free(t);
    fn_free(from_file);
    return same;
}

static void test_equals_jinja2(void **state) {
    (void)state;
    json_t *json = read_json(DATA "cases.json");
    const char *context = member(json, "context");
    const json_t *cases = json_object_get(json, "cases");
    size_t n = json_array_size(cases);
    size_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        bad += check_case(json_array_get(cases, i), context) ? 0 : 1;
    }
    print_message("%zu cases\n", n);
    assert_true(n > 500);
    assert_int_equal(bad, 0);
    json_decref(json);
}

/* The checkpoint's own template with conversations and the prompts transformers makes of them. */
static void test_official_template(void **state) {
    (void)state;
    if (!fn_file_exists(SHARED "chat/cases.json")) {
        print_message("no ../shared: skipped\n");
        skip();
    }
    json_t *cases = read_json(SHARED "chat/cases.json");
    char *source = read_text(SHARED "official/chat_template.jinja");
    fn_chat_template *t = compile(source);
    size_t bad = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_t *json = json_array_get(cases, i);
        json_t *kwargs = json_object_get(json, "kwargs");
        json_t *context = kwargs != NULL ? json_copy(kwargs) : json_object();
        assert_int_equal(json_object_set_new(context, "add_generation_prompt", json_true()), 0);
        assert_int_equal(json_object_set(context, "messages", json_object_get(json, "messages")),
                         0);
        if (json_object_get(json, "tools") != NULL) {
            assert_int_equal(json_object_set(context, "tools", json_object_get(json, "tools")), 0);
        }
        fn_rendered out;
        fn_error err = {0};
        fn_status status =
            fn_chat_template_render_json(t, context, (fn_render_limits){0}, &out, &err);
        const char *prompt = member(json, "prompt");
        const char *got = status == FN_OK ? out.text : err.text;
        const char *want = prompt != NULL ? prompt : member(json, "error");
        if ((status == FN_OK) != (prompt != NULL) || strcmp(got, want) != 0) {
            print_error("%s: expected '%s', found '%s'\n", member(json, "name"), want, got);
            bad++;
        }
        fn_rendered_free(&out);
        json_decref(context);
    }
    print_message("%zu conversations\n", json_array_size(cases));
    assert_int_equal(bad, 0);
    fn_chat_template_free(t);
    fn_free(source);
    json_decref(cases);
}

static void check_refused(const char *source, const char *want) {
    fn_chat_template *t = NULL;
    fn_error err = {0};
    assert_int_equal(fn_chat_template_compile(source, strlen(source), "my.jinja", &t, &err),
                     FN_E_MODEL);
    assert_null(t);
    assert_string_equal(err.text, want);
}

/* What jinja2 finds only when it runs into it is found here before anything is rendered. */
static void test_unknown_names_are_found_when_compiling(void **state) {
    (void)state;
    check_refused("a\n{% if x %}\n{{ y | trim | nope }}{% endif %}",
                  "my.jinja: line 3: No filter named 'nope'.");
    check_refused("{% if x is nope %}{% endif %}", "my.jinja: line 1: No test named 'nope'.");
    check_refused("\n\n{{ nope(1) }}", "my.jinja: line 3: no function named 'nope'");
    check_refused("{% include 'x' %}",
                  "my.jinja: line 1: the tag 'include' cannot be used in a chat template");
    check_refused("{% if x %}\n{% break %}{% endif %}",
                  "my.jinja: line 2: outside a loop: 'break'");
    check_refused("{% for x in y %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}",
                  "my.jinja: line 1: outside a loop: 'continue'");
    check_refused("ok\n\xff", "my.jinja: line 2: not UTF-8 at byte 3");
    check_text("{% if nope is defined %}{{ nope(1) }}{% else %}without{% endif %}", "{}",
               "without");
}

static void test_big_integers_keep_their_digits(void **state) {
    (void)state;
    check_text("{{ a }} {{ a | tojson }} {{ b }} {{ [a] }} {{ a > 1 }} {{ a == a }} {{ -a }}",
               "{\"a\": 18446744073709551616, \"b\": -9223372036854775808}",
               "18446744073709551616 18446744073709551616 -9223372036854775808 "
               "[18446744073709551616] True True -18446744073709551616");
}

static void test_later_parts_replace_earlier_ones(void **state) {
    (void)state;
    fn_chat_template *t = compile("{{ a }} {{ b }} {{ c | tojson }}");
    json_t *object =
        json_pack("{s:s, s:[i,f,b,n,{s:s}]}", "b", "from jansson", "c", 1, 2.5, 1, "k", "v");
    const char *first = "{\"a\": 1, \"b\": 2}";
    const char *last = " {\"a\" : \"x\\u00e9\\ud83d\\ude00\\n\", \"a\": \"last\"} ";
    fn_template_part parts[] = {
        {.text = first, .n = strlen(first), .trusted = true},
        {.object = object},
        {.text = last, .n = strlen(last)},
    };
    fn_rendered out;
    assert_int_equal(fn_chat_template_render(t, parts, 3, (fn_render_limits){0}, &out, NULL),
                     FN_OK);
    assert_string_equal(out.text, "last from jansson [1, 2.5, true, null, {\"k\": \"v\"}]");
    fn_rendered_free(&out);
    json_decref(object);
    fn_chat_template_free(t);
}

static void test_bad_contexts_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        "[]",
        "{",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":.5}",
        "{\"a\":1e}",
        "{\"a\":-}",
        "{} x",
        "{\"a\":NaN}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\xff\"}",
        "{\"a\":[1 2]}",
        "{\"a\":tru}",
        "{\"a\":\"",
    };
    fn_chat_template *t = compile("{{ a }}");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fn_rendered out;
        fn_error err = {0};
        assert_int_equal(render_text(t, bad[i], &out, &err), FN_E_USAGE);
        assert_non_null(strstr(err.text, "template variables: not valid JSON at byte"));
        assert_null(out.text);
    }
    json_t *list = json_array();
    fn_rendered out;
    fn_error err = {0};
    assert_int_equal(fn_chat_template_render_json(t, list, (fn_render_limits){0}, &out, &err),
                     FN_E_USAGE);
    assert_string_equal(err.text, "template variables: expected an object, found an array");
    json_decref(list);
    fn_chat_template_free(t);
}

static void test_an_error_names_its_line(void **state) {
    (void)state;
    fn_chat_template *t = compile("a\n{% for x in y %}\n{{ x.a.b }}{% endfor %}");
    fn_rendered out;
    fn_error err = {0};
    assert_int_equal(render_text(t, "{\"y\": [{}]}", &out, &err), FN_E_FAILED);
    assert_string_equal(err.text, "'dict object' has no attribute 'a'");
    assert_int_equal(out.error_line, 3);
    fn_chat_template_free(t);
}

/* The clock's text is that of the C library. */
static void test_time_is_written_as_strftime_does(void **state) {
    (void)state;
    static const int64_t moments[] = {1, 951782399, 1230768000, 1483228799, 1767225600, 4102444800};
#define PLAIN "%a %A %b %B %d %e %H %I %j %m %M %p %S %u %w %Y %% %F %T %R %U %W %V %G %C %h %n%t|"
    const char *format = PLAIN "%-d %-m %k %l %_d %y %c";
    fn_chat_template *t = compile("{{ strftime_now(f) }}");
    json_t *context = json_pack("{s:s}", "f", format);
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        char want[512];
        struct tm when;
        time_t seconds = (time_t)moments[i];
        assert_non_null(localtime_r(&seconds, &when));
        assert_true(strftime(want, sizeof want, PLAIN, &when) > 0);
        char rest[128];
        char stamp[64];
        assert_true(strftime(stamp, sizeof stamp, "%a %b %e %H:%M:%S %Y", &when) > 0);
        (void)snprintf(rest, sizeof rest, "%d %d %2d %2d %2d %02d %s", when.tm_mday,
                       when.tm_mon + 1, when.tm_hour,
                       when.tm_hour % 12 == 0 ? 12 : when.tm_hour % 12, when.tm_mday,
                       when.tm_year % 100, stamp);
        fn_rendered out;
        fn_render_limits limits = {.now = moments[i]};
        assert_int_equal(fn_chat_template_render_json(t, context, limits, &out, NULL), FN_OK);
        assert_int_equal(strncmp(out.text, want, strlen(want)), 0);
        assert_string_equal(out.text + strlen(want), rest);
        fn_rendered_free(&out);
    }
    json_decref(context);
    fn_chat_template_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_jinja2),
        cmocka_unit_test(test_official_template),
        cmocka_unit_test(test_unknown_names_are_found_when_compiling),
        cmocka_unit_test(test_big_integers_keep_their_digits),
        cmocka_unit_test(test_later_parts_replace_earlier_ones),
        cmocka_unit_test(test_bad_contexts_are_refused),
        cmocka_unit_test(test_an_error_names_its_line),
        cmocka_unit_test(test_time_is_written_as_strftime_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
