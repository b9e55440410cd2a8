#include "tokens/jinja_format.h"

#include <math.h>
#include <string.h>

#include "tokens/jinja_eval.h"
#include "tokens/jinja_number.h"
#include "tokens/jinja_repr.h"
#include "tokens/jinja_run.h"
#include "tokens/jinja_unicode.h"

#define MAX_WIDTH 100000000

typedef struct formatter {
    fn_jrun *run;
    const fn_jstr *s;
    fn_jbuf buf;
    const fn_jval *args;
    size_t n_args;
    size_t next_arg;
    const fn_jkeyword *keywords;
    size_t n_keywords;
    fn_jval single; /* the right side of % */
    bool manual, automatic;
} formatter;

static int64_t read_digits(const char *p, size_t n, size_t *at) {
    int64_t value = 0;
    for (; *at < n && p[*at] >= '0' && p[*at] <= '9'; (*at)++) {
        value = value < MAX_WIDTH ? value * 10 + (p[*at] - '0') : value;
    }
    return value;
}

/* ---- % ---- */

static fn_jval percent_named(formatter *f, size_t *at) {
    size_t begin = *at + 1;
    size_t end = begin;
    while (end < f->s->n && f->s->p[end] != ')') {
        end++;
    }
    if (end == f->s->n) {
        return fn_jrun_error(f->run, "incomplete format key");
    }
    *at = end + 1;
    if (f->single.type != FN_J_DICT) {
        return fn_jrun_error(f->run, "format requires a mapping");
    }
    fn_jval v = fn_jdict_get_text(f->single.as.dict, f->s->p + begin, end - begin);
    if (v.type == FN_J_MISSING) {
        return fn_jrun_error(f->run, "'%.*s'", (int)(end - begin), f->s->p + begin);
    }
    return v;
}

static fn_jval percent_next(formatter *f) {
    if (f->next_arg >= f->n_args) {
        return fn_jrun_error(f->run, "not enough arguments for format string");
    }
    return f->args[f->next_arg++];
}

static void percent_flags(const fn_jstr *s, size_t *at, fn_jfield *field) {
    for (; *at < s->n && strchr("-+ #0", s->p[*at]) != NULL && s->p[*at] != 0; (*at)++) {
        char c = s->p[*at];
        field->align = (char)(c == '-' ? '<' : field->align);
        field->sign = (char)(c == '+' || (c == ' ' && field->sign != '+') ? c : field->sign);
        field->alternate = field->alternate || c == '#';
        field->zero = field->zero || c == '0';
    }
    field->zero = field->zero && field->align != '<';
}

static bool percent_number(formatter *f, fn_jfield *field, fn_jval v) {
    bool integer = strchr("diuxXo", field->type) != NULL;
    if (!fn_j_is_number(v)) {
        if (strchr("xXo", field->type) != NULL) {
            (void)fn_jrun_error(f->run, "%%%c format: an integer is required, not %s", field->type,
                                fn_j_type_name(v));
        } else if (integer) {
            (void)fn_jrun_error(f->run, "%%%c format: a real number is required, not %s",
                                field->type, fn_j_type_name(v));
        } else {
            (void)fn_jrun_error(f->run, "must be real number, not %s", fn_j_type_name(v));
        }
        return false;
    }
    if (integer && v.type == FN_J_FLOAT) {
        if (strchr("xXo", field->type) != NULL || fabs(v.as.d) >= 9.0e18 || isnan(v.as.d)) {
            (void)fn_jrun_error(f->run, "%%%c format: an integer is required, not float",
                                field->type);
            return false;
        }
        v = fn_j_int((int64_t)v.as.d);
    }
    field->type = (char)(strchr("iu", field->type) != NULL ? 'd' : field->type);
    field->precision = integer ? -1 : field->precision;
    return fn_jfield_number(f->run, &f->buf, field, v);
}

