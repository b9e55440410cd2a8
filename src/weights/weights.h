/* weights/weights.h - the model's weights in the form that layers read: packed matrices, float vectors.
 *
 * Path:    bound tensors -> [this: read, packed, widened] -> layers/.
 * Shapes:  beside each field; a matrix [N, K] maps K inputs to N outputs.
 * Threads: loading uses the pool; afterwards everything is read only.
 * Memory:  one arena whose size is known before anything is read; packed matrices of a mapped checkpoint
 *          (fn_checkpoint_map), which must outlive the weights, stay in their files. */
#ifndef FN_WEIGHTS_WEIGHTS_H
#define FN_WEIGHTS_WEIGHTS_H

#include "kernels/kernels.h"
#include "shape/ngram_constants.h"
#include "weights/bind.h"
#include "weights/pack.h"
#include "weights/settings.h"

typedef struct fn_mixer_weights {
    const float *norm; /* [hc*D] */
    fn_matrix down;    /* [r, hc*D] */
    fn_matrix up;      /* [hc*D, r] */
    fn_matrix inject;  /* [hc, hc*D]; no tiles in the final mixer */
} fn_mixer_weights;

typedef struct fn_delta_weights {
    fn_matrix in_qkv;     /* [2*Hk*dk + Hv*dv, D]: q, k, v */
    fn_matrix in_z;       /* [Hv*dv, D] */
    fn_matrix in_a, in_b; /* [Hv, D] */
    fn_matrix out;        /* [D, Hv*dv] */
    const float *conv;    /* [taps, 2*Hk*dk + Hv*dv] */
    const float *a;       /* [Hv]: -exp(A_log) */
    const float *dt_bias; /* [Hv] */
    const float *norm;    /* [dv] */
} fn_delta_weights;

typedef struct fn_attention_weights {
    fn_matrix q;    /* [H*2*Dh, D]: per head the query, then its gate */
    fn_matrix k, v; /* [Hkv*Dh, D] */
    fn_matrix o;    /* [D, H*Dh] */
    const float *q_bias, *k_bias, *v_bias, *o_bias; /* NULL without attention_bias */
    const float *q_norm, *k_norm;                   /* [Dh] */
    fn_matrix index_qk; /* [(heads + 1)*Di, D]: queries, then the key; no tiles without indexer */
    const float *index_q_norm, *index_k_norm; /* [Di] */
} fn_attention_weights;

typedef struct fn_moe_weights {
    fn_matrix router;             /* [E, D] */
    fn_matrix shared_gate_up;     /* [2*S, D] */
    fn_matrix shared_down;        /* [D, S] */
    fn_matrix shared_expert_gate; /* [1, D] */
    const fn_matrix *gate_up;     /* [E] of [2*I, D] */
    const fn_matrix *down;        /* [E] of [D, I] */
} fn_moe_weights;

typedef struct fn_ple_weights {
    fn_ngram_constants hash;
    fn_matrix key;                                  /* [hc*D, ple_embed] */
    fn_matrix value;                                /* [D, ple_embed] */
    const float *norm_key, *norm_query, *norm_conv; /* [hc*D] */
    const float *conv;                              /* [taps, hc*D] */
} fn_ple_weights;

typedef struct fn_layer_weights {
    fn_mixer_weights attn_mixer, mlp_mixer;
    fn_delta_weights delta; /* by the layer's kind */
    fn_attention_weights attention;
    fn_moe_weights moe;
    const fn_ple_weights *ple; /* NULL without n-gram memory */
} fn_layer_weights;

typedef struct fn_mtp_weights {
    const float *norm_embedding;       /* [D] */
    const float *norm_hidden;          /* [hc*D]: one norm over all streams */
    fn_matrix fc_embedding, fc_hidden; /* [D, D]; the latter for each stream */
    fn_layer_weights layer;            /* attention, experts of its own */
    fn_mixer_weights mixer;
} fn_mtp_weights;

typedef struct fn_weights {
    fn_shape shape;
    const void *embed;        /* [V, D] as stored; NULL when tied: rows come from the head */
    fn_dtype embed_dtype;     /* F32 or BF16 */
    fn_matrix head;           /* [V, D] */
    fn_mixer_weights mixer;   /* final */
    fn_layer_weights *layers; /* [L] */
    fn_ple_weights *ple;      /* [n_ple] */
    fn_mtp_weights *mtp;      /* NULL without the MTP head */
    uint8_t *arena;
    size_t arena_bytes;
    size_t mapped_bytes; /* of matrices and embedding that stay in their mapped files */
} fn_weights;

/* Bytes that loading will keep resident. */
FN_NODISCARD fn_status fn_weights_size(const fn_bound *bound, const fn_shape *shape,
                                       const fn_weight_settings *settings, size_t *bytes,
                                       fn_error *err);

/* Whether loading computes codes: what a prepared checkpoint would save. */
bool fn_weights_quantises(const fn_bound *bound, const fn_shape *shape,
                          const fn_weight_settings *settings);

/* Reads and packs everything but the n-gram tables (ngram/ngram_table.h), quantising where settings ask for
 * it; a few megabytes a thread are held as stored. What is packed already is kept as it is. watch may be NULL. */
FN_NODISCARD fn_status fn_weights_load(const fn_checkpoint *c, const fn_bound *bound,
                                       const fn_shape *shape, const fn_weight_settings *settings,
                                       fn_pool *pool, const fn_load_watch *watch, fn_weights **out,
                                       fn_error *err);

/* Told of everything that loading would place, in its order. */
typedef struct fn_weight_visitor {
    /* a matrix of matrix's kind, made of parts [n_parts], 1 or 2, one below the other; no tiles */
    void (*matrix)(void *ud, const fn_source *const *parts, size_t n_parts,
                   const fn_matrix *matrix);
    void (*tensor)(void *ud, const fn_tensor *tensor); /* all else */
    void *ud;
} fn_weight_visitor;

/* Walks as loading does, reads nothing. */
FN_NODISCARD fn_status fn_weights_visit(const fn_bound *bound, const fn_shape *shape,
                                        const fn_weight_settings *settings,
                                        const fn_weight_visitor *visitor, fn_error *err);
void fn_weights_free(fn_weights *weights);

#endif
