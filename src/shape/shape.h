/* shape/shape.h - every dimension of the model, checked once when config.json is read.
 *
 * Path:    checkpoint/config_json.h -> [this] -> weights, state, layers, forward, plan.
 * Letters: T tokens, hc streams, D hidden, H query heads, Hkv key heads, Dh head width, Hk/Hv
 * delta-net key/value heads, dk/dv their widths, E experts, K chosen, I expert width, S shared
 * width, r rank of the stream mixer, V vocab, P past, N n-gram table rows. Memory:  a plain value
 * without pointers: copy it freely. */
#ifndef FN_SHAPE_SHAPE_H
#define FN_SHAPE_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "checkpoint/config_json.h"

#define FN_MAX_LAYERS 512
#define FN_MAX_PLE 32
#define FN_MAX_NGRAM 8         /* n-gram order */
#define FN_MAX_NGRAM_HEADS 256 /* heads of one table: (ngram_size - 1) * heads_per_ngram */

typedef enum fn_layer_kind { FN_LAYER_DELTA, FN_LAYER_ATTENTION } fn_layer_kind;
typedef enum fn_gate_kind { FN_GATE_SIGMOID, FN_GATE_SILU } fn_gate_kind;

typedef struct fn_shape {
    size_t n_layers;                   /* L */
    uint8_t layer_kind[FN_MAX_LAYERS]; /* fn_layer_kind of each layer */
    size_t n_delta, n_attention;       /* how many of each */
    size_t hidden;                     /* D */
    size_t vocab;                      /* V */
    size_t max_positions;
    float norm_eps;
    bool tied_head; /* lm_head is embed_tokens */

    size_t hc;      /* residual streams */
    size_t hc_rank; /* r */

    size_t n_heads, n_kv_heads, head_dim; /* H, Hkv, Dh */
    bool attention_bias;
    size_t rotary; /* leading dims of a head that rotate; even */
    double rope_theta;
    size_t mrope_section[3]; /* pairs that follow time, height, width */

    bool has_indexer; /* false: dense causal attention */
    size_t index_heads, index_dim;
    size_t index_budget; /* tokens */
    size_t index_ratio;  /* tokens in a block */

    size_t delta_k_heads, delta_v_heads, delta_k_dim, delta_v_dim; /* Hk, Hv, dk, dv */
    size_t conv_kernel;                                            /* taps */
    fn_gate_kind delta_gate;

    size_t n_experts, n_chosen;        /* E, K */
    size_t expert_width, shared_width; /* I, S */
    bool norm_topk;

    size_t n_ple;                 /* layers with n-gram memory */
    size_t ple_layer[FN_MAX_PLE]; /* their layer numbers from 0, ascending */
    size_t ple_embed;             /* width of all heads' rows together */
    size_t ple_kernel;            /* taps of the dilated conv; dilation = ngram_size */
    size_t ngram_size, heads_per_ngram;
    size_t ngram_base;  /* ngram_vocab_size_base */
    size_t ngram_pad;   /* make_ngram_vocab_size_divisible_by */
    size_t ngram_parts; /* split_ngram_parts, for messages; 0 when the config is silent */
    uint64_t ngram_seed;
    int32_t eos_id; /* text_config's, element 0 of a list; -1 without n-gram memory
                       and without the key */

    size_t n_mtp; /* mtp_num_hidden_layers: 0 or 1 */
    bool has_vision;
    int32_t image_id, video_id; /* -1 without a vision config */
} fn_shape;

/* Derived sizes, so that nobody spells them twice. */
static inline size_t fn_shape_streams(const fn_shape *s) {
    return s->hc * s->hidden;
}
static inline size_t fn_shape_delta_k(const fn_shape *s) {
    return s->delta_k_heads * s->delta_k_dim;
}
static inline size_t fn_shape_delta_v(const fn_shape *s) {
    return s->delta_v_heads * s->delta_v_dim;
}
static inline size_t fn_shape_conv(const fn_shape *s) {
    return 2 * fn_shape_delta_k(s) + fn_shape_delta_v(s);
}
static inline size_t fn_shape_ngram_heads(const fn_shape *s) {
    return (s->ngram_size - 1) * s->heads_per_ngram;
}
static inline size_t fn_shape_ngram_row(const fn_shape *s) {
    return s->ple_embed / fn_shape_ngram_heads(s);
}
static inline size_t fn_shape_ple_tail(const fn_shape *s) {
    return (s->ple_kernel - 1) * s->ngram_size;
}
/* Index among the layers of its kind. */
size_t fn_shape_kind_index(const fn_shape *s, size_t layer);
/* p for a layer with n-gram memory, FN_MAX_PLE for one without. */
size_t fn_shape_ple_index(const fn_shape *s, size_t layer);

/* Reads and checks the text config. Fails with FN_E_MODEL naming file, key, found and expected. */
FN_NODISCARD fn_status fn_shape_from_config(const fn_config *config, fn_shape *out, fn_error *err);

#endif
