/* weights/bind.h - which tensors of the checkpoint play which role in the model.
 *
 * Path:    checkpoint + shape -> [this: names, shapes, dtypes checked, nothing read] ->
 *          weights/load.h.
 * Accepts: prefixes "model.language_model." and "model."; experts stacked or one by one (decided
 *          per layer); n-gram tables whole or in shard_N pieces, in numeric order, of any sizes
 *          that add up (split_ngram_parts only helps to name a missing piece).
 *          Prepared checkpoints hold packed matrices (weights/packed.h) and all else as in their source.
 * Types:   matrices in any format of weights/source.h, each in its own: the dtype in the header
 *          decides, whatever the config says. The embedding and everything that is no matrix BF16,
 *          F16 or F32; tables as in weights/ngram_row.h, all pieces of a table alike; I64 for the
 *          hash constants.
 * Memory:  views into the checkpoint, which must outlive it. */
#ifndef FN_WEIGHTS_BIND_H
#define FN_WEIGHTS_BIND_H

#include "checkpoint/checkpoint.h"
#include "shape/shape.h"
#include "weights/source.h"

typedef struct fn_bound_mixer {
    const fn_tensor *norm; /* [hc*D] */
    fn_source down;        /* [r, hc*D] */
    fn_source up;          /* [hc*D, r] */
    fn_source inject;      /* [hc, hc*D]; none in the final mixer */
} fn_bound_mixer;

typedef struct fn_bound_ple {
    fn_source key;                                        /* [hc*D, ple_embed] */
    fn_source value;                                      /* [D, ple_embed] */
    const fn_tensor *norm_key, *norm_query, *norm_conv;   /* [hc*D] */
    const fn_tensor *conv;                                /* [hc*D, 1, taps] */
    const fn_tensor *multipliers, *vocab_sizes, *offsets; /* I64 [ngram_size], [heads], [heads] */
    size_t n_pieces;              /* of the table, in numeric order; 1 when whole */
    const fn_tensor **pieces;     /* [n_pieces], each [rows, row width] */
    const fn_tensor *table_scale; /* scalar; NULL unless the pieces are F8_E4M3 */
} fn_bound_ple;

typedef struct fn_bound_layer {
    fn_bound_mixer attn_mixer, mlp_mixer;
    /* delta net (absent on attention layers) */
    fn_source in_qkv, in_z, in_a, in_b, delta_out;
    const fn_tensor *conv, *a_log, *dt_bias, *delta_norm;
    /* attention (absent on delta layers; biases and indexer absent where the config has none) */
    fn_source q, k, v, o, index_qk;
    const fn_tensor *q_bias, *k_bias, *v_bias, *o_bias, *q_norm, *k_norm;
    const fn_tensor *index_q_norm, *index_k_norm;
    /* experts */
    fn_source router; /* [E, D] */
    fn_source shared_gate, shared_up,
        shared_down; /* [S, D] [S, D] [D, S]; packed: gate holds both, up is absent; experts alike */
    fn_source shared_expert_gate;                     /* [1, D] */
    fn_source *expert_gate, *expert_up, *expert_down; /* [E] of [I, D] [I, D] [D, I]: rows of two
                                                         stacks, or tensors of their own */
    const fn_bound_ple *ple;                          /* NULL without n-gram memory */
} fn_bound_layer;

/* The multi-token-prediction head: a layer with attention and experts of its own between two projections
 * and a mixer. Embedding and output matrix are the trunk's. */
typedef struct fn_bound_mtp {
    const fn_tensor *norm_embedding;   /* [D] */
    const fn_tensor *norm_hidden;      /* [hc*D], or [hc, D] */
    fn_source fc_embedding, fc_hidden; /* [D, D] */
    fn_bound_layer layer;
    fn_bound_mixer mixer;
} fn_bound_mtp;

typedef struct fn_bound {
    const fn_tensor *embed; /* [V, D]; NULL when tied and packed */
    fn_source head;         /* [V, D]; absent when tied (a stored lm_head is then ignored) */
    fn_source tied_head;    /* the embedding as a matrix, when tied */
    fn_bound_mixer mixer;
    fn_bound_layer *layers; /* [n_layers] */
    size_t n_layers;
    fn_bound_mtp *mtp; /* NULL: the shape has no such head */
    size_t n_vision,
        n_mtp; /* tensors under model.visual., which are left alone, and under mtp. (left alone
                               when the shape has no head) */
} fn_bound;

/* Fails with FN_E_MODEL: missing, unexpected or incomplete tensors (layers listed), wrong shape or
 * dtype, a head that the config has and the files lack, a scale without its weight or a weight without its scale, hash constants that differ from the formula (these three small I64 tensors are the only
 * data read). */
FN_NODISCARD fn_status fn_bind(const fn_checkpoint *c, const fn_shape *shape, fn_bound **out,
                               fn_error *err);
void fn_bound_free(fn_bound *bound);

#endif
