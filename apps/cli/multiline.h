/* cli/multiline.h - one message from several lines.
 *
 * A line that begins with three quotes opens a block that runs to the next line which ends with
 * three. Outside of a block a backslash at the end of a line continues it on the next.
 *
 * Path:     lines typed -> [this] -> one message */
#ifndef CLI_MULTILINE_H
#define CLI_MULTILINE_H

#include "cli/buffer.h"

typedef struct cli_multiline {
    bool in_block, continued;
} cli_multiline;

/* Adds a line [n] without its newline to out. True: the message is complete. */
bool cli_multiline_add(cli_multiline *state, const char *line, size_t n, cli_buffer *out);

#endif
