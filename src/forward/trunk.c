/* Reference: Qwen4ExpTextDecoderLayer.forward: n-gram memory, then mix -> delta net or attention -> combine,
 * then mix -> experts -> combine. */
#include "forward/trunk.h"

#include "layers/layers.h"

size_t fn_trunk_parts_of(const fn_shape *shape) {
    return FN_TRUNK_LAYER_PARTS * shape->n_layers;
}

/* pending: as of fn_layer_mix. */
static void mixer_half(const fn_step *s, const fn_layer_weights *w, fn_layer_kind kind,
                       size_t index, size_t layer, bool pending) {
    bool delta = kind == FN_LAYER_DELTA;
    fn_input in =
        delta ? fn_layer_delta_input(s, &w->delta) : fn_layer_attention_input(s, &w->attention);
    fn_layer_mix(s, &w->attn_mixer, pending, &in);
    if (delta) {
        fn_layer_delta(s, &w->delta, &in, index);
    } else {
        fn_layer_attention(s, &w->attention, &in, index);
    }
    fn_step_trace(s, s->parts->mixer_out, layer, s->rows, s->shape->hidden, s->block_out);
}

/* The output of the half before is always pending. */
static void expert_half(const fn_step *s, const fn_layer_weights *w, size_t layer) {
    fn_input in = fn_layer_moe_input(s, &w->moe);
    fn_layer_mix(s, &w->mlp_mixer, true, &in);
    fn_layer_moe(s, &w->moe, &in, layer);
    fn_step_trace(s, s->parts->mlp_out, layer, s->rows, s->shape->hidden, s->block_out);
}

void fn_trunk_layer(const fn_step *s, const fn_layer_weights *w, fn_layer_kind kind, size_t index,
                    size_t layer) {
    mixer_half(s, w, kind, index, layer, false);
    expert_half(s, w, layer);
    fn_layer_combine(s);
}

/* Does the output of the layer before wait for this layer's mixer? */
static bool pending_before(const fn_step *s, size_t layer) {
    return layer > 0 && layer < s->shape->n_layers && s->trace == NULL &&
           s->weights->layers[layer].ple == NULL;
}

void fn_trunk_part(const fn_step *s, size_t part) {
    size_t layer = part / FN_TRUNK_LAYER_PARTS;
    const fn_layer_weights *w = &s->weights->layers[layer];
    if (part % FN_TRUNK_LAYER_PARTS == 0) {
        mixer_half(s, w, (fn_layer_kind)s->shape->layer_kind[layer],
                   fn_shape_kind_index(s->shape, layer), layer, pending_before(s, layer));
        return;
    }
    expert_half(s, w, layer);
    if (!pending_before(s, layer + 1)) {
        fn_layer_combine(s);
    }
    fn_step_trace(s, FN_TRACE_STREAMS, layer, s->rows, fn_shape_streams(s->shape), s->streams);
}

fn_status fn_trunk_ngram(const fn_step *s, size_t layer, fn_error *err) {
    const fn_layer_weights *w = &s->weights->layers[layer];
    return w->ple != NULL ? fn_layer_ple(s, w->ple, fn_shape_ple_index(s->shape, layer), err)
                          : FN_OK;
}
