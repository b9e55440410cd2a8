#include "weights/bind.h"

#include "weights/binder.h"

static void bind_mixer(fn_binder *b, const char *name, bool inject, fn_bound_mixer *out) {
    uint64_t streams = fn_shape_streams(b->shape);
    uint64_t rank = b->shape->hc_rank;
    size_t mark = fn_binder_push(b, "%s.", name);
    out->norm = fn_binder_take_streams(b, "hc_norm.weight");
    out->down = fn_binder_take_matrix(b, "input_mix_weight_down", rank, streams);
    out->up = fn_binder_take_matrix(b, "input_mix_weight_up", streams, rank);
    if (inject) {
        out->inject = fn_binder_take_matrix(b, "block_inject_weight", b->shape->hc, streams);
    }
    fn_binder_pop(b, mark);
}

static void bind_delta(fn_binder *b, fn_bound_layer *out) {
    const fn_shape *s = b->shape;
    uint64_t width = fn_shape_delta_v(s);
    size_t mark = fn_binder_push(b, "linear_attn.");
    out->in_qkv = fn_binder_take_matrix(b, "in_proj_qkv", fn_shape_conv(s), s->hidden);
    out->in_z = fn_binder_take_matrix(b, "in_proj_z", width, s->hidden);
    out->in_a = fn_binder_take_matrix(b, "in_proj_a", s->delta_v_heads, s->hidden);
    out->in_b = fn_binder_take_matrix(b, "in_proj_b", s->delta_v_heads, s->hidden);
    out->conv = fn_binder_take(b, "conv1d.weight", FN_DIMS(fn_shape_conv(s), 1, s->conv_kernel));
    out->a_log = fn_binder_take(b, "A_log", FN_DIMS(s->delta_v_heads));
    out->dt_bias = fn_binder_take(b, "dt_bias", FN_DIMS(s->delta_v_heads));
    out->delta_norm = fn_binder_take(b, "norm.weight", FN_DIMS(s->delta_v_dim));
    out->delta_out = fn_binder_take_matrix(b, "out_proj", s->hidden, width);
    fn_binder_pop(b, mark);
}

static void bind_indexer(fn_binder *b, fn_bound_layer *out) {
    uint64_t dim = b->shape->index_dim;
    uint64_t rows = (b->shape->index_heads + 1) * dim; /* the queries' heads, then the key's */
    size_t mark = fn_binder_push(b, "indexer.");
    out->index_qk = fn_binder_take_matrix(b, "index_qk_proj", rows, b->shape->hidden);
    out->index_q_norm = fn_binder_take(b, "q_layernorm.weight", FN_DIMS(dim));
    out->index_k_norm = fn_binder_take(b, "k_layernorm.weight", FN_DIMS(dim));
    fn_binder_pop(b, mark);
}

static void bind_attention(fn_binder *b, fn_bound_layer *out) {
    const fn_shape *s = b->shape;
    uint64_t wide = s->n_heads * s->head_dim;
    uint64_t narrow = s->n_kv_heads * s->head_dim;
    size_t mark = fn_binder_push(b, "self_attn.");
    out->q = fn_binder_take_matrix(b, "q_proj", 2 * wide, s->hidden);
    out->k = fn_binder_take_matrix(b, "k_proj", narrow, s->hidden);
    out->v = fn_binder_take_matrix(b, "v_proj", narrow, s->hidden);
    out->o = fn_binder_take_matrix(b, "o_proj", s->hidden, wide);
    out->q_norm = fn_binder_take(b, "q_norm.weight", FN_DIMS(s->head_dim));
    out->k_norm = fn_binder_take(b, "k_norm.weight", FN_DIMS(s->head_dim));
    if (s->attention_bias) {
        out->q_bias = fn_binder_take(b, "q_proj.bias", FN_DIMS(2 * wide));
        out->k_bias = fn_binder_take(b, "k_proj.bias", FN_DIMS(narrow));
        out->v_bias = fn_binder_take(b, "v_proj.bias", FN_DIMS(narrow));
        out->o_bias = fn_binder_take(b, "o_proj.bias", FN_DIMS(s->hidden));
    }
    if (s->has_indexer) {
        bind_indexer(b, out);
    }
    fn_binder_pop(b, mark);
}

