/* Whether the model sees, and which tokens stand for what it saw. */
#include "shape/config_parts.h"

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
            *ids[i] = fn_reader_token(r, keys[i], id, s->vocab);
        }
    }
}
