#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/json_get.h"
#include "cli/paths.h"
#include "cli/verify.h"

/* What one layer computes, in order; `of` says which layers have a slice: every one, those with
 * n-gram memory, with attention, with a delta net. */
typedef enum layer_kind { EVERY_LAYER, NGRAM_LAYERS, ATTENTION_LAYERS, DELTA_LAYERS } layer_kind;
static const struct {
    const char *name;
    layer_kind of;
} layer_steps[] = {
    {"ngram_rows", NGRAM_LAYERS},    {"ple_out", NGRAM_LAYERS},  {"qsa_selected", ATTENTION_LAYERS},
    {"delta_state", DELTA_LAYERS},   {"mixer_out", EVERY_LAYER}, {"router_ids", EVERY_LAYER},
    {"router_weights", EVERY_LAYER}, {"mlp_out", EVERY_LAYER},   {"streams", EVERY_LAYER},
};
static const size_t n_layer_steps = sizeof layer_steps / sizeof layer_steps[0];
/* And after the last layer. */
static const char *const last_steps[] = {"hidden",           "logits",       "mtp_fused",
                                         "mtp_qsa_selected", "mtp_streams",  "mtp_logits",
                                         "draft_tokens",     "draft_logits", "draft_streams"};
static const size_t n_last_steps = sizeof last_steps / sizeof last_steps[0];

/* The config's text part; both forms exist. */
static const json_t *text_config(const json_t *root) {
    const json_t *text = json_object_get(root, "text_config");
    return text != NULL ? text : root;
}

static bool is_attention(const json_t *config, size_t layer) {
    const json_t *types = json_object_get(config, "layer_types");
    if (types != NULL) {
        const char *type = json_string_value(json_array_get(types, layer));
        return type != NULL && strcmp(type, "linear_attention") != 0;
    }
    uint64_t interval = cli_json_whole(config, "full_attention_interval");
    return (layer + 1) % (interval > 0 ? interval : 4) == 0;
}

void cli_layers_read(const char *model_dir, cli_layers *out) {
    *out = (cli_layers){0};
    char *path = cli_path_join(model_dir, "config.json");
    json_t *root = json_load_file(path, 0, NULL);
    free(path);
    const json_t *config = text_config(root);
    uint64_t n = cli_json_whole(config, "num_hidden_layers");
    if (n > 0 && n < 100000) {
        out->n = (size_t)n;
        out->attention = cli_alloc(out->n * sizeof *out->attention);
        out->ngram = cli_alloc(out->n * sizeof *out->ngram);
        for (size_t i = 0; i < out->n; i++) {
            out->attention[i] = is_attention(config, i);
        }
        const json_t *ids = json_object_get(config, "ple_layer_ids"); /* counted from 1 */
        for (size_t i = 0; i < json_array_size(ids); i++) {
            json_int_t id = json_integer_value(json_array_get(ids, i));
            if (id >= 1 && (uint64_t)id <= n) {
                out->ngram[id - 1] = true;
            }
        }
    }
    json_decref(root);
}

void cli_layers_free(cli_layers *layers) {
    free(layers->attention);
    free(layers->ngram);
    *layers = (cli_layers){0};
}

static size_t rank_of(const char *name) {
    for (size_t i = 0; i < n_layer_steps; i++) {
        if (strcmp(layer_steps[i].name, name) == 0) {
            return i;
        }
    }
    for (size_t i = 0; i < n_last_steps; i++) {
        if (strcmp(last_steps[i], name) == 0) {
            return n_layer_steps + i;
        }
    }
    return n_layer_steps + n_last_steps;
}

static int compare_ranks(const void *a, const void *b) {
    const char *name_a = ((const cli_compared *)a)->name;
    const char *name_b = ((const cli_compared *)b)->name;
    size_t rank_a = rank_of(name_a);
    size_t rank_b = rank_of(name_b);
    return rank_a != rank_b ? (rank_a < rank_b ? -1 : 1) : strcmp(name_a, name_b);
}

void cli_verify_sort(cli_verdict *verdict) {
    if (verdict->n_compared > 1) {
        qsort(verdict->compared, verdict->n_compared, sizeof *verdict->compared, compare_ranks);
    }
}

static const cli_compared *find(const cli_verdict *verdict, const char *name) {
    for (size_t i = 0; i < verdict->n_compared; i++) {
        if (strcmp(verdict->compared[i].name, name) == 0) {
            return &verdict->compared[i];
        }
    }
    return NULL;
}

static bool has_slice(const cli_layers *layers, size_t layer, layer_kind of) {
    switch (of) {
    case NGRAM_LAYERS:
        return layers->ngram[layer];
    case ATTENTION_LAYERS:
        return layers->attention[layer];
    case DELTA_LAYERS:
        return !layers->attention[layer];
    case EVERY_LAYER:
        break;
    }
    return true;
}

static bool differs(const cli_compared *tensor, size_t slice) {
    return tensor != NULL && slice < tensor->n_slices && tensor->slices[slice].n_different > 0;
}

/* The first slice of the tensor that differs, whatever its layer is. */
static cli_difference any_slice(const cli_compared *tensor) {
    for (size_t i = 0; tensor != NULL && i < tensor->n_slices; i++) {
        if (differs(tensor, i)) {
            return (cli_difference){.tensor = tensor, .slice = i, .layer = -1};
        }
    }
    return (cli_difference){.layer = -1};
}

static cli_difference first_in_layers(const cli_verdict *verdict, const cli_layers *layers) {
    size_t next[4] = {0}; /* slices used up, of each layer_kind */
    for (size_t layer = 0; layer < layers->n; layer++) {
        for (size_t i = 0; i < n_layer_steps; i++) {
            layer_kind of = layer_steps[i].of;
            const cli_compared *tensor = find(verdict, layer_steps[i].name);
            if (has_slice(layers, layer, of) && differs(tensor, next[of])) {
                return (cli_difference){.tensor = tensor, .slice = next[of], .layer = (int)layer};
            }
        }
        for (int of = EVERY_LAYER; of <= DELTA_LAYERS; of++) {
            next[of] += has_slice(layers, layer, (layer_kind)of);
        }
    }
    return (cli_difference){.layer = -1};
}

cli_difference cli_verify_first(const cli_verdict *verdict, const cli_layers *layers) {
    for (size_t i = 0; i < verdict->n_compared; i++) {
        if (verdict->compared[i].shape_differs) {
            return (cli_difference){.tensor = &verdict->compared[i], .layer = -1};
        }
    }
    cli_difference first = first_in_layers(verdict, layers);
    for (size_t i = 0; first.tensor == NULL && i < n_layer_steps; i++) {
        first = any_slice(find(verdict, layer_steps[i].name));
    }
    for (size_t i = 0; first.tensor == NULL && i < n_last_steps; i++) {
        first = any_slice(find(verdict, last_steps[i]));
    }
    for (size_t i = 0; first.tensor == NULL && i < verdict->n_compared; i++) {
        first = any_slice(&verdict->compared[i]);
    }
    return first;
}
