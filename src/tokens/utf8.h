/* tokens/utf8.h - reading and writing UTF-8, and what to do with bytes that are none.
 *
 * Path:    text of users, bytes of tokens -> [this] -> everything in tokens/
 * Rule:    an invalid part is as long as it could still have become a character; each is one
 *          U+FFFD (the rule of Unicode, Python's errors="replace" and Rust's from_utf8_lossy). */
#ifndef FN_TOKENS_UTF8_H
#define FN_TOKENS_UTF8_H

#include <stddef.h>
#include <stdint.h>

typedef enum fn_utf8_kind {
    FN_UTF8_CHARACTER,
    FN_UTF8_INVALID,    /* can never become a character */
    FN_UTF8_INCOMPLETE, /* the bytes end where a character might go on */
} fn_utf8_kind;

/* Looks at bytes [n], n > 0; *length is that of the character or of the part described above. */
fn_utf8_kind fn_utf8_next(const unsigned char *bytes, size_t n, size_t *length);

/* The offset of the first byte that is not part of a whole valid character; n if all are. */
size_t fn_utf8_valid_prefix(const unsigned char *bytes, size_t n);

/* The length of the character that starts with this byte, in valid text. */
static inline size_t fn_utf8_length(unsigned char first) {
    return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

/* The character at s, in valid text; *length is its bytes. */
static inline uint32_t fn_utf8_get(const unsigned char *s, size_t *length) {
    *length = fn_utf8_length(s[0]);
    switch (*length) {
    case 1:
        return s[0];
    case 2:
        return (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu);
    case 3:
        return (s[0] & 0x0Fu) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu);
    default:
        return (s[0] & 0x07u) << 18 | (s[1] & 0x3Fu) << 12 | (s[2] & 0x3Fu) << 6 | (s[3] & 0x3Fu);
    }
}

/* The start of the character before s[at], at > 0, in valid text. */
static inline size_t fn_utf8_before(const unsigned char *s, size_t at) {
    do {
        at--;
    } while ((s[at] & 0xC0u) == 0x80u);
    return at;
}

/* Writes c, at most 4 bytes, and returns how many. */
size_t fn_utf8_put(uint32_t c, unsigned char *out);

#endif
