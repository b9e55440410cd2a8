/* cli/terminal.h - a person at a terminal: lines with editing and history, colours.
 *
 * Path:     keyboard -> [this: libedit] -> chat
 * Threads:  the main thread.
 * Memory:   opaque; cli_terminal_close gives the terminal back as it was. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include "cli/buffer.h"
#include "cli/options.h"

typedef struct cli_terminal cli_terminal;

typedef enum cli_line {
    CLI_LINE_READ,
    CLI_LINE_DISCARDED, /* Ctrl-C threw away what was typed */
    CLI_LINE_END,       /* Ctrl-D */
    CLI_LINE_INTERRUPT, /* Ctrl-C where nothing was typed */
    CLI_LINE_TERMINATE  /* SIGTERM */
} cli_line;

/* NULL if the terminal cannot be used. History comes from, and goes to, the state directory. */
cli_terminal *cli_terminal_open(bool colors);
void cli_terminal_close(cli_terminal *terminal);

/* One message, maybe of several lines (cli/multiline.h), without its last newline. */
cli_line cli_terminal_read(cli_terminal *terminal, cli_buffer *out);

/* Makes characters beyond ASCII readable whatever the locale is. */
void cli_terminal_use_utf8(void);

/* Colours on this file descriptor? --color, NO_COLOR, TERM, and whether it is a terminal. */
bool cli_terminal_colors(const cli_options *options, int fd);

#endif
