#include "cli/input.h"

#include <string.h>
#include <unistd.h>

#include "cli/report.h"

bool cli_input_given(const cli_options *options) {
    return cli_is_set(options, CLI_OPT_PROMPT) || cli_is_set(options, CLI_OPT_FILE) ||
           !isatty(STDIN_FILENO);
}

fn_status cli_input_read(const cli_options *options, cli_buffer *out, fn_error *err) {
    const char *prompt = cli_text(options, CLI_OPT_PROMPT);
    const char *file = cli_text(options, CLI_OPT_FILE);
    if (prompt != NULL && file != NULL) {
        return cli_fail(err, FN_E_USAGE, "--prompt and --file exclude each other");
    }
    if (prompt != NULL) {
        size_t n = strlen(prompt);
        size_t valid = cli_utf8_valid(prompt, n);
        if (valid < n) {
            return cli_fail(err, FN_E_FAILED, "--prompt: not UTF-8 at byte %zu", valid);
        }
        cli_buffer_add(out, prompt, n);
        return FN_OK;
    }
    if (file == NULL && isatty(STDIN_FILENO)) {
        return cli_fail(err, FN_E_USAGE,
                        "there is no text: give --prompt TEXT, --file FILE or a pipe");
    }
    return cli_read_text(out, file != NULL ? file : "-", err);
}
