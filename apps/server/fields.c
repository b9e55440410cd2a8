#include "server/fields.h"

#include <math.h>
#include <string.h>

#define MAX_DEPTH 128

const char *srv_type_name(const json_t *value) {
    static const char *const names[] = {"an object", "an array", "a string", "an integer",
                                        "a number",  "true",     "false",    "null"};
    return value != NULL ? names[json_typeof(value)] : "nothing";
}

/* The JSON parser recurses: what is nested deeper is refused before it starts. */
static bool is_too_deep(const char *bytes, size_t n) {
    size_t depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        if (in_string && bytes[i] == '\\') {
            i++; /* what is escaped ends no string */
        } else if (in_string) {
            in_string = bytes[i] != '"';
        } else if (bytes[i] == '"') {
            in_string = true;
        } else if (bytes[i] == '{' || bytes[i] == '[') {
            if (++depth > MAX_DEPTH) {
                return true;
            }
        } else if ((bytes[i] == '}' || bytes[i] == ']') && depth > 0) {
            depth--;
        }
    }
    return false;
}

bool srv_parse_object(const char *bytes, size_t n, json_t **out, srv_problem *problem) {
    json_error_t at;
    *out = NULL;
    if (n == 0) {
        return srv_refuse(problem, NULL, "the body is empty: expected a JSON object");
    }
    if (is_too_deep(bytes, n)) {
        return srv_refuse(problem, NULL, "the body is nested deeper than %d levels", MAX_DEPTH);
    }
    json_t *root = json_loadb(bytes, n, JSON_ALLOW_NUL | JSON_DECODE_ANY, &at);
    if (root == NULL) {
        return srv_refuse(problem, NULL, "the body is not JSON: %s (line %d, column %d)", at.text,
                          at.line, at.column);
    }
    if (!json_is_object(root)) {
        (void)srv_refuse(problem, NULL, "the body is %s: expected a JSON object",
                         srv_type_name(root));
        json_decref(root);
        return false;
    }
    *out = root;
    return true;
}

const json_t *srv_field(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static bool wrong_type(const char *key, const char *expected, const json_t *found,
                       srv_problem *problem) {
    return srv_refuse(problem, key, "%s: expected %s, found %s", key, expected,
                      srv_type_name(found));
}

bool srv_field_bool(const json_t *object, const char *key, bool *out, srv_problem *problem) {
    const json_t *value = srv_field(object, key);
    if (value == NULL) {
        return true;
    }
    if (!json_is_boolean(value)) {
        return wrong_type(key, "true or false", value, problem);
    }
    *out = json_is_true(value);
    return true;
}

bool srv_field_number(const json_t *object, const char *key, double low, double high, double *out,
                      srv_problem *problem) {
    const json_t *value = srv_field(object, key);
    if (value == NULL) {
        return true;
    }
    if (!json_is_number(value)) {
        return wrong_type(key, "a number", value, problem);
    }
    double number = json_number_value(value);
    if (!(number >= low && number <= high)) {
        return srv_refuse(problem, key, "%s: expected a number from %g to %g, found %g", key, low,
                          high, number);
    }
    *out = number;
    return true;
}

bool srv_field_float(const json_t *object, const char *key, double low, double high, float *out,
                     srv_problem *problem) {
    double number = (double)*out;
    if (!srv_field_number(object, key, low, high, &number, problem)) {
        return false;
    }
    *out = (float)number;
    return true;
}

bool srv_field_whole(const json_t *object, const char *key, int64_t low, int64_t high, int64_t *out,
                     srv_problem *problem) {
    const json_t *value = srv_field(object, key);
    if (value == NULL) {
        return true;
    }
    double number = json_number_value(value);
    bool whole = json_is_integer(value) ||
                 (json_is_real(value) && floor(number) == number && fabs(number) < 9e15);
    if (!whole) {
        return wrong_type(key, "an integer", value, problem);
    }
    int64_t found = json_is_integer(value) ? json_integer_value(value) : (int64_t)number;
    if (found < low || found > high) {
        return srv_refuse(problem, key, "%s: expected an integer from %lld to %lld, found %lld",
                          key, (long long)low, (long long)high, (long long)found);
    }
    *out = found;
    return true;
}

bool srv_field_text(const json_t *object, const char *key, const char **out, srv_problem *problem) {
    const json_t *value = srv_field(object, key);
    if (value == NULL) {
        return true;
    }
    if (!json_is_string(value)) {
        return wrong_type(key, "a string", value, problem);
    }
    *out = json_string_value(value);
    return true;
}

bool srv_field_object(const json_t *object, const char *key, const json_t **out,
                      srv_problem *problem) {
    const json_t *value = srv_field(object, key);
    if (value != NULL && !json_is_object(value)) {
        return wrong_type(key, "an object", value, problem);
    }
    *out = value != NULL ? value : *out;
    return true;
}

bool srv_field_array(const json_t *object, const char *key, const json_t **out,
                     srv_problem *problem) {
    const json_t *value = srv_field(object, key);
    if (value != NULL && !json_is_array(value)) {
        return wrong_type(key, "an array", value, problem);
    }
    *out = value != NULL ? value : *out;
    return true;
}
