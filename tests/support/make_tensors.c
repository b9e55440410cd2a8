/* The tensors of a model: names and shapes, written down apart from the code under test. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shape/ngram_constants.h"
#include "support/make_internal.h"

made_tensor *made_add(made_model *m, const char *name, const char *dtype, size_t n_dims,
                      const uint64_t *dims) {
    if (m->n == m->capacity) {
        m->capacity = m->capacity > 0 ? m->capacity * 2 : 64;
        m->tensors = realloc(m->tensors, m->capacity * sizeof *m->tensors);
    }
    made_tensor *t = &m->tensors[m->n];
    *t = (made_tensor){.dtype = dtype, .n_dims = n_dims};
    (void)snprintf(t->name, sizeof t->name, "%.127s", name);
    memcpy(t->dims, dims, n_dims * sizeof *dims);
    m->n++;
    return t;
}

/* "PREFIX" + name; dims up to a 0. */
static made_tensor *add(made_model *m, const char *prefix, const char *name, uint64_t a, uint64_t b,
                        uint64_t c) {
    char full[320];
    uint64_t dims[3] = {a, b, c};
    size_t n = c > 0 ? 3 : b > 0 ? 2 : 1;
    (void)snprintf(full, sizeof full, "%s%s", prefix, name);
    return made_add(m, full, m->layout.dtype, n, dims);
}

static void add_mixer(made_model *m, const fn_shape *s, const char *prefix, bool inject) {
    uint64_t streams = s->hc * s->hidden;
    add(m, prefix, "hc_norm.weight", streams, 0, 0);
    add(m, prefix, "input_mix_weight_down.weight", s->hc_rank, streams, 0);
    add(m, prefix, "input_mix_weight_up.weight", streams, s->hc_rank, 0);
    if (inject) {
        add(m, prefix, "block_inject_weight.weight", s->hc, streams, 0);
    }
}

static void add_delta(made_model *m, const fn_shape *s, const char *prefix) {
    uint64_t keys = s->delta_k_heads * s->delta_k_dim;
    uint64_t values = s->delta_v_heads * s->delta_v_dim;
    add(m, prefix, "linear_attn.in_proj_qkv.weight", 2 * keys + values, s->hidden, 0);
    add(m, prefix, "linear_attn.in_proj_z.weight", values, s->hidden, 0);
    add(m, prefix, "linear_attn.in_proj_a.weight", s->delta_v_heads, s->hidden, 0);
    add(m, prefix, "linear_attn.in_proj_b.weight", s->delta_v_heads, s->hidden, 0);
    add(m, prefix, "linear_attn.conv1d.weight", 2 * keys + values, 1, s->conv_kernel);
    add(m, prefix, "linear_attn.A_log", s->delta_v_heads, 0, 0);
    add(m, prefix, "linear_attn.dt_bias", s->delta_v_heads, 0, 0);
    add(m, prefix, "linear_attn.norm.weight", s->delta_v_dim, 0, 0);
    add(m, prefix, "linear_attn.out_proj.weight", s->hidden, values, 0);
}

static void add_attention(made_model *m, const fn_shape *s, const char *prefix) {
    uint64_t wide = s->n_heads * s->head_dim;
    uint64_t narrow = s->n_kv_heads * s->head_dim;
    add(m, prefix, "self_attn.q_proj.weight", 2 * wide, s->hidden, 0);
    add(m, prefix, "self_attn.k_proj.weight", narrow, s->hidden, 0);
    add(m, prefix, "self_attn.v_proj.weight", narrow, s->hidden, 0);
    add(m, prefix, "self_attn.o_proj.weight", s->hidden, wide, 0);
    add(m, prefix, "self_attn.q_norm.weight", s->head_dim, 0, 0);
    add(m, prefix, "self_attn.k_norm.weight", s->head_dim, 0, 0);
    if (s->attention_bias) {
        add(m, prefix, "self_attn.q_proj.bias", 2 * wide, 0, 0);
        add(m, prefix, "self_attn.k_proj.bias", narrow, 0, 0);
        add(m, prefix, "self_attn.v_proj.bias", narrow, 0, 0);
        add(m, prefix, "self_attn.o_proj.bias", s->hidden, 0, 0);
    }
    if (s->has_indexer) {
        uint64_t rows = s->index_heads * s->index_dim + s->index_dim;
        add(m, prefix, "self_attn.indexer.index_qk_proj.weight", rows, s->hidden, 0);
        add(m, prefix, "self_attn.indexer.q_layernorm.weight", s->index_dim, 0, 0);
        add(m, prefix, "self_attn.indexer.k_layernorm.weight", s->index_dim, 0, 0);
    }
}

