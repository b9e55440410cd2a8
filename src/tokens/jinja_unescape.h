/* tokens/jinja_unescape.h - the escapes of string literals, as Python's "unicode-escape" reads them. */
#ifndef FN_TOKENS_JINJA_UNESCAPE_H
#define FN_TOKENS_JINJA_UNESCAPE_H

#include "tokens/jinja_string.h"

/* Adds the text that p [n] stands for; NULL, or what is wrong with it. */
const char *fn_junescape(fn_jrun *run, fn_jbuf *buf, const char *p, size_t n);

#endif
