#include "tokens/byte_alphabet.h"

#include "tokens/utf8.h"

static bool spells_itself(uint32_t c) {
    return (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xFF && c != 0xAD);
}

/* The others, in order: 00-20 (33 of them), 7F-A0 (34), AD. */
uint32_t fn_byte_spelling(unsigned char byte) {
    if (spells_itself(byte)) {
        return byte;
    }
    return 0x100u + (byte <= 0x20 ? byte : byte <= 0xA0 ? byte - 0x7Fu + 33u : 67u);
}

bool fn_bytes_unspell(const char *text, size_t n, char *out, size_t *n_out) {
    size_t length = 0;
    size_t count = 0;
    for (size_t at = 0; at < n; at += length) {
        uint32_t c = fn_utf8_get((const unsigned char *)text + at, &length);
        if (!spells_itself(c)) {
            if (c < 0x100 || c >= 0x100 + 68) {
                return false;
            }
            c -= 0x100;
            c = c < 33 ? c : c < 67 ? c - 33 + 0x7F : 0xAD;
        }
        out[count++] = (char)(unsigned char)c;
    }
    *n_out = count;
    return true;
}
