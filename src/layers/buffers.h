/* layers/buffers.h - the buffers of a step: one table that reserving, placing and the plan walk.
 *
 * Path:    forward/ places them -> step.h has a field for each -> layers work in them.
 * Shapes:  elements are expressions of s, the shape, and of the sizes that forward/ reserves for.
 * Memory:  sizes only. */
#ifndef FN_LAYERS_BUFFERS_H
#define FN_LAYERS_BUFFERS_H

#include "kernels/row.h"
#include "shape/shape.h"

/* Steps of at most this many rows share each expert's outputs among the threads; with more rows a thread takes
 * whole experts, a block of rows at a time. */
#define FN_EXPERT_FEW 32
#define FN_EXPERT_BLOCK 512

/* Rows of expert inputs, the shared expert's among them, that are held at once. */
static inline size_t fn_step_places(const fn_shape *s, size_t rows, size_t threads) {
    size_t few = (rows < FN_EXPERT_FEW ? rows : FN_EXPERT_FEW) * (s->n_chosen + 1);
    size_t many = rows > FN_EXPERT_FEW ? threads * FN_EXPERT_BLOCK : 0;
    return few > many ? few : many;
}
static inline size_t fn_step_expert_width(const fn_shape *s) {
    return s->expert_width > s->shared_width ? s->expert_width : s->shared_width;
}
/* Bytes of one row between an expert's two products, in the largest form beside float32. */
static inline size_t fn_step_act_bytes(const fn_shape *s) {
    return fn_row_bytes(FN_ROW_BF16, fn_step_expert_width(s), 8) +
           fn_row_bytes(FN_ROW_INT8, fn_step_expert_width(s), 8);
}

/* Rows of the residual streams that all threads mix at once: with many more, the next step over them would find
 * none of them in a cache. From FN_MIX_LEAST rows a thread on, each takes its own through the mixer,
 * FN_MIX_ALONE at a time. */
#define FN_MIX_ROWS 128
#define FN_MIX_LEAST 48
#define FN_MIX_ALONE 64
static inline size_t fn_step_mix_rows(size_t rows, size_t threads) {
    size_t together = rows < FN_MIX_ROWS ? rows : FN_MIX_ROWS;
    size_t alone = rows / FN_MIX_LEAST >= threads ? threads * FN_MIX_ALONE : 0;
    return together > alone ? together : alone;
}
/* Bytes of one row's forms on the way through a mixer. */
static inline size_t fn_step_mix_bytes(const fn_shape *s) {
    return fn_row_bytes(FN_ROW_BF16, fn_shape_streams(s), 8) +
           fn_row_bytes(FN_ROW_INT8, fn_shape_streams(s), 8);
}

/* Elements that only a model with an MTP head, or with n-gram memory, has. */
#define FN_STEP_MTP(n) (s->n_mtp * (n))
#define FN_STEP_NGRAM(n) ((size_t)(s->n_ple > 0) * (n))

/* What stands while rows are on their way through the layers: name, type, elements of a row. The second list has
 * them for each layer with n-gram memory. */
#define FN_STEP_ROWS(X)                                                                            \
    X(streams, float, s->hc * s->hidden)                                                           \
    X(inject, float, s->hc)                                                                        \
    X(block_out, float, s->hidden)                                                                 \
    X(positions, int32_t, 3)                                                                       \
    X(rope_cos, float, s->rotary / 2)                                                              \
    X(rope_sin, float, s->rotary / 2)
#define FN_STEP_NGRAM_ROWS(X)                                                                      \
    X(ngram_rows, int64_t, fn_shape_ngram_heads(s))                                                \
    X(ngram_wants, fn_ngram_want, fn_shape_ngram_heads(s))                                         \
    X(ngram, float, s->ple_embed)

/* name, type, elements; R rows, W threads, N most keys a query may read, B most index blocks. The common ones
 * are lent to every layer. Each other list belongs to one layer kind, or to the head, and lives while that
 * runs: these lists share their memory. */