static void add_mlp(made_model *m, const fn_shape *s, const char *prefix, bool stacked) {
    uint64_t width = s->expert_width;
    char name[64];
    add(m, prefix, "mlp.gate.weight", s->n_experts, s->hidden, 0);
    add(m, prefix, "mlp.shared_expert.gate_proj.weight", s->shared_width, s->hidden, 0);
    add(m, prefix, "mlp.shared_expert.up_proj.weight", s->shared_width, s->hidden, 0);
    add(m, prefix, "mlp.shared_expert.down_proj.weight", s->hidden, s->shared_width, 0);
    add(m, prefix, "mlp.shared_expert_gate.weight", 1, s->hidden, 0);
    if (stacked) {
        add(m, prefix, "mlp.experts.gate_up_proj", s->n_experts, 2 * width, s->hidden);
        add(m, prefix, "mlp.experts.down_proj", s->n_experts, s->hidden, width);
        return;
    }
    for (size_t e = 0; e < s->n_experts; e++) {
        (void)snprintf(name, sizeof name, "mlp.experts.%zu.gate_proj.weight", e);
        add(m, prefix, name, width, s->hidden, 0);
        (void)snprintf(name, sizeof name, "mlp.experts.%zu.up_proj.weight", e);
        add(m, prefix, name, width, s->hidden, 0);
        (void)snprintf(name, sizeof name, "mlp.experts.%zu.down_proj.weight", e);
        add(m, prefix, name, s->hidden, width, 0);
    }
}

static void add_constant(made_model *m, const char *prefix, const char *name, const int64_t *values,
                         size_t n) {
    made_tensor *t = add(m, prefix, name, n, 0, 0);
    t->dtype = "I64";
    t->values = malloc(n * sizeof *values);
    memcpy(t->values, values, n * sizeof *values);
}

/* Pieces as the published ones: equal, the last may be shorter. */
static void add_table(made_model *m, const char *prefix, uint64_t rows, uint64_t width) {
    char name[64];
    size_t n = m->layout.n_pieces;
    if (n == 0) {
        add(m, prefix, "ngram_embedding.weight", rows, width, 0);
        return;
    }
    uint64_t each = (rows + n - 1) / n;
    for (size_t i = 0; i < n; i++) {
        uint64_t left = rows - each * i;
        (void)snprintf(name, sizeof name, "ngram_embedding.shard_%zu.weight", i);
        add(m, prefix, name, left < each ? left : each, width, 0);
    }
}

static void add_ple(made_model *m, const fn_shape *s, size_t p, const char *prefix) {
    uint64_t streams = s->hc * s->hidden;
    uint64_t embed = s->ple_embed;
    uint64_t heads = (s->ngram_size - 1) * s->heads_per_ngram;
    fn_ngram_constants hash;
    fn_ngram_constants_init(s, p, &hash);
    add(m, prefix, "key_proj.weight", streams, embed, 0);
    add(m, prefix, "value_proj.weight", s->hidden, embed, 0);
    add(m, prefix, "norm_key.weight", streams, 0, 0);
    add(m, prefix, "norm_query.weight", streams, 0, 0);
    add(m, prefix, "norm_conv.weight", streams, 0, 0);
    add(m, prefix, "conv1d.weight", streams, 1, s->ple_kernel);
    char inner[160];
    (void)snprintf(inner, sizeof inner, "%sple_embedding.", prefix);
    add_constant(m, inner, "layer_multipliers", hash.multipliers, s->ngram_size);
    add_constant(m, inner, "ngram_heads_vocab_sizes", hash.primes, heads);
    add_constant(m, inner, "ngram_heads_offsets", hash.offsets, heads);
    add_table(m, inner, (uint64_t)hash.padded_rows, embed / heads);
}

