/* Filters of single values: text, numbers, JSON (jinja_builtin.h). */
#include "tokens/jinja_filters.h"

#include <math.h>
#include <string.h>

#include "tokens/jinja_eval.h"
#include "tokens/jinja_format.h"
#include "tokens/jinja_number.h"
#include "tokens/jinja_repr.h"
#include "tokens/jinja_text.h"

#define FILTER(name) static fn_jval name(fn_jrun *run, const fn_jval *in, const fn_jargs *args)

FILTER(filter_trim) {
    (void)args;
    fn_jval text = fn_j_to_str(run, in[0]);
    const fn_jstr *set = NULL;
    if (fn_j_failed(text)) {
        return text;
    }
    if (in[1].type != FN_J_MISSING && in[1].type != FN_J_NONE && in[1].type != FN_J_STRING) {
        return fn_jrun_error(run, "strip arg must be None or str");
    }
    if (in[1].type == FN_J_STRING) {
        set = in[1].as.s;
    }
    return fn_jstr_strip(run, text.as.s, set, true, true);
}

static fn_jval mapped(fn_jrun *run, fn_jval v, fn_jval (*map)(fn_jrun *, const fn_jstr *)) {
    fn_jval text = fn_j_to_str(run, v);
    if (fn_j_failed(text)) {
        return text;
    }
    fn_jval result = map(run, text.as.s);
    bool markup = text.as.s->markup && !fn_j_failed(result) && !result.as.s->markup;
    return markup ? fn_jstr_markup(run, result.as.s, true) : result;
}

static fn_jval upper(fn_jrun *run, const fn_jstr *s) {
    return fn_jtext_case(run, s, FN_JCASE_UPPER);
}

static fn_jval lower(fn_jrun *run, const fn_jstr *s) {
    return fn_jtext_case(run, s, FN_JCASE_LOWER);
}

FILTER(filter_upper) {
    (void)args;
    return mapped(run, in[0], upper);
}

FILTER(filter_lower) {
    (void)args;
    return mapped(run, in[0], lower);
}

FILTER(filter_capitalize) {
    (void)args;
    return mapped(run, in[0], fn_jtext_capitalize);
}

FILTER(filter_title) {
    (void)args;
    return mapped(run, in[0], fn_jtext_filter_title);
}

FILTER(filter_string) {
    (void)args;
    return fn_j_to_str(run, in[0]);
}

FILTER(filter_safe) {
    (void)args;
    fn_jval text = fn_j_to_str(run, in[0]);
    return fn_j_failed(text) ? text : fn_jstr_markup(run, text.as.s, true);
}

FILTER(filter_escape) {
    (void)args;
    if (in[0].type == FN_J_STRING && in[0].as.s->markup) {
        return in[0];
    }
    return mapped(run, in[0], fn_jstr_escape);
}

FILTER(filter_forceescape) {
    (void)args;
    return mapped(run, in[0], fn_jstr_escape);
}

FILTER(filter_replace) {
    (void)args;
    fn_jval s = fn_j_to_str(run, in[0]);
    fn_jval old = fn_j_to_str(run, in[1]);
    fn_jval new = fn_j_to_str(run, in[2]);
    int64_t limit = -1;
    fn_jval count = in[3].type == FN_J_NONE ? (fn_jval){.type = FN_J_MISSING} : in[3];
    if (run->status != FN_OK || !fn_jarg_int(run, count, -1, &limit)) {
        return fn_j_fail();
    }
    return fn_jstr_replace(run, s.as.s, old.as.s, new.as.s, limit);
}

FILTER(filter_center) {
    (void)args;
    fn_jval text = fn_j_to_str(run, in[0]);
    int64_t width = 80;
    if (fn_j_failed(text) || !fn_jarg_int(run, in[1], 80, &width)) {
        return fn_j_fail();
    }
    return fn_jtext_pad(run, text.as.s, '^', width, ' ');
}

