/* tokens/jinja_time.h - strftime in English, the same in every locale. */
#ifndef FN_TOKENS_JINJA_TIME_H
#define FN_TOKENS_JINJA_TIME_H

#include <time.h>

#include "tokens/jinja_string.h"

/* Adds `when` in the given format. What is no directive stays as it is. */
void fn_jtime_write(fn_jrun *run, fn_jbuf *buf, const fn_jstr *format, const struct tm *when,
                    long microseconds);

#endif
