#include "tokens/utf8.h"

#include <stdbool.h>
#include <string.h>

fn_utf8_kind fn_utf8_next(const unsigned char *bytes, size_t n, size_t *length) {
    unsigned char first = bytes[0];
    size_t want = 0;
    unsigned low =
        0x80; /* the second byte's range: keeps out overlong forms, surrogates, > 10FFFF */
    unsigned high = 0xBF;
    *length = 1;
    if (first < 0x80) {
        return FN_UTF8_CHARACTER;
    }
    if (first >= 0xC2 && first <= 0xDF) {
        want = 2;
    } else if (first >= 0xE0 && first <= 0xEF) {
        want = 3;
        low = first == 0xE0 ? 0xA0 : 0x80;
        high = first == 0xED ? 0x9F : 0xBF;
    } else if (first >= 0xF0 && first <= 0xF4) {
        want = 4;
        low = first == 0xF0 ? 0x90 : 0x80;
        high = first == 0xF4 ? 0x8F : 0xBF;
    } else {
        return FN_UTF8_INVALID;
    }
    for (size_t i = 1; i < want; i++) {
        *length = i;
        if (i == n) {
            return FN_UTF8_INCOMPLETE;
        }
        if (bytes[i] < low || bytes[i] > high) {
            return FN_UTF8_INVALID;
        }
        low = 0x80;
        high = 0xBF;
    }
    *length = want;
    return FN_UTF8_CHARACTER;
}

size_t fn_utf8_valid_prefix(const unsigned char *bytes, size_t n) {
    size_t at = 0;
    while (at < n) {
        uint64_t word = 0;
        while (n - at >= sizeof word) { /* eight ASCII bytes at a time */
            memcpy(&word, bytes + at, sizeof word);
            if ((word & 0x8080808080808080u) != 0) {
                break;
            }
            at += sizeof word;
        }
        if (at == n) {
            break;
        }
        size_t length = 0;
        if (fn_utf8_next(bytes + at, n - at, &length) != FN_UTF8_CHARACTER) {
            break;
        }
        at += length;
    }
    return at;
}

size_t fn_utf8_put(uint32_t c, unsigned char *out) {
    if (c < 0x80) {
        out[0] = (unsigned char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (unsigned char)(0xC0u | c >> 6);
        out[1] = (unsigned char)(0x80u | (c & 0x3Fu));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (unsigned char)(0xE0u | c >> 12);
        out[1] = (unsigned char)(0x80u | (c >> 6 & 0x3Fu));
        out[2] = (unsigned char)(0x80u | (c & 0x3Fu));
        return 3;
    }
    out[0] = (unsigned char)(0xF0u | c >> 18);
    out[1] = (unsigned char)(0x80u | (c >> 12 & 0x3Fu));
    out[2] = (unsigned char)(0x80u | (c >> 6 & 0x3Fu));
    out[3] = (unsigned char)(0x80u | (c & 0x3Fu));
    return 4;
}
