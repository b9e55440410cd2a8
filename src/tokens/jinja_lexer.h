/* tokens/jinja_lexer.h - template text -> tokens, with trim_blocks and lstrip_blocks applied.
 *
 * Path:     source -> [this] -> jinja_parser.h
 * Memory:   tokens and their text lie in the run's memory. */
#ifndef FN_TOKENS_JINJA_LEXER_H
#define FN_TOKENS_JINJA_LEXER_H

#include "tokens/jinja_value.h"

typedef enum fn_jtok_kind {
    FN_JTOK_DATA,
    FN_JTOK_VARIABLE_BEGIN,
    FN_JTOK_VARIABLE_END,
    FN_JTOK_BLOCK_BEGIN,
    FN_JTOK_BLOCK_END,
    FN_JTOK_NAME,
    FN_JTOK_STRING,
    FN_JTOK_INTEGER,
    FN_JTOK_FLOAT,
    FN_JTOK_OPERATOR,
    FN_JTOK_ERROR, /* reported when the parser gets there; text is the message */
    FN_JTOK_EOF
} fn_jtok_kind;

/* Operators of two characters are named by one: // f, ** p, == =, != !, >= g, <= l, and = is a. */
enum { FN_JOP_FLOORDIV = 'f', FN_JOP_POW = 'p', FN_JOP_EQ = '=', FN_JOP_NE = '!' };
enum { FN_JOP_GE = 'g', FN_JOP_LE = 'l', FN_JOP_ASSIGN = 'a' };

typedef struct fn_jtok {
    fn_jtok_kind kind;
    char op; /* of an operator */
    int line;
    const char *text; /* NUL-terminated: data, name, unescaped string, digits */
    size_t n;
} fn_jtok;

typedef struct fn_jtoks {
    fn_jtok *items;
    size_t n;
    size_t capacity;
} fn_jtoks;

/* All tokens of source [n] (valid UTF-8); the last is EOF or ERROR. False when memory is out. */
bool fn_jlex(fn_jrun *run, const char *source, size_t n, fn_jtoks *out)
    __attribute__((warn_unused_result));

/* An operator as it is written. */
const char *fn_jop_text(char op);

#endif
