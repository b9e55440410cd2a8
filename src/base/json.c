#include "base/json.h"

#include <errno.h>

#include "base/file.h"
#include "base/mem.h"

fn_status fn_json_parse(const char *text, size_t n, const char *name, json_t **out, fn_error *err) {
    json_error_t detail;
    errno = 0;
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &detail);
    if (*out != NULL) {
        return FN_OK;
    }
    /* jansson gives every fault of the text a message, and most failed allocations none; some come out as a
     * fault of the text where it happened to be. */
    if (json_error_code(&detail) == json_error_out_of_memory || detail.text[0] == '\0' ||
        errno == ENOMEM) {
        return fn_fail_nomem(err, name, n);
    }
    return fn_fail(err, FN_E_MODEL, "%s: not valid JSON at line %d, column %d: %s", name,
                   detail.line, detail.column, detail.text);
}

fn_status fn_json_read_file(const char *path, size_t max_bytes, json_t **out, fn_error *err) {
    char *text = NULL;
    size_t n = 0;
    *out = NULL;
    fn_status status = fn_file_read_all(path, max_bytes, &text, &n, err);
    if (status == FN_OK) {
        status = fn_json_parse(text, n, path, out, err);
        fn_free(text);
    }
    return status;
}

const char *fn_json_type_name(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a real number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        return "null";
    }
    return "an unknown type";
}
