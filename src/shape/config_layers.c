/* Layer kinds and the n-gram layers among them. */
#include <stdio.h>
#include <stdlib.h>
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

void fn_config_read_indexer(fn_config_reader *r, fn_shape *s) {
    static const char *const keys[] = {"indexer_n_heads", "indexer_kv_heads", "indexer_head_dim",
                                       "indexer_budget", "indexer_compress_ratio"};
    enum { N_KEYS = sizeof keys / sizeof keys[0] };
    size_t values[N_KEYS];
    size_t n_present = 0;
    for (size_t i = 0; i < N_KEYS; i++) {
        n_present += fn_reader_value(r, keys[i]) != NULL ? 1 : 0;
    }
    if (n_present == 0) {
        return;
    }
    for (size_t i = 0; i < N_KEYS; i++) {
        values[i] = fn_reader_size(r, keys[i], 1, (size_t)1 << (i < 3 ? 12 : 28));
    }
    if (r->status != FN_OK) {
        return;
    }
    s->has_indexer = true;
    s->index_heads = values[0];
    s->index_dim = values[2];
    s->index_budget = values[3];
    s->index_ratio = values[4];
    if (values[1] != 1) {
        fn_reader_fail(r, keys[1], "found %zu, expected 1", values[1]);
    } else if (s->index_budget % s->index_ratio != 0) {
        fn_reader_fail(r, keys[3], "found %zu, expected a multiple of %s (%zu)", s->index_budget,
                       keys[4], s->index_ratio);
    } else if (s->rotary > s->index_dim) {
        fn_reader_fail(r, keys[2], "found %zu, expected at least the rotary width (%zu)",
                       s->index_dim, s->rotary);
    }
}

static int by_value(const void *a, const void *b) {
    size_t x = *(const size_t *)a;
    size_t y = *(const size_t *)b;
    return x < y ? -1 : x > y;
}

/* One-indexed ids; the reference takes them sorted and once each. */
static void read_ple_layers(fn_config_reader *r, fn_shape *s) {
    static const char key[] = "ple_layer_ids";
    const json_t *ids = fn_reader_value(r, key);
    bool seen[FN_MAX_LAYERS] = {false};
    if (ids != NULL && !json_is_array(ids)) {
        fn_reader_fail_found(r, key, ids, "an array of one-indexed layer numbers");
        return;
    }
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        json_int_t layer = json_integer_value(id);
        if (!json_is_integer(id) || layer < 1 || (size_t)layer > s->n_layers) {
            fn_reader_fail_found(r, key, id, "one-indexed numbers of existing layers");
            return;
        }
        if (s->layer_kind[layer - 1] != FN_LAYER_DELTA) {
            fn_reader_fail(r, key,
                           "found %zu, which is an attention layer; expected layers of "
                           "type linear_attention (counted from 1)",
                           (size_t)layer);
            return;
        }
        if (seen[layer - 1]) {
            continue;
        }
        if (s->n_ple == FN_MAX_PLE) {
            fn_reader_fail(r, key, "found more than %d layers, expected at most that", FN_MAX_PLE);
            return;
        }
        seen[layer - 1] = true;
        s->ple_layer[s->n_ple++] = (size_t)layer - 1;
    }
    qsort(s->ple_layer, s->n_ple, sizeof s->ple_layer[0], by_value);
}

static int32_t read_token(fn_config_reader *r, const char *key, const json_t *id, size_t vocab) {
    if (json_is_integer(id) && json_integer_value(id) >= 0 &&
        json_integer_value(id) < (json_int_t)vocab) {
        return (int32_t)json_integer_value(id);
    }
    char expected[80];
    (void)snprintf(expected, sizeof expected, "a token id below vocab_size (%zu)", vocab);
    fn_reader_fail_found(r, key, id, expected);
    return -1;
}

/* Element 0 of a list, as the reference takes it. */
static void read_eos(fn_config_reader *r, fn_shape *s) {
    static const char key[] = "eos_token_id";
    const json_t *id = fn_reader_value(r, key);
    if (json_is_array(id)) {
        id = json_array_get(id, 0);
    }
    if (id != NULL) {
        s->eos_id = read_token(r, key, id, s->vocab);
    } else if (s->n_ple > 0) {
        fn_reader_fail_missing(r, key);
    }
}

static void read_ngram_sizes(fn_config_reader *r, fn_shape *s) {
    s->ple_embed = fn_reader_size_or(r, "ple_embed_dim", 1, (size_t)1 << 20, s->hidden);
    s->ple_kernel = fn_reader_size(r, "ple_conv_kernel_size", 1, 64);
    s->ngram_size = fn_reader_size(r, "ngram_size", 2, FN_MAX_NGRAM);
    s->heads_per_ngram = fn_reader_size(r, "heads_per_ngram", 1, FN_MAX_NGRAM_HEADS);
    s->ngram_base = fn_reader_size(r, "ngram_vocab_size_base", 2, INT32_MAX);
    s->ngram_pad = fn_reader_size(r, "make_ngram_vocab_size_divisible_by", 1, (size_t)1 << 24);
    if (r->status != FN_OK) {
        return;
    }
    size_t heads = fn_shape_ngram_heads(s);
    if (heads > FN_MAX_NGRAM_HEADS) {
        fn_reader_fail(r, "heads_per_ngram", "found %zu, expected at most %zu", s->heads_per_ngram,
                       FN_MAX_NGRAM_HEADS / (s->ngram_size - 1));
    } else if (s->ple_embed % heads != 0) {
        fn_reader_fail(r, "ple_embed_dim", "found %zu, expected a multiple of the %zu n-gram heads",
                       s->ple_embed, heads);
    }
}

void fn_config_read_ngram(fn_config_reader *r, fn_shape *s) {
    if (r->status == FN_OK) {
        read_ple_layers(r, s);
    }
    if (r->status == FN_OK) {
        read_eos(r, s);
    }
    if (r->status != FN_OK || s->n_ple == 0) {
        return;
    }
    read_ngram_sizes(r, s);
    const json_t *seed = fn_reader_value(r, "seed");
    if (seed != NULL && !json_is_integer(seed)) {
        fn_reader_fail_found(r, "seed", seed, "an integer");
    }
    s->ngram_seed = seed != NULL ? (uint64_t)json_integer_value(seed) : 1234;
    const json_t *parts = fn_reader_value(r, "split_ngram_parts");
    if (parts == NULL) { /* some exports put it at the root */
        parts = json_object_get(r->config->root, "split_ngram_parts");
    }
    s->ngram_parts = json_integer_value(parts) > 0 ? (size_t)json_integer_value(parts) : 0;
}

void fn_config_read_vision(fn_config_reader *r, fn_shape *s) {
    static const char *const keys[] = {"image_token_id", "video_token_id"};
    int32_t *ids[] = {&s->image_id, &s->video_id};
    const json_t *vision = json_object_get(r->config->root, "vision_config");
    if (vision == NULL || json_is_null(vision) || r->status != FN_OK) {
        return;
    }
    r->at_root = true;
    if (!json_is_object(vision)) {
        fn_reader_fail_found(r, "vision_config", vision, "an object");
        return;
    }
    s->has_vision = true;
    for (size_t i = 0; i < 2; i++) {
        const json_t *id = json_object_get(r->config->root, keys[i]);
        if (id == NULL) {
            fn_reader_fail_missing(r, keys[i]);
        } else {
            *ids[i] = read_token(r, keys[i], id, s->vocab);
        }
    }
}
