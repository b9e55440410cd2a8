/* Templates and contexts that would take for ever, or everything: refused, clearly and in time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/alloc_fail.h"
#include "tokens/chat_template.h"

static fn_status run(const char *source, const char *context, fn_render_limits limits,
                     fn_error *err) {
    fn_chat_template *t = NULL;
    fn_rendered out = {0};
    fn_template_part part = {.text = context, .n = strlen(context)};
    fn_status status = fn_chat_template_compile(source, strlen(source), "t", &t, err);
    if (status == FN_OK) {
        status = fn_chat_template_render(t, &part, 1, limits, &out, err);
        fn_rendered_free(&out);
    }
    fn_chat_template_free(t);
    return status;
}

static void check_limit(const char *source, fn_render_limits limits, const char *want) {
    fn_error err = {0};
    assert_int_equal(run(source, "{}", limits, &err), FN_E_RANGE);
    assert_string_equal(err.text, want);
}

static void test_steps_are_bounded(void **state) {
    (void)state;
    fn_render_limits limits = {.steps = 1000};
    check_limit("\n{% for i in range(99999) %}{{ i }}{% endfor %}", limits,
                "t: line 2: more than 1000 steps");
    check_limit("{% for i in range(30) %}\n{% for j in range(30) %}{% endfor %}{% endfor %}",
                limits, "t: line 2: more than 1000 steps");
    check_limit("{% set x = 'ab' * 100000 %}{% for i in range(99) %}{{ 'c' in x }}{% endfor %}",
                (fn_render_limits){.steps = 101000}, "t: line 1: more than 101000 steps");
}

static void test_recursion_is_bounded(void **state) {
    (void)state;
    check_limit("{% macro m() %}\n{{ m() }}{% endmacro %}{{ m() }}",
                (fn_render_limits){.depth = 20}, "t: line 2: macros nested more than 20 deep");
    check_limit("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", (fn_render_limits){0},
                "t: line 1: macros nested more than 100 deep");
    check_limit("{% macro m(x) %}{{ m(x) if x }}{% endmacro %}{{ m(1) }}",
                (fn_render_limits){.depth = 1000000},
                "t: line 1: blocks and expressions nested more than 1200 deep");
    check_limit("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", (fn_render_limits){0},
                "t: line 1: recursive loops nested more than 100 deep");
}

static void test_output_and_memory_are_bounded(void **state) {
    (void)state;
    fn_render_limits small = {.output_bytes = 1000};
    check_limit("{% for i in range(999) %}abc{% endfor %}", small,
                "t: line 1: more than 1000 bytes of text");
    check_limit("{{ 'x' * 1001 }}", small, "t: line 1: more than 1000 bytes of text");
    check_limit("{{ 'x'.center(1001) }}", small, "t: line 1: more than 1000 bytes of text");
    check_limit("{{ '%2000d' % 1 }}", small, "t: line 1: more than 1000 bytes of text");
    check_limit("{{ 'x' * 999999999999 }}", (fn_render_limits){0},
                "t: line 1: more than 67108864 bytes of text");
    check_limit("{{ [1] * 999999999999 }}", (fn_render_limits){0},
                "t: line 1: more than 20000000 steps");
    check_limit("{% set ns = namespace(x='a') %}{% for i in range(99) %}"
                "{% set ns.x = ns.x + ns.x %}{% endfor %}",
                (fn_render_limits){.memory_bytes = 100000},
                "t: line 1: more than 100000 bytes of values");
}

/* `open` n times, `middle`, `close` n times. */
static char *nested(const char *open, const char *middle, const char *close, size_t n) {
    size_t length = n * (strlen(open) + strlen(close)) + strlen(middle);
    char *text = fn_alloc_zero(length + 1, 1);
    assert_non_null(text);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        at += (size_t)sprintf(text + at, "%s", open);
    }
    at += (size_t)sprintf(text + at, "%s", middle);
    for (size_t i = 0; i < n; i++) {
        at += (size_t)sprintf(text + at, "%s", close);
    }
    return text;
}

static void check_nested(const char *open, const char *middle, const char *close) {
    char *source = nested(open, middle, close, 100000);
    fn_chat_template *t = NULL;
    fn_error err = {0};
    fn_status status = fn_chat_template_compile(source, strlen(source), "t", &t, &err);
    if (status != FN_E_MODEL || strstr(err.text, "t: line 1: ") != err.text) {
        fail_msg("%s: %d %s", open, (int)status, err.text);
    }
    fn_free(source);
}

