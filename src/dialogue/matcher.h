/* dialogue/matcher.h - finds the first of several strings in a text that comes byte by byte.
 *
 * Path:    text of the thought or the answer -> [this: Knuth-Morris-Pratt, one state a string] ->
 *          events.h.
 * Threads: one matcher belongs to one thread at a time.
 * Memory:  all of it at creation. */
#ifndef FN_DIALOGUE_MATCHER_H
#define FN_DIALOGUE_MATCHER_H

#include <stddef.h>

#include "base/status.h"

typedef struct fn_matcher fn_matcher;

/* strings [n] are copied; none may be empty. n = 0 gives a matcher that never matches. */
FN_NODISCARD fn_status fn_matcher_create(const char *const *strings, size_t n, fn_matcher **out,
                                         fn_error *err);
void fn_matcher_destroy(fn_matcher *m); /* NULL is allowed */

/* Takes the next byte. The length of the longest string that ends with it, or 0. */
size_t fn_matcher_step(fn_matcher *m, char byte);

/* The longest end of the text so far that is the start of a string. */
size_t fn_matcher_held(const fn_matcher *m);

#endif
