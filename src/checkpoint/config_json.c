#include "checkpoint/config_json.h"

#include <stdio.h>

#include "base/json.h"

#define MAX_CONFIG_BYTES ((size_t)16 << 20) /* published ones: 5 KB; with module lists 1 MB */

static fn_status find_text(fn_config *config, fn_error *err) {
    if (!json_is_object(config->root)) {
        return fn_fail(err, FN_E_MODEL, "%s: found %s, expected an object", config->path,
                       fn_json_type_name(config->root));
    }
    config->text = json_object_get(config->root, "text_config");
    config->nested = config->text != NULL;
    if (!config->nested) {
        config->text = config->root;
    } else if (!json_is_object(config->text)) {
        return fn_fail(err, FN_E_MODEL, "%s: text_config: found %s, expected an object",
                       config->path, fn_json_type_name(config->text));
    }
    return FN_OK;
}

static fn_status finish(fn_status status, const char *name, fn_config *out, fn_error *err) {
    (void)snprintf(out->path, sizeof out->path, "%s", name);
    if (status == FN_OK) {
        status = find_text(out, err);
    }
    if (status != FN_OK) {
        fn_config_free(out);
    }
    return status;
}

fn_status fn_config_read(const char *path, fn_config *out, fn_error *err) {
    *out = (fn_config){0};
    fn_status status = fn_json_read_file(path, MAX_CONFIG_BYTES, &out->root, err);
    return finish(status, path, out, err);
}

fn_status fn_config_parse(const char *text, size_t n, const char *name, fn_config *out,
                          fn_error *err) {
    *out = (fn_config){0};
    fn_status status = fn_json_parse(text, n, name, &out->root, err);
    return finish(status, name, out, err);
}

void fn_config_free(fn_config *config) {
    json_decref(config->root);
    *config = (fn_config){0};
}
