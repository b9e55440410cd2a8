#include "cli/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/signals.h"

fn_status cli_fail(fn_error *err, fn_status status, const char *format, ...) {
    if (err != NULL && err->code == FN_OK) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        err->code = status;
    }
    return status;
}

void cli_complain(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("flashnext: ", stderr);
    (void)vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

static int exit_code(fn_status status) {
    switch (status) {
    case FN_OK:
        return CLI_EXIT_OK;
    case FN_E_USAGE:
        return CLI_EXIT_USAGE;
    case FN_E_MODEL:
        return CLI_EXIT_MODEL;
    case FN_E_FIT:
    case FN_E_NOMEM: /* the system gave less than the plan saw: a limit on the address space, say */
        return CLI_EXIT_FIT;
    case FN_E_CANCELLED:
        return cli_signal_exit_code();
    default:
        return CLI_EXIT_FAILED;
    }
}

int cli_report(fn_status status, const fn_error *err) {
    if (status != FN_OK && status != FN_E_CANCELLED) {
        bool has_text = err != NULL && err->text[0] != 0;
        cli_complain("%s", has_text ? err->text : fn_status_name(status));
    }
    return exit_code(status);
}

int cli_report_model(fn_status status, const fn_error *err) {
    int code = cli_report(status, err);
    if (status == FN_E_RANGE) { /* a number that was asked for: --context */
        return CLI_EXIT_USAGE;
    }
    return status == FN_E_IO ? CLI_EXIT_MODEL : code;
}

bool cli_flush_output(void) {
    errno = 0; /* an earlier write may have failed: its reason is gone */
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return true;
    }
    cli_complain("standard output: %s", errno != 0 ? strerror(errno) : "not all could be written");
    return false;
}

int cli_finish(int code) {
    bool arrived = cli_flush_output();
    return code == CLI_EXIT_OK && !arrived ? CLI_EXIT_FAILED : code;
}
