#include "cli/json_slices.h"

#include <string.h>

static void skip_blanks(cli_json_slices *s) {
    while (s->at < s->end && strchr(" \t\r\n", *s->at) != NULL && *s->at != 0) {
        s->at++;
    }
}

static bool fail(cli_json_slices *s) {
    s->failed = true;
    return false;
}

cli_json_slices cli_json_slices_begin(const char *text, size_t n) {
    cli_json_slices s = {.at = text, .end = text + n};
    skip_blanks(&s);
    if (s.at == s.end || *s.at != '[') {
        s.failed = true;
    }
    return s;
}

/* Past the closing quote of the string that begins here. */
static void skip_string(cli_json_slices *s) {
    for (s->at++; s->at < s->end && *s->at != '"'; s->at++) {
        s->at += *s->at == '\\' && s->at + 1 < s->end;
    }
    s->at += s->at < s->end;
}

/* To the "," or "]" that ends the element, counting brackets on the way. */
static void skip_element(cli_json_slices *s) {
    size_t depth = 0;
    while (s->at < s->end) {
        char c = *s->at;
        if (depth == 0 && (c == ',' || c == ']')) {
            return;
        }
        if (c == '"') {
            skip_string(s);
            continue;
        }
        depth += c == '{' || c == '[';
        depth -= (c == '}' || c == ']') && depth > 0;
        s->at++;
    }
}

bool cli_json_slices_next(cli_json_slices *s, const char **begin, size_t *n) {
    if (s->failed || s->at == s->end) {
        return false;
    }
    bool first = *s->at == '[';
    s->at++;
    skip_blanks(s);
    if (first && s->at < s->end && *s->at == ']') {
        s->at++;
        skip_blanks(s);
        return s->at == s->end ? false : fail(s);
    }
    *begin = s->at;
    skip_element(s);
    if (s->at == s->end || s->at == *begin) {
        return fail(s);
    }
    const char *last = s->at;
    while (last > *begin && strchr(" \t\r\n", last[-1]) != NULL) {
        last--;
    }
    *n = (size_t)(last - *begin);
    if (*s->at == ']') {
        s->at++;
        skip_blanks(s);
        if (s->at < s->end) {
            return fail(s);
        }
    }
    return *n > 0 ? true : fail(s);
}
