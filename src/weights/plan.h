/* weights/plan.h - bytes of weights by class, before anything is allocated.
 *
 * Path:    shape (config alone) or shape + bound headers -> [this] -> engine: refuses what does not
 *          fit, fn_plan. weights/textbook.h is the published estimate beside it.
 * Exact:   weights as weights/load.c keeps them: matrices packed as in kernels/matrix.h (padding
 *          included), vectors in float32, n-gram tables on disk (mapped, not resident) or in RAM. Bits below
 *          16 are group-quantised (128 inputs, FP16 scales). The MTP head is one class, with all its
 *          parts, and not among what one token multiplies by; the vision tower is counted as stored: it is
 *          not loaded.
 * Threads: stateless. Memory:  plain values.
 *
 * The JSON of fn_plan (flashnext_tools.h); bytes and counts are integers:
 *   source            {kind: "config" or "headers", path}
 *   settings          {expert_bits, dense_bits, ngram_bits, kv_bits, group_size, context, sequences, chunk,
 *                     draft_tokens, threads}; bits 0 = as stored
 *   textbook          the published estimate (weights/textbook.h), numbers in `params`:
 *     params          {routed_experts, shared, delta_net, attention, streams, embedding, dense,
 *                     ngram, active, active_experts, active_dense_with_head}
 *     bytes           {experts_16bit, experts_8bit, experts_4bit, dense_16bit, ngram_16bit,
 *                     recurrent}
 *     kv_16bit        [{tokens, bytes}]: 32,768 and 262,144 tokens, and the asked context
 *     read_per_token  {bf16_trunk_int4_experts, int8_trunk_int4_experts}
 *   exact             what this engine does with these files:
 *     classes         [{name, params, stored, weights, scales, mapped, active, read}]: the fields
 *                     of fn_plan_line, in the order of FN_PLAN_CLASS_MAP, empty classes left out
 *     total           the same fields, summed
 *     dense           {params, stored}: all but routed experts, n-gram tables, MTP and vision
 *     active          {params, experts, dense_with_head}: numbers that one token multiplies by, the
 *                     head not among `params`
 *     state           [{name, bytes}]: one sequence's, every part of state/state.h, then the rest
 *     state_per_sequence, scratch
 *     resident        weights + scales + sequences * state_per_sequence + scratch
 *     read_per_token  {weights, scales, state, total}: a decode step at full context
 *     ngram_in_ram    whether the n-gram tables are read into RAM (then among weights) or left on disk
 *   machine           {total, available, read_bandwidth}: memory now, 0 = unknown; bytes read a second by all
 *                     threads, 0 = not measured
 *   decode_ceiling    tokens a second that read_bandwidth allows one sequence at full context; 0 = not measured
 *   drafts            with an MTP head: {rows, distinct_experts, tokens_per_pass, pass_read, speed} of passes with
 *                     three guesses that hold as on the released model (engine/tools_plan_drafts.h)
 *   limit             the asked limit, or what is available
 *   fits              resident <= limit
 *   largest_context   tokens that fit under limit with these settings, at most the model's maximum;
 *                     0: not even one
 *   max_context       the model's maximum */
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
#include "weights/settings.h"

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
    fn_weight_settings weights;
    int ngram_bits;         /* 4, 8, 16, 32; 0: as stored */
    bool ngram_in_ram;      /* else left on disk */
    size_t sequences;       /* 0: 1 */
    uint64_t state_bytes;   /* of one sequence (state/state.h knows) */
    uint64_t scratch_bytes; /* of the forward (forward/forward.h knows) */
} fn_plan_settings;

typedef struct fn_memory_plan {
    fn_plan_line lines[FN_PLAN_CLASSES];
    fn_plan_line total;
    fn_plan_line dense;       /* all but routed experts, n-gram tables, MTP and vision */
    uint64_t scales_read;     /* part of total.read */
    uint64_t mtp_scales_read; /* part of it */
    uint64_t states;          /* of all sequences */
    uint64_t scratch;
    uint64_t resident; /* total.weights + total.scales + states + scratch */
} fn_memory_plan;

/* What the plan is made from. */
typedef struct fn_plan_source {
    const fn_shape *shape;
    const fn_bound *bound; /* NULL: every tensor BF16 */
    const fn_checkpoint
        *checkpoint;         /* sizes of what is not loaded; NULL: the vision tower's from config */
    const fn_config *config; /* size of the vision tower; NULL: not counted */
} fn_plan_source;

/* Fails with FN_E_USAGE for bits that do not exist, FN_E_MODEL for a vision config that lacks a
 * size. */
FN_NODISCARD fn_status fn_memory_plan_make(const fn_plan_source *source,
                                           const fn_plan_settings *settings, fn_memory_plan *out,
                                           fn_error *err);

/* Where the n-gram table goes; settings->ngram_in_ram is not read. AUTO puts a table of at most 256 MiB into RAM
 * when everything then needs at most `limit` bytes: a larger one would delay every start, and the page cache keeps
 * the rows that are used. Fails as fn_memory_plan_make. */
FN_NODISCARD fn_status fn_plan_place_ngram(const fn_plan_source *source,
                                           const fn_plan_settings *settings, fn_ngram_place asked,
                                           uint64_t limit, bool *in_ram, fn_error *err);

/* Refuses with FN_E_FIT, a table of classes in the message, when weights, states and scratch need
 * more than mem_limit bytes (0: the memory available now). */
FN_NODISCARD fn_status fn_plan_check(const fn_shape *shape, const fn_bound *bound,
                                     const fn_plan_settings *settings, uint64_t mem_limit,
                                     fn_error *err);

const char *fn_plan_class_name(fn_plan_class c);  /* as in the JSON */
const char *fn_plan_class_words(fn_plan_class c); /* for people */

/* weights/plan_extra.c: numbers of the vision tower, from its config. */
FN_NODISCARD fn_status fn_plan_vision_params(const fn_config *config, uint64_t *out, fn_error *err);

#endif
