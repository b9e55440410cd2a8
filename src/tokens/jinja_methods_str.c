/* Methods of strings (jinja_builtin.h). */
#include <string.h>

#include "tokens/jinja_eval.h"
#include "tokens/jinja_format.h"
#include "tokens/jinja_text.h"

#define METHOD(name) static fn_jval name(fn_jrun *run, const fn_jval *in, const fn_jargs *args)

/* None and nothing at all are alike for these arguments. */
static bool optional_text(fn_jrun *run, fn_jval v, const fn_jstr **out) {
    *out = NULL;
    return v.type == FN_J_MISSING || v.type == FN_J_NONE || fn_jarg_str(run, v, out);
}

static fn_jval stripped(fn_jrun *run, const fn_jval *in, const char *name, bool left, bool right) {
    const fn_jstr *set = NULL;
    if (in[1].type != FN_J_MISSING && in[1].type != FN_J_NONE && in[1].type != FN_J_STRING) {
        return fn_jrun_error(run, "%s arg must be None or str", name);
    }
    if (!optional_text(run, in[1], &set)) {
        return fn_j_fail();
    }
    return fn_jstr_strip(run, in[0].as.s, set, left, right);
}

METHOD(strip) {
    (void)args;
    return stripped(run, in, "strip", true, true);
}

METHOD(lstrip) {
    (void)args;
    return stripped(run, in, "lstrip", true, false);
}

METHOD(rstrip) {
    (void)args;
    return stripped(run, in, "rstrip", false, true);
}

static fn_jval split_by(fn_jrun *run, const fn_jval *in,
                        fn_jval (*split)(fn_jrun *, const fn_jstr *, const fn_jstr *, int64_t)) {
    int64_t limit = -1;
    const fn_jstr *separator = NULL;
    if (in[1].type != FN_J_MISSING && in[1].type != FN_J_NONE && in[1].type != FN_J_STRING) {
        return fn_jrun_error(run, "must be str or None, not %s", fn_j_type_name(in[1]));
    }
    if (!optional_text(run, in[1], &separator) || !fn_jarg_int(run, in[2], -1, &limit)) {
        return fn_j_fail();
    }
    return split(run, in[0].as.s, separator, limit);
}

METHOD(split) {
    (void)args;
    return split_by(run, in, fn_jtext_split);
}

METHOD(rsplit) {
    (void)args;
    return split_by(run, in, fn_jtext_rsplit);
}

METHOD(splitlines) {
    (void)args;
    fn_jlist lines = {0};
    if (!fn_jtext_lines(run, in[0].as.s, fn_j_truth(in[1]), &lines)) {
        return fn_j_fail();
    }
    return fn_j_seq(run, FN_JSEQ_LIST, lines.items, lines.n);
}

/* [start, end) in characters, as slices count, to bytes; false when start is beyond the end. */
static bool byte_range(fn_jrun *run, const fn_jstr *s, fn_jval start, fn_jval end, size_t *from,
                       size_t *to) {
    int64_t n = (int64_t)s->n_chars;
    int64_t a = 0;
    int64_t b = 0;
    start = start.type == FN_J_NONE ? (fn_jval){.type = FN_J_MISSING} : start;
    end = end.type == FN_J_NONE ? (fn_jval){.type = FN_J_MISSING} : end;
    if (!fn_jarg_int(run, start, 0, &a) || !fn_jarg_int(run, end, n, &b)) {
        return false;
    }
    a = a < 0 ? (a < -n ? 0 : a + n) : a;
    b = b < 0 ? (b < -n ? 0 : b + n) : b > n ? n : b;
    if (a > b || a > n) {
        return false;
    }
    *from = fn_jstr_offset(s, (size_t)a);
    *to = fn_jstr_offset(s, (size_t)b);
    return true;
}

static bool affix(const fn_jstr *s, size_t from, size_t to, const fn_jstr *part, bool at_end) {
    if (part->n > to - from) {
        return false;
    }
    return memcmp(at_end ? s->p + to - part->n : s->p + from, part->p, part->n) == 0;
}

static fn_jval has_affix(fn_jrun *run, const fn_jval *in, const char *name, bool at_end) {
    size_t from = 0;
    size_t to = 0;
    bool tuple = in[1].type == FN_J_SEQ && in[1].as.seq->kind == FN_JSEQ_TUPLE;
    if (in[1].type != FN_J_STRING && !tuple) {
        return fn_jrun_error(run, "%s first arg must be str or a tuple of str, not %s", name,
                             fn_j_type_name(in[1]));
    }
    if (!byte_range(run, in[0].as.s, in[2], in[3], &from, &to)) {
        return run->status == FN_OK ? fn_j_bool(false) : fn_j_fail();
    }
    if (!tuple) {
        return fn_j_bool(affix(in[0].as.s, from, to, in[1].as.s, at_end));
    }
    for (size_t i = 0; i < in[1].as.seq->n; i++) {
        fn_jval part = in[1].as.seq->items[i];
        if (part.type != FN_J_STRING) {
            return fn_jrun_error(run, "tuple for %s must only contain str, not %s", name,
                                 fn_j_type_name(part));
        }
        if (affix(in[0].as.s, from, to, part.as.s, at_end)) {
            return fn_j_bool(true);
        }
    }
    return fn_j_bool(false);
}

