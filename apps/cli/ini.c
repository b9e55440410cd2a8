#include "cli/ini.h"

#include <string.h>

#include "cli/buffer.h"
#include "cli/report.h"

static char unescape(char letter) {
    switch (letter) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    default:
        return letter;
    }
}

/* Value of a quoted text [n], its quotes included, into out; false: no closing quote. */
static bool unquote(const char *text, size_t n, cli_buffer *out) {
    for (size_t i = 1; i < n; i++) {
        if (text[i] == '"') {
            return i + 1 == n;
        }
        char c = text[i];
        if (c == '\\' && i + 1 < n) {
            i++;
            c = unescape(text[i]);
        }
        cli_buffer_add(out, &c, 1);
    }
    return false;
}

/* One "key = value"; key and value are filled. NULL, or what is wrong. */
static const char *read_entry(const char *line, size_t n, cli_buffer *key, cli_buffer *value) {
    const char *equals = memchr(line, '=', n);
    if (equals == NULL) {
        return "expected key = value";
    }
    const char *begin = line;
    size_t key_n = cli_strip(&begin, (size_t)(equals - line));
    if (key_n == 0) {
        return "no key before =";
    }
    cli_buffer_add(key, begin, key_n);
    begin = equals + 1;
    size_t value_n = cli_strip(&begin, n - (size_t)(begin - line));
    if (value_n > 0 && begin[0] == '"') {
        return unquote(begin, value_n, value) ? NULL : "the closing quote is missing";
    }
    cli_buffer_add(value, begin, value_n);
    return NULL;
}

typedef struct ini_reader {
    cli_buffer section, key, value;
    const char *name;
    cli_ini_entry entry;
    void *ud;
} ini_reader;

static fn_status read_line(ini_reader *r, const char *line, size_t n, size_t number,
                           fn_error *err) {
    if (memchr(line, 0, n) != NULL) {
        return cli_fail(err, FN_E_USAGE, "%s:%zu: a byte 0 is no text", r->name, number);
    }
    n = cli_strip(&line, n);
    if (n == 0 || line[0] == '#' || line[0] == ';') {
        return FN_OK;
    }
    if (line[0] == '[') {
        if (line[n - 1] != ']') {
            return cli_fail(err, FN_E_USAGE, "%s:%zu: the closing ] is missing", r->name, number);
        }
        line++;
        n = cli_strip(&line, n - 2);
        cli_buffer_clear(&r->section);
        cli_buffer_add(&r->section, line, n);
        return FN_OK;
    }
    cli_buffer_clear(&r->key);
    cli_buffer_clear(&r->value);
    const char *wrong = read_entry(line, n, &r->key, &r->value);
    if (wrong != NULL) {
        return cli_fail(err, FN_E_USAGE, "%s:%zu: %s", r->name, number, wrong);
    }
    return r->entry(r->ud, cli_buffer_text(&r->section), cli_buffer_text(&r->key),
                    cli_buffer_text(&r->value), number, err);
}

fn_status cli_ini_read(const char *text, size_t n, const char *name, cli_ini_entry entry, void *ud,
                       fn_error *err) {
    ini_reader reader = {.name = name, .entry = entry, .ud = ud};
    fn_status status = FN_OK;
    size_t number = 1;
    for (size_t at = 0; at < n && status == FN_OK; number++) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t length = end != NULL ? (size_t)(end - (text + at)) : n - at;
        status = read_line(&reader, text + at, length, number, err);
        at += length + 1;
    }
    cli_buffer_free(&reader.section);
    cli_buffer_free(&reader.key);
    cli_buffer_free(&reader.value);
    return status;
}
