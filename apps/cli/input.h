/* cli/input.h - the text a command works on: --prompt, --file or standard input.
 *
 * Path:     options, stdin -> [this] -> run, tokenize, one-shot chat */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "cli/buffer.h"
#include "cli/options.h"

/* Is there any, without asking a person at a terminal? */
bool cli_input_given(const cli_options *options);
/* Adds it to out. Fails with FN_E_USAGE (more than one source, none), FN_E_IO, FN_E_FAILED (not
 * UTF-8). */
fn_status cli_input_read(const cli_options *options, cli_buffer *out, fn_error *err);

#endif
