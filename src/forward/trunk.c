/* Reference: Qwen4ExpTextDecoderLayer.forward: n-gram memory, then mix -> delta net or attention -> combine,
 * then mix -> experts -> combine. */
#include "forward/trunk.h"

#include "layers/layers.h"

static void mixer_half(const fn_step *s, const fn_layer_weights *w, fn_layer_kind kind,
                       size_t index, bool pending) {
    bool delta = kind == FN_LAYER_DELTA;
    fn_input in =
        delta ? fn_layer_delta_input(s, &w->delta) : fn_layer_attention_input(s, &w->attention);
    fn_layer_mix(s, &w->attn_mixer, pending, &in);
    if (delta) {
        fn_layer_delta(s, &w->delta, &in, index);
    } else {
        fn_layer_attention(s, &w->attention, &in, index);
    }
}

void fn_trunk_layer(const fn_step *s, const fn_layer_weights *w, fn_layer_kind kind, size_t index,
                    size_t layer, bool pending) {
    mixer_half(s, w, kind, index, pending);
    fn_step_trace(s, s->parts->mixer_out, layer, s->rows, s->shape->hidden, s->block_out);
    fn_input in = fn_layer_moe_input(s, &w->moe);
    fn_layer_mix(s, &w->mlp_mixer, true, &in);
    fn_layer_moe(s, &w->moe, &in, layer);
    fn_step_trace(s, s->parts->mlp_out, layer, s->rows, s->shape->hidden, s->block_out);
}

fn_status fn_trunk_run(fn_step *s, size_t first, size_t end, fn_error *err) {
    bool pending = false; /* the output of the layer before, until the next mixer adds it */
    for (size_t layer = first; layer < end; layer++) {
        const fn_layer_weights *w = &s->weights->layers[layer];
        if (s->go_on != NULL && !s->go_on(s->go_on_ud)) {
            return fn_fail(err, FN_E_CANCELLED, "the forward was stopped before layer %zu", layer);
        }
        if (w->ple != NULL) {
            fn_status status = fn_layer_ple(s, w->ple, fn_shape_ple_index(s->shape, layer), err);
            if (status != FN_OK) {
                return status;
            }
        }
        fn_trunk_layer(s, w, (fn_layer_kind)s->shape->layer_kind[layer],
                       fn_shape_kind_index(s->shape, layer), layer, pending);
        pending = s->trace == NULL && layer + 1 < end && s->weights->layers[layer + 1].ple == NULL;
        if (!pending) {
            fn_layer_combine(s);
        }
        fn_step_trace(s, FN_TRACE_STREAMS, layer, s->rows, fn_shape_streams(s->shape), s->streams);
    }
    return FN_OK;
}
