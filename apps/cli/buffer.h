/* cli/buffer.h - bytes that grow, and whole inputs read into them.
 *
 * Path:     files, standard input, pieces of an answer -> [this] -> everything that needs it whole
 * Threads:  one at a time.
 * Memory:   a buffer owns its bytes until cli_buffer_free. This is a program, not the library: when
 *           memory runs out it says so and ends with exit code 1. */
#ifndef CLI_BUFFER_H
#define CLI_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

#include "flashnext.h"

typedef struct cli_buffer {
    char *data; /* [n] and a 0 behind them; NULL while nothing was added */
    size_t n, capacity;
} cli_buffer;

/* Never NULL. */
void *cli_alloc(size_t bytes);
char *cli_strdup(const char *text);

void cli_buffer_add(cli_buffer *buffer, const char *bytes, size_t n);
void cli_buffer_puts(cli_buffer *buffer, const char *text);
void cli_buffer_printf(cli_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The text, "" when nothing was added; lent. */
const char *cli_buffer_text(const cli_buffer *buffer);
/* Forgets the bytes, keeps the memory. */
void cli_buffer_clear(cli_buffer *buffer);
void cli_buffer_free(cli_buffer *buffer);

/* Adds the whole file; "-" is standard input. Fails with FN_E_IO, and FN_E_FAILED when it is not
 * UTF-8. */
fn_status cli_read_text(cli_buffer *buffer, const char *path, fn_error *err);

/* The length of what is left without ASCII white space at both ends; *begin is moved past the
 * front. */
size_t cli_strip(const char **begin, size_t n);

/* ASCII letters only, whatever the locale is. */
char cli_upper(char c);

/* Offset of the first byte that is not UTF-8, or n. */
size_t cli_utf8_valid(const char *text, size_t n);

#endif