FILTER(filter_format) {
    (void)in;
    fn_jval text = fn_j_to_str(run, args->positional[0]);
    if (fn_j_failed(text)) {
        return text;
    }
    if (args->n > 1 && args->n_keywords > 0) {
        return fn_jrun_error(run, "can't handle positional and keyword arguments at the same time");
    }
    if (args->n_keywords == 0) {
        fn_jval tuple = fn_j_seq(run, FN_JSEQ_TUPLE, args->positional + 1, args->n - 1);
        return fn_j_failed(tuple) ? tuple : fn_jformat_percent_value(run, text.as.s, tuple);
    }
    fn_jdict *dict = fn_jdict_new(run);
    for (size_t i = 0; dict != NULL && i < args->n_keywords; i++) {
        if (!fn_jdict_set(run, dict, args->keywords[i].name, args->keywords[i].value)) {
            return fn_j_fail();
        }
    }
    fn_jval named = {.type = FN_J_DICT, .as.dict = dict};
    return dict != NULL ? fn_jformat_percent_value(run, text.as.s, named) : fn_j_fail();
}

FILTER(filter_wordcount) {
    (void)args;
    fn_jval text = fn_j_to_str(run, in[0]);
    if (fn_j_failed(text)) {
        return text;
    }
    int64_t words = 0;
    bool inside = false;
    for (size_t at = 0; at < text.as.s->n; at = fn_jstr_next(text.as.s, at)) {
        bool word = fn_junicode_is_word(fn_jstr_char(text.as.s, at));
        words += word && !inside ? 1 : 0;
        inside = word;
    }
    return fn_j_int(words);
}

static void indent_lines(fn_jrun *run, fn_jbuf *buf, const fn_jlist *lines, const fn_jstr *by,
                         bool blank) {
    for (size_t i = 0; i < lines->n; i++) {
        const fn_jstr *line = lines->items[i].as.s;
        if (i > 0) {
            fn_jbuf_add_text(run, buf, "\n");
        }
        if (i > 0 && (blank || line->n > 0)) {
            fn_jbuf_add_str(run, buf, by);
        }
        fn_jbuf_add_str(run, buf, line);
    }
}

FILTER(filter_indent) {
    (void)args;
    fn_jval by = in[1];
    if (in[0].type == FN_J_UNDEFINED) {
        return fn_j_undefined_error(run, in[0]);
    }
    if (in[0].type != FN_J_STRING) {
        bool list = in[0].type == FN_J_SEQ && in[0].as.seq->kind == FN_JSEQ_LIST;
        return list ? fn_jrun_error(run, "'list' object has no attribute 'splitlines'")
                    : fn_jrun_error(run, "unsupported operand type(s) for +=: '%s' and 'str'",
                                    fn_j_type_name(in[0]));
    }
    if (by.type != FN_J_STRING) {
        fn_jval space = fn_jstr_text(run, " ");
        fn_jval width = by.type == FN_J_MISSING ? fn_j_int(4) : by;
        by = fn_j_failed(space) ? space : fn_j_binary(run, '*', space, width);
    }
    fn_jval newline = fn_jstr_text(run, "\n");
    fn_jlist lines = {0};
    if (fn_j_failed(by) || fn_j_failed(newline)) {
        return fn_j_fail();
    }
    fn_jval text = fn_jstr_concat(run, in[0].as.s, newline.as.s);
    if (fn_j_failed(text) || !fn_jtext_lines(run, text.as.s, false, &lines)) {
        return fn_j_fail();
    }
    fn_jbuf buf = {0};
    if (in[2].type != FN_J_MISSING && fn_j_truth(in[2])) {
        fn_jbuf_add_str(run, &buf, by.as.s);
    }
    indent_lines(run, &buf, &lines, by.as.s, in[3].type != FN_J_MISSING && fn_j_truth(in[3]));
    return fn_jbuf_take(run, &buf);
}

static fn_jval cut(fn_jrun *run, const fn_jstr *s, size_t chars, bool kill_words,
                   const fn_jstr *end) {
    fn_jval head = fn_jstr_sub(run, s, 0, fn_jstr_offset(s, chars));
    if (fn_j_failed(head)) {
        return head;
    }
    if (!kill_words) {
        fn_jstr space = {.p = " ", .n = 1, .n_chars = 1};
        size_t hit = fn_jstr_rfind(run, head.as.s, &space, head.as.s->n);
        head = hit != SIZE_MAX ? fn_jstr_sub(run, head.as.s, 0, hit) : head;
    }
    return fn_j_failed(head) ? head : fn_jstr_concat(run, head.as.s, end);
}

