/* Tests: what stands behind `is` (jinja_builtin.h). */
#include <string.h>

#include "tokens/jinja_eval.h"
#include "tokens/jinja_lexer.h"
#include "tokens/jinja_number.h"
#include "tokens/jinja_repr.h"
#include "tokens/jinja_unicode.h"

#define TEST(name) static fn_jval name(fn_jrun *run, const fn_jval *in, const fn_jargs *args)
#define UNUSED ((void)run, (void)args)

TEST(is_defined) {
    UNUSED;
    return fn_j_bool(in[0].type != FN_J_UNDEFINED);
}

TEST(is_undefined) {
    UNUSED;
    return fn_j_bool(in[0].type == FN_J_UNDEFINED);
}

TEST(is_none) {
    UNUSED;
    return fn_j_bool(in[0].type == FN_J_NONE);
}

TEST(is_boolean) {
    UNUSED;
    return fn_j_bool(in[0].type == FN_J_BOOL);
}

TEST(is_true) {
    UNUSED;
    return fn_j_bool(in[0].type == FN_J_BOOL && in[0].as.b);
}

TEST(is_false) {
    UNUSED;
    return fn_j_bool(in[0].type == FN_J_BOOL && !in[0].as.b);
}

TEST(is_integer) {
    UNUSED;
    return fn_j_bool(in[0].type == FN_J_INT || in[0].type == FN_J_BIGINT);
}

TEST(is_float) {
    UNUSED;
    return fn_j_bool(in[0].type == FN_J_FLOAT);
}

TEST(is_number) {
    UNUSED;
    return fn_j_bool(fn_j_is_number(in[0]));
}

TEST(is_string) {
    UNUSED;
    return fn_j_bool(in[0].type == FN_J_STRING);
}

TEST(is_mapping) {
    UNUSED;
    return fn_j_bool(in[0].type == FN_J_DICT);
}

/* Anything with a length and elements; a dict and an undefined value too. */
TEST(is_sequence) {
    UNUSED;
    bool indexed = in[0].type == FN_J_SEQ && in[0].as.seq->kind <= FN_JSEQ_RANGE;
    return fn_j_bool(indexed || in[0].type == FN_J_STRING || in[0].type == FN_J_DICT ||
                     in[0].type == FN_J_UNDEFINED);
}

TEST(is_iterable) {
    UNUSED;
    switch (in[0].type) {
    case FN_J_STRING:
    case FN_J_SEQ:
    case FN_J_DICT:
    case FN_J_ITER:
    case FN_J_UNDEFINED:
    case FN_J_LOOP:
        return fn_j_bool(true);
    default:
        return fn_j_bool(false);
    }
}

TEST(is_callable) {
    UNUSED;
    switch (in[0].type) {
    case FN_J_MACRO:
    case FN_J_FUNCTION:
    case FN_J_METHOD:
    case FN_J_LOOP:
    case FN_J_JOINER:
    case FN_J_UNDEFINED: /* it has __call__, which only raises */
        return fn_j_bool(true);
    default:
        return fn_j_bool(false);
    }
}

static fn_jval cased(fn_jrun *run, fn_jval v, bool lower) {
    fn_jval text = fn_j_to_str(run, v);
    if (fn_j_failed(text)) {
        return text;
    }
    const fn_jstr *s = text.as.s;
    bool any = false;
    for (size_t at = 0; at < s->n; at = fn_jstr_next(s, at)) {
        uint32_t c = fn_jstr_char(s, at);
        bool is_lower = fn_junicode_is_lower(c);
        bool is_upper = fn_junicode_is_upper(c);
        if ((lower ? is_upper : is_lower) || fn_junicode_is_title(c)) {
            return fn_j_bool(false);
        }
        any = any || (lower ? is_lower : is_upper);
    }
    return fn_j_bool(any);
}

TEST(is_lower) {
    UNUSED;
    return cased(run, in[0], true);
}

TEST(is_upper) {
    UNUSED;
    return cased(run, in[0], false);
}

/* value % by == want */
static fn_jval remainder_is(fn_jrun *run, fn_jval value, fn_jval by, int64_t want) {
    fn_jval rest = fn_j_binary(run, '%', value, by);
    return fn_j_failed(rest) ? rest : fn_j_bool(fn_j_equal(run, rest, fn_j_int(want)));
}

TEST(is_odd) {
    UNUSED;
    return remainder_is(run, in[0], fn_j_int(2), 1);
}

TEST(is_even) {
    UNUSED;
    return remainder_is(run, in[0], fn_j_int(2), 0);
}

