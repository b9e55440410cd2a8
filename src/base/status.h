/* base/status.h - how every function reports failure.
 *
 * A function that can fail returns fn_status and takes fn_error *err last (NULL allowed). The first
 * error wins: fn_fail() does not overwrite a message that is already there, so the text names the
 * cause and not the last echo. On failure outputs are NULL or 0. */
#ifndef FN_BASE_STATUS_H
#define FN_BASE_STATUS_H

#include <stdarg.h>
#include <stddef.h>

#include "flashnext.h"

#define FN_NODISCARD __attribute__((warn_unused_result))

/* Our own mistakes only; bytes from a file, a socket or a user get a status. */
#ifdef FN_DEBUG_ASSERTS
#include <assert.h>
#define FN_ASSERT(cond) assert(cond)
#else
#define FN_ASSERT(cond) ((void)sizeof(cond))
#endif

/* Sets err (unless NULL or already set) to code and the formatted text; returns code. */
fn_status fn_fail(fn_error *err, fn_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
fn_status fn_fail_v(fn_error *err, fn_status code, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* The standard out-of-memory failure: names what the bytes were for. (Inline, so that static
 * analysis sees that it never returns FN_OK.) */
static inline fn_status fn_fail_nomem(fn_error *err, const char *what, size_t bytes) {
    (void)fn_fail(err, FN_E_NOMEM, "out of memory: %zu bytes for %s", bytes, what);
    return FN_E_NOMEM;
}

/* Puts "prefix: " before a message that is already there (file name, tensor name, ...). */
void fn_error_prefix(fn_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
