/* Embedding. Reference: Qwen4ExpTextModel.forward: inputs_embeds repeated hc_count times. */
#include <string.h>

#include "layers/layers.h"

void fn_embed_table_row(const fn_step *s, int32_t id, float *dst) {
    const fn_weights *w = s->weights;
    size_t d = s->shape->hidden;
    if (w->embed == NULL) {
        fn_matrix_row(&w->head, (size_t)id, dst);
    } else if (w->embed_dtype == FN_DTYPE_BF16) {
        s->k->bf16_to_f32(dst, (const uint16_t *)w->embed + (size_t)id * d, d);
    } else {
        memcpy(dst, (const float *)w->embed + (size_t)id * d, d * sizeof *dst);
    }
}

void fn_embed_row(const fn_step *s, const fn_step_segment *g, size_t t, float *dst) {
    size_t d = s->shape->hidden;
    size_t segment = (size_t)(g - s->segments);
    if (s->use_embed[segment] != NULL && s->use_embed[segment][t]) {
        memcpy(dst, s->embeds[segment] + t * d, d * sizeof *dst);
    } else {
        fn_embed_table_row(s, s->ids[segment][t], dst);
    }
}

static void embed_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    size_t d = s->shape->hidden;
    (void)ctx;
    (void)thread;
    for (size_t r = begin; r < end; r++) {
        const fn_step_segment *g = fn_step_segment_of(s, r);
        float *row = s->streams + r * s->shape->hc * d;
        fn_embed_row(s, g, r - g->first, row);
        for (size_t i = 1; i < s->shape->hc; i++) {
            memcpy(row + i * d, row, d * sizeof *row);
        }
    }
}

void fn_layer_embed(const fn_step *s) {
    fn_step_each(s, s->rows, embed_rows, NULL);
}
