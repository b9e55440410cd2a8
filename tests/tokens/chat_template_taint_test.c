/* Which bytes of a prompt users wrote: the marks survive what templates do to strings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/mem.h"
#include "tokens/chat_template.h"

/* The text with «» around what users wrote. */
static char *marked(const fn_rendered *out) {
    char *text = fn_alloc(out->n + out->n_spans * 4 + 1, 1);
    assert_non_null(text);
    size_t n = 0;
    size_t at = 0;
    for (size_t i = 0; i < out->n_spans; i++) {
        assert_true(out->spans[i].begin < out->spans[i].end && out->spans[i].end <= out->n);
        assert_true(i == 0 || out->spans[i].begin > out->spans[i - 1].end);
        memcpy(text + n, out->text + at, out->spans[i].begin - at);
        n += out->spans[i].begin - at;
        memcpy(text + n, "\xC2\xAB", 2);
        n += 2;
        size_t length = out->spans[i].end - out->spans[i].begin;
        memcpy(text + n, out->text + out->spans[i].begin, length);
        n += length;
        memcpy(text + n, "\xC2\xBB", 2);
        n += 2;
        at = out->spans[i].end;
    }
    memcpy(text + n, out->text + at, out->n - at);
    text[n + out->n - at] = 0;
    return text;
}

static void check(const char *source, const char *want) {
    static const char ours[] = "{\"bos\": \"<s>\", \"ours\": [\"a\", \"b\"]}";
    static const char theirs[] =
        "{\"u\": \"User\", \"sp\": \"  x y \", \"list\": [\"p\", \"q\"], \"num\": 7,"
        " \"d\": {\"key\": \"val\"}, \"m\": \"a\\u00e9b\", \"q\": \"say \\\"hi\\\"\"}";
    fn_template_part parts[] = {{.text = ours, .n = sizeof ours - 1, .trusted = true},
                                {.text = theirs, .n = sizeof theirs - 1}};
    fn_chat_template *t = NULL;
    fn_rendered out;
    fn_error err = {0};
    if (fn_chat_template_compile(source, strlen(source), "t", &t, &err) != FN_OK ||
        fn_chat_template_render(t, parts, 2, (fn_render_limits){0}, &out, &err) != FN_OK) {
        fail_msg("%s: %s", source, err.text);
    }
    char *text = marked(&out);
    assert_string_equal(text, want);
    fn_free(text);
    fn_rendered_free(&out);
    fn_chat_template_free(t);
}

static void test_literals_and_our_variables_are_clean(void **state) {
    (void)state;
    check("text {{ 'lit' }} {{ bos }} {{ 1 + 2 }} {{ ours | join(',') }} {{ ours }}",
          "text lit <s> 3 a,b ['a', 'b']");
    check("{{ num }} {{ num * 2 }}", "7 14");
}

static void test_users_strings_are_marked(void **state) {
    (void)state;
    check("<{{ u }}>", "<«User»>");
    check("{{ u }}", "«User»");
    check("{{ u }}{{ u }}|{{ u }}", "«UserUser»|«User»");
    check("{{ d.key }} {{ d | items | first | first }}", "«val» «key»");
}

