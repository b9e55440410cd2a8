/* tokens/unicode_tables.h - what the reference tokenizer holds every code point to be.
 *
 * Path:    the `tokenizers` package -> tools/gen_unicode.py -> [this] -> pretokenize, nfc, added_tokens
 * Tables:  classes follow the Unicode version of the package's regex engine, normalisation that of
 *          its NFC: two different ones, so neither is taken from a library of the system.
 * Threads: constants. */
#ifndef FN_TOKENS_UNICODE_TABLES_H
#define FN_TOKENS_UNICODE_TABLES_H

#include <stddef.h>
#include <stdint.h>

#define FN_UC_LETTER 1u     /* \p{L} of the split rule */
#define FN_UC_MARK 2u       /* \p{M} */
#define FN_UC_NUMBER 4u     /* \p{N} */
#define FN_UC_SPACE 8u      /* \s, of the split rule and of added tokens alike */
#define FN_UC_WORD 16u      /* \w around added tokens of single words */
#define FN_UC_NFC_CHECK 32u /* NFC may change it, or join it to what stands before */
#define FN_UC_ORDERED 64u   /* has a combining class: its place among marks may change */

/* Code points first ... last have this combining class. Ascending. */
typedef struct fn_unicode_order {
    uint32_t first;
    uint32_t last;
    uint32_t combining_class;
} fn_unicode_order;

/* One step of decomposition: composed -> first, second (0: replaced by first alone). Ascending. */
typedef struct fn_unicode_step {
    uint32_t composed;
    uint32_t first;
    uint32_t second;
} fn_unicode_step;

extern const uint8_t fn_unicode_pages[1088];
extern const uint16_t fn_unicode_blocks[2048];
extern const uint8_t fn_unicode_leaves[14592];
extern const fn_unicode_order fn_unicode_orders[];
extern const size_t fn_unicode_n_orders;
extern const fn_unicode_step fn_unicode_steps[];
extern const size_t fn_unicode_n_steps;
/* Numbers of the steps that NFC takes backwards, ascending by (first, second). */
extern const uint16_t fn_unicode_compositions[];
extern const size_t fn_unicode_n_compositions;

/* The FN_UC_ flags of a code point below 0x110000. */
static inline unsigned fn_unicode_class(uint32_t c) {
    size_t block = fn_unicode_blocks[fn_unicode_pages[c >> 10] * 32u + ((c >> 5) & 31u)];
    return fn_unicode_leaves[block * 32u + (c & 31u)];
}

#endif
