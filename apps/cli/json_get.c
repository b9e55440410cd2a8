#include "cli/json_get.h"

#include <stddef.h>
#include <string.h>

const json_t *cli_json_at(const json_t *root, const char *path) {
    while (root != NULL && *path != 0) {
        size_t n = strcspn(path, ".");
        root = json_object_getn(root, path, n);
        path += n;
        path += *path == '.';
    }
    return root;
}

double cli_json_number(const json_t *root, const char *path) {
    return json_number_value(cli_json_at(root, path));
}

uint64_t cli_json_whole(const json_t *root, const char *path) {
    json_int_t value = json_integer_value(cli_json_at(root, path));
    return value > 0 ? (uint64_t)value : 0;
}

const char *cli_json_text(const json_t *root, const char *path) {
    const char *text = json_string_value(cli_json_at(root, path));
    return text != NULL ? text : "";
}
