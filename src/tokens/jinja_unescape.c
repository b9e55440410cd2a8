#include "tokens/jinja_unescape.h"

#include <stdio.h>
#include <string.h>

#include "tokens/jinja_run.h"
#include "tokens/jinja_unicode.h"

static int hex_value(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* \xhh, \uhhhh, \Uhhhhhhhh. */
static const char *hex_escape(fn_jrun *run, fn_jbuf *buf, const char *p, size_t n, size_t *at) {
    size_t digits = p[*at] == 'x' ? 2 : p[*at] == 'u' ? 4 : 8;
    static const char *const truncated[] = {"truncated \\xXX escape", "truncated \\uXXXX escape",
                                            "truncated \\UXXXXXXXX escape"};
    uint32_t c = 0;
    for (size_t i = 1; i <= digits; i++) {
        int value = *at + i < n ? hex_value(p[*at + i]) : -1;
        if (value < 0) {
            return truncated[digits == 2 ? 0 : digits == 4 ? 1 : 2];
        }
        c = c * 16 + (uint32_t)value;
    }
    if (c > 0x10FFFF) {
        return "illegal Unicode character";
    }
    if (c >= 0xD800 && c <= 0xDFFF) {
        return "surrogates cannot stand in a string";
    }
    fn_jbuf_add_char(run, buf, c, false);
    *at += digits + 1;
    return NULL;
}

static void octal_escape(fn_jrun *run, fn_jbuf *buf, const char *p, size_t n, size_t *at) {
    uint32_t c = 0;
    for (size_t i = 0; i < 3 && *at < n && p[*at] >= '0' && p[*at] <= '7'; i++) {
        c = c * 8 + (uint32_t)(p[*at] - '0');
        *at += 1;
    }
    fn_jbuf_add_char(run, buf, c, false);
}

/* A backslash before what is no escape stays. jinja2 first writes other characters than ASCII as
 * escapes of their own, so that a backslash before one shields it. */
static void no_escape(fn_jrun *run, fn_jbuf *buf, const char *p, size_t n, size_t *at) {
    fn_jbuf_add(run, buf, "\\", 1, false);
    unsigned char first = (unsigned char)p[*at];
    if (first < 0x80) {
        fn_jbuf_add(run, buf, p + *at, 1, false);
        *at += 1;
        return;
    }
    uint32_t c = fn_junicode_decode(p + *at, n - *at);
    char text[16];
    int length = c < 0x100     ? snprintf(text, sizeof text, "x%02x", (unsigned)c)
                 : c < 0x10000 ? snprintf(text, sizeof text, "u%04x", (unsigned)c)
                               : snprintf(text, sizeof text, "U%08x", (unsigned)c);
    fn_jbuf_add(run, buf, text, (size_t)length, false);
    char bytes[4];
    *at += fn_junicode_encode(c, bytes);
}

static const char *escape(fn_jrun *run, fn_jbuf *buf, const char *p, size_t n, size_t *at) {
    static const char letters[] = "abfnrtv\\'\"";
    static const char meanings[] = "\a\b\f\n\r\t\v\\'\"";
    char c = p[*at];
    const char *known = c != 0 ? strchr(letters, c) : NULL;
    if (known != NULL) {
        fn_jbuf_add(run, buf, meanings + (known - letters), 1, false);
        *at += 1;
    } else if (c == '\n') {
        *at += 1;
    } else if (c == 'x' || c == 'u' || c == 'U') {
        return hex_escape(run, buf, p, n, at);
    } else if (c == 'N') {
        return "characters cannot be given by name (\\N)";
    } else if (c >= '0' && c <= '7') {
        octal_escape(run, buf, p, n, at);
    } else {
        no_escape(run, buf, p, n, at);
    }
    return NULL;
}

const char *fn_junescape(fn_jrun *run, fn_jbuf *buf, const char *p, size_t n) {
    size_t at = 0;
    while (at < n) {
        size_t plain = at;
        while (plain < n && p[plain] != '\\') {
            plain++;
        }
        fn_jbuf_add(run, buf, p + at, plain - at, false);
        at = plain + 1;
        if (plain == n) {
            break;
        }
        if (at == n) {
            return "\\ at end of string";
        }
        const char *bad = escape(run, buf, p, n, &at);
        if (bad != NULL) {
            return bad;
        }
    }
    return NULL;
}
