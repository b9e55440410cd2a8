#include "cli/multiline.h"

#include <string.h>

#define QUOTES "\"\"\""

static bool ends_block(const char *line, size_t n) {
    return n >= 3 && memcmp(line + n - 3, QUOTES, 3) == 0;
}

/* An odd number of backslashes: "\\" at the end is a backslash that was meant. */
static bool continues(const char *line, size_t n) {
    size_t slashes = 0;
    while (slashes < n && line[n - 1 - slashes] == '\\') {
        slashes++;
    }
    return slashes % 2 == 1;
}

bool cli_multiline_add(cli_multiline *state, const char *line, size_t n, cli_buffer *out) {
    bool first = !state->in_block && !state->continued;
    if (!first) {
        cli_buffer_puts(out, "\n");
    }
    if (first && n >= 3 && memcmp(line, QUOTES, 3) == 0) {
        state->in_block = true;
        line += 3;
        n -= 3;
    }
    if (state->in_block) {
        bool end = ends_block(line, n);
        cli_buffer_add(out, line, end ? n - 3 : n);
        state->in_block = !end;
        return end;
    }
    state->continued = continues(line, n);
    cli_buffer_add(out, line, state->continued ? n - 1 : n);
    return !state->continued;
}
