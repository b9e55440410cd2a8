/* tokens/jinja_format.h - text with values put in: the % operator and str.format. */
#ifndef FN_TOKENS_JINJA_FORMAT_H
#define FN_TOKENS_JINJA_FORMAT_H

#include "tokens/jinja_builtin.h"
#include "tokens/jinja_string.h"

/* format % v: a tuple gives several values, a dict named ones. */
fn_jval fn_jformat_percent_value(fn_jrun *run, const fn_jstr *format, fn_jval v);

/* format.format(*args, **keywords); args without the string itself. */
fn_jval fn_jformat_braces(fn_jrun *run, const fn_jstr *format, const fn_jval *args, size_t n,
                          const fn_jkeyword *keywords, size_t n_keywords);

/* How a value fills a field: [[fill]align][sign][#][0][width][,][.precision][type] */
typedef struct fn_jfield {
    uint32_t fill; /* 0: a space, or what the type asks for */
    char align;    /* '<', '>', '^', '=' or 0 */
    char sign;     /* '-', '+', ' ' */
    bool alternate;
    bool zero;
    char group; /* ',' or '_' or 0 */
    int64_t width;
    int64_t precision; /* -1: none */
    char type;         /* 0: none */
} fn_jfield;

/* Adds v as a number in the field's type; false after a report. */
bool fn_jfield_number(fn_jrun *run, fn_jbuf *buf, const fn_jfield *field, fn_jval v);
void fn_jfield_text(fn_jrun *run, fn_jbuf *buf, const fn_jfield *field, const fn_jstr *s);

#endif