FILTER(filter_truncate) {
    (void)args;
    int64_t length = 255;
    int64_t leeway = 5;
    fn_jval end = in[3].type != FN_J_MISSING ? in[3] : fn_jstr_text(run, "...");
    fn_jval given = in[4].type == FN_J_NONE ? (fn_jval){.type = FN_J_MISSING} : in[4];
    const fn_jbuiltin *len = fn_jfilter_find("length", 6);
    fn_jval n_end = fn_jbuiltin_call(run, len, &(fn_jargs){.positional = &end, .n = 1});
    fn_jval n_value = fn_jbuiltin_call(run, len, &(fn_jargs){.positional = in, .n = 1});
    if (fn_j_failed(n_end) || fn_j_failed(n_value)) {
        return fn_j_fail();
    }
    if (!fn_jarg_int(run, in[1], 255, &length) || !fn_jarg_int(run, given, 5, &leeway)) {
        return fn_j_fail();
    }
    if (length < n_end.as.i) {
        return fn_jrun_error(run, "expected length >= %lld, got %lld", (long long)n_end.as.i,
                             (long long)length);
    }
    if (leeway < 0) {
        return fn_jrun_error(run, "expected leeway >= 0, got %lld", (long long)leeway);
    }
    if (leeway > INT64_MAX - length || n_value.as.i <= length + leeway) {
        return in[0]; /* whatever has a length */
    }
    bool kill_words = in[2].type != FN_J_MISSING && fn_j_truth(in[2]);
    if (in[0].type != FN_J_STRING || end.type != FN_J_STRING) {
        return kill_words ? fn_j_binary(run, '+', in[0], end)
                          : fn_jrun_error(run, "'%s' object has no attribute 'rsplit'",
                                          fn_j_type_name(in[0]));
    }
    return cut(run, in[0].as.s, (size_t)(length - n_end.as.i), kill_words, end.as.s);
}

FILTER(filter_default) {
    (void)args;
    (void)run;
    bool boolean = in[2].type != FN_J_MISSING && fn_j_truth(in[2]);
    if (in[0].type != FN_J_UNDEFINED && (!boolean || fn_j_truth(in[0]))) {
        return in[0];
    }
    return in[1].type != FN_J_MISSING ? in[1] : fn_jstr_text(run, "");
}

FILTER(filter_abs) {
    (void)args;
    fn_jval v = in[0];
    if (v.type == FN_J_UNDEFINED || !fn_j_is_number(v)) {
        return fn_jrun_error(run, "bad operand type for abs(): '%s'", fn_j_type_name(v));
    }
    if (v.type == FN_J_FLOAT) {
        return fn_j_float(fabs(v.as.d));
    }
    if (v.type == FN_J_BIGINT) {
        bool negative = v.as.s->p[0] == '-';
        fn_jval positive = fn_jstr_sub(run, v.as.s, negative ? 1 : 0, v.as.s->n);
        positive.type = fn_j_failed(positive) ? FN_J_FAIL : FN_J_BIGINT;
        return positive;
    }
    int64_t i = v.type == FN_J_BOOL ? (v.as.b ? 1 : 0) : v.as.i;
    return i < 0 ? fn_jnum_negate(run, fn_j_int(i)) : fn_j_int(i);
}

FILTER(filter_round) {
    (void)args;
    int64_t digits = 0;
    bool ceiling = in[2].type != FN_J_MISSING && fn_j_is_text(in[2], "ceil");
    bool floors = in[2].type != FN_J_MISSING && fn_j_is_text(in[2], "floor");
    if (in[2].type != FN_J_MISSING && !ceiling && !floors && !fn_j_is_text(in[2], "common")) {
        return fn_jrun_error(run, "method must be common, ceil or floor");
    }
    if (in[0].type == FN_J_UNDEFINED || !fn_j_is_number(in[0])) {
        return fn_jrun_error(run, "type %s doesn't define __round__ method", fn_j_type_name(in[0]));
    }
    if (!fn_jarg_int(run, in[1], 0, &digits)) {
        return fn_j_fail();
    }
    if (!ceiling && !floors) {
        return fn_jnum_round(run, in[0], digits);
    }
    double unit = pow(10.0, (double)digits);
    double scaled = fn_jnum_double(in[0]) * unit;
    return fn_j_float((ceiling ? ceil(scaled) : floor(scaled)) / unit);
}

static int digit_value(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    int small = c | 0x20;
    return small >= 'a' && small <= 'z' ? small - 'a' + 10 : 99;
}

