/* cli/commands.h - one function a command; each returns the exit code.
 *
 * Path:     main.c -> [these] -> the library */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "cli/options.h"

int cli_chat(cli_options *options); /* /set changes them */
int cli_serve(const cli_options *options);
int cli_run(const cli_options *options);
int cli_tokenize(const cli_options *options);
int cli_inspect(const cli_options *options);
int cli_plan(const cli_options *options);
int cli_logits(const cli_options *options);
int cli_verify(const cli_options *options);
int cli_quantize(const cli_options *options);
int cli_perplexity(const cli_options *options);
int cli_bench(const cli_options *options);

#endif
