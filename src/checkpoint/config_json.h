/* checkpoint/config_json.h - config.json: which object holds the text config, and typed, named
 * reads.
 *
 * Path:    config.json -> [this] -> shape/shape.h.
 * Memory:  the config owns its JSON; `text` points into it. */
#ifndef FN_CHECKPOINT_CONFIG_JSON_H
#define FN_CHECKPOINT_CONFIG_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "base/status.h"

typedef struct fn_config {
    json_t *root;
    json_t *text;    /* root["text_config"], or root itself when that key is absent */
    char path[1024]; /* for messages */
    bool nested;     /* text_config is an object of its own */
} fn_config;

FN_NODISCARD fn_status fn_config_read(const char *path, fn_config *out, fn_error *err);
FN_NODISCARD fn_status fn_config_parse(const char *text, size_t n, const char *name, fn_config *out,
                                       fn_error *err);
void fn_config_free(fn_config *config);

#endif