/* Behind 0x, 0o or 0b, when the base is theirs. */
static size_t skip_prefix(const char *p, size_t n, size_t at, int64_t base) {
    int kind = at + 1 < n && p[at] == '0' ? p[at + 1] | 0x20 : 0;
    bool has =
        (kind == 'x' && base == 16) || (kind == 'o' && base == 8) || (kind == 'b' && base == 2);
    return has ? at + 2 : at;
}

/* int(text, base) with Python's underscores and spaces; MISSING when it is none. */
static fn_jval text_to_int(fn_jrun *run, const fn_jstr *s, int64_t base) {
    fn_jval bare = fn_jstr_strip(run, s, NULL, true, true);
    if (fn_j_failed(bare)) {
        return bare;
    }
    const char *p = bare.as.s->p;
    size_t n = bare.as.s->n;
    bool negative = n > 0 && p[0] == '-';
    size_t begin = skip_prefix(p, n, negative || (n > 0 && p[0] == '+') ? 1 : 0, base);
    int64_t value = 0;
    bool big = false;
    for (size_t at = begin; at < n; at++) {
        if (p[at] == '_' && at > begin && p[at - 1] != '_' && at + 1 < n) {
            continue;
        }
        int digit = digit_value(p[at]);
        if (digit >= base) {
            return (fn_jval){.type = FN_J_MISSING};
        }
        big = big || __builtin_mul_overflow(value, base, &value) ||
              __builtin_add_overflow(value, (int64_t)digit, &value);
    }
    if (begin >= n) {
        return (fn_jval){.type = FN_J_MISSING};
    }
    if (big && (base != 10 || memchr(p, '_', n) != NULL)) {
        return fn_jrun_error(run, "integers beyond 64 bits are read in plain decimal only");
    }
    return big ? fn_jnum_parse_int(run, p, n) : fn_j_int(negative ? -value : value);
}

/* float(text); MISSING when it is none. */
static fn_jval text_to_float(fn_jrun *run, const fn_jstr *s) {
    fn_jval bare = fn_jstr_strip(run, s, NULL, true, true);
    if (fn_j_failed(bare)) {
        return bare;
    }
    fn_jval small = fn_jtext_case(run, bare.as.s, FN_JCASE_LOWER);
    if (fn_j_failed(small)) {
        return small;
    }
    bool negative = small.as.s->n > 0 && small.as.s->p[0] == '-';
    bool sign = negative || (small.as.s->n > 0 && small.as.s->p[0] == '+');
    fn_jval rest = fn_jstr_sub(run, small.as.s, sign ? 1 : 0, small.as.s->n);
    if (fn_j_is_text(rest, "inf") || fn_j_is_text(rest, "infinity")) {
        return fn_j_float(negative ? -(double)INFINITY : (double)INFINITY);
    }
    if (fn_j_is_text(rest, "nan")) {
        return fn_j_float((double)NAN);
    }
    bool ok = false;
    double d = fn_jnum_parse_float(small.as.s->p, small.as.s->n, &ok);
    return ok ? fn_j_float(d) : (fn_jval){.type = FN_J_MISSING};
}

static fn_jval float_to_int(double d) {
    if (isnan(d) || fabs(d) >= 9.2e18) {
        return (fn_jval){.type = FN_J_MISSING};
    }
    return fn_j_int((int64_t)d);
}

FILTER(filter_int) {
    (void)args;
    fn_jval v = in[0];
    fn_jval fallback = in[1].type != FN_J_MISSING ? in[1] : fn_j_int(0);
    int64_t base = 10;
    if (v.type == FN_J_UNDEFINED) {
        return fn_j_undefined_error(run, v);
    }
    if (!fn_jarg_int(run, in[2], 10, &base)) {
        return fn_j_fail();
    }
    fn_jval result = {.type = FN_J_MISSING};
    if (v.type == FN_J_STRING) {
        result = text_to_int(run, v.as.s, base);
        if (result.type == FN_J_MISSING) {
            fn_jval number = text_to_float(run, v.as.s);
            result = number.type == FN_J_FLOAT ? float_to_int(number.as.d) : number;
        }
    } else if (v.type == FN_J_FLOAT) {
        result = float_to_int(v.as.d);
    } else if (v.type == FN_J_BOOL) {
        result = fn_j_int(v.as.b ? 1 : 0);
    } else if (v.type == FN_J_INT || v.type == FN_J_BIGINT) {
        result = v;
    }
    return result.type == FN_J_MISSING ? fallback : result;
}

