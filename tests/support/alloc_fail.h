/* tests/support/alloc_fail.h - counts the C allocator's calls and fails the n-th.
 *
 * The test programs are linked with --wrap=malloc and friends, so that every allocation of the
 * library passes here (libraries' own do not; jansson's are sent here by fn_alloc_watch_jansson). */
#ifndef FN_TESTS_ALLOC_FAIL_H
#define FN_TESTS_ALLOC_FAIL_H

#include <stddef.h>

/* From now on call number n (0 = the next) fails, once; n < 0: none fails. Resets the count. */
void fn_alloc_fail_at(long n);

/* Calls since the last fn_alloc_fail_at. */
long fn_alloc_calls(void);

/* From now on fresh memory of malloc, posix_memalign and mmap holds this byte everywhere (0 to 255; -1:
 * whatever it holds): what was never written then shows. */
void fn_alloc_fill(int byte);

/* Blocks that are allocated and not yet freed cannot be seen here: leaks are LeakSanitizer's. */
void fn_alloc_watch_jansson(void);

#endif
