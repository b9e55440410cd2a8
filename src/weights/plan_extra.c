/* weights/plan_extra.c - numbers of the parts that are not loaded: MTP head and vision tower. */
#include "base/json.h"
#include "base/saturate.h"
#include "weights/plan.h"

static uint64_t mixer(const fn_shape *s, bool inject) {
    uint64_t streams = fn_shape_streams(s);
    return fn_saturate_mul(streams, 1 + 2 * s->hc_rank + (inject ? s->hc : 0));
}

/* Two projections and their norms, one attention layer with experts of its own, a final mixer. */
uint64_t fn_plan_mtp_params(const fn_shape *s) {
    uint64_t d = s->hidden;
    uint64_t q = s->n_heads * s->head_dim;
    uint64_t kv = s->n_kv_heads * s->head_dim;
    uint64_t index = s->has_indexer ? ((s->index_heads + 1) * d + 2) * s->index_dim : 0;
    uint64_t bias = s->attention_bias ? 2 * q + 2 * kv + d : 0;
    uint64_t parts[] = {
        FN_PRODUCT(2, d, d),
        d + fn_shape_streams(s),
        fn_saturate_mul(2, mixer(s, true)),
        mixer(s, false),
        FN_PRODUCT(d, 3 * q + 2 * kv),
        2 * s->head_dim + index + bias,
        FN_PRODUCT(s->n_experts, d, 3 * s->expert_width + 1),
        FN_PRODUCT(d, 3 * s->shared_width + 1),
    };
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        sum = fn_saturate_add(sum, parts[i]);
    }
    return sum;
}

typedef enum vision_key {
    DEPTH,
    WIDTH,
    INNER,
    PATCH,
    FRAMES,
    CHANNELS,
    POSITIONS,
    MERGE,
    OUT,
    VISION_KEYS
} vision_key;

static fn_status read_vision(const fn_config *config, uint64_t *v, fn_error *err) {
    static const char *const keys[VISION_KEYS] = {"depth",
                                                  "hidden_size",
                                                  "intermediate_size",
                                                  "patch_size",
                                                  "temporal_patch_size",
                                                  "in_channels",
                                                  "num_position_embeddings",
                                                  "spatial_merge_size",
                                                  "out_hidden_size"};
    const json_t *vision = json_object_get(config->root, "vision_config");
    for (size_t i = 0; i < VISION_KEYS; i++) {
        const json_t *value = json_object_get(vision, keys[i]);
        json_int_t number = json_integer_value(value);
        if (!json_is_integer(value) || number < 1 || number > 1 << 20) {
            return fn_fail(err, FN_E_MODEL,
                           "%.300s: vision_config.%s: found %s, expected an integer from 1 to %d",
                           config->path, keys[i],
                           value != NULL ? fn_json_type_name(value) : "nothing", 1 << 20);
        }
        v[i] = (uint64_t)number;
    }
    return FN_OK;
}

fn_status fn_plan_vision_params(const fn_config *config, uint64_t *out, fn_error *err) {
    uint64_t v[VISION_KEYS] = {0};
    *out = 0;
    fn_status status = read_vision(config, v, err);
    if (status != FN_OK) {
        return status;
    }
    uint64_t w = v[WIDTH];
    uint64_t merged = FN_PRODUCT(w, v[MERGE], v[MERGE]);
    uint64_t patch = FN_PRODUCT(v[CHANNELS], v[FRAMES], v[PATCH], v[PATCH]);
    /* Biases everywhere; LayerNorms have weight and bias. */
    uint64_t attention = fn_saturate_add(FN_PRODUCT(4, w, w), 4 * w);
    uint64_t mlp = fn_saturate_add(FN_PRODUCT(2, w, v[INNER]), v[INNER] + w);
    uint64_t block = fn_saturate_add(fn_saturate_add(attention, mlp), 4 * w);
    uint64_t merger = fn_saturate_add(fn_saturate_mul(merged, fn_saturate_add(merged, 1)),
                                      fn_saturate_mul(v[OUT], fn_saturate_add(merged, 1)));
    uint64_t ends = fn_saturate_add(fn_saturate_mul(w, patch), (1 + v[POSITIONS] + 2) * w);
    *out = fn_saturate_add(fn_saturate_add(fn_saturate_mul(v[DEPTH], block), merger), ends);
    return FN_OK;
}
