/* tokens/jinja_number.h - Python's numbers: exact text, comparison, arithmetic.
 *
 * Integers have 64 bits; larger ones keep their digits, can be printed and compared, and are refused
 * in arithmetic. Floats print as Python's repr. Nothing here depends on the locale. */
#ifndef FN_TOKENS_JINJA_NUMBER_H
#define FN_TOKENS_JINJA_NUMBER_H

#include "tokens/jinja_value.h"

#define FN_JNUM_REPR_BYTES 40
#define FN_JNUM_MAX_DIGITS 4300 /* of an integer, as in Python */

/* Decimal digits with an optional sign, as INT or BIGINT. */
fn_jval fn_jnum_parse_int(fn_jrun *run, const char *p, size_t n);

/* A decimal number with optional fraction and exponent; *ok is false when it is not one. */
double fn_jnum_parse_float(const char *p, size_t n, bool *ok);

/* Shortest text that reads back as d, in Python's form; returns its length. */
size_t fn_jnum_repr(double d, char out[FN_JNUM_REPR_BYTES]);

/* printf of d with kind 'f', 'e', 'E', 'g', 'G' and a precision up to 300; the length, or 0. */
size_t fn_jnum_print(double d, char kind, int precision, char *out, size_t room);

/* -1, 0, 1; 2 when one is NaN. Both must be numbers. */
int fn_jnum_compare(fn_jval a, fn_jval b);

/* The value as a double (a big integer rounds). */
double fn_jnum_double(fn_jval v);

/* a op b for two numbers; op is '+', '-', '*', '/', '%', 'f' (floor division) or 'p' (power). */
fn_jval fn_jnum_binary(fn_jrun *run, char op, fn_jval a, fn_jval b);
fn_jval fn_jnum_negate(fn_jrun *run, fn_jval v);

/* round(v, digits) as Python rounds. */
fn_jval fn_jnum_round(fn_jrun *run, fn_jval v, int64_t digits);

#endif
