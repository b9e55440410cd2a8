/* flashnext_tools.h - look into checkpoints and runs: tensors, inspection, plan, traced forwards.
 *
 * For tools and tests; programs that only run the model need flashnext.h alone. Same rules. */
#ifndef FLASHNEXT_TOOLS_H
#define FLASHNEXT_TOOLS_H

#include "flashnext.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- safetensors files ------------------------------------------------------------------------- */

typedef struct fn_tensor_file fn_tensor_file;

typedef struct fn_tensor_view {
    const char *name, *dtype; /* "F32", "BF16", "I64", ... */
    size_t n_dims;
    uint64_t dims[8];
    uint64_t bytes;
} fn_tensor_view;

FN_API fn_status fn_tensor_file_open(const char *path, fn_tensor_file **out, fn_error *err);
FN_API void fn_tensor_file_close(fn_tensor_file *file);
FN_API size_t fn_tensor_file_count(const fn_tensor_file *file);
FN_API void fn_tensor_file_at(const fn_tensor_file *file, size_t i, fn_tensor_view *out);
FN_API bool fn_tensor_file_find(const fn_tensor_file *file, const char *name, fn_tensor_view *out);
/* All elements as doubles (any number type; I64 beyond 2^53 rounds). dst has room for them all. */
FN_API fn_status fn_tensor_file_read(const fn_tensor_file *file, const char *name, double *dst,
                                     fn_error *err);

/* Writes a safetensors file front to back: declare every tensor, then append their bytes in that order.
 * The file gets its name only when finish succeeds. */
typedef struct fn_tensor_writer fn_tensor_writer;
FN_API fn_status fn_tensor_writer_create(const char *path, fn_tensor_writer **out, fn_error *err);
FN_API fn_status fn_tensor_writer_declare(fn_tensor_writer *writer, const char *name,
                                          const char *dtype, const uint64_t *dims, size_t n_dims,
                                          fn_error *err);
FN_API fn_status fn_tensor_writer_append(fn_tensor_writer *writer, const void *bytes, size_t n,
                                         fn_error *err);
FN_API fn_status fn_tensor_writer_finish(fn_tensor_writer *writer, fn_error *err); /* frees it */
FN_API void fn_tensor_writer_abandon(fn_tensor_writer *writer);

/* ---- inspection --------------------------------------------------------------------------------- */

/* One JSON object: files, tensors (name, dtype, shape, file, bytes), formats, shape of the model, parameter
 * counts by class. Freed with fn_string_free. Headers only. */
FN_API fn_status fn_inspect(const char *model_dir, char **json, fn_error *err);
/* Reads every byte of a prepared checkpoint and compares it with the checksums of its manifest (progress's stage is
 * "checking"), then every row of a linked n-gram table, which has none: it must be readable and hold finite numbers
 * (stage "n-gram table"). Fails with FN_E_MODEL, naming the file; FN_E_UNSUPPORTED for a checkpoint without a
 * manifest. */
FN_API fn_status fn_inspect_check(const char *model_dir, fn_progress progress, void *progress_ud,
                                  fn_error *err);

/* ---- prepared checkpoints ------------------------------------------------------------------------ */

typedef struct fn_quantize_options {
    const char *model_dir;       /* a published checkpoint */
    const char *out_dir;         /* new, empty, or what an earlier call left when it was stopped */
    int expert_bits, dense_bits; /* as in fn_engine_options */
    size_t group_size;
    const char *ngram;    /* the n-gram tables: "copy", "link", "omit", "int8"; NULL: copy */
    size_t threads;       /* 0: every CPU */
    bool dry_run;         /* write nothing */
    fn_progress progress; /* stage "preparing", of the bytes written; or NULL */
    void *progress_ud;
} fn_quantize_options;

FN_API fn_quantize_options fn_quantize_options_default(void);
/* Writes a prepared checkpoint (docs/prepared.md): what loading with these bits would make, to be mapped. What was
 * stopped goes on where it was. *json, freed with fn_string_free: {settings, files: [{name, bytes, tensors}], bytes,
 * missing_bytes, source_bytes, resumes}, as things stood before. Fails with FN_E_USAGE (the directory is in use for
 * something else), FN_E_IO (disk full), FN_E_CANCELLED, ... */
