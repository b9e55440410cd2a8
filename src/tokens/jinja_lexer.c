#include "tokens/jinja_lexer.h"

#include <string.h>

#include "tokens/jinja_run.h"
#include "tokens/jinja_string.h"
#include "tokens/jinja_unescape.h"
#include "tokens/jinja_unicode.h"

#define MAX_BRACES 256

typedef struct lexer {
    fn_jrun *run;
    const char *p; /* source with \n line ends, NUL-terminated */
    size_t n;
    size_t at;
    size_t counted; /* line is that of this offset */
    int line;
    bool line_starting; /* the last match ended in a line end */
    char braces[MAX_BRACES];
    size_t n_braces;
    bool failed; /* an ERROR token was added */
    fn_jtoks *out;
} lexer;

const char *fn_jop_text(char op) {
    static const char *const texts[] = {"//f", "**p", "==", "!=!", ">=g", "<=l", "=a"};
    static const char *const shown[] = {"//", "**", "==", "!=", ">=", "<=", "="};
    static const char singles[][2] = {"+", "-", "/", "*", "%", "~", "[", "]", "(", ")",
                                      "{", "}", ">", "<", ".", ":", "|", ",", ";"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i][strlen(texts[i]) - 1] == op) {
            return shown[i];
        }
    }
    for (size_t i = 0; i < sizeof singles / sizeof singles[0]; i++) {
        if (singles[i][0] == op) {
            return singles[i];
        }
    }
    return "?";
}

static int line_of(lexer *x, size_t at) {
    for (; x->counted < at; x->counted++) {
        x->line += x->p[x->counted] == '\n' ? 1 : 0;
    }
    return x->line;
}

static void add(lexer *x, fn_jtok_kind kind, char op, size_t at, const char *text, size_t n) {
    void *items = x->out->items;
    char *copy = NULL;
    if (text != NULL) {
        copy = fn_jrun_alloc(x->run, n + 1);
    }
    if ((text != NULL && copy == NULL) ||
        !fn_jrun_reserve(x->run, &items, &x->out->capacity, x->out->n + 1, sizeof(fn_jtok))) {
        x->failed = true;
        return;
    }
    if (copy != NULL) {
        memcpy(copy, text, n);
        copy[n] = 0;
    }
    x->out->items = items;
    x->out->items[x->out->n++] =
        (fn_jtok){.kind = kind, .op = op, .line = line_of(x, at), .text = copy, .n = n};
}

static void error(lexer *x, size_t at, const char *message) {
    add(x, FN_JTOK_ERROR, 0, at, message, strlen(message));
    x->failed = true;
}

static bool looking_at(const lexer *x, size_t at, const char *text) {
    return strncmp(x->p + at, text, strlen(text)) == 0;
}

static size_t skip_space(const lexer *x, size_t at) {
    while (at < x->n) {
        uint32_t c = fn_junicode_decode(x->p + at, x->n - at);
        char bytes[4];
        if (!fn_junicode_is_space(c)) {
            break;
        }
        at += fn_junicode_encode(c, bytes);
    }
    return at;
}

/* Where the white space before `end` begins. */
static size_t space_before(const lexer *x, size_t begin, size_t end) {
    while (end > begin) {
        size_t at = end - 1;
        while (at > begin && ((unsigned char)x->p[at] & 0xC0u) == 0x80u) {
            at--;
        }
        if (!fn_junicode_is_space(fn_junicode_decode(x->p + at, x->n - at))) {
            break;
        }
        end = at;
    }
    return end;
}

/* The end of the data that stands before a tag at `tag` (which is "{%", "{#" or "{{"). */
static size_t data_end(const lexer *x, size_t begin, size_t tag) {
    char sign = x->p[tag + 2];
    if (sign == '-') {
        return space_before(x, begin, tag);
    }
    if (sign == '+' || x->p[tag + 1] == '{') {
        return tag;
    }
    size_t line = tag;
    while (line > begin && x->p[line - 1] != '\n') {
        line--;
    }
    bool at_line_start = line > begin || x->line_starting;
    size_t blank = space_before(x, line, tag);
    return at_line_start && blank == line ? line : tag;
}

static void add_data(lexer *x, size_t begin, size_t end) {
    if (end > begin) {
        add(x, FN_JTOK_DATA, 0, begin, x->p + begin, end - begin);
    }
}

