/* The layers with n-gram memory and the sizes of their tables. */
#include <stdlib.h>

#include "shape/config_parts.h"

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

/* Element 0 of a list, as the reference takes it. */
static void read_eos(fn_config_reader *r, fn_shape *s) {
    static const char key[] = "eos_token_id";
    const json_t *id = fn_reader_value(r, key);
    if (json_is_array(id)) {
        id = json_array_get(id, 0);
    }
    if (id != NULL) {
        s->eos_id = fn_reader_token(r, key, id, s->vocab);
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