FN_API fn_status fn_quantize(const fn_quantize_options *options, char **json, fn_error *err);

/* ---- plan ---------------------------------------------------------------------------------------- */

typedef struct fn_plan_options {
    const char *model_dir;                   /* or */
    const char *config_path;                 /* a config.json alone: shapes without headers */
    int expert_bits, dense_bits, ngram_bits; /* 0: as stored */
    int kv_bits;       /* 32: as exact precision keeps keys and values; 16, 0: as fast does */
    size_t group_size; /* of 4 and 8 bits: 32, 64, 128; 0: 128 */
    fn_ngram_place ngram;
    size_t context, sequences, chunk; /* 0: the model's maximum, 1, 2048 */
    size_t draft_tokens;              /* guesses in a pass that states are kept for; 0: as an engine
                                       * does by itself: 4 with an MTP head, fewer to fit */
    bool no_mtp;                      /* without the MTP head */
    uint64_t mem_limit;               /* 0: what the machine has */
    bool measure;                     /* this machine's read bandwidth, for the decode ceiling */
} fn_plan_options;

FN_API fn_plan_options fn_plan_options_default(void);
/* One JSON object: {"textbook": {...}, "exact": {classes...}, "fits", "machine", ...}; field names in
 * docs. Freed with fn_string_free. */
FN_API fn_status fn_plan(const fn_plan_options *options, char **json, fn_error *err);

/* ---- traced forwards ------------------------------------------------------------------------------ */

/* One tensor of a traced forward, float32 or integers as doubles; called in a fixed order. */
typedef struct fn_trace_options {
    const int32_t *ids; /* [rows, length] */
    size_t rows, length;
    const size_t *split; /* [n_split], sums to length; NULL: one piece */
    size_t n_split;
    bool together; /* all rows in one forward (true) or one after the other */
    bool trace;    /* also the intermediate values */
    /* With drafts > 0: the MTP head's greedy chain of so many drafts after position draft_position of row 0, whose
     * first token is the trunk's greedy one: draft_tokens [1 + drafts], draft_logits, draft_streams. */
    size_t draft_position, drafts;
} fn_trace_options;

/* Runs the ids from an empty state and writes `logits` [B,T,V] float32 and, with trace, the tensors of the
 * ladder of evidence (docs/ledger.md) to a safetensors file. FN_E_NUMERIC, with the file written, when a logit is not
 * a number. */
FN_API fn_status fn_trace_run(fn_engine *engine, const fn_trace_options *options, const char *path,
                              fn_error *err);

/* ---- perplexity ----------------------------------------------------------------------------- */

typedef struct fn_perplexity_options {
    const int32_t *ids; /* [n]: read in windows, each from an empty state */
    size_t n;
    size_t window;              /* ids in a window, at least 2; 0: 512, or the context if smaller */
    bool by_document;           /* windows end behind the config's end-of-text token */
    const char *save_path;      /* keep this run's logits there as a reference; or NULL */
    const char *reference_path; /* compare with such a run of the same ids and windows; or NULL */
} fn_perplexity_options;

typedef struct fn_perplexity {
    size_t positions; /* predictions scored: every id of a window but its first */
    double nll,
        nll_error; /* mean of -ln p(next id) and its standard error; perplexity = exp(nll) */
    /* with a reference, P the reference's distribution and Q this run's: */
    double kl, kl_max; /* mean and largest sum of P ln(P / Q), in nats */
    double same_top;   /* share of positions with the same best id */
    double reference_nll;
    double logit_error, logit_error_max; /* mean and largest |difference| of a logit */
} fn_perplexity;

/* Fails with FN_E_USAGE (too few ids), FN_E_IO, FN_E_MODEL (a reference of other ids, windows or
 * vocabulary, or a damaged one), FN_E_NUMERIC. */
FN_API fn_status fn_perplexity_run(fn_engine *engine, const fn_perplexity_options *options,
                                   fn_perplexity *out, fn_error *err);

/* ---- measuring speed ------------------------------------------------------------------------ */

/* What the machine can do at most right now, on all threads of the engine: bytes read from memory (of the
 * weights, in one stream a thread or in eight, whichever is faster) and multiply-adds in registers with the
 * instructions of the engine's kernels (a multiplication and an addition each count), a second. */
