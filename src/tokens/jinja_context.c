#include "tokens/jinja_context.h"

#include <string.h>

#include "base/json.h"
#include "tokens/jinja_number.h"
#include "tokens/jinja_string.h"
#include "tokens/jinja_unicode.h"

typedef struct reader {
    fn_jrun *run;
    const char *p;
    size_t n;
    size_t at;
    bool tainted;
} reader;

static fn_jval read_value(reader *r, size_t depth);

static fn_jval bad(reader *r, const char *what) {
    if (r->run->status == FN_OK) {
        r->run->status = fn_fail(r->run->err, FN_E_USAGE,
                                 "template variables: not valid JSON at byte %zu: %s", r->at, what);
    }
    return fn_j_fail();
}

static void skip_space(reader *r) {
    while (r->at < r->n && r->p[r->at] != 0 && strchr(" \t\r\n", r->p[r->at]) != NULL) {
        r->at++;
    }
}

static bool take(reader *r, char c) {
    skip_space(r);
    bool is = r->at < r->n && r->p[r->at] == c;
    r->at += is ? 1 : 0;
    return is;
}

static bool hex4(reader *r, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        char c = (char)(r->at < r->n ? r->p[r->at] : 0);
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 99;
        if (digit == 99) {
            (void)bad(r, "\\u needs four hexadecimal digits");
            return false;
        }
        *out = *out * 16 + digit;
    }
    return true;
}

static bool read_unicode(reader *r, fn_jbuf *buf) {
    uint32_t c = 0;
    uint32_t low = 0;
    if (!hex4(r, &c)) {
        return false;
    }
    bool pair = c >= 0xD800 && c <= 0xDBFF && r->at + 1 < r->n && r->p[r->at] == '\\' &&
                r->p[r->at + 1] == 'u';
    if (pair) {
        r->at += 2;
        if (!hex4(r, &low)) {
            return false;
        }
    }
    if (pair && low >= 0xDC00 && low <= 0xDFFF) {
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    } else if ((c >= 0xD800 && c <= 0xDFFF) || pair) {
        (void)bad(r, "half of a surrogate pair");
        return false;
    }
    fn_jbuf_add_char(r->run, buf, c, r->tainted);
    return true;
}

static bool read_escape(reader *r, fn_jbuf *buf) {
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    char c = (char)(r->at < r->n ? r->p[r->at++] : 0);
    if (c == 'u') {
        return read_unicode(r, buf);
    }
    const char *known = c != 0 ? strchr(letters, c) : NULL;
    if (known == NULL) {
        (void)bad(r, "unknown escape");
        return false;
    }
    fn_jbuf_add(r->run, buf, meanings + (known - letters), 1, r->tainted);
    return true;
}

/* Behind the opening quote. Text without escapes is viewed where it lies: the caller keeps it. */
static fn_jval read_string(reader *r) {
    fn_jbuf buf = {0};
    bool escaped = false;
    size_t begin = r->at;
    while (r->at < r->n && r->p[r->at] != '"') {
        unsigned char c = (unsigned char)r->p[r->at];
        if (c < 0x20) {
            return bad(r, "control character in a string");
        }
        r->at++;
        if (c == '\\') {
            escaped = true;
            fn_jbuf_add(r->run, &buf, r->p + begin, r->at - 1 - begin, r->tainted);
            if (!read_escape(r, &buf)) {
                return fn_j_fail();
            }
            begin = r->at;
        }
    }
    if (r->at >= r->n) {
        return bad(r, "a string without end");
    }
    size_t end = r->at++;
    if (!escaped) {
        return fn_jstr_view(r->run, r->p + begin, end - begin, r->tainted);
    }
    fn_jbuf_add(r->run, &buf, r->p + begin, end - begin, r->tainted);
    return fn_jbuf_take(r->run, &buf);
}

static bool is_digit(const reader *r, size_t at) {
    return at < r->n && r->p[at] >= '0' && r->p[at] <= '9';
}

