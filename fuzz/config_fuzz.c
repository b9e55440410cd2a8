/* config.json -> shape -> n-gram constants -> a few hashed rows. */
#include <stdint.h>
#include <stdlib.h>

#include "ngram/ngram_hash.h"
#include "shape/ngram_constants.h"
#include "shape/shape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok) {
    if (!ok) {
        abort();
    }
}

/* What the rest of the library divides by and indexes with. */
static void check_shape(const fn_shape *s) {
    must(s->n_layers >= 1 && s->n_layers <= FN_MAX_LAYERS);
    must(s->n_delta + s->n_attention == s->n_layers);
    must(s->hidden > 0 && s->vocab > 0 && s->hc > 1 && s->hc_rank > 0);
    must(s->n_heads % s->n_kv_heads == 0 && s->delta_v_heads % s->delta_k_heads == 0);
    must(s->rotary > 0 && s->rotary % 2 == 0 && s->rotary <= s->head_dim);
    must(s->n_chosen > 0 && s->n_chosen <= s->n_experts);
    must(!s->has_indexer || (s->index_budget % s->index_ratio == 0 && s->rotary <= s->index_dim));
    must(s->eos_id < (int64_t)s->vocab && s->image_id < (int64_t)s->vocab);
    for (size_t p = 0; p < s->n_ple; p++) {
        must(s->ple_layer[p] < s->n_layers && s->layer_kind[s->ple_layer[p]] == FN_LAYER_DELTA);
        must(p == 0 || s->ple_layer[p] > s->ple_layer[p - 1]);
    }
}

static void check_hash(const fn_shape *s, size_t p) {
    fn_ngram_constants hash;
    int32_t history[FN_MAX_NGRAM];
    int32_t ids[3] = {0, s->eos_id, (int32_t)s->vocab - 1};
    int64_t rows[3 * FN_MAX_NGRAM_HEADS];
    fn_ngram_constants_init(s, p, &hash);
    for (size_t i = 0; i < FN_MAX_NGRAM; i++) {
        history[i] = s->eos_id;
    }
    fn_ngram_hash_rows(&hash, history, ids, 3, rows);
    for (size_t i = 0; i < 3 * hash.heads; i++) {
        must(rows[i] >= 0 && rows[i] < hash.rows && hash.rows <= hash.padded_rows);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    fn_config config;
    fn_shape shape;
    fn_error err = {0};
    if (fn_config_parse((const char *)data, n, "fuzz", &config, &err) != FN_OK) {
        return 0;
    }
    if (fn_shape_from_config(&config, &shape, &err) == FN_OK) {
        check_shape(&shape);
        if (shape.n_ple > 0) {
            check_hash(&shape, 0);
            check_hash(&shape, shape.n_ple - 1);
        }
    }
    fn_config_free(&config);
    return 0;
}