static void test_deeply_nested_templates_are_refused(void **state) {
    (void)state;
    check_nested("{{ (", "1", ") }}");
    check_nested("{% if x %}", "", "{% endif %}");
    check_nested("{% for x in y %}", "", "{% endfor %}");
    check_nested("{% macro m() %}", "", "{% endmacro %}");
    check_nested("{{ [", "", "");
    check_nested("{{ not ", "x", "");
    check_nested("{{ -", "1", "");
    check_nested("{{ x", " }}", "");
    char *forms[] = {
        nested("(", "1", ")", 50000),     nested("[", "1", "]", 50000),
        nested("{1:", "1", "}", 50000),   nested("- ", "1", "", 50000),
        nested("not ", "1", "", 50000),   nested("1 + ", "1", "", 50000),
        nested("1 ** ", "1", "", 50000),  nested("1 if 1 else ", "1", "", 50000),
        nested("1 and ", "1", "", 50000), nested("x", "", ".a", 50000),
        nested("", "x", "[0]", 50000),    nested("", "x", "()", 50000),
        nested("", "x", "|trim", 50000),  nested("", "x", " is string", 50000),
        nested("f(", "1", ")", 50000),    nested("x[", "1", "]", 50000),
        nested("", "1", " if 1", 50000),  nested("x|default(", "1", ")", 50000),
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        char *source = nested("{{ ", forms[i], " }}", 1);
        fn_chat_template *t = NULL;
        fn_error err = {0};
        assert_int_equal(fn_chat_template_compile(source, strlen(source), "t", &t, &err),
                         FN_E_MODEL);
        fn_free(source);
        fn_free(forms[i]);
    }
}

/* A fault of the template like others: its name and line, and a model that is wrong. */
static void test_numbers_that_are_too_large_are_refused(void **state) {
    (void)state;
    char *digits = nested("1", "", "", 4301);
    char *sources[] = {nested("\n{{ ", digits, " }}", 1),
                       nested("\n{{ 0x1", "11111111111111111", " }}", 1),
                       nested("\n{{ 0b1", "0000000000000000", " }}", 1)};
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        fn_chat_template *t = NULL;
        fn_error err = {0};
        assert_int_equal(fn_chat_template_compile(sources[i], strlen(sources[i]), "t", &t, &err),
                         FN_E_MODEL);
        assert_string_equal(err.text, "t: line 2: integer literal too large");
        fn_free(sources[i]);
    }
    fn_free(digits);
}

static void test_many_branches_are_no_depth(void **state) {
    (void)state;
    char *source = nested("{% elif x %}a", "", "", 5000);
    char *whole = nested("{% if x %}", source, "{% endif %}", 1);
    fn_error err = {0};
    assert_int_equal(run(whole, "{}", (fn_render_limits){0}, &err), FN_OK);
    fn_free(whole);
    fn_free(source);
}

static void test_deeply_nested_values_are_refused(void **state) {
    (void)state;
    char *deep = nested("[", "1", "]", 100000);
    char *context = nested("{\"a\":", deep, "}", 1);
    fn_error err = {0};
    assert_int_equal(run("{{ a }}", context, (fn_render_limits){0}, &err), FN_E_RANGE);
    static const char *const uses[] = {"{{ n.x }}", "{{ n.x | tojson }}", "{{ n.x == n.y }}",
                                       "{{ n.x < n.y }}", "{{ {n.z: 1} }}"};
    for (size_t i = 0; i < sizeof uses / sizeof uses[0]; i++) {
        char source[400];
        (void)snprintf(source, sizeof source,
                       "{%% set n = namespace(x=[], y=[], z=()) %%}{%% for i in range(9999) %%}"
                       "{%% set n.x = [n.x] %%}{%% set n.y = [n.y] %%}{%% set n.z = (n.z,) %%}"
                       "{%% endfor %%}%s",
                       uses[i]);
        fn_error detail = {0};
        assert_int_equal(run(source, "{}", (fn_render_limits){0}, &detail), FN_E_RANGE);
        assert_string_equal(detail.text, "t: line 1: values nested more than 500 deep");
    }
    fn_free(context);
    fn_free(deep);
}