static size_t skip_digits(const reader *r, size_t at) {
    while (is_digit(r, at)) {
        at++;
    }
    return at;
}

static fn_jval read_number(reader *r) {
    size_t begin = r->at;
    size_t first = begin + (r->p[begin] == '-' ? 1 : 0);
    size_t at = skip_digits(r, first);
    bool leading_zero = at > first + 1 && r->p[first] == '0';
    bool integer = true;
    if (at == first || leading_zero) {
        return bad(r, "a number begins with a digit other than 0");
    }
    if (at < r->n && r->p[at] == '.') {
        integer = false;
        if (!is_digit(r, at + 1)) {
            return bad(r, "digits are missing behind the point");
        }
        at = skip_digits(r, at + 1);
    }
    if (at < r->n && (r->p[at] == 'e' || r->p[at] == 'E')) {
        integer = false;
        at += at + 1 < r->n && (r->p[at + 1] == '+' || r->p[at + 1] == '-') ? 2 : 1;
        if (!is_digit(r, at)) {
            return bad(r, "digits are missing in the exponent");
        }
        at = skip_digits(r, at);
    }
    r->at = at;
    if (integer) {
        return fn_jnum_parse_int(r->run, r->p + begin, at - begin);
    }
    bool ok = false;
    return fn_j_float(fn_jnum_parse_float(r->p + begin, at - begin, &ok));
}

static fn_jval read_array(reader *r, size_t depth) {
    fn_jlist list = {0};
    if (take(r, ']')) {
        return fn_j_seq(r->run, FN_JSEQ_LIST, NULL, 0);
    }
    do {
        if (!fn_jlist_push(r->run, &list, read_value(r, depth + 1))) {
            return fn_j_fail();
        }
    } while (take(r, ','));
    if (!take(r, ']')) {
        return bad(r, "expected ',' or ']'");
    }
    return fn_j_seq(r->run, FN_JSEQ_LIST, list.items, list.n);
}

static bool read_member(reader *r, fn_jdict *dict, size_t depth) {
    if (!take(r, '"')) {
        (void)bad(r, "expected a name in quotes");
        return false;
    }
    fn_jval key = read_string(r);
    if (fn_j_failed(key)) {
        return false;
    }
    if (!take(r, ':')) {
        (void)bad(r, "expected ':'");
        return false;
    }
    return fn_jdict_set(r->run, dict, key, read_value(r, depth + 1));
}

static bool read_members(reader *r, fn_jdict *dict, size_t depth) {
    if (take(r, '}')) {
        return true;
    }
    do {
        if (!read_member(r, dict, depth)) {
            return false;
        }
    } while (take(r, ','));
    if (!take(r, '}')) {
        (void)bad(r, "expected ',' or '}'");
        return false;
    }
    return true;
}

static fn_jval read_word(reader *r) {
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if (r->n - r->at >= n && memcmp(r->p + r->at, words[i], n) == 0) {
            r->at += n;
            return i == 2 ? fn_j_none() : fn_j_bool(i == 0);
        }
    }
    return bad(r, "expected a value");
}

static fn_jval read_value(reader *r, size_t depth) {
    if (!fn_jrun_depth_ok(r->run, depth)) {
        return fn_j_fail();
    }
    skip_space(r);
    char c = (char)(r->at < r->n ? r->p[r->at] : 0);
    if (c == '"') {
        r->at++;
        return read_string(r);
    }
    if (c == '[') {
        r->at++;
        return read_array(r, depth);
    }
    if (c == '{') {
        r->at++;
        fn_jdict *dict = fn_jdict_new(r->run);
        bool ok = dict != NULL && read_members(r, dict, depth);
        return ok ? (fn_jval){.type = FN_J_DICT, .as.dict = dict} : fn_j_fail();
    }
    return c == '-' || (c >= '0' && c <= '9') ? read_number(r) : read_word(r);
}