METHOD(startswith) {
    (void)args;
    return has_affix(run, in, "startswith", false);
}

METHOD(endswith) {
    (void)args;
    return has_affix(run, in, "endswith", true);
}

METHOD(replace) {
    (void)args;
    int64_t limit = -1;
    for (int i = 1; i <= 2; i++) {
        if (in[i].type != FN_J_STRING) {
            return fn_jrun_error(run, "replace() argument %d must be str, not %s", i,
                                 fn_j_type_name(in[i]));
        }
    }
    if (!fn_jarg_int(run, in[3], -1, &limit)) {
        return fn_j_fail();
    }
    return fn_jstr_replace(run, in[0].as.s, in[1].as.s, in[2].as.s, limit);
}

METHOD(upper) {
    (void)args;
    return fn_jtext_case(run, in[0].as.s, FN_JCASE_UPPER);
}

METHOD(lower) {
    (void)args;
    return fn_jtext_case(run, in[0].as.s, FN_JCASE_LOWER);
}

METHOD(casefold) {
    (void)args;
    return fn_jtext_case(run, in[0].as.s, FN_JCASE_FOLD);
}

METHOD(title) {
    (void)args;
    return fn_jtext_title(run, in[0].as.s);
}

METHOD(capitalize) {
    (void)args;
    return fn_jtext_capitalize(run, in[0].as.s);
}

METHOD(swapcase) {
    (void)args;
    return fn_jtext_swapcase(run, in[0].as.s);
}

METHOD(join) {
    (void)args;
    const fn_jval *items = NULL;
    size_t n = 0;
    if (in[1].type != FN_J_STRING && in[1].type != FN_J_SEQ && in[1].type != FN_J_DICT &&
        in[1].type != FN_J_ITER && in[1].type != FN_J_UNDEFINED) {
        return fn_jrun_error(run, "can only join an iterable");
    }
    if (!fn_j_items(run, in[1], &items, &n)) {
        return fn_j_fail();
    }
    return fn_jtext_join(run, in[0].as.s, items, n, true);
}

/* The character index of the first or last occurrence in the range; -1: none, -2: failed. */
static int64_t position(fn_jrun *run, const fn_jval *in, bool last) {
    const fn_jstr *s = in[0].as.s;
    const fn_jstr *part = NULL;
    size_t from = 0;
    size_t to = 0;
    if (in[1].type != FN_J_STRING) {
        (void)fn_jrun_error(run, "must be str, not %s", fn_j_type_name(in[1]));
        return -2;
    }
    part = in[1].as.s;
    if (!byte_range(run, s, in[2], in[3], &from, &to)) {
        return run->status == FN_OK ? -1 : -2;
    }
    fn_jstr window = {.p = s->p, .n = to};
    size_t hit =
        last ? fn_jstr_rfind(run, &window, part, to) : fn_jstr_find(run, &window, part, from);
    if (run->status != FN_OK) {
        return -2;
    }
    if (hit == SIZE_MAX || hit < from) {
        return -1;
    }
    int64_t chars = 0;
    for (size_t at = 0; at < hit; at = fn_jstr_next(s, at)) {
        chars++;
    }
    return chars;
}

static fn_jval found(fn_jrun *run, int64_t at, bool required) {
    if (at == -2) {
        return fn_j_fail();
    }
    return at == -1 && required ? fn_jrun_error(run, "substring not found") : fn_j_int(at);
}

METHOD(find) {
    (void)args;
    return found(run, position(run, in, false), false);
}

METHOD(rfind) {
    (void)args;
    return found(run, position(run, in, true), false);
}

METHOD(str_index) {
    (void)args;
    return found(run, position(run, in, false), true);
}

METHOD(str_rindex) {
    (void)args;
    return found(run, position(run, in, true), true);
}