typedef struct fn_limits {
    double read, int8, bf16, f32;
} fn_limits;
FN_API void fn_limits_measure(fn_engine *engine, fn_limits *out);

/* What one forward of the trunk has to do: `rows` new tokens, the first of them after `depth` others, of
 * `sequences` sequences (which share the rows), of which `logits` rows want logits. */
typedef struct fn_work {
    double
        weight_bytes; /* every matrix once; of the experts those that the rows choose on average */
    double state_bytes; /* states, selected keys and values, pooled index keys: read once */
    double int8_operations, bf16_operations,
        f32_operations; /* of the matrices, by what multiplies */
} fn_work;
FN_API void fn_work_of(const fn_engine *engine, size_t rows, size_t depth, size_t sequences,
                       size_t logits, fn_work *out);

/* One forward that reads one id into each of n sessions of one engine, and logits [n, vocab] behind them. */
FN_API fn_status fn_sessions_step(fn_session *const *sessions, const int32_t *ids, size_t n,
                                  float *logits, fn_error *err);

#define FN_PROFILE_MAP(X)                                                                          \
    X(EMBEDDING, "embedding, positions")                                                           \
    X(NGRAM, "n-gram memory")                                                                      \
    X(MIXERS, "stream mixers")                                                                     \
    X(DELTA_PROJECTIONS, "delta net: projections")                                                 \
    X(DELTA_RULE, "delta net: conv, rule, gate")                                                   \
    X(ATTENTION_PROJECTIONS, "attention: projections")                                             \
    X(INDEXER, "attention: pooled keys")                                                           \
    X(ATTENTION, "attention: choice and keys")                                                     \
    X(ROUTER, "router")                                                                            \
    X(EXPERTS, "experts")                                                                          \
    X(EXPERT_SUM, "sum of the experts")                                                            \
    X(MTP, "MTP head")                                                                             \
    X(HEAD, "LM head")                                                                             \
    X(REST, "states")

typedef enum fn_profile_class {
#define FN_PROFILE_ENUM(name, text) FN_PROFILE_##name,
    FN_PROFILE_MAP(FN_PROFILE_ENUM)
#undef FN_PROFILE_ENUM
        FN_PROFILE_CLASSES
} fn_profile_class;

/* Seconds of the engine's forwards, by what they did. */
typedef struct fn_profile {
    double seconds[FN_PROFILE_CLASSES];
} fn_profile;
/* From now on, from zero; and the sums so far, after which it is off again. */
FN_API void fn_profile_begin(fn_engine *engine);
FN_API void fn_profile_end(fn_engine *engine, fn_profile *out);

/* A text made twice from where a session stands: plainly, then with drafts. */
typedef struct fn_draft_trial_options {
    size_t tokens;               /* at least so many each time */
    const fn_sampling *sampling; /* NULL: what the checkpoint says */
    const double *
        held; /* [n_held, as many as the engine's fixed number of drafts]: the share of passes in which
                         * the first, second, ... draft is to hold, descending. Each draft is made, and then
                         * replaced by the id of the plain text or by another one. NULL: drafts stay as they are */
    size_t n_held;
    bool profile;
    double turn; /* in [0, 1): where the pattern of what holds begins */
} fn_draft_trial_options;

/* Everything between one id and the next counts: choosing, telling, making drafts, rolling back. */
typedef struct fn_draft_trial {
    size_t plain_tokens, tokens;
    double plain_seconds, seconds;
    fn_drafting plain, drafting; /* of the two texts */
    fn_profile plain_profile, profile;
    double turn; /* where the pattern would go on */
} fn_draft_trial;

/* The session stays as it is; it holds at least one id, and the context has room for tokens + 2 FN_MAX_DRAFTS more.
 * Fails with FN_E_USAGE (the engine drafts nothing, or not as many as `held` says), FN_E_RANGE; FN_E_FAILED
 * should the two texts differ. */
FN_API fn_status fn_draft_trial_run(fn_session *session, const fn_draft_trial_options *options,
                                    fn_draft_trial *out, fn_error *err);

#ifdef __cplusplus
}
#endif

#endif