bool fn_jcontext_add_text(fn_jrun *run, fn_jdict *context, const char *text, size_t n,
                          bool tainted) {
    reader r = {.run = run, .p = text, .n = n, .tainted = tainted};
    if (!fn_junicode_valid(text, n, &r.at)) {
        (void)bad(&r, "not UTF-8");
        return false;
    }
    r.at = 0;
    if (!take(&r, '{')) {
        (void)bad(&r, "expected an object");
        return false;
    }
    if (!read_members(&r, context, 0)) {
        return false;
    }
    skip_space(&r);
    if (r.at < n) {
        (void)bad(&r, "text behind the object");
    }
    return run->status == FN_OK;
}

/* ---- jansson ---- */

static fn_jval from_json(fn_jrun *run, const json_t *v, bool tainted, size_t depth);

static fn_jval from_array(fn_jrun *run, const json_t *v, bool tainted, size_t depth) {
    size_t n = json_array_size(v);
    fn_jval *items = fn_jrun_array(run, n, sizeof *items);
    for (size_t i = 0; items != NULL && i < n; i++) {
        items[i] = from_json(run, json_array_get(v, i), tainted, depth + 1);
        if (fn_j_failed(items[i])) {
            return items[i];
        }
    }
    return items != NULL ? fn_j_seq(run, FN_JSEQ_LIST, items, n) : fn_j_fail();
}

static bool ends_in_token(const char *name, size_t n) {
    return n >= 6 && memcmp(name + n - 6, "_token", 6) == 0;
}

static bool from_object(fn_jrun *run, fn_jdict *dict, const json_t *v, bool tainted,
                        bool tokens_clean, size_t depth) {
    /* jansson has no const iteration; nothing is changed here. */
    union {
        const json_t *given;
        json_t *plain;
    } object = {.given = v};
    for (void *at = json_object_iter(object.plain); at != NULL;
         at = json_object_iter_next(object.plain, at)) {
        const char *name = json_object_iter_key(at);
        const json_t *member = json_object_iter_value(at);
        size_t n = json_object_iter_key_len(at);
        bool clean = tokens_clean && json_is_string(member) && ends_in_token(name, n);
        fn_jval key = fn_jstr_view(run, name, n, tainted && !tokens_clean);
        fn_jval value = from_json(run, member, tainted && !clean, depth + 1);
        if (!fn_jdict_set(run, dict, key, value)) {
            return false;
        }
    }
    return true;
}

static fn_jval from_json(fn_jrun *run, const json_t *v, bool tainted, size_t depth) {
    if (!fn_jrun_depth_ok(run, depth)) {
        return fn_j_fail();
    }
    fn_jdict *dict = NULL;
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        dict = fn_jdict_new(run);
        return dict != NULL && from_object(run, dict, v, tainted, false, depth)
                   ? (fn_jval){.type = FN_J_DICT, .as.dict = dict}
                   : fn_j_fail();
    case JSON_ARRAY:
        return from_array(run, v, tainted, depth);
    case JSON_STRING:
        return fn_jstr_view(run, json_string_value(v), json_string_length(v), tainted);
    case JSON_INTEGER:
        return fn_j_int(json_integer_value(v));
    case JSON_REAL:
        return fn_j_float(json_real_value(v));
    case JSON_TRUE:
    case JSON_FALSE:
        return fn_j_bool(json_is_true(v));
    case JSON_NULL:
        break;
    }
    return fn_j_none();
}

bool fn_jcontext_add_json(fn_jrun *run, fn_jdict *context, const json_t *object, bool tainted,
                          bool tokens_clean) {
    if (!json_is_object(object)) {
        run->status =
            fn_fail(run->err, FN_E_USAGE, "template variables: expected an object, found %s",
                    object != NULL ? fn_json_type_name(object) : "nothing");
        return false;
    }
    return from_object(run, context, object, tainted, tokens_clean, 0);
}
