#include "base/status.h"

#include <stdio.h>
#include <string.h>

const char *fn_status_name(fn_status status) {
    switch (status) {
#define FN_STATUS_NAME(name, code, text)                                                           \
    case FN_##name:                                                                                \
        return text;
        FN_STATUS_MAP(FN_STATUS_NAME)
#undef FN_STATUS_NAME
    }
    return "unknown status";
}

fn_status fn_fail_v(fn_error *err, fn_status code, const char *format, va_list args) {
    if (err != NULL && err->code == FN_OK) {
        err->code = code;
        (void)vsnprintf(err->text, sizeof err->text, format, args);
    }
    return code;
}

fn_status fn_fail(fn_error *err, fn_status code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)fn_fail_v(err, code, format, args);
    va_end(args);
    return code;
}

void fn_error_prefix(fn_error *err, const char *format, ...) {
    if (err == NULL || err->code == FN_OK) {
        return;
    }
    char text[sizeof err->text];
    va_list args;
    va_start(args, format);
    int used = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (used < 0 || (size_t)used + 2 >= sizeof text) {
        return;
    }
    size_t room = sizeof text - (size_t)used - 2;
    size_t length = strlen(err->text);
    length = length < room - 1 ? length : room - 1;
    text[used] = ':';
    text[used + 1] = ' ';
    memcpy(text + used + 2, err->text, length);
    text[(size_t)used + 2 + length] = '\0';
    memcpy(err->text, text, sizeof text);
}
