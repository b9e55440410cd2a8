/* cli/report.h - failures, exit codes, and the one line people read about them.
 *
 * Path:     fn_status and fn_error of the library, mistakes in arguments -> [this] -> stderr,
 *           exit code
 * Threads:  any. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <stdbool.h>

#include "flashnext.h"

/* name, code, meaning: also what help and the manual print. */
#define CLI_EXIT_MAP(X)                                                                            \
    X(OK, 0, "success")                                                                            \
    X(FAILED, 1, "something failed, or verify found a difference")                                 \
    X(USAGE, 2, "wrong arguments, or an empty prompt")                                             \
    X(MODEL, 3, "a model file is bad or missing")                                                  \
    X(FIT, 4, "the model does not fit in memory")                                                  \
    X(INTERRUPTED, 130, "stopped by Ctrl-C")                                                       \
    X(TERMINATED, 143, "stopped by SIGTERM")

typedef enum cli_exit {
#define CLI_EXIT_ENUM(name, code, text) CLI_EXIT_##name = (code),
    CLI_EXIT_MAP(CLI_EXIT_ENUM)
#undef CLI_EXIT_ENUM
} cli_exit;

/* Sets err (unless it is set already) and returns status. */
fn_status cli_fail(fn_error *err, fn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Prints "flashnext: text" and returns the exit code of status. */
int cli_report(fn_status status, const fn_error *err);
/* The same where what could not be read belongs to a model: FN_E_IO is exit code 3. */
int cli_report_model(fn_status status, const fn_error *err);

/* "flashnext: text" on standard error. */
void cli_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Flushes standard output; false, with a message, when what was written did not arrive. */
bool cli_flush_output(void);

/* code, unless it is 0 and the output could not be written: then 1. */
int cli_finish(int code);

#endif