static void bind_single_experts(fn_binder *b, fn_bound_layer *out) {
    const fn_shape *s = b->shape;
    for (size_t e = 0; e < s->n_experts; e++) {
        size_t mark = fn_binder_push(b, "%zu.", e);
        fn_binder_take_gate_up(b, s->expert_width, s->hidden, &out->expert_gate[e],
                               &out->expert_up[e]);
        out->expert_down[e] = fn_binder_take_matrix(b, "down_proj", s->hidden, s->expert_width);
        fn_binder_pop(b, mark);
    }
}

/* gate_up_proj holds, expert after expert, the rows of its gate and then those of its up. */
static void bind_stacked_experts(fn_binder *b, fn_bound_layer *out) {
    const fn_shape *s = b->shape;
    uint64_t width = s->expert_width;
    const fn_tensor *gate_up =
        fn_binder_take(b, "gate_up_proj", FN_DIMS(s->n_experts, 2 * width, s->hidden));
    const fn_tensor *down = fn_binder_take(b, "down_proj", FN_DIMS(s->n_experts, s->hidden, width));
    if (gate_up == NULL || down == NULL || b->status != FN_OK) {
        return;
    }
    for (size_t e = 0; e < s->n_experts; e++) {
        out->expert_gate[e] = fn_binder_stacked(gate_up, 2 * width * e, width);
        out->expert_up[e] = fn_binder_stacked(gate_up, 2 * width * e + width, width);
        out->expert_down[e] = fn_binder_stacked(down, s->hidden * e, s->hidden);
    }
}

/* One allocation of 3 E sources, owned by expert_gate. */
static void bind_experts(fn_binder *b, fn_bound_layer *out) {
    size_t n = b->shape->n_experts;
    fn_source *all = fn_binder_alloc(b, 3 * n, sizeof *all);
    if (all == NULL) {
        return;
    }
    out->expert_gate = all;
    out->expert_up = all + n;
    out->expert_down = all + 2 * n;
    size_t mark = fn_binder_push(b, "experts.");
    fn_binder_enter_experts(b);
    if (fn_binder_has(b, "gate_up_proj") || fn_binder_has(b, "down_proj")) {
        bind_stacked_experts(b, out);
    } else {
        bind_single_experts(b, out);
    }
    fn_binder_leave_experts(b);
    fn_binder_pop(b, mark);
}

static void bind_mlp(fn_binder *b, fn_bound_layer *out) {
    const fn_shape *s = b->shape;
    size_t mark = fn_binder_push(b, "mlp.");
    out->router = fn_binder_take_matrix(b, "gate", s->n_experts, s->hidden);
    size_t shared = fn_binder_push(b, "shared_expert.");
    fn_binder_take_gate_up(b, s->shared_width, s->hidden, &out->shared_gate, &out->shared_up);
    out->shared_down = fn_binder_take_matrix(b, "down_proj", s->hidden, s->shared_width);
    fn_binder_pop(b, shared);
    out->shared_expert_gate = fn_binder_take_matrix(b, "shared_expert_gate", 1, s->hidden);
    bind_experts(b, out);
    fn_binder_pop(b, mark);
}

static void bind_halves(fn_binder *b, fn_layer_kind kind, fn_bound_layer *out) {
    bind_mixer(b, "attn_hyper_connection", true, &out->attn_mixer);
    bind_mixer(b, "mlp_hyper_connection", true, &out->mlp_mixer);
    if (kind == FN_LAYER_DELTA) {
        bind_delta(b, out);
    } else {
        bind_attention(b, out);
    }
    bind_mlp(b, out);
}

static void bind_layer(fn_binder *b, size_t layer, fn_bound_layer *out) {
    size_t p = fn_shape_ple_index(b->shape, layer);
    size_t mark = fn_binder_push(b, "layers.%zu.", layer);
    fn_binder_enter_layer(b, layer);
    bind_halves(b, (fn_layer_kind)b->shape->layer_kind[layer], out);
    if (p < FN_MAX_PLE) {
        out->ple = fn_bind_ple(b, p);
    }
    fn_binder_pop(b, mark);
}

static void bind_head(fn_binder *b, fn_bound *out) {
    const fn_shape *s = b->shape;
    if (!s->tied_head) {
        out->head = fn_binder_take_matrix(b, "lm_head", s->vocab, s->hidden);
        return;
    }
    if (out->embed != NULL && b->status == FN_OK) {
        out->tied_head = fn_binder_stacked(out->embed, 0, s->vocab);
    }
    if (fn_binder_has(b, "lm_head.weight")) {
        /* Checked, then left alone, as the reference does: the embedding is the head. */
        (void)fn_binder_take_matrix(b, "lm_head", s->vocab, s->hidden);
    }
}