METHOD(count) {
    (void)args;
    const fn_jstr *s = in[0].as.s;
    size_t from = 0;
    size_t to = 0;
    if (in[1].type != FN_J_STRING) {
        return fn_jrun_error(run, "must be str, not %s", fn_j_type_name(in[1]));
    }
    if (!byte_range(run, s, in[2], in[3], &from, &to)) {
        return run->status == FN_OK ? fn_j_int(0) : fn_j_fail();
    }
    fn_jstr window = {.p = s->p, .n = to};
    int64_t n = 0;
    if (in[1].as.s->n == 0) {
        for (; from < to; from = fn_jstr_next(s, from)) {
            n++;
        }
        return fn_j_int(n + 1);
    }
    for (size_t at = fn_jstr_find(run, &window, in[1].as.s, from); at != SIZE_MAX;
         at = fn_jstr_find(run, &window, in[1].as.s, at + in[1].as.s->n)) {
        n++;
    }
    return run->status == FN_OK ? fn_j_int(n) : fn_j_fail();
}

METHOD(format) {
    (void)in;
    return fn_jformat_braces(run, args->positional[0].as.s, args->positional + 1, args->n - 1,
                             args->keywords, args->n_keywords);
}

static fn_jval remove_affix(fn_jrun *run, const fn_jval *in, const char *name, bool at_end) {
    const fn_jstr *s = in[0].as.s;
    if (in[1].type != FN_J_STRING) {
        return fn_jrun_error(run, "%s() argument must be str, not %s", name, fn_j_type_name(in[1]));
    }
    size_t n = in[1].as.s->n;
    if (!affix(s, 0, s->n, in[1].as.s, at_end)) {
        return in[0];
    }
    return at_end ? fn_jstr_sub(run, s, 0, s->n - n) : fn_jstr_sub(run, s, n, s->n);
}

METHOD(removeprefix) {
    (void)args;
    return remove_affix(run, in, "removeprefix", false);
}

METHOD(removesuffix) {
    (void)args;
    return remove_affix(run, in, "removesuffix", true);
}

static fn_jval partitioned(fn_jrun *run, const fn_jval *in, bool last) {
    const fn_jstr *s = in[0].as.s;
    const fn_jstr *part = NULL;
    if (!fn_jarg_str(run, in[1], &part)) {
        return fn_j_fail();
    }
    if (part->n == 0) {
        return fn_jrun_error(run, "empty separator");
    }
    size_t hit = last ? fn_jstr_rfind(run, s, part, s->n) : fn_jstr_find(run, s, part, 0);
    fn_jval *items = fn_jrun_array(run, 3, sizeof *items);
    if (items == NULL || run->status != FN_OK) {
        return fn_j_fail();
    }
    fn_jval empty = fn_jstr_sub(run, s, 0, 0);
    items[0] = hit != SIZE_MAX ? fn_jstr_sub(run, s, 0, hit) : last ? empty : in[0];
    items[1] = hit != SIZE_MAX ? in[1] : empty;
    items[2] = hit != SIZE_MAX ? fn_jstr_sub(run, s, hit + part->n, s->n) : last ? in[0] : empty;
    return run->status == FN_OK ? fn_j_seq(run, FN_JSEQ_TUPLE, items, 3) : fn_j_fail();
}

METHOD(partition) {
    (void)args;
    return partitioned(run, in, false);
}

METHOD(rpartition) {
    (void)args;
    return partitioned(run, in, true);
}

static fn_jval padded(fn_jrun *run, const fn_jval *in, char align) {
    int64_t width = 0;
    uint32_t fill = ' ';
    if (!fn_jarg_int(run, in[1], 0, &width)) {
        return fn_j_fail();
    }
    if (in[2].type != FN_J_MISSING) {
        if (in[2].type != FN_J_STRING || in[2].as.s->n_chars != 1) {
            return fn_jrun_error(run, "The fill character must be exactly one character long");
        }
        fill = fn_jstr_char(in[2].as.s, 0);
    }
    return fn_jtext_pad(run, in[0].as.s, align, width, fill);
}

METHOD(ljust) {
    (void)args;
    return padded(run, in, '<');
}

METHOD(rjust) {
    (void)args;
    return padded(run, in, '>');
}

METHOD(center) {
    (void)args;
    return padded(run, in, '^');
}

METHOD(zfill) {
    (void)args;
    const fn_jstr *s = in[0].as.s;
    int64_t width = 0;
    if (!fn_jarg_int(run, in[1], 0, &width)) {
        return fn_j_fail();
    }
    bool sign = s->n > 0 && (s->p[0] == '-' || s->p[0] == '+');
    fn_jval rest = fn_jstr_sub(run, s, sign ? 1 : 0, s->n);
    fn_jval filled =
        fn_j_failed(rest) ? rest : fn_jtext_pad(run, rest.as.s, '>', sign ? width - 1 : width, '0');
    if (fn_j_failed(filled) || !sign) {
        return filled;
    }
    fn_jval first = fn_jstr_sub(run, s, 0, 1);
    return fn_j_failed(first) ? first : fn_jstr_concat(run, first.as.s, filled.as.s);
}

