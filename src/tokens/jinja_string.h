/* tokens/jinja_string.h - strings with taint: making, slicing and building them.
 *
 * Offsets are bytes unless a name says chars; a char is a code point. */
#ifndef FN_TOKENS_JINJA_STRING_H
#define FN_TOKENS_JINJA_STRING_H

#include "tokens/jinja_value.h"

/* Text under construction, in the run's memory. Failures are kept by the run: add without looking,
 * take reports. All zeros is an empty one. */
typedef struct fn_jbuf {
    char *p;
    size_t n;
    size_t capacity;
    uint8_t *map; /* [capacity]; NULL while all bytes are alike */
    bool tainted; /* what they are */
} fn_jbuf;

void fn_jbuf_add(fn_jrun *run, fn_jbuf *buf, const char *p, size_t n, bool tainted);
void fn_jbuf_add_text(fn_jrun *run, fn_jbuf *buf, const char *text); /* clean, NUL-terminated */
void fn_jbuf_add_str(fn_jrun *run, fn_jbuf *buf, const fn_jstr *s);
void fn_jbuf_add_part(fn_jrun *run, fn_jbuf *buf, const fn_jstr *s, size_t begin, size_t end);
void fn_jbuf_add_char(fn_jrun *run, fn_jbuf *buf, uint32_t c, bool tainted);
fn_jval fn_jbuf_take(fn_jrun *run, fn_jbuf *buf);

/* A string over bytes that outlive the run's use of them / over a copy of them. */
fn_jval fn_jstr_view(fn_jrun *run, const char *p, size_t n, bool tainted);
fn_jval fn_jstr_copy(fn_jrun *run, const char *p, size_t n, bool tainted);
fn_jval fn_jstr_text(fn_jrun *run, const char *text); /* NUL-terminated, static */
fn_jval fn_jstr_markup(fn_jrun *run, const fn_jstr *s, bool markup);

fn_jval fn_jstr_sub(fn_jrun *run, const fn_jstr *s, size_t begin, size_t end);
/* The characters from, from + step, ... (count of them). */
fn_jval fn_jstr_pick(fn_jrun *run, const fn_jstr *s, int64_t from, int64_t step, size_t count);
fn_jval fn_jstr_concat(fn_jrun *run, const fn_jstr *a, const fn_jstr *b);
fn_jval fn_jstr_repeat(fn_jrun *run, const fn_jstr *s, int64_t times);

bool fn_jstr_taint_at(const fn_jstr *s, size_t at);
size_t fn_jstr_next(const fn_jstr *s, size_t at);
uint32_t fn_jstr_char(const fn_jstr *s, size_t at);
size_t fn_jstr_offset(const fn_jstr *s, size_t char_index);

/* First occurrence of part at or after `from` (last one before `end` for rfind); SIZE_MAX: none. */
size_t fn_jstr_find(fn_jrun *run, const fn_jstr *s, const fn_jstr *part, size_t from);
size_t fn_jstr_rfind(fn_jrun *run, const fn_jstr *s, const fn_jstr *part, size_t end);

/* Without the characters of `set` (NULL: white space) at the left and/or right end. */
fn_jval fn_jstr_strip(fn_jrun *run, const fn_jstr *s, const fn_jstr *set, bool left, bool right);
/* limit < 0: all. */
fn_jval fn_jstr_replace(fn_jrun *run, const fn_jstr *s, const fn_jstr *from, const fn_jstr *to,
                        int64_t limit);
/* & < > " ' as HTML entities, marked as markup. */
fn_jval fn_jstr_escape(fn_jrun *run, const fn_jstr *s);

#endif