static void add_layer(made_model *m, const fn_shape *s, const char *prefix, bool attention,
                      bool stacked) {
    char name[160];
    (void)snprintf(name, sizeof name, "%sattn_hyper_connection.", prefix);
    add_mixer(m, s, name, true);
    (void)snprintf(name, sizeof name, "%smlp_hyper_connection.", prefix);
    add_mixer(m, s, name, true);
    if (attention) {
        add_attention(m, s, prefix);
    } else {
        add_delta(m, s, prefix);
    }
    add_mlp(m, s, prefix, stacked);
}

/* The 31 tensors of the head that predicts further tokens. */
static void add_mtp(made_model *m, const fn_shape *s) {
    add(m, "mtp.", "fc_embedding.weight", s->hidden, s->hidden, 0);
    add(m, "mtp.", "fc_hidden.weight", s->hidden, s->hidden, 0);
    add(m, "mtp.", "pre_fc_norm_embedding.weight", s->hidden, 0, 0);
    add(m, "mtp.", "pre_fc_norm_hidden.weight", s->hc * s->hidden, 0, 0);
    add_mixer(m, s, "mtp.hyper_connection_mixer.", false);
    add_layer(m, s, "mtp.layers.0.", true, true);
}

static void add_pair(made_model *m, const char *name, uint64_t rows, uint64_t columns) {
    char full[128];
    (void)snprintf(full, sizeof full, "%s.weight", name);
    add(m, "model.visual.", full, rows, columns, 0);
    (void)snprintf(full, sizeof full, "%s.bias", name);
    add(m, "model.visual.", full, rows, 0, 0);
}

/* The published vision tower: 27 blocks of 12 tensors, 3 before them and 6 behind. */
static void add_vision(made_model *m) {
    static const uint64_t patch[5] = {1152, 3, 2, 16, 16};
    char name[64];
    made_add(m, "model.visual.patch_embed.proj.weight", m->layout.dtype, 5, patch);
    add(m, "model.visual.", "patch_embed.proj.bias", 1152, 0, 0);
    add(m, "model.visual.", "pos_embed.weight", 2304, 1152, 0);
    for (size_t i = 0; i < 27; i++) {
        static const struct {
            const char *name;
            uint64_t rows, columns;
        } parts[] = {{"attn.qkv", 3456, 1152}, {"attn.proj", 1152, 1152},
                     {"norm1", 1152, 0},       {"mlp.linear_fc1", 4304, 1152},
                     {"norm2", 1152, 0},       {"mlp.linear_fc2", 1152, 4304}};
        for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
            (void)snprintf(name, sizeof name, "blocks.%zu.%s", i, parts[k].name);
            add_pair(m, name, parts[k].rows, parts[k].columns);
        }
    }
    add_pair(m, "merger.norm", 1152, 0);
    add_pair(m, "merger.linear_fc1", 4608, 4608);
    add_pair(m, "merger.linear_fc2", 2560, 4608);
}

void made_tensors(made_model *m, const fn_shape *s) {
    const char *prefix = m->layout.nested ? "model.language_model." : "model.";
    char name[160];
    add(m, prefix, "embed_tokens.weight", s->vocab, s->hidden, 0);
    (void)snprintf(name, sizeof name, "%shyper_connection_mixer.", prefix);
    add_mixer(m, s, name, false);
    for (size_t i = 0; i < s->n_layers; i++) {
        (void)snprintf(name, sizeof name, "%slayers.%zu.", prefix, i);
        add_layer(m, s, name, s->layer_kind[i] == FN_LAYER_ATTENTION, m->layout.stacked);
    }
    for (size_t p = 0; p < s->n_ple; p++) {
        (void)snprintf(name, sizeof name, "%slayers.%zu.ple.", prefix, s->ple_layer[p]);
        add_ple(m, s, p, name);
    }
    if (!s->tied_head) {
        add(m, "", "lm_head.weight", s->vocab, s->hidden, 0);
    }
    if (m->layout.n_vision > 0) {
        add_vision(m);
    }
    if (m->layout.mtp) {
        add_mtp(m, s);
    }
    for (size_t i = 0; i < m->n; i++) { /* in blocks, as savers split */
        m->tensors[i].file = i * m->layout.n_files / m->n;
    }
}
