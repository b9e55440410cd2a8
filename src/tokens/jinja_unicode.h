/* tokens/jinja_unicode.h - what Python's str knows about characters. */
#ifndef FN_TOKENS_JINJA_UNICODE_H
#define FN_TOKENS_JINJA_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* n bytes of valid UTF-8 (no surrogates, nothing beyond U+10FFFF)? Else *bad is where it ends. */
bool fn_junicode_valid(const char *p, size_t n, size_t *bad);
uint32_t fn_junicode_decode(const char *p, size_t n); /* of valid text; 0 at the end */
size_t fn_junicode_encode(uint32_t c, char out[4]);

bool fn_junicode_is_space(uint32_t c);      /* str.isspace, strip(), \s */
bool fn_junicode_is_line_break(uint32_t c); /* str.splitlines */
bool fn_junicode_is_printable(uint32_t c);  /* repr() shows it as it is */
bool fn_junicode_is_alpha(uint32_t c);
bool fn_junicode_is_decimal(uint32_t c);
bool fn_junicode_is_digit(uint32_t c);
bool fn_junicode_is_numeric(uint32_t c);
bool fn_junicode_is_word(uint32_t c); /* \w */
bool fn_junicode_is_lower(uint32_t c);
bool fn_junicode_is_upper(uint32_t c);
bool fn_junicode_is_title(uint32_t c);
bool fn_junicode_is_cased(uint32_t c);
bool fn_junicode_is_case_ignorable(uint32_t c);

typedef enum fn_jcase { FN_JCASE_UPPER, FN_JCASE_LOWER, FN_JCASE_TITLE, FN_JCASE_FOLD } fn_jcase;

/* The full mapping of c: one to three characters; returns how many. */
size_t fn_junicode_case(uint32_t c, fn_jcase to, uint32_t out[3]);

#endif