TEST(is_divisibleby) {
    UNUSED;
    return remainder_is(run, in[0], in[1], 0);
}

TEST(is_in) {
    UNUSED;
    return fn_j_contains(run, in[1], in[0]);
}

TEST(is_eq) {
    UNUSED;
    return fn_j_compare(run, FN_JOP_EQ, in[0], in[1]);
}

TEST(is_ne) {
    UNUSED;
    return fn_j_compare(run, FN_JOP_NE, in[0], in[1]);
}

TEST(is_lt) {
    UNUSED;
    return fn_j_compare(run, '<', in[0], in[1]);
}

TEST(is_le) {
    UNUSED;
    return fn_j_compare(run, FN_JOP_LE, in[0], in[1]);
}

TEST(is_gt) {
    UNUSED;
    return fn_j_compare(run, '>', in[0], in[1]);
}

TEST(is_ge) {
    UNUSED;
    return fn_j_compare(run, FN_JOP_GE, in[0], in[1]);
}

TEST(is_sameas) {
    UNUSED;
    fn_jval a = in[0];
    fn_jval b = in[1];
    if (a.type != b.type) {
        return fn_j_bool(false);
    }
    switch (a.type) {
    case FN_J_NONE:
        return fn_j_bool(true);
    case FN_J_BOOL:
        return fn_j_bool(a.as.b == b.as.b);
    case FN_J_INT: /* small integers are one object each */
        return fn_j_bool(a.as.i == b.as.i);
    case FN_J_FLOAT:
        return fn_j_bool(false);
    default:
        return fn_j_bool(a.as.s == b.as.s);
    }
}

TEST(is_escaped) {
    UNUSED;
    return fn_j_bool(in[0].type == FN_J_STRING && in[0].as.s->markup);
}

TEST(is_filter) {
    UNUSED;
    return fn_j_bool(in[0].type == FN_J_STRING &&
                     fn_jfilter_find(in[0].as.s->p, in[0].as.s->n) != NULL);
}

TEST(is_test) {
    UNUSED;
    return fn_j_bool(in[0].type == FN_J_STRING &&
                     fn_jtest_find(in[0].as.s->p, in[0].as.s->n) != NULL);
}

static const fn_jbuiltin tests[] = {
    {"defined", "test_defined", "value", is_defined},
    {"undefined", "test_undefined", "value", is_undefined},
    {"none", "test_none", "value", is_none},
    {"boolean", "test_boolean", "value", is_boolean},
    {"true", "test_true", "value", is_true},
    {"false", "test_false", "value", is_false},
    {"integer", "test_integer", "value", is_integer},
    {"float", "test_float", "value", is_float},
    {"number", "test_number", "value", is_number},
    {"string", "test_string", "value", is_string},
    {"mapping", "test_mapping", "value", is_mapping},
    {"sequence", "test_sequence", "value", is_sequence},
    {"iterable", "test_iterable", "value", is_iterable},
    {"callable", "callable", "value", is_callable},
    {"lower", "test_lower", "value", is_lower},
    {"upper", "test_upper", "value", is_upper},
    {"odd", "test_odd", "value", is_odd},
    {"even", "test_even", "value", is_even},
    {"divisibleby", "test_divisibleby", "value,num", is_divisibleby},
    {"in", "test_in", "value,seq", is_in},
    {"sameas", "test_sameas", "value,other", is_sameas},
    {"escaped", "test_escaped", "value", is_escaped},
    {"filter", "test_filter", "value", is_filter},
    {"test", "test_test", "value", is_test},
    {"==", "eq", "a,b", is_eq},
    {"eq", "eq", "a,b", is_eq},
    {"equalto", "eq", "a,b", is_eq},
    {"!=", "ne", "a,b", is_ne},
    {"ne", "ne", "a,b", is_ne},
    {"<", "lt", "a,b", is_lt},
    {"lt", "lt", "a,b", is_lt},
    {"lessthan", "lt", "a,b", is_lt},
    {"<=", "le", "a,b", is_le},
    {"le", "le", "a,b", is_le},
    {">", "gt", "a,b", is_gt},
    {"gt", "gt", "a,b", is_gt},
    {"greaterthan", "gt", "a,b", is_gt},
    {">=", "ge", "a,b", is_ge},
    {"ge", "ge", "a,b", is_ge},
};

const fn_jbuiltin *fn_jtest_find(const char *name, size_t n) {
    return fn_jbuiltin_search(tests, sizeof tests / sizeof tests[0], name, n);
}
