/* cli/help.h - what the program says about itself: help, version, manual page, shell completion.
 *
 * Path:     option_table.h -> [this] -> standard output */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stddef.h>
#include <stdio.h>

#include "cli/options.h"

/* The commands, one a line. */
void cli_help_program(FILE *out);
/* full: every option, aliases, environment, exit codes; else the usual options. */
void cli_help_command(cli_command command, bool full, FILE *out);
/* "-m, --model-dir DIR" into out [size]. */
void cli_help_spelling(cli_option_id id, char *out, size_t size);

/* The commands `help`, `version`, `completion` and `man`. */
int cli_help(const cli_options *options);
int cli_version(const cli_options *options);
int cli_completion(const cli_options *options);
int cli_man(const cli_options *options);

#endif