static void test_marks_survive_string_operations(void **state) {
    (void)state;
    check("{{ '<' + u + '>' }}{{ '[' ~ u ~ ']' }}", "<«User»>[«User»]");
    check("{{ sp | trim }}|{{ sp.strip() }}|{{ ('<' ~ sp ~ '>') }}", "«x y»|«x y»|<«  x y »>");
    check("{{ u[1:3] }}|{{ u[::-1] }}|{{ ('ab' ~ u)[1:4] }}|{{ ('ab' ~ u)[::-2] }}|{{ m[1] }}",
          "«se»|«resU»|b«Us»|«rs»b|«é»");
    check("{{ u.upper() }} {{ u | lower }} {{ ('x' ~ u) | title }} {{ ('ab ' ~ u).title() }}",
          "«USER» «user» X«user» Ab «User»");
    check(
        "{{ u.replace('s', '-') }} {{ 'a-b'.replace('-', u) }} {{ ('x' ~ u) | replace('U', 'V') }}",
        "«U»-«er» a«User»b xV«ser»");
    check("{{ u.split('s') | join('+') }} {{ ('k=' ~ u).split('=')[1] }} {{ ['a', u] | join(u) }}",
          "«U»+«er» «User» a«UserUser»");
    check("{{ u * 2 }} {{ ('-' ~ u) * 2 }} {{ u.center(6, '*') }} {{ u | indent(2, true) }}",
          "«UserUser» -«User»-«User» *«User»*   «User»");
    check("{{ '%s!' % u }} {{ '{}?'.format(u) }} {{ '%5s|' | format(u) }} {{ u | truncate(3, true, "
          "'.', 0) }}",
          "«User»! «User»?  «User»| «Us».");
    check("{{ ('<' ~ u ~ '>') | escape }} {{ u | safe }} {{ u | reverse }} {{ u | first }}",
          "&lt;«User»&gt; «User» «resU» «U»");
}

static void test_marks_survive_containers_and_json(void **state) {
    (void)state;
    check("{{ d | tojson }}", "{\"«key»\": \"«val»\"}");
    check("{{ {'k': u, 'n': [1, bos]} | tojson }}", "{\"k\": \"«User»\", \"n\": [1, \"<s>\"]}");
    check("{{ q | tojson }} {{ [q] }}", "\"«say \\\"hi\\\"»\" ['«say \"hi\"»']");
    check("{{ list }} {{ list | join(', ') }} {{ list | map('upper') | list | last }}",
          "['«p»', '«q»'] «p», «q» «Q»");
    check("{% for x in list | sort(reverse=true) %}{{ loop.index }}{{ x }} {% endfor %}",
          "1«q» 2«p» ");
}

static void test_marks_survive_macros_blocks_and_namespaces(void **state) {
    (void)state;
    check("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(u) }}{{ m('lit') }}{{ m(u) | upper }}",
          "<«User»><lit><«USER»>");
    check("{% set b %}[{{ u }}]{% endset %}{{ b }}{{ b | length }}", "[«User»]6");
    check("{% set ns = namespace(t='') %}{% for x in list %}{% set ns.t = ns.t ~ '/' ~ x %}"
          "{% endfor %}{{ ns.t }}",
          "/«p»/«q»");
    check("{% filter upper %}a{{ u }}b{% endfilter %}", "A«USER»B");
    check("{{ u if u else bos }} {{ nothing | default(u) }} {{ u == 'User' }} {{ u | length }}",
          "«User» «User» True 4");
}

static void test_one_object_is_the_users_but_for_tokens(void **state) {
    (void)state;
    static const char source[] = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ x }}";
    json_t *context = json_pack("{s:s, s:s, s:s, s:[{s:s, s:s}]}", "bos_token", "<s>", "eos_token",
                                "</s>", "x", "kw", "messages", "content", "hi", "my_token", "t");
    fn_chat_template *t = NULL;
    fn_rendered out;
    assert_int_equal(fn_chat_template_compile(source, sizeof source - 1, "t", &t, NULL), FN_OK);
    assert_int_equal(fn_chat_template_render_json(t, context, (fn_render_limits){0}, &out, NULL),
                     FN_OK);
    char *text = marked(&out);
    assert_string_equal(text, "<s>«hi»</s>«kw»");
    fn_free(text);
    fn_rendered_free(&out);
    fn_chat_template_free(t);
    json_decref(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_literals_and_our_variables_are_clean),
        cmocka_unit_test(test_users_strings_are_marked),
        cmocka_unit_test(test_marks_survive_string_operations),
        cmocka_unit_test(test_marks_survive_containers_and_json),
        cmocka_unit_test(test_marks_survive_macros_blocks_and_namespaces),
        cmocka_unit_test(test_one_object_is_the_users_but_for_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
