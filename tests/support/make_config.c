#include "support/make_internal.h"

static void put(json_t *object, const char *key, size_t value) {
    json_object_set_new(object, key, json_integer((json_int_t)value));
}

static void put_sizes(json_t *text, const fn_shape *s) {
    put(text, "num_hidden_layers", s->n_layers);
    put(text, "hidden_size", s->hidden);
    put(text, "vocab_size", s->vocab);
    put(text, "max_position_embeddings", s->max_positions);
    put(text, "hc_count", s->hc);
    put(text, "hc_lowrank", s->hc_rank);
    put(text, "num_attention_heads", s->n_heads);
    put(text, "num_key_value_heads", s->n_kv_heads);
    put(text, "head_dim", s->head_dim);
    put(text, "linear_num_key_heads", s->delta_k_heads);
    put(text, "linear_num_value_heads", s->delta_v_heads);
    put(text, "linear_key_head_dim", s->delta_k_dim);
    put(text, "linear_value_head_dim", s->delta_v_dim);
    put(text, "linear_conv_kernel_dim", s->conv_kernel);
    put(text, "num_experts", s->n_experts);
    put(text, "num_experts_per_tok", s->n_chosen);
    put(text, "moe_intermediate_size", s->expert_width);
    put(text, "shared_expert_intermediate_size", s->shared_width);
    put(text, "mtp_num_hidden_layers", s->n_mtp);
}

static void put_indexer(json_t *text, const fn_shape *s) {
    if (s->has_indexer) {
        put(text, "indexer_n_heads", s->index_heads);
        put(text, "indexer_kv_heads", 1);
        put(text, "indexer_head_dim", s->index_dim);
        put(text, "indexer_budget", s->index_budget);
        put(text, "indexer_compress_ratio", s->index_ratio);
    }
}

static void put_ngram(json_t *text, const fn_shape *s, const made_layout *layout) {
    json_t *layers = json_array();
    for (size_t p = 0; p < s->n_ple; p++) {
        json_array_append_new(layers, json_integer((json_int_t)s->ple_layer[p] + 1));
    }
    json_object_set_new(text, "ple_layer_ids", layers);
    put(text, "ple_embed_dim", s->ple_embed);
    put(text, "ple_conv_kernel_size", s->ple_kernel);
    put(text, "ngram_size", s->ngram_size);
    put(text, "heads_per_ngram", s->heads_per_ngram);
    put(text, "ngram_vocab_size_base", s->ngram_base);
    put(text, "make_ngram_vocab_size_divisible_by", s->ngram_pad);
    if (layout->n_pieces > 0) {
        put(text, "split_ngram_parts", layout->n_pieces);
    }
    if (s->eos_id >= 0) {
        put(text, "eos_token_id", (size_t)s->eos_id);
    }
}

json_t *made_config(const fn_shape *s, const made_layout *layout) {
    json_t *text = json_object();
    json_t *layers = json_array();
    json_object_set_new(text, "model_type", json_string("qwen4_exp_text"));
    put_sizes(text, s);
    put_indexer(text, s);
    put_ngram(text, s, layout);
    for (size_t i = 0; i < s->n_layers; i++) {
        bool attention = s->layer_kind[i] == FN_LAYER_ATTENTION;
        json_array_append_new(layers,
                              json_string(attention ? "full_attention" : "linear_attention"));
    }
    json_object_set_new(text, "layer_types", layers);
    json_object_set_new(text, "rope_parameters",
                        json_pack("{s:s, s:f, s:f, s:[i,i,i], s:b}", "rope_type", "default",
                                  "rope_theta", s->rope_theta, "partial_rotary_factor",
                                  (double)s->rotary / (double)s->head_dim, "mrope_section",
                                  (int)s->mrope_section[0], (int)s->mrope_section[1],
                                  (int)s->mrope_section[2], "mrope_interleaved", 1));
    json_object_set_new(text, "rms_norm_eps", json_real((double)s->norm_eps));
    json_object_set_new(text, "hidden_act", json_string("silu"));
    json_object_set_new(text, "output_gate_type",
                        json_string(s->delta_gate == FN_GATE_SILU ? "silu" : "sigmoid"));
    json_object_set_new(text, "attention_bias", json_boolean(s->attention_bias));
    json_object_set_new(text, "tie_word_embeddings", json_boolean(s->tied_head));
    if (!s->norm_topk) {
        json_object_set_new(text, "norm_topk_prob", json_false());
    }
    if (!layout->nested) {
        return text;
    }
    json_t *root = json_pack("{s:s, s:o}", "model_type", "qwen4_exp", "text_config", text);
    if (s->has_vision) {
        json_object_set_new(root, "vision_config", json_pack("{s:i}", "depth", 27));
        put(root, "image_token_id", (size_t)s->image_id);
        put(root, "video_token_id", (size_t)s->video_id);
    }
    return root;
}
