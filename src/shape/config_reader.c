#include "shape/config_reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

json_t *fn_reader_value(const fn_config_reader *r, const char *key) {
    json_t *value = json_object_get(r->config->text, key);
    return json_is_null(value) ? NULL : value;
}

void fn_reader_fail(fn_config_reader *r, const char *key, const char *format, ...) {
    char text[512];
    va_list args;
    if (r->status != FN_OK) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    r->status = fn_fail(r->err, FN_E_MODEL, "%.400s: %s%s: %s", r->config->path,
                        r->config->nested && !r->at_root ? "text_config." : "", key, text);
}

void fn_reader_fail_missing(fn_config_reader *r, const char *key) {
    fn_reader_fail(r, key, "missing key, and the model has no default for it");
}

/* JSON escapes what is not printable, so the message stays on one line. */
void fn_reader_fail_found(fn_config_reader *r, const char *key, const json_t *found,
                          const char *expected) {
    char text[64];
    size_t n = json_dumpb(found, text, sizeof text - 1, JSON_ENCODE_ANY | JSON_COMPACT);
    if (n == 0 || json_is_object(found)) {
        (void)snprintf(text, sizeof text, "%s", fn_json_type_name(found));
    } else if (n > sizeof text - 1) {
        memcpy(text + sizeof text - 4, "...", 4);
    } else {
        text[n] = '\0';
    }
    fn_reader_fail(r, key, "found %s, expected %s", text, expected);
}

size_t fn_reader_size_or(fn_config_reader *r, const char *key, size_t low, size_t high,
                         size_t otherwise) {
    char expected[80];
    const json_t *value = fn_reader_value(r, key);
    if (value == NULL) {
        return otherwise;
    }
    json_int_t number = json_integer_value(value);
    if (json_is_integer(value) && number >= (json_int_t)low && number <= (json_int_t)high) {
        return (size_t)number;
    }
    (void)snprintf(expected, sizeof expected, "an integer from %zu to %zu", low, high);
    fn_reader_fail_found(r, key, value, expected);
    return 0;
}

size_t fn_reader_size(fn_config_reader *r, const char *key, size_t low, size_t high) {
    if (fn_reader_value(r, key) == NULL) {
        fn_reader_fail_missing(r, key);
        return 0;
    }
    return fn_reader_size_or(r, key, low, high, 0);
}

bool fn_reader_bool_or(fn_config_reader *r, const char *key, bool otherwise) {
    const json_t *value = fn_reader_value(r, key);
    if (value != NULL && !json_is_boolean(value)) {
        fn_reader_fail_found(r, key, value, "true or false");
    }
    return value != NULL ? json_is_true(value) : otherwise;
}

double fn_reader_positive(fn_config_reader *r, json_t *object, const char *key) {
    const json_t *value = json_object_get(object != NULL ? object : r->config->text, key);
    if (value == NULL || json_is_null(value)) {
        return 0.0;
    }
    double number = json_number_value(value);
    if (!json_is_number(value) || !isfinite(number) || number <= 0.0) {
        fn_reader_fail_found(r, key, value, "a positive number");
        return 0.0;
    }
    return number;
}

const char *fn_reader_text(fn_config_reader *r, const char *key) {
    const json_t *value = fn_reader_value(r, key);
    if (value != NULL && !json_is_string(value)) {
        fn_reader_fail_found(r, key, value, "a string");
    }
    return json_string_value(value);
}

int32_t fn_reader_token(fn_config_reader *r, const char *key, const json_t *id, size_t vocab) {
    if (json_is_integer(id) && json_integer_value(id) >= 0 &&
        json_integer_value(id) < (json_int_t)vocab) {
        return (int32_t)json_integer_value(id);
    }
    char expected[80];
    (void)snprintf(expected, sizeof expected, "a token id below vocab_size (%zu)", vocab);
    fn_reader_fail_found(r, key, id, expected);
    return -1;
}