static void bind_mtp(fn_binder *b, fn_bound *out) {
    uint64_t d = b->shape->hidden;
    if (out->n_mtp == 0 && b->status == FN_OK) {
        b->status = fn_fail(b->err, FN_E_MODEL,
                            "%.600s: the MTP head is missing: mtp_num_hidden_layers is %zu, but no "
                            "tensor is named mtp.* (incomplete download? --no-mtp goes without it)",
                            fn_checkpoint_dir(b->c), b->shape->n_mtp);
        return;
    }
    out->mtp = fn_binder_alloc(b, 1, sizeof *out->mtp);
    if (out->mtp == NULL) {
        return;
    }
    size_t mark = fn_binder_push(b, "mtp.");
    out->mtp->norm_embedding = fn_binder_take(b, "pre_fc_norm_embedding.weight", FN_DIMS(d));
    out->mtp->norm_hidden = fn_binder_take_streams(b, "pre_fc_norm_hidden.weight");
    out->mtp->fc_embedding = fn_binder_take_matrix(b, "fc_embedding", d, d);
    out->mtp->fc_hidden = fn_binder_take_matrix(b, "fc_hidden", d, d);
    bind_mixer(b, "hyper_connection_mixer", false, &out->mtp->mixer);
    size_t layer = fn_binder_push(b, "layers.0.");
    fn_binder_enter_layer(b, FN_BINDER_MTP);
    bind_halves(b, FN_LAYER_ATTENTION, &out->mtp->layer);
    fn_binder_pop(b, layer);
    fn_binder_pop(b, mark);
}

static void bind_all(fn_binder *b, fn_bound *out) {
    const fn_shape *s = b->shape;
    fn_binder_find_prefix(b);
    size_t mark = fn_binder_push(b, "%s", b->prefix);
    if (s->tied_head && fn_binder_has_packed(b, "embed_tokens")) {
        out->tied_head = fn_binder_take_matrix(b, "embed_tokens", s->vocab, s->hidden);
    } else {
        out->embed = fn_binder_take(b, "embed_tokens.weight", FN_DIMS(s->vocab, s->hidden));
    }
    bind_mixer(b, "hyper_connection_mixer", false, &out->mixer);
    for (size_t i = 0; i < s->n_layers && fn_binder_goes_on(b); i++) {
        bind_layer(b, i, &out->layers[i]);
    }
    fn_binder_pop(b, mark);
    bind_head(b, out);
    out->n_vision = fn_binder_skip(b, "model.visual.") + fn_binder_skip(b, "visual.");
    if (s->n_mtp > 0 && fn_binder_goes_on(b)) {
        out->n_mtp = fn_binder_count(b, "mtp.");
        bind_mtp(b, out);
    } else {
        out->n_mtp = fn_binder_skip(b, "mtp.");
    }
    fn_binder_finish(b);
}

fn_status fn_bind(const fn_checkpoint *c, const fn_shape *shape, fn_bound **out, fn_error *err) {
    fn_binder b;
    *out = NULL;
    fn_bound *bound = fn_alloc_zero(1, sizeof *bound);
    fn_status status = fn_binder_init(&b, c, shape, err);
    if (bound != NULL) {
        bound->layers = fn_alloc_zero(shape->n_layers, sizeof *bound->layers);
        bound->n_layers = shape->n_layers;
    }
    if (bound == NULL || bound->layers == NULL) {
        status = fn_fail_nomem(err, "bound layers", shape->n_layers * sizeof *bound->layers);
    }
    if (status == FN_OK) {
        bind_all(&b, bound);
        status = b.status;
    }
    for (size_t p = 0; p < shape->n_ple && status == FN_OK; p++) {
        status = fn_bind_check_hash(c, shape, p, bound->layers[shape->ple_layer[p]].ple, err);
    }
    fn_binder_deinit(&b);
    if (status != FN_OK) {
        fn_bound_free(bound);
        return status;
    }
    *out = bound;
    return FN_OK;
}

void fn_bound_free(fn_bound *bound) {
    if (bound == NULL) {
        return;
    }
    for (size_t i = 0; bound->layers != NULL && i < bound->n_layers; i++) {
        fn_free(bound->layers[i].expert_gate);
        if (bound->layers[i].ple != NULL) {
            fn_free(bound->layers[i].ple->pieces);
            fn_free(bound->layers[i].ple);
        }
    }
    if (bound->mtp != NULL) {
        fn_free(bound->mtp->layer.expert_gate);
    }
    fn_free(bound->mtp);
    fn_free(bound->layers);
    fn_free(bound);
}