/* The end of a closing "-%}", "+%}" or "%}" at `at`, with what it swallows; 0 when there is none. */
static size_t close_end(const lexer *x, size_t at, const char *close, bool trim) {
    char with[4] = {'-', close[0], close[1], 0};
    if (looking_at(x, at, with)) {
        return skip_space(x, at + 3);
    }
    with[0] = '+';
    if (trim && looking_at(x, at, with)) {
        return at + 3;
    }
    if (!looking_at(x, at, close)) {
        return 0;
    }
    return at + 2 + (trim && x->p[at + 2] == '\n' ? 1 : 0);
}

static void moved_to(lexer *x, size_t at) {
    x->line_starting = at > x->at && x->p[at - 1] == '\n';
    x->at = at;
}

static void lex_comment(lexer *x, size_t tag) {
    size_t body = tag + 2 + (x->p[tag + 2] == '-' || x->p[tag + 2] == '+' ? 1 : 0);
    for (size_t at = body; at < x->n; at++) {
        size_t end = close_end(x, at, "#}", true);
        if (end > 0) {
            moved_to(x, end);
            return;
        }
    }
    if (body < x->n) {
        error(x, tag, "Missing end of comment tag");
    }
    x->at = x->n;
}

/* The offset behind "{% raw %}" at `tag`, 0 when it is something else. */
static size_t raw_begin(const lexer *x, size_t tag) {
    size_t at = tag + 2 + (x->p[tag + 2] == '-' || x->p[tag + 2] == '+' ? 1 : 0);
    at = skip_space(x, at);
    if (!looking_at(x, at, "raw")) {
        return 0;
    }
    at = skip_space(x, at + 3);
    if (looking_at(x, at, "-%}")) {
        return skip_space(x, at + 3);
    }
    return looking_at(x, at, "%}") ? at + 2 : 0;
}

