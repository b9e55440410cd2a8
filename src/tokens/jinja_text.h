/* tokens/jinja_text.h - what methods and filters share: cases, splitting, lines, words. */
#ifndef FN_TOKENS_JINJA_TEXT_H
#define FN_TOKENS_JINJA_TEXT_H

#include "tokens/jinja_string.h"
#include "tokens/jinja_unicode.h"

/* Every character mapped (lower() knows the final sigma). */
fn_jval fn_jtext_case(fn_jrun *run, const fn_jstr *s, fn_jcase to);
/* str.capitalize, str.title, str.swapcase, and the title filter's own idea of words. */
fn_jval fn_jtext_capitalize(fn_jrun *run, const fn_jstr *s);
fn_jval fn_jtext_title(fn_jrun *run, const fn_jstr *s);
fn_jval fn_jtext_swapcase(fn_jrun *run, const fn_jstr *s);
fn_jval fn_jtext_filter_title(fn_jrun *run, const fn_jstr *s);

/* str.split / str.rsplit: separator NULL means runs of white space; limit < 0: no limit. */
fn_jval fn_jtext_split(fn_jrun *run, const fn_jstr *s, const fn_jstr *separator, int64_t limit);
fn_jval fn_jtext_rsplit(fn_jrun *run, const fn_jstr *s, const fn_jstr *separator, int64_t limit);
bool fn_jtext_lines(fn_jrun *run, const fn_jstr *s, bool keep_ends, fn_jlist *out)
    __attribute__((warn_unused_result));

/* str(item) of each, with separator between. Strict: items must be strings. */
fn_jval fn_jtext_join(fn_jrun *run, const fn_jstr *separator, const fn_jval *items, size_t n,
                      bool strict);

/* Padded to width characters; align is '<', '>' or '^'. */
fn_jval fn_jtext_pad(fn_jrun *run, const fn_jstr *s, char align, int64_t width, uint32_t fill);

#endif