/* A little of everything that allocates. */
static const char everything[] =
    "{% macro m(a, b=2) %}{{ a }}{{ b }}{{ caller() if caller }}{% endmacro %}"
    "{% set ns = namespace(x=[]) %}{% for k, v in d.items() if v %}{% set ns.x = ns.x + [v] %}"
    "{{ loop.length }}{{ k ~ v }}{% endfor %}{% call m(1) %}c{% endcall %}{{ ns.x | map('string') "
    "| sort }}"
    "{% set b %}{{ s | upper | replace('A', 'b') }}{% endset %}{{ b.split(',') | tojson }}"
    "{{ '%s {}'.format(s) % 1 }}{{ s[::-1] }}{{ d | dictsort }}{{ zz | default([1.5, none]) }}"
    "{% with q = s %}{% filter trim %} {{ q }} {% endfilter %}{% endwith %}{{ zz }}{{ d }}";

static fn_status everything_once(const json_t *context) {
    fn_chat_template *t = NULL;
    fn_rendered out = {0};
    fn_status status = fn_chat_template_compile(everything, sizeof everything - 1, "t", &t, NULL);
    if (status == FN_OK) {
        status = context != NULL
                     ? fn_chat_template_render_json(t, context, (fn_render_limits){0}, &out, NULL)
                     : run(everything, "{\"s\": \"a,\\u00e9b\", \"d\": {\"k\": 1, \"j\": [\"x\"]}}",
                           (fn_render_limits){0}, NULL);
        fn_rendered_free(&out);
    }
    fn_chat_template_free(t);
    return status;
}

static void test_failed_allocations_are_reported(void **state) {
    (void)state;
    json_t *context = json_pack("{s:s, s:{s:i, s:[s]}}", "s", "a,b", "d", "k", 1, "j", "x");
    for (int form = 0; form < 2; form++) {
        fn_status status = FN_E_NOMEM;
        long n = 0;
        for (; status != FN_OK; n++) {
            fn_alloc_fail_at(n);
            status = everything_once(form == 0 ? context : NULL);
            assert_true(status == FN_OK || status == FN_E_NOMEM);
            assert_true(n < 10000);
        }
        fn_alloc_fail_at(-1);
        assert_true(n > 3);
    }
    json_decref(context);
}

typedef struct shared_template {
    const fn_chat_template *t;
    const json_t *context;
    char *text;
} shared_template;

static void *render_many(void *argument) {
    shared_template *job = argument;
    for (int i = 0; i < 200; i++) {
        fn_rendered out;
        if (fn_chat_template_render_json(job->t, job->context, (fn_render_limits){0}, &out, NULL) !=
            FN_OK) {
            return NULL;
        }
        fn_free(job->text);
        job->text = out.text;
        out.text = NULL;
        fn_rendered_free(&out);
    }
    return job->text;
}

static void test_threads_share_a_template(void **state) {
    (void)state;
    json_t *contexts[2] = {json_pack("{s:s, s:{s:i, s:[s]}}", "s", "a,b", "d", "k", 1, "j", "x"),
                           json_pack("{s:s, s:{s:i, s:[s]}}", "s", "c,d,e", "d", "k", 7, "j", "y")};
    fn_chat_template *t = NULL;
    assert_int_equal(fn_chat_template_compile(everything, sizeof everything - 1, "t", &t, NULL),
                     FN_OK);
    shared_template jobs[4] = {0};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        jobs[i] = (shared_template){.t = t, .context = contexts[i % 2]};
        assert_int_equal(pthread_create(&threads[i], NULL, render_many, &jobs[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *text = NULL;
        assert_int_equal(pthread_join(threads[i], &text), 0);
        assert_non_null(text);
    }
    assert_string_equal(jobs[0].text, jobs[2].text);
    assert_string_equal(jobs[1].text, jobs[3].text);
    assert_string_not_equal(jobs[0].text, jobs[1].text);
    for (int i = 0; i < 4; i++) {
        fn_free(jobs[i].text);
    }
    fn_chat_template_free(t);
    json_decref(contexts[0]);
    json_decref(contexts[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_are_bounded),
        cmocka_unit_test(test_recursion_is_bounded),
        cmocka_unit_test(test_output_and_memory_are_bounded),
        cmocka_unit_test(test_deeply_nested_templates_are_refused),
        cmocka_unit_test(test_numbers_that_are_too_large_are_refused),
        cmocka_unit_test(test_many_branches_are_no_depth),
        cmocka_unit_test(test_deeply_nested_values_are_refused),
        cmocka_unit_test(test_failed_allocations_are_reported),
        cmocka_unit_test(test_threads_share_a_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
