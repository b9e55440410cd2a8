#include "shape/shape.h"

#include <string.h>

#include "shape/config_parts.h"

size_t fn_shape_kind_index(const fn_shape *s, size_t layer) {
    size_t n = 0;
    for (size_t i = 0; i < layer; i++) {
        n += s->layer_kind[i] == s->layer_kind[layer] ? 1 : 0;
    }
    return n;
}

size_t fn_shape_ple_index(const fn_shape *s, size_t layer) {
    for (size_t p = 0; p < s->n_ple; p++) {
        if (s->ple_layer[p] == layer) {
            return p;
        }
    }
    return FN_MAX_PLE;
}

/* The caps keep every product of three sizes and an element's bytes below 2^63, so nobody
 * downstream has to check for overflow. */
enum {
    MAX_WIDTH = 1 << 20,
    MAX_HEADS = 1 << 12,
    MAX_HEAD_DIM = 1 << 12,
    MAX_STREAMS = 64,
    MAX_EXPERTS = 1 << 16,
    MAX_TAPS = 64,
    MAX_VOCAB = 1 << 26
};

static void read_model_type(fn_config_reader *r) {
    const json_t *root = json_object_get(r->config->root, "model_type");
    const char *text = fn_reader_text(r, "model_type");
    if (text != NULL && strncmp(text, "qwen4_exp", 9) != 0) {
        fn_reader_fail_found(r, "model_type", fn_reader_value(r, "model_type"), "qwen4_exp_text");
    } else if (json_is_string(root) && strncmp(json_string_value(root), "qwen4_exp", 9) != 0) {
        fn_reader_fail_found(r, "model_type", root, "qwen4_exp");
    }
}

static void read_trunk(fn_config_reader *r, fn_shape *s) {
    s->hidden = fn_reader_size(r, "hidden_size", 1, MAX_WIDTH);
    s->vocab = fn_reader_size(r, "vocab_size", 1, MAX_VOCAB);
    s->max_positions = fn_reader_size(r, "max_position_embeddings", 1, (size_t)1 << 30);
    s->hc = fn_reader_size(r, "hc_count", 2, MAX_STREAMS);
    s->hc_rank = fn_reader_size(r, "hc_lowrank", 1, MAX_WIDTH);
    double eps = fn_reader_positive(r, NULL, "rms_norm_eps");
    if (fn_reader_value(r, "rms_norm_eps") == NULL) {
        fn_reader_fail_missing(r, "rms_norm_eps");
    } else if (eps > 1.0 || (float)eps <= 0.0F) {
        fn_reader_fail_found(r, "rms_norm_eps", fn_reader_value(r, "rms_norm_eps"),
                             "a small positive number");
    }
    s->norm_eps = (float)eps;
    const json_t *root_tied = json_object_get(r->config->root, "tie_word_embeddings");
    if (root_tied != NULL && !json_is_null(root_tied) && !json_is_boolean(root_tied)) {
        fn_reader_fail_found(r, "tie_word_embeddings", root_tied, "true or false");
    }
    s->tied_head = fn_reader_bool_or(r, "tie_word_embeddings", json_is_true(root_tied));
}

static void read_attention(fn_config_reader *r, fn_shape *s) {
    s->n_heads = fn_reader_size(r, "num_attention_heads", 1, MAX_HEADS);
    s->n_kv_heads = fn_reader_size(r, "num_key_value_heads", 1, MAX_HEADS);
    s->head_dim = fn_reader_size(r, "head_dim", 2, MAX_HEAD_DIM);
    s->attention_bias = fn_reader_bool_or(r, "attention_bias", false);
    if (r->status == FN_OK && s->n_heads % s->n_kv_heads != 0) {
        fn_reader_fail(r, "num_attention_heads",
                       "found %zu, expected a multiple of num_key_value_heads (%zu)", s->n_heads,
                       s->n_kv_heads);
    }
}

static void read_delta(fn_config_reader *r, fn_shape *s) {
    s->delta_k_heads = fn_reader_size(r, "linear_num_key_heads", 1, MAX_HEADS);
    s->delta_v_heads = fn_reader_size(r, "linear_num_value_heads", 1, MAX_HEADS);
    s->delta_k_dim = fn_reader_size(r, "linear_key_head_dim", 1, MAX_HEAD_DIM);
    s->delta_v_dim = fn_reader_size(r, "linear_value_head_dim", 1, MAX_HEAD_DIM);
    s->conv_kernel = fn_reader_size(r, "linear_conv_kernel_dim", 1, MAX_TAPS);
    if (r->status == FN_OK && s->delta_v_heads % s->delta_k_heads != 0) {
        fn_reader_fail(r, "linear_num_value_heads",
                       "found %zu, expected a multiple of linear_num_key_heads (%zu)",
                       s->delta_v_heads, s->delta_k_heads);
    }
}

static void read_gates(fn_config_reader *r, fn_shape *s) {
    const char *act = fn_reader_text(r, "hidden_act");
    const char *gate = fn_reader_text(r, "output_gate_type");
    if (act == NULL) {
        fn_reader_fail_missing(r, "hidden_act");
    } else if (strcmp(act, "silu") != 0) {
        fn_reader_fail_found(r, "hidden_act", fn_reader_value(r, "hidden_act"), "\"silu\"");
    }
    s->delta_gate = FN_GATE_SILU;
    if (gate != NULL && strcmp(gate, "sigmoid") == 0) {
        s->delta_gate = FN_GATE_SIGMOID;
    } else if (gate != NULL && strcmp(gate, "silu") != 0) {
        fn_reader_fail_found(r, "output_gate_type", fn_reader_value(r, "output_gate_type"),
                             "\"sigmoid\" or \"silu\"");
    }
}

static void read_experts(fn_config_reader *r, fn_shape *s) {
    s->n_experts = fn_reader_size(r, "num_experts", 1, MAX_EXPERTS);
    s->n_chosen = fn_reader_size(r, "num_experts_per_tok", 1, MAX_EXPERTS);
    s->expert_width = fn_reader_size(r, "moe_intermediate_size", 1, MAX_WIDTH);
    s->shared_width = fn_reader_size(r, "shared_expert_intermediate_size", 1, MAX_WIDTH);
    s->norm_topk = fn_reader_bool_or(r, "norm_topk_prob", true);
    if (r->status == FN_OK && s->n_chosen > s->n_experts) {
        fn_reader_fail(r, "num_experts_per_tok", "found %zu, expected at most num_experts (%zu)",
                       s->n_chosen, s->n_experts);
    }
}

fn_status fn_shape_from_config(const fn_config *config, fn_shape *out, fn_error *err) {
    fn_config_reader r = {.config = config, .status = FN_OK, .err = err};
    *out = (fn_shape){.eos_id = -1, .image_id = -1, .video_id = -1};
    read_model_type(&r);
    fn_config_read_layers(&r, out);
    read_trunk(&r, out);
    read_attention(&r, out);
    fn_config_read_rope(&r, out);
    fn_config_read_indexer(&r, out);
    read_delta(&r, out);
    read_gates(&r, out);
    read_experts(&r, out);
    fn_config_read_ngram(&r, out);
    out->n_mtp = fn_reader_size_or(&r, "mtp_num_hidden_layers", 0, 1, 0);
    fn_config_read_vision(&r, out);
    if (r.status != FN_OK) {
        *out = (fn_shape){.eos_id = -1, .image_id = -1, .video_id = -1};
    }
    return r.status;
}