static bool percent_text(formatter *f, fn_jfield *field, fn_jval v) {
    fn_jval text = field->type == 's' ? fn_j_to_str(f->run, v) : fn_j_repr(f->run, v);
    if (field->type == 'c') {
        if (v.type == FN_J_INT && v.as.i >= 0 && v.as.i < 0x110000) {
            fn_jbuf one = {0};
            fn_jbuf_add_char(f->run, &one, (uint32_t)v.as.i, false);
            text = fn_jbuf_take(f->run, &one);
        } else if (v.type == FN_J_STRING && v.as.s->n_chars == 1) {
            text = v;
        } else {
            text = fn_jrun_error(f->run, "%%c requires int or char");
        }
    }
    if (fn_j_failed(text)) {
        return false;
    }
    field->align = field->align == '<' ? '<' : '>';
    fn_jfield_text(f->run, &f->buf, field, text.as.s);
    return f->run->status == FN_OK;
}

static bool percent_field(formatter *f, size_t *at) {
    fn_jfield field = {.precision = -1};
    bool named = *at < f->s->n && f->s->p[*at] == '(';
    fn_jval v = {.type = FN_J_MISSING};
    if (named) {
        v = percent_named(f, at);
        if (fn_j_failed(v)) {
            return false;
        }
    }
    percent_flags(f->s, at, &field);
    field.width = read_digits(f->s->p, f->s->n, at);
    if (*at < f->s->n && f->s->p[*at] == '.') {
        *at += 1;
        field.precision = read_digits(f->s->p, f->s->n, at);
    }
    if (*at >= f->s->n) {
        (void)fn_jrun_error(f->run, "incomplete format");
        return false;
    }
    field.type = f->s->p[(*at)++];
    if (field.type == '%') {
        fn_jbuf_add_text(f->run, &f->buf, "%");
        return true;
    }
    if (field.type == 0 || strchr("diuxXoeEfFgGsrac", field.type) == NULL) {
        (void)fn_jrun_error(f->run, "unsupported format character '%c' (0x%x) at index %zu",
                            field.type, (unsigned)(unsigned char)field.type, *at - 1);
        return false;
    }
    v = named ? v : percent_next(f);
    if (fn_j_failed(v)) {
        return false;
    }
    return strchr("srac", field.type) != NULL ? percent_text(f, &field, v)
                                              : percent_number(f, &field, v);
}

fn_jval fn_jformat_percent_value(fn_jrun *run, const fn_jstr *format, fn_jval v) {
    formatter f = {.run = run, .s = format, .single = v, .args = &v, .n_args = 1};
    bool tuple =
        v.type == FN_J_SEQ && (v.as.seq->kind == FN_JSEQ_TUPLE || v.as.seq->kind == FN_JSEQ_GROUP);
    if (tuple) {
        f.args = v.as.seq->items;
        f.n_args = v.as.seq->n;
    }
    size_t at = 0;
    while (at < format->n) {
        size_t plain = at;
        while (plain < format->n && format->p[plain] != '%') {
            plain++;
        }
        fn_jbuf_add_part(run, &f.buf, format, at, plain);
        at = plain + 1;
        if (plain < format->n && !percent_field(&f, &at)) {
            return fn_j_fail();
        }
    }
    bool mapping =
        v.type == FN_J_DICT || v.type == FN_J_UNDEFINED || (v.type == FN_J_SEQ && !tuple);
    if (f.next_arg < f.n_args && !mapping) {
        return fn_jrun_error(run, "not all arguments converted during string formatting");
    }
    return fn_jbuf_take(run, &f.buf);
}

/* ---- str.format ---- */

static fn_jval brace_value(formatter *f, const char *name, size_t n) {
    size_t at = 0;
    int64_t index = read_digits(name, n, &at);
    bool number = n > 0 && at == n;
    if (n == 0 || number) {
        if ((n == 0 && f->manual) || (number && f->automatic)) {
            return fn_jrun_error(f->run, "cannot switch from manual field specification to "
                                         "automatic field numbering");
        }
        f->automatic = f->automatic || n == 0;
        f->manual = f->manual || number;
        size_t which = number ? (size_t)index : f->next_arg++;
        return which < f->n_args ? f->args[which]
                                 : fn_jrun_error(f->run, "tuple index out of range");
    }
    for (size_t i = 0; i < f->n_keywords; i++) {
        const fn_jstr *key = f->keywords[i].name.as.s;
        if (key->n == n && memcmp(key->p, name, n) == 0) {
            return f->keywords[i].value;
        }
    }
    return fn_jrun_error(f->run, "'%.*s'", (int)n, name);
}

