#include "server/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/buffer.h"

static void timestamp(char *out, size_t size) {
    struct timespec now;
    struct tm parts;
    char seconds[32] = "";
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &parts) != NULL) {
        (void)strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &parts);
    }
    (void)snprintf(out, size, "%s.%03ldZ", seconds, now.tv_nsec / 1000000);
}

static void print_json(json_t *line) {
    char *text = json_dumps(line, JSON_COMPACT);
    if (text != NULL) {
        fprintf(stderr, "%s\n", text);
    }
    free(text);
    json_decref(line);
}

void srv_log_request(bool as_json, const srv_log_entry *entry) {
    char when[64];
    timestamp(when, sizeof when);
    if (as_json) {
        print_json(json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:f, s:I, s:I, s:I, s:s*}", "time",
                             when, "request_id", entry->id, "remote", entry->remote, "method",
                             entry->method, "path", entry->path, "status", entry->status, "seconds",
                             entry->seconds, "prompt_tokens", (json_int_t)entry->n_prompt,
                             "cached_tokens", (json_int_t)entry->n_cached, "completion_tokens",
                             (json_int_t)entry->n_generated, "finish_reason", entry->finish));
        return;
    }
    cli_buffer line = {0};
    cli_buffer_printf(&line, "%s %s %s %s %d %.3fs id=%s", when, entry->remote, entry->method,
                      entry->path, entry->status, entry->seconds, entry->id);
    if (entry->n_prompt > 0) {
        cli_buffer_printf(&line, " prompt=%zu cached=%zu new=%zu", entry->n_prompt, entry->n_cached,
                          entry->n_generated);
    }
    if (entry->finish != NULL) {
        cli_buffer_printf(&line, " finish=%s", entry->finish);
    }
    fprintf(stderr, "%s\n", cli_buffer_text(&line));
    cli_buffer_free(&line);
}

void srv_log_event(bool as_json, const char *format, ...) {
    char text[1200];
    char when[64];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text[cli_utf8_valid(text, strlen(text))] = 0;
    timestamp(when, sizeof when);
    if (as_json) {
        print_json(json_pack("{s:s, s:s}", "time", when, "event", text));
    } else {
        fprintf(stderr, "%s %s\n", when, text);
    }
}
