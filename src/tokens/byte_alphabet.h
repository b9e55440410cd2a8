/* tokens/byte_alphabet.h - the spelling of bytes in vocabularies: one printable character a byte.
 *
 * Path:    tokenizer.json ("Ġthe") -> [this: raw bytes " the"] -> vocabulary
 * Rule:    bytes that are visible in Latin-1 stand for themselves, the other 68 are U+0100 ... in
 *          ascending order; the alphabet of GPT-2 and of everything byte-level since. */
#ifndef FN_TOKENS_BYTE_ALPHABET_H
#define FN_TOKENS_BYTE_ALPHABET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The character that spells a byte. */
uint32_t fn_byte_spelling(unsigned char byte);

/* Writes the bytes that valid UTF-8 text [n] spells to out [n]; false if a character spells none. */
bool fn_bytes_unspell(const char *text, size_t n, char *out, size_t *n_out);

#endif