/* name, then .attribute and [key] as often as there are. */
static fn_jval brace_path(formatter *f, const char *p, size_t n) {
    size_t at = 0;
    while (at < n && p[at] != '.' && p[at] != '[') {
        at++;
    }
    fn_jval v = brace_value(f, p, at);
    while (at < n && !fn_j_failed(v)) {
        bool item = p[at] == '[';
        size_t begin = at + 1;
        size_t end = begin;
        while (end < n && (item ? p[end] != ']' : p[end] != '.' && p[end] != '[')) {
            end++;
        }
        if (item && end == n) {
            return fn_jrun_error(f->run, "Missing ']' in format string");
        }
        size_t digits = begin;
        int64_t index = read_digits(p, end, &digits);
        fn_jval name = fn_jstr_view(f->run, p + begin, end - begin, false);
        if (fn_j_failed(name)) {
            return name;
        }
        v = !item ? fn_jattr_get(f->run, v, name)
                  : fn_jitem_get(f->run, v, digits == end && end > begin ? fn_j_int(index) : name);
        at = end + (item ? 1 : 0);
    }
    return v;
}

static bool read_spec(formatter *f, const fn_jstr *spec, fn_jfield *field) {
    const char *p = spec->p;
    size_t n = spec->n;
    size_t at = 0;
    *field = (fn_jfield){.precision = -1};
    size_t first = n > 0 ? fn_jstr_next(spec, 0) : 0;
    if (n > first && first > 0 && strchr("<>^=", p[first]) != NULL && p[first] != 0) {
        field->fill = fn_jstr_char(spec, 0);
        field->align = p[first];
        at = first + 1;
    } else if (n > 0 && p[0] != 0 && strchr("<>^=", p[0]) != NULL) {
        field->align = p[0];
        at = 1;
    }
    if (at < n && (p[at] == '+' || p[at] == '-' || p[at] == ' ')) {
        field->sign = p[at++];
    }
    field->alternate = at < n && p[at] == '#';
    at += field->alternate ? 1 : 0;
    field->zero = at < n && p[at] == '0';
    field->width = read_digits(p, n, &at);
    if (at < n && (p[at] == ',' || p[at] == '_')) {
        field->group = p[at++];
    }
    if (at < n && p[at] == '.') {
        size_t digits = ++at;
        field->precision = read_digits(p, n, &at);
        if (at == digits) {
            (void)fn_jrun_error(f->run, "Format specifier missing precision");
            return false;
        }
    }
    field->type = (char)(at < n ? p[at++] : 0);
    if (at < n) {
        (void)fn_jrun_error(f->run, "Invalid format specifier '%.*s'", (int)n, p);
    }
    return at == n;
}

static bool brace_number(formatter *f, fn_jfield *field, fn_jval v) {
    const char *known = v.type == FN_J_FLOAT ? "eEfFgG%" : "dxXobeEfFgG%";
    if (field->type == 'n') {
        field->type = v.type == FN_J_FLOAT ? 'g' : 'd';
    }
    if (field->type != 0 && strchr(known, field->type) == NULL) {
        (void)fn_jrun_error(f->run, "Unknown format code '%c' for object of type '%s'", field->type,
                            fn_j_type_name(v));
        return false;
    }
    bool integer = v.type != FN_J_FLOAT && (field->type == 0 || strchr("dxXob", field->type));
    if (integer && field->precision >= 0) {
        (void)fn_jrun_error(f->run, "Precision not allowed in integer format specifier");
        return false;
    }
    return fn_jfield_number(f->run, &f->buf, field, v);
}

