/* Which layers are delta-net layers and which attend. */
#include <stdio.h>
#include <string.h>

#include "shape/config_parts.h"

static bool kind_of(const char *name, uint8_t *kind) {
    static const char *const attention[] = {"full_attention", "indexed_attention",
                                            "qwen_sparse_attention"};
    if (name != NULL && strcmp(name, "linear_attention") == 0) {
        *kind = FN_LAYER_DELTA;
        return true;
    }
    for (size_t i = 0; name != NULL && i < sizeof attention / sizeof attention[0]; i++) {
        if (strcmp(name, attention[i]) == 0) {
            *kind = FN_LAYER_ATTENTION;
            return true;
        }
    }
    return false;
}

static void read_layer_types(fn_config_reader *r, const json_t *types, fn_shape *s) {
    if (!json_is_array(types)) {
        fn_reader_fail_found(r, "layer_types", types, "an array of layer types");
        return;
    }
    if (json_array_size(types) != s->n_layers) {
        fn_reader_fail(r, "layer_types", "found %zu entries, expected num_hidden_layers (%zu)",
                       json_array_size(types), s->n_layers);
        return;
    }
    for (size_t i = 0; i < s->n_layers; i++) {
        const json_t *type = json_array_get(types, i);
        if (!kind_of(json_string_value(type), &s->layer_kind[i])) {
            char key[40];
            (void)snprintf(key, sizeof key, "layer_types[%zu]", i);
            fn_reader_fail_found(r, key, type,
                                 "linear_attention, full_attention, indexed_attention or "
                                 "qwen_sparse_attention");
            return;
        }
    }
}

void fn_config_read_layers(fn_config_reader *r, fn_shape *s) {
    s->n_layers = fn_reader_size(r, "num_hidden_layers", 1, FN_MAX_LAYERS);
    const json_t *types = fn_reader_value(r, "layer_types");
    if (types != NULL && r->status == FN_OK) {
        read_layer_types(r, types, s);
    } else if (r->status == FN_OK) {
        size_t interval = fn_reader_size_or(r, "full_attention_interval", 1, FN_MAX_LAYERS, 4);
        for (size_t i = 0; i < s->n_layers && interval > 0; i++) {
            s->layer_kind[i] = (i + 1) % interval == 0 ? FN_LAYER_ATTENTION : FN_LAYER_DELTA;
        }
    }
    for (size_t i = 0; i < s->n_layers; i++) {
        s->n_attention += s->layer_kind[i] == FN_LAYER_ATTENTION ? 1 : 0;
    }
    s->n_delta = s->n_layers - s->n_attention;
}