FILTER(filter_float) {
    (void)args;
    fn_jval v = in[0];
    if (v.type == FN_J_UNDEFINED) {
        return fn_j_undefined_error(run, v);
    }
    fn_jval result = {.type = FN_J_MISSING};
    if (v.type == FN_J_STRING) {
        result = text_to_float(run, v.as.s);
    } else if (fn_j_is_number(v)) {
        result = fn_j_float(fn_jnum_double(v));
    }
    if (result.type != FN_J_MISSING) {
        return result;
    }
    return in[1].type != FN_J_MISSING ? in[1] : fn_j_float(0.0);
}

/* indent may be a number of spaces or the text itself. */
static bool json_indent(fn_jrun *run, fn_jval v, const fn_jstr **out) {
    *out = NULL;
    if (v.type == FN_J_MISSING || v.type == FN_J_NONE) {
        return true;
    }
    if (v.type != FN_J_STRING) {
        int64_t width = 0;
        fn_jval space = fn_jstr_text(run, " ");
        if (fn_j_failed(space) || !fn_jarg_int(run, v, 0, &width)) {
            return false;
        }
        v = fn_jstr_repeat(run, space.as.s, width);
    }
    return !fn_j_failed(v) && fn_jarg_str(run, v, out);
}

FILTER(filter_tojson) {
    (void)args;
    fn_jjson_style style = {0};
    if (!json_indent(run, in[2], &style.indent)) {
        return fn_j_fail();
    }
    fn_jval item = fn_jstr_text(run, style.indent == NULL ? ", " : ",");
    fn_jval key = fn_jstr_text(run, ": ");
    if (in[3].type != FN_J_MISSING && in[3].type != FN_J_NONE) {
        const fn_jval *parts = NULL;
        size_t n = 0;
        if (!fn_j_items(run, in[3], &parts, &n)) {
            return fn_j_fail();
        }
        if (n != 2) {
            return fn_jrun_error(run, "%s values to unpack (expected 2)",
                                 n > 2 ? "too many" : "not enough");
        }
        item = parts[0];
        key = parts[1];
    }
    if (run->status != FN_OK || !fn_jarg_str(run, item, &style.item_separator) ||
        !fn_jarg_str(run, key, &style.key_separator)) {
        return fn_j_fail();
    }
    style.ensure_ascii = in[1].type != FN_J_MISSING && fn_j_truth(in[1]);
    style.sort_keys = in[4].type != FN_J_MISSING && fn_j_truth(in[4]);
    return fn_j_to_json(run, in[0], &style);
}

static const fn_jbuiltin filters[] = {
    {"trim", "do_trim", "value,chars=", filter_trim},
    {"upper", "do_upper", "s", filter_upper},
    {"lower", "do_lower", "s", filter_lower},
    {"capitalize", "do_capitalize", "s", filter_capitalize},
    {"title", "do_title", "s", filter_title},
    {"string", "soft_str", "s", filter_string},
    {"safe", "do_mark_safe", "value", filter_safe},
    {"escape", "escape", "s", filter_escape},
    {"e", "escape", "s", filter_escape},
    {"forceescape", "do_forceescape", "value", filter_forceescape},
    {"replace", "do_replace", "s,old,new,count=", filter_replace},
    {"center", "do_center", "value,width=", filter_center},
    {"format", "do_format", "value,*,**", filter_format},
    {"wordcount", "do_wordcount", "s", filter_wordcount},
    {"indent", "do_indent", "s,width=,first=,blank=", filter_indent},
    {"truncate", "do_truncate", "s,length=,killwords=,end=,leeway=", filter_truncate},
    {"default", "do_default", "value,default_value=,boolean=", filter_default},
    {"d", "do_default", "value,default_value=,boolean=", filter_default},
    {"abs", "abs", "x", filter_abs},
    {"round", "do_round", "value,precision=,method=", filter_round},
    {"int", "do_int", "value,default=,base=", filter_int},
    {"float", "do_float", "value,default=", filter_float},
    {"tojson", "_cached_compile_jinja_template.<locals>.tojson",
     "x,ensure_ascii=,indent=,separators=,sort_keys=", filter_tojson},
};

const fn_jbuiltin *fn_jfilter_find(const char *name, size_t n) {
    const fn_jbuiltin *found =
        fn_jbuiltin_search(filters, sizeof filters / sizeof filters[0], name, n);
    found = found != NULL ? found : fn_jfilter_find_seq(name, n);
    return found != NULL ? found : fn_jfilter_find_map(name, n);
}