static bool brace_write(formatter *f, fn_jval v, const fn_jstr *spec) {
    fn_jfield field;
    if (spec->n == 0) {
        fn_j_write_str(f->run, &f->buf, v);
        return f->run->status == FN_OK;
    }
    if (!fn_j_is_number(v) && v.type != FN_J_STRING) {
        (void)fn_jrun_error(f->run, "unsupported format string passed to %s.__format__",
                            fn_j_type_name(v));
        return false;
    }
    if (!read_spec(f, spec, &field)) {
        return false;
    }
    if (fn_j_is_number(v)) {
        return brace_number(f, &field, v);
    }
    if (field.type != 0 && field.type != 's') {
        (void)fn_jrun_error(f->run, "Unknown format code '%c' for object of type 'str'",
                            field.type);
        return false;
    }
    if (field.zero && field.align == 0) {
        field.fill = '0';
    }
    fn_jfield_text(f->run, &f->buf, &field, v.as.s);
    return f->run->status == FN_OK;
}

static fn_jval spec_text(formatter *f, const char *p, size_t n) {
    fn_jbuf buf = {0};
    size_t at = 0;
    while (at < n) {
        if (p[at] != '{') {
            fn_jbuf_add(f->run, &buf, p + at, 1, false);
            at++;
            continue;
        }
        size_t end = at + 1;
        while (end < n && p[end] != '}') {
            end++;
        }
        fn_jval v = brace_path(f, p + at + 1, end - at - 1);
        if (fn_j_failed(v)) {
            return v;
        }
        fn_j_write_str(f->run, &buf, v);
        at = end + 1;
    }
    return fn_jbuf_take(f->run, &buf);
}

/* The text between { and }. */
static bool brace_field(formatter *f, const char *p, size_t n) {
    size_t name = 0;
    size_t brackets = 0;
    while (name < n && (brackets > 0 || (p[name] != '!' && p[name] != ':'))) {
        brackets += p[name] == '[' ? 1 : 0;
        brackets -= p[name] == ']' && brackets > 0 ? 1 : 0;
        name++;
    }
    fn_jval v = brace_path(f, p, name);
    size_t at = name;
    if (at < n && p[at] == '!' && !fn_j_failed(v)) {
        char conversion = (char)(at + 1 < n ? p[at + 1] : 0);
        if (conversion != 'r' && conversion != 's' && conversion != 'a') {
            (void)fn_jrun_error(f->run, "Unknown conversion specifier %c", conversion);
            return false;
        }
        v = conversion == 's' ? fn_j_to_str(f->run, v) : fn_j_repr(f->run, v);
        at += 2;
    }
    if (fn_j_failed(v)) {
        return false;
    }
    size_t begin = at < n && p[at] == ':' ? at + 1 : n;
    fn_jval spec = spec_text(f, p + begin, n - begin);
    return !fn_j_failed(spec) && brace_write(f, v, spec.as.s);
}

static size_t brace_end(const fn_jstr *s, size_t at) {
    size_t depth = 1;
    while (at < s->n) {
        depth += s->p[at] == '{' ? 1 : 0;
        depth -= s->p[at] == '}' ? 1 : 0;
        if (depth == 0) {
            return at;
        }
        at++;
    }
    return SIZE_MAX;
}

fn_jval fn_jformat_braces(fn_jrun *run, const fn_jstr *format, const fn_jval *args, size_t n,
                          const fn_jkeyword *keywords, size_t n_keywords) {
    formatter f = {.run = run,
                   .s = format,
                   .args = args,
                   .n_args = n,
                   .keywords = keywords,
                   .n_keywords = n_keywords};
    size_t at = 0;
    while (at < format->n) {
        char c = format->p[at];
        if (c != '{' && c != '}') {
            size_t next = fn_jstr_next(format, at);
            fn_jbuf_add_part(run, &f.buf, format, at, next);
            at = next;
            continue;
        }
        if (at + 1 < format->n && format->p[at + 1] == c) {
            fn_jbuf_add_part(run, &f.buf, format, at, at + 1);
            at += 2;
            continue;
        }
        if (c == '}' || at + 1 == format->n) {
            return fn_jrun_error(run, "Single '%c' encountered in format string", c);
        }
        size_t end = brace_end(format, at + 1);
        if (end == SIZE_MAX) {
            return fn_jrun_error(run, "expected '}' before end of string");
        }
        if (!brace_field(&f, format->p + at + 1, end - at - 1)) {
            return fn_j_fail();
        }
        at = end + 1;
    }
    return fn_jbuf_take(run, &f.buf);
}