static void lex_raw(lexer *x, size_t tag, size_t body) {
    moved_to(x, body);
    for (size_t at = body; at < x->n; at++) {
        if (!looking_at(x, at, "{%")) {
            continue;
        }
        size_t word = at + 2 + (x->p[at + 2] == '-' || x->p[at + 2] == '+' ? 1 : 0);
        word = skip_space(x, word);
        if (!looking_at(x, word, "endraw")) {
            continue;
        }
        size_t end = close_end(x, skip_space(x, word + 6), "%}", true);
        if (end > 0) {
            add_data(x, body, data_end(x, body, at));
            moved_to(x, end);
            return;
        }
    }
    if (body < x->n) {
        error(x, tag, "Missing end of raw directive");
    }
    x->at = x->n;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* \d+(_\d+)* at `at`; its end, or `at`. */
static size_t digits_end(const lexer *x, size_t at) {
    if (!is_digit(x->p[at])) {
        return at;
    }
    while (is_digit(x->p[at]) || (x->p[at] == '_' && is_digit(x->p[at + 1]))) {
        at++;
    }
    return at;
}

static size_t float_end(const lexer *x, size_t at) {
    if (at > 0 && x->p[at - 1] == '.') {
        return at;
    }
    size_t whole = digits_end(x, at);
    if (whole == at) {
        return at;
    }
    size_t fraction = whole;
    if (x->p[whole] == '.' && is_digit(x->p[whole + 1])) {
        fraction = digits_end(x, whole + 1);
    }
    if (x->p[fraction] == 'e' || x->p[fraction] == 'E') {
        size_t sign = fraction + 1;
        sign += x->p[sign] == '+' || x->p[sign] == '-' ? 1 : 0;
        if (is_digit(x->p[sign])) {
            return digits_end(x, sign);
        }
    }
    return fraction > whole ? fraction : at;
}

static bool in_base(char c, int base) {
    int digit = is_digit(c)            ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : 99;
    return digit < base;
}

static size_t integer_end(const lexer *x, size_t at) {
    if (x->p[at] != '0') {
        return digits_end(x, at);
    }
    char kind = x->p[at + 1];
    int base = kind == 'x' || kind == 'X'   ? 16
               : kind == 'o' || kind == 'O' ? 8
               : kind == 'b' || kind == 'B' ? 2
                                            : 0;
    size_t end = at + 2;
    if (base > 0) {
        while (in_base(x->p[end], base) || (x->p[end] == '_' && in_base(x->p[end + 1], base))) {
            end++;
        }
    }
    if (base > 0 && end > at + 2) {
        return end;
    }
    end = at + 1;
    while (x->p[end] == '0' || (x->p[end] == '_' && x->p[end + 1] == '0')) {
        end++;
    }
    return end;
}

static void lex_number(lexer *x, size_t end, fn_jtok_kind kind) {
    char *text = fn_jrun_alloc(x->run, end - x->at);
    if (text == NULL) {
        x->failed = true;
        return;
    }
    size_t n = 0;
    for (size_t at = x->at; at < end; at++) {
        if (x->p[at] != '_') {
            text[n++] = x->p[at];
        }
    }
    add(x, kind, 0, x->at, text, n);
    moved_to(x, end);
}

static size_t name_end(const lexer *x, size_t at, bool *good) {
    size_t begin = at;
    *good = !is_digit(x->p[at]);
    while (at < x->n) {
        uint32_t c = fn_junicode_decode(x->p + at, x->n - at);
        char bytes[4];
        if (!fn_junicode_is_word(c)) {
            break;
        }
        *good = *good &&
                (c < 0x80 || fn_junicode_is_alpha(c) || (at > begin && fn_junicode_is_decimal(c)));
        at += fn_junicode_encode(c, bytes);
    }
    return at;
}

static void lex_string(lexer *x) {
    char quote = x->p[x->at];
    size_t end = x->at + 1;
    while (end < x->n && x->p[end] != quote) {
        end += x->p[end] == '\\' ? 2 : 1;
    }
    if (end >= x->n) {
        error(x, x->at,
              fn_jrun_format(x->run, "unexpected char %s at %zu", quote == '"' ? "'\"'" : "\"'\"",
                             x->at));
        return;
    }
    fn_jbuf buf = {0};
    const char *bad = fn_junescape(x->run, &buf, x->p + x->at + 1, end - x->at - 1);
    if (bad != NULL) {
        error(x, x->at, bad);
        return;
    }
    if (x->run->status != FN_OK) {
        x->failed = true;
        return;
    }
    add(x, FN_JTOK_STRING, 0, x->at, buf.p != NULL ? buf.p : "", buf.n);
    moved_to(x, end + 1);
}

static char operator_at(const lexer *x, size_t at, size_t *length) {
    static const char *const pairs[] = {"//f", "**p", "===", "!=!", ">=g", "<=l"};
    *length = 2;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (x->p[at] == pairs[i][0] && x->p[at + 1] == pairs[i][1]) {
            return pairs[i][2];
        }
    }
    *length = 1;
    char c = x->p[at];
    if (c == '=') {
        return FN_JOP_ASSIGN;
    }
    return (char)(c != 0 && strchr("+-/*%~[](){}><.:|,;", c) != NULL ? c : 0);
}

/* Keeps count of open brackets; false after an error. */
static bool balance(lexer *x, char op) {
    if (op == '(' || op == '[' || op == '{') {
        if (x->n_braces == MAX_BRACES) {
            error(x, x->at, "too many nested brackets");
            return false;
        }
        x->braces[x->n_braces++] = (char)(op == '(' ? ')' : op == '[' ? ']' : '}');
    } else if (op == ')' || op == ']' || op == '}') {
        if (x->n_braces == 0) {
            error(x, x->at, fn_jrun_format(x->run, "unexpected '%c'", op));
            return false;
        }
        char expected = x->braces[--x->n_braces];
        if (expected != op) {
            error(x, x->at, fn_jrun_format(x->run, "unexpected '%c', expected '%c'", op, expected));
            return false;
        }
    }
    return true;
}

static void lex_operator(lexer *x) {
    size_t length = 0;
    char op = operator_at(x, x->at, &length);
    if (op == 0) {
        uint32_t c = fn_junicode_decode(x->p + x->at, x->n - x->at);
        char bytes[5] = {0};
        (void)fn_junicode_encode(c, bytes);
        error(x, x->at, fn_jrun_format(x->run, "unexpected char '%s' at %zu", bytes, x->at));
        return;
    }
    if (!balance(x, op)) {
        return;
    }
    add(x, FN_JTOK_OPERATOR, op, x->at, NULL, 0);
    moved_to(x, x->at + length);
}

