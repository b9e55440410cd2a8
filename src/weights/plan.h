/* weights/plan.h - bytes by class, before anything is allocated.
 *
 * Path:    shape (config alone) or shape + bound headers -> [this] -> engine: refuse what does not
 *          fit; `flashnext plan`. weights/textbook.h is the published estimate beside it.
 * Exact:   weights as weights/load.h keeps them: matrices packed as in kernels/matrix.h (padding
 *          included), vectors in float32, n-gram tables on disk (mapped, not resident). Bits below
 *          16 are group-quantised (128 inputs, FP16 scales, on their own line).
 * Threads: stateless. Memory:  plain values.
 *
 * The JSON of fn_plan (flashnext_tools.h); bytes and counts are integers:
 *   source            "config" or "headers"
 *   settings          {expert_bits, dense_bits, ngram_bits, kv_bits, context, sequences, chunk}, as
 *                     used; bits: 0 = as stored
 *   textbook          the published estimate (weights/textbook.h):
 *     params          {routed_experts, shared, delta_net, attention, streams, embedding, dense,
 *                     ngram, active, active_experts, active_dense_with_head}
 *     bytes           {experts_16bit, experts_8bit, experts_4bit, dense, ngram, recurrent}
 *     kv              [{tokens, bytes}]: 32,768 and 262,144 tokens and the asked context
 *     read_per_token  {bf16_trunk_int4_experts, int8_trunk_int4_experts}
 *   exact             what this engine does with these files:
 *     classes         [{name, params, stored, weights, scales, mapped, active, read}] in the order
 *                     of FN_PLAN_CLASS_MAP; the fields of fn_plan_line
 *     total           the same fields, summed
 *     dense           {params, stored}: all but routed experts, n-gram tables, MTP and vision
 *     state           [{name, bytes}]: one sequence's, in the order of FN_PLAN_STATE_MAP
 *     state_per_sequence, sequences, scratch
 *     resident        weights + scales + sequences * state_per_sequence + scratch
 *     disk            stored bytes of the whole checkpoint
 *     read_per_token  {weights, scales, ngram, state, total}: state at full context
 *   machine           {ram, available, limit}: limit = mem_limit, or available
 *   fits              resident <= limit
 *   largest_context   tokens that fit with these settings, at most the model's maximum; 0: none */
#ifndef FN_WEIGHTS_PLAN_H
#define FN_WEIGHTS_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/config_json.h"
#include "shape/shape.h"
#include "weights/bind.h"

/* enum, JSON name, words */
#define FN_PLAN_CLASS_MAP(X)                                                                       \
    X(EMBEDDING, "embedding", "token embedding")                                                   \
    X(HEAD, "head", "LM head")                                                                     \
    X(ATTENTION, "attention", "attention")                                                         \
    X(INDEXER, "indexer", "attention indexer")                                                     \
    X(DELTA, "delta_net", "delta net")                                                             \
    X(MIXERS, "stream_mixers", "stream mixers")                                                    \
    X(ROUTER, "router", "router")                                                                  \
    X(SHARED, "shared_experts", "shared experts")                                                  \
    X(ROUTED, "routed_experts", "routed experts")                                                  \
    X(PLE, "ple", "n-gram projections")                                                            \
    X(NGRAM, "ngram_table", "n-gram tables")                                                       \
    X(MTP, "mtp", "MTP head")                                                                      \
    X(VISION, "vision", "vision tower")

typedef enum fn_plan_class {
#define FN_PLAN_ENUM(name, json, words) FN_PLAN_##name,
    FN_PLAN_CLASS_MAP(FN_PLAN_ENUM)
#undef FN_PLAN_ENUM
        FN_PLAN_CLASSES
} fn_plan_class;

/* One sequence's state. */
#define FN_PLAN_STATE_MAP(X)                                                                       \
    X(KV, "kv", "keys and values")                                                                 \
    X(POOLED, "pooled_keys", "pooled indexer keys")                                                \
    X(OPEN, "open_block", "raw keys and positions of the open block")                              \
    X(RECURRENT, "recurrent", "delta-rule states")                                                 \
    X(CONV, "conv_tails", "conv tails")                                                            \
    X(TAIL, "ple_tail", "n-gram conv tail and ids")                                                \
    X(STREAMS, "last_streams", "last streams")

typedef enum fn_plan_state {
#define FN_PLAN_ENUM(name, json, words) FN_PLAN_STATE_##name,
    FN_PLAN_STATE_MAP(FN_PLAN_ENUM)
#undef FN_PLAN_ENUM
        FN_PLAN_STATES
} fn_plan_state;

typedef struct fn_plan_line {
    uint64_t params;  /* numbers in the checkpoint */
    uint64_t stored;  /* their bytes there */
    uint64_t weights; /* resident bytes, scales not among them */
    uint64_t scales;  /* resident bytes of scales */
    uint64_t mapped;  /* bytes left on disk and read by row */
    uint64_t active;  /* numbers that one token multiplies by */
    uint64_t read;    /* bytes that one decode step reads, scales among them */
} fn_plan_line;

typedef struct fn_plan_settings {
    int expert_bits, dense_bits; /* 4, 8, 16, 32; 0: as stored */
    int ngram_bits;              /* 4, 8, 16; 0: as stored */
    int kv_bits;                 /* 16, 32; 0: 32, as the exact precision keeps them */
    size_t context;              /* tokens; 0: the model's maximum */
    size_t sequences;            /* 0: 1 */
    size_t chunk;                /* rows of one forward; 0: 512 */
    uint64_t state_bytes;        /* of one sequence, where the caller knows; 0: summed here */
    uint64_t scratch_bytes;      /* where the caller knows; 0: estimated here */
} fn_plan_settings;

typedef struct fn_memory_plan {
    fn_plan_settings settings; /* zeros filled in, but for bits */
    fn_plan_line lines[FN_PLAN_CLASSES];
    fn_plan_line total;
    uint64_t state[FN_PLAN_STATES];
    uint64_t state_per_sequence, scratch, resident;
    uint64_t state_read;  /* bytes of state that a decode step reads at full context */
    uint64_t scales_read; /* part of total.read */
    uint64_t dense_params, dense_stored;
} fn_memory_plan;

/* What the plan is made from. */
typedef struct fn_plan_source {
    const fn_shape *shape;
    const fn_bound *bound;           /* NULL: every tensor BF16, hash constants I64 */
    const fn_checkpoint *checkpoint; /* sizes of MTP and vision; NULL: from shape and config */
    const fn_config *config;         /* size of the vision tower; NULL: not counted */
} fn_plan_source;

/* Fails with FN_E_USAGE for settings that do not exist, FN_E_MODEL for a vision config that lacks
 * a size. */
FN_NODISCARD fn_status fn_memory_plan_make(const fn_plan_source *source,
                                           const fn_plan_settings *settings, fn_memory_plan *out,
                                           fn_error *err);

/* The most tokens of context with which the plan's resident bytes are at most `limit`. */
size_t fn_memory_plan_largest_context(const fn_memory_plan *plan, const fn_shape *shape,
                                      uint64_t limit);

/* Refuses with FN_E_FIT, a table of classes in the message, when the weights, states and scratch
 * of these settings need more than mem_limit bytes (0: the memory available now). */
FN_NODISCARD fn_status fn_plan_check(const fn_shape *shape, const fn_bound *bound,
                                     const fn_plan_settings *settings, uint64_t mem_limit,
                                     fn_error *err);

const char *fn_plan_class_name(fn_plan_class c); /* as in the JSON */
const char *fn_plan_state_name(fn_plan_state s);

#endif
