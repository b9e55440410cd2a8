#include "cli/buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>

#include "cli/report.h"
#include "cli/signals.h"

#define READ_BYTES ((size_t)1 << 16)
#define MAX_INPUT_BYTES ((size_t)1 << 30) /* far beyond any context */

void *cli_alloc(size_t bytes) {
    void *p = calloc(1, bytes > 0 ? bytes : 1);
    if (p == NULL) {
        fprintf(stderr, "flashnext: out of memory (%zu bytes)\n", bytes);
        exit(CLI_EXIT_FAILED);
    }
    return p;
}

char *cli_strdup(const char *text) {
    size_t n = strlen(text);
    char *copy = cli_alloc(n + 1);
    memcpy(copy, text, n);
    return copy;
}

static void buffer_reserve(cli_buffer *buffer, size_t more) {
    if (buffer->capacity - buffer->n > more) {
        return;
    }
    size_t capacity = buffer->n + more + 1;
    capacity += capacity / 2 + 64;
    char *data = realloc(buffer->data, capacity);
    if (data == NULL) {
        fprintf(stderr, "flashnext: out of memory (%zu bytes)\n", capacity);
        exit(CLI_EXIT_FAILED);
    }
    buffer->data = data;
    buffer->capacity = capacity;
}

void cli_buffer_add(cli_buffer *buffer, const char *bytes, size_t n) {
    buffer_reserve(buffer, n);
    if (n > 0) {
        memcpy(buffer->data + buffer->n, bytes, n);
    }
    buffer->n += n;
    buffer->data[buffer->n] = 0;
}

void cli_buffer_puts(cli_buffer *buffer, const char *text) {
    cli_buffer_add(buffer, text, strlen(text));
}

void cli_buffer_printf(cli_buffer *buffer, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0) {
        return;
    }
    buffer_reserve(buffer, (size_t)n);
    va_start(args, format);
    (void)vsnprintf(buffer->data + buffer->n, (size_t)n + 1, format, args);
    va_end(args);
    buffer->n += (size_t)n;
}

const char *cli_buffer_text(const cli_buffer *buffer) {
    return buffer->data != NULL ? buffer->data : "";
}

void cli_buffer_clear(cli_buffer *buffer) {
    buffer->n = 0;
    if (buffer->data != NULL) {
        buffer->data[0] = 0;
    }
}

void cli_buffer_free(cli_buffer *buffer) {
    free(buffer->data);
    *buffer = (cli_buffer){0};
}

/* Waits until fd has something; false when Ctrl-C or SIGTERM came, also in the instant before. */
static bool wait_for(int fd) {
    fd_set one;
    FD_ZERO(&one);
    FD_SET(fd, &one); /* one of the first few of this process */
    sigset_t ends;
    sigset_t before;
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGINT);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &ends, &before);
    while (!cli_stop_asked() && pselect(fd + 1, &one, NULL, NULL, NULL, &before) < 0 &&
           errno == EINTR) {
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return !cli_stop_asked();
}

/* All that fd gives. read(2), not stdio: after Ctrl-C or SIGTERM it must end, not go on. */
static fn_status read_all(cli_buffer *buffer, int fd, const char *name, fn_error *err) {
    size_t before = buffer->n;
    for (;;) {
        if (!wait_for(fd)) {
            return cli_fail(err, FN_E_CANCELLED, "%s: stopped", name);
        }
        if (buffer->n - before > MAX_INPUT_BYTES) {
            return cli_fail(err, FN_E_FAILED, "%s: more than %zu bytes of text", name,
                            MAX_INPUT_BYTES);
        }
        buffer_reserve(buffer, READ_BYTES);
        ssize_t got = read(fd, buffer->data + buffer->n, READ_BYTES);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return cli_fail(err, FN_E_IO, "%s: %s", name, strerror(errno));
        }
        buffer->n += (size_t)got;
        buffer->data[buffer->n] = 0;
        if (got == 0) {
            return FN_OK;
        }
    }
}

fn_status cli_read_text(cli_buffer *buffer, const char *path, fn_error *err) {
    bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return cli_fail(err, FN_E_IO, "%s: %s", name, strerror(errno));
    }
    size_t before = buffer->n;
    fn_status status = read_all(buffer, fd, name, err);
    if (!standard) {
        (void)close(fd);
    }
    if (status != FN_OK) {
        return status;
    }
    size_t n = buffer->n - before;
    size_t valid = n > 0 ? cli_utf8_valid(buffer->data + before, n) : 0;
    if (valid < n) {
        return cli_fail(err, FN_E_FAILED, "%s: not UTF-8 at byte %zu", name, valid);
    }
    return FN_OK;
}

char cli_upper(char c) {
    if (c >= 'a' && c <= 'z') {
        c = (char)(c - 'a' + 'A');
    }
    return c;
}

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

size_t cli_strip(const char **begin, size_t n) {
    while (n > 0 && is_space(**begin)) {
        (*begin)++;
        n--;
    }
    while (n > 0 && is_space((*begin)[n - 1])) {
        n--;
    }
    return n;
}

/* Length of the well-formed character at text [n], 0 if there is none (Unicode, table 3-7). */
static size_t utf8_character(const unsigned char *text, size_t n) {
    unsigned char c = text[0];
    if (c < 0x80) {
        return 1;
    }
    size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
    if (c < 0xC2 || c > 0xF4 || n < length) {
        return 0;
    }
    unsigned char low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
    unsigned char high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
    if (text[1] < low || text[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < length; i++) {
        if ((text[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return length;
}

size_t cli_utf8_valid(const char *text, size_t n) {
    size_t i = 0;
    while (i < n) {
        size_t length = utf8_character((const unsigned char *)text + i, n - i);
        if (length == 0) {
            break;
        }
        i += length;
    }
    return i;
}
