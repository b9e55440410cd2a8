/* weights/bind.h - which tensor of the checkpoint plays which role in the model.
 *
 * Path:    checkpoint + shape -> [this: names, shapes, dtypes checked, nothing read] ->
 * weights/load.h. Accepts: prefixes "model.language_model." and "model."; experts stacked or one by
 * one (decided per layer); n-gram tables whole or in shard_N pieces, in numeric order, of any sizes
 * that add up (split_ngram_parts only helps to name a missing piece).
 * Types:   BF16, F16 or F32 for weights, all pieces of a table alike; I64 for the hash constants.
 * Memory:  views into the checkpoint, which must outlive it. */
#ifndef FN_WEIGHTS_BIND_H
#define FN_WEIGHTS_BIND_H

#include "checkpoint/checkpoint.h"
#include "shape/shape.h"

typedef struct fn_bound_mixer {
    const fn_tensor *norm;   /* [hc*D] */
    const fn_tensor *down;   /* [r, hc*D] */
    const fn_tensor *up;     /* [hc*D, r] */
    const fn_tensor *inject; /* [hc, hc*D]; NULL in the final mixer */
} fn_bound_mixer;

typedef struct fn_bound_ple {
    const fn_tensor *key;                                 /* [hc*D, ple_embed] */
    const fn_tensor *value;                               /* [D, ple_embed] */
    const fn_tensor *norm_key, *norm_query, *norm_conv;   /* [hc*D] */
    const fn_tensor *conv;                                /* [hc*D, 1, taps] */
    const fn_tensor *multipliers, *vocab_sizes, *offsets; /* I64 [ngram_size], [heads], [heads] */
    size_t n_pieces;          /* of the table, in numeric order; 1 when whole */
    const fn_tensor **pieces; /* [n_pieces], each [rows, row width] */
} fn_bound_ple;

typedef struct fn_bound_layer {
    fn_bound_mixer attn_mixer, mlp_mixer;
    /* delta net (NULL on attention layers) */
    const fn_tensor *in_qkv, *in_z, *in_a, *in_b, *conv, *a_log, *dt_bias, *delta_norm, *delta_out;
    /* attention (NULL on delta layers; biases and indexer NULL where the config has none) */
    const fn_tensor *q, *k, *v, *o, *q_bias, *k_bias, *v_bias, *o_bias, *q_norm, *k_norm;
    const fn_tensor *index_qk, *index_q_norm, *index_k_norm;
    /* experts */
    const fn_tensor *router;                                /* [E, D] */
    const fn_tensor *shared_gate, *shared_up, *shared_down; /* [S, D] [S, D] [D, S] */
    const fn_tensor *shared_expert_gate;                    /* [1, D] */
    const fn_tensor *experts_gate_up, *experts_down; /* stacked [E, 2I, D] [E, D, I], or NULL */
    const fn_tensor **expert_gate, **expert_up, **expert_down; /* one by one: [E] each, or NULL */
    const fn_bound_ple *ple;                                   /* NULL without n-gram memory */
} fn_bound_layer;

typedef struct fn_bound {
    const fn_tensor *embed; /* [V, D] */
    const fn_tensor *head;  /* [V, D]; NULL when tied (a stored lm_head is then ignored) */
    fn_bound_mixer mixer;
    fn_bound_layer *layers; /* [n_layers] */
    size_t n_layers;
    size_t n_vision, n_mtp; /* tensors recognised under model.visual. and mtp. and left alone */
} fn_bound;

/* Fails with FN_E_MODEL: missing, unexpected or incomplete tensors (layers listed), wrong shape or
 * dtype, hash constants that differ from the formula (these three small I64 tensors are the only
 * data read). */
FN_NODISCARD fn_status fn_bind(const fn_checkpoint *c, const fn_shape *shape, fn_bound **out,
                               fn_error *err);
void fn_bound_free(fn_bound *bound);

#endif