/* One token inside a tag; false when the tag has ended. */
static bool lex_inside(lexer *x, const char *close, fn_jtok_kind end_kind) {
    if (x->n_braces == 0) {
        size_t end = close_end(x, x->at, close, end_kind == FN_JTOK_BLOCK_END);
        if (end > 0) {
            add(x, end_kind, 0, x->at, NULL, 0);
            moved_to(x, end);
            return false;
        }
    }
    size_t space = skip_space(x, x->at);
    if (space > x->at) {
        moved_to(x, space);
        return true;
    }
    size_t number = float_end(x, x->at);
    if (number > x->at) {
        lex_number(x, number, FN_JTOK_FLOAT);
        return true;
    }
    number = integer_end(x, x->at);
    if (is_digit(x->p[x->at])) {
        lex_number(x, number, FN_JTOK_INTEGER);
        return true;
    }
    bool good = false;
    size_t name = name_end(x, x->at, &good);
    if (name > x->at) {
        if (!good) {
            error(x, x->at, "Invalid character in identifier");
            return true;
        }
        add(x, FN_JTOK_NAME, 0, x->at, x->p + x->at, name - x->at);
        moved_to(x, name);
    } else if (x->p[x->at] == '"' || x->p[x->at] == '\'') {
        lex_string(x);
    } else {
        lex_operator(x);
    }
    return true;
}

static void lex_tag(lexer *x, size_t tag) {
    bool block = x->p[tag + 1] == '%';
    char sign = x->p[tag + 2];
    add(x, block ? FN_JTOK_BLOCK_BEGIN : FN_JTOK_VARIABLE_BEGIN, 0, tag, NULL, 0);
    moved_to(x, tag + 2 + (sign == '-' || sign == '+' ? 1 : 0));
    fn_jtok_kind end_kind = block ? FN_JTOK_BLOCK_END : FN_JTOK_VARIABLE_END;
    while (!x->failed && x->at < x->n && lex_inside(x, block ? "%}" : "}}", end_kind)) {
    }
}

static void lex_root(lexer *x) {
    size_t tag = x->at;
    while (tag < x->n &&
           !(x->p[tag] == '{' && x->p[tag + 1] != 0 && strchr("{%#", x->p[tag + 1]) != NULL)) {
        tag++;
    }
    if (tag >= x->n) {
        add_data(x, x->at, x->n);
        x->at = x->n;
        return;
    }
    add_data(x, x->at, data_end(x, x->at, tag));
    size_t raw = x->p[tag + 1] == '%' ? raw_begin(x, tag) : 0;
    if (raw > 0) {
        lex_raw(x, tag, raw);
    } else if (x->p[tag + 1] == '#') {
        lex_comment(x, tag);
    } else {
        lex_tag(x, tag);
    }
}

/* Line ends become \n and one at the very end is dropped. Room for the lexer's looking ahead. */
static char *normalised(fn_jrun *run, const char *source, size_t n, size_t *out_n) {
    char *p = fn_jrun_array(run, n + 4, 1);
    size_t at = 0;
    for (size_t i = 0; p != NULL && i < n; i++) {
        bool pair = source[i] == '\r' && i + 1 < n && source[i + 1] == '\n';
        if (!pair) {
            p[at++] = source[i];
            p[at - 1] = (char)(source[i] == '\r' ? '\n' : source[i]);
        }
    }
    if (p != NULL && at > 0 && p[at - 1] == '\n') {
        p[--at] = 0;
    }
    *out_n = at;
    return p;
}

bool fn_jlex(fn_jrun *run, const char *source, size_t n, fn_jtoks *out) {
    lexer x = {.run = run, .line = 1, .line_starting = true, .out = out};
    x.p = normalised(run, source, n, &x.n);
    if (x.p == NULL) {
        return false;
    }
    while (!x.failed && x.at < x.n) {
        lex_root(&x);
    }
    if (!x.failed) {
        add(&x, FN_JTOK_EOF, 0, x.n, NULL, 0);
    }
    if (!x.failed && out->n > 1) { /* the end is where the last token was */
        out->items[out->n - 1].line = out->items[out->n - 2].line;
    }
    return run->status == FN_OK;
}