#define FN_STEP_COMMON(X)                                                                          \
    X(normed, float, R * s->hc * s->hidden)                                                        \
    X(norm_scale, float, R * s->hc)                                                                \
    X(low, float, R * s->hc_rank)                                                                  \
    X(mix_forms, uint8_t, fn_step_mix_rows(R, W) * fn_step_mix_bytes(s))                           \
    X(gate, float, R * s->hc * s->hidden)                                                          \
    X(mixed, float, R * s->hidden)                                                                 \
    X(ngram_gathers, fn_ngram_gather, s->n_ple)                                                    \
    X(mtp_streams, float, FN_STEP_MTP(R * s->hc * s->hidden))                                      \
    X(mtp_positions, int32_t, FN_STEP_MTP(R * 3))                                                  \
    X(forms, uint8_t, R *fn_step_input_bytes(s))
#define FN_STEP_DELTA(X)                                                                           \
    X(qkv, float, R *fn_shape_conv(s))                                                             \
    X(conv, float, R *fn_shape_conv(s))                                                            \
    X(z, float, R *fn_shape_delta_v(s))                                                            \
    X(decay, float, R * s->delta_v_heads)                                                          \
    X(beta, float, R * s->delta_v_heads)                                                           \
    X(delta_out, float, R *fn_shape_delta_v(s))
#define FN_STEP_ATTENTION(X)                                                                       \
    X(query, float, R * s->n_heads * 2 * s->head_dim)                                              \
    X(key, float, R * s->n_kv_heads * s->head_dim)                                                 \
    X(value, float, R * s->n_kv_heads * s->head_dim)                                               \
    X(attended, float, R * s->n_heads * s->head_dim)                                               \
    X(index_qk, float, R *(s->index_heads + 1) * s->index_dim)                                     \
    X(query_bf16, uint16_t, R * s->n_heads * s->head_dim)                                          \
    X(index_q_bf16, uint16_t, R * s->index_heads * s->index_dim)                                   \
    X(key_rows, const void *, W *N)                                                                \
    X(value_rows, const void *, W *N)                                                              \
    X(pooled, float, W * s->index_dim)                                                             \
    X(chosen_keys, int32_t, W *N)                                                                  \
    X(scores, float, W *N *(s->n_heads / s->n_kv_heads))                                           \
    X(block_scores, float, W *B)                                                                   \
    X(block_order, uint64_t, W *B)
#define FN_STEP_MOE(X)                                                                             \
    X(router, float, R * s->n_experts)                                                             \
    X(chosen, int32_t, R * s->n_chosen)                                                            \
    X(chosen_weight, float, R * s->n_chosen)                                                       \
    X(expert_row, int32_t, R * s->n_chosen)                                                        \
    X(expert_first, size_t, s->n_experts + 1)                                                      \
    X(expert_item, int32_t, R * s->n_chosen)                                                       \
    X(expert_in, uint8_t, fn_step_places(s, R, W) * fn_row_bytes(FN_ROW_F32, s->hidden, 1))        \
    X(expert_mid, float, fn_step_places(s, R, W) * 2 * fn_step_expert_width(s))                    \
    X(expert_act, float, fn_step_places(s, R, W) * fn_step_expert_width(s))                        \
    X(expert_act_form, uint8_t, fn_step_places(s, R, W) * fn_step_act_bytes(s))                    \
    X(expert_out, float, R * s->n_chosen * s->hidden)                                              \
    X(shared_out, float, R * s->hidden)                                                            \
    X(shared_gate, float, R)                                                                       \
    X(expert_units, fn_linear, s->n_experts + 1)
#define FN_STEP_PLE(X)                                                                             \
    X(ple_value, float, FN_STEP_NGRAM(R * s->hidden))                                              \
    X(ple_gated, float, FN_STEP_NGRAM(R * s->hc * s->hidden))
#define FN_STEP_HEAD(X) X(wanted, float, R * s->hc * s->hidden)
#define FN_STEP_BUFFERS(X)                                                                         \
    FN_STEP_ROWS(X)                                                                                \
    FN_STEP_NGRAM_ROWS(X)                                                                          \
    FN_STEP_COMMON(X)                                                                              \
    FN_STEP_DELTA(X) FN_STEP_ATTENTION(X) FN_STEP_MOE(X) FN_STEP_PLE(X) FN_STEP_HEAD(X)

#endif
