/* weights/plan_extra.c - numbers of the part that is not loaded: the vision tower. */
#include "base/json.h"
#include "base/saturate.h"
#include "weights/plan.h"

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
                           "%.600s: vision_config.%s: found %s, expected an integer from 1 to %d",
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
