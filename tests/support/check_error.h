/* tests/support/check_error.h - asserts that a call failed as it should: status, one line, and the
 * words a reader needs in it. */
#ifndef FN_TESTS_CHECK_ERROR_H
#define FN_TESTS_CHECK_ERROR_H

#include "flashnext.h"

/* Each of the words, up to NULL, must be in the message. Use through the macro. */
void check_error_at(const char *file, int line, fn_status got, const fn_error *err, fn_status want,
                    ...) __attribute__((sentinel));

#define check_error(got, err, want, ...)                                                           \
    check_error_at(__FILE__, __LINE__, (got), (err), (want), __VA_ARGS__, (const char *)NULL)

#endif