static fn_jval all_chars(const fn_jstr *s, bool (*is)(uint32_t)) {
    for (size_t at = 0; at < s->n; at = fn_jstr_next(s, at)) {
        if (!is(fn_jstr_char(s, at))) {
            return fn_j_bool(false);
        }
    }
    return fn_j_bool(s->n > 0);
}

static bool is_alnum(uint32_t c) {
    return fn_junicode_is_alpha(c) || fn_junicode_is_numeric(c);
}

METHOD(str_isalpha) {
    (void)args;
    (void)run;
    return all_chars(in[0].as.s, fn_junicode_is_alpha);
}

METHOD(str_isalnum) {
    (void)args;
    (void)run;
    return all_chars(in[0].as.s, is_alnum);
}

METHOD(str_isdigit) {
    (void)args;
    (void)run;
    return all_chars(in[0].as.s, fn_junicode_is_digit);
}

METHOD(isdecimal) {
    (void)args;
    (void)run;
    return all_chars(in[0].as.s, fn_junicode_is_decimal);
}

METHOD(isnumeric) {
    (void)args;
    (void)run;
    return all_chars(in[0].as.s, fn_junicode_is_numeric);
}

METHOD(str_isspace) {
    (void)args;
    (void)run;
    return all_chars(in[0].as.s, fn_junicode_is_space);
}

METHOD(str_isascii) {
    (void)args;
    (void)run;
    for (size_t i = 0; i < in[0].as.s->n; i++) {
        if ((unsigned char)in[0].as.s->p[i] >= 0x80) {
            return fn_j_bool(false);
        }
    }
    return fn_j_bool(true);
}

static fn_jval run_test(fn_jrun *run, const fn_jval *in, const char *name) {
    fn_jargs one = {.positional = in, .n = 1};
    return fn_jbuiltin_call(run, fn_jtest_find(name, strlen(name)), &one);
}

METHOD(str_islower) {
    (void)args;
    return run_test(run, in, "lower");
}

METHOD(str_isupper) {
    (void)args;
    return run_test(run, in, "upper");
}

static const fn_jbuiltin methods[] = {
    {"strip", NULL, "self,chars=", strip},
    {"lstrip", NULL, "self,chars=", lstrip},
    {"rstrip", NULL, "self,chars=", rstrip},
    {"split", NULL, "self,sep=,maxsplit=", split},
    {"rsplit", NULL, "self,sep=,maxsplit=", rsplit},
    {"splitlines", NULL, "self,keepends=", splitlines},
    {"startswith", NULL, "self,prefix,start=,end=", startswith},
    {"endswith", NULL, "self,suffix,start=,end=", endswith},
    {"replace", NULL, "self,old,new,count=", replace},
    {"upper", NULL, "self", upper},
    {"lower", NULL, "self", lower},
    {"casefold", NULL, "self", casefold},
    {"title", NULL, "self", title},
    {"capitalize", NULL, "self", capitalize},
    {"swapcase", NULL, "self", swapcase},
    {"join", NULL, "self,iterable", join},
    {"find", NULL, "self,sub,start=,end=", find},
    {"rfind", NULL, "self,sub,start=,end=", rfind},
    {"index", NULL, "self,sub,start=,end=", str_index},
    {"rindex", NULL, "self,sub,start=,end=", str_rindex},
    {"count", NULL, "self,sub,start=,end=", count},
    {"format", NULL, "self,*,**", format},
    {"removeprefix", NULL, "self,prefix", removeprefix},
    {"removesuffix", NULL, "self,suffix", removesuffix},
    {"partition", NULL, "self,sep", partition},
    {"rpartition", NULL, "self,sep", rpartition},
    {"ljust", NULL, "self,width,fillchar=", ljust},
    {"rjust", NULL, "self,width,fillchar=", rjust},
    {"center", NULL, "self,width,fillchar=", center},
    {"zfill", NULL, "self,width", zfill},
    {"isalpha", NULL, "self", str_isalpha},
    {"isalnum", NULL, "self", str_isalnum},
    {"isdigit", NULL, "self", str_isdigit},
    {"isdecimal", NULL, "self", isdecimal},
    {"isnumeric", NULL, "self", isnumeric},
    {"isspace", NULL, "self", str_isspace},
    {"isascii", NULL, "self", str_isascii},
    {"islower", NULL, "self", str_islower},
    {"isupper", NULL, "self", str_isupper},
};

const fn_jbuiltin *fn_jstr_method_find(const char *name, size_t n) {
    return fn_jbuiltin_search(methods, sizeof methods / sizeof methods[0], name, n);
}
