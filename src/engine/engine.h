/* engine/engine.h - a loaded model and its sequences; private to the engine room. */
#ifndef FN_ENGINE_ENGINE_H
#define FN_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "checkpoint/checkpoint.h"
#include "engine/drafting.h"
#include "engine/text.h"
#include "flashnext.h"
#include "forward/forward.h"
#include "state/state.h"
#include "weights/model_files.h"

/* States a session keeps on its own, to come back to when a conversation is rendered anew. */
#define FN_SESSION_MARKS 4

struct fn_engine {
    fn_model_files files;
    fn_checkpoint *checkpoint; /* of files, as is bound */
    fn_bound *bound;
    fn_shape shape;
    fn_weight_settings settings;  /* for loading */
    fn_weight_settings made_with; /* what the weights are, also where they were prepared */
    fn_precision precision;       /* exact or fast */
    fn_pool *pool;
    fn_weights *weights;
    fn_ngram_table **tables; /* [n_ple] */
    fn_read_pool *readers;   /* NULL without n-gram memory */
    bool ngram_in_ram;
    fn_state_layout layout;
    fn_state_pool *states;
    fn_forward *forward;
    const fn_kernels *kernels;
    fn_text *text;
    fn_draft_setup draft;
    size_t context, chunk, sessions, answers;
    uint64_t mem_limit, reserve_bytes; /* as asked */
    uint64_t spare_bytes;              /* what the plan leaves of mem_limit; 0 without one */
    uint64_t fingerprint_model;
    double load_seconds;
    fn_step_clock clock; /* of fn_profile_begin */
    fn_progress progress;
    void *progress_ud;
    pthread_mutex_t mutex; /* of forward and pool: one at a time computes with them */
    bool mutex_ready;
    atomic_bool scheduled; /* a scheduler runs on it */
};

typedef struct fn_mark {
    fn_state *state;
} fn_mark;

struct fn_session {
    fn_engine *engine;
    fn_state *state;
    int32_t *ids;  /* [context]; as many as the state is long */
    float *rows;   /* [1 + drafts in a pass, V] */
    float *logits; /* [V]: one of these rows */
    bool logits_ready;
    fn_drafter *drafter; /* or NULL */
    fn_draft_pace pace;
    fn_mark marks[FN_SESSION_MARKS]; /* oldest first */
    size_t n_marks;
};

struct fn_snapshot {
    fn_state *state;
    int32_t *ids;
};

/* Prompt tokens in one forward where nobody asked for a number: many, since an expert's weights are read once
 * for all tokens of a chunk that chose it. */
#define FN_CHUNK_DEFAULT 2048
#define FN_CHUNK_LEAST 256 /* what the default is halved to where memory is short */
static inline size_t fn_chunk_default(size_t context) {
    return context < FN_CHUNK_DEFAULT ? context : FN_CHUNK_DEFAULT;
}

/* What a forward needs of the engine, on this pool. */
fn_model fn_engine_model(const fn_engine *e, fn_pool *pool);

/* Of a forward for so many answers: their rows, guesses and short prompts; rows of guesses alone; and the bytes that it
 * and its logits take. */
#define FN_GUESS_ROWS 64
#define FN_RIDING_ROWS 64
size_t fn_guess_rows(size_t answers, size_t drafts);
size_t fn_answer_rows(size_t answers, size_t drafts);
uint64_t fn_answers_bytes(const fn_engine *e, size_t answers);

fn_precision fn_precision_resolve(fn_precision asked); /* the default is fast */
const char *fn_precision_name(fn_precision precision);

/* Bytes that one session takes at most: its state with marks, ids and logits, and what drafting keeps. */
uint64_t fn_session_bytes(const fn_shape *shape, const fn_state_layout *layout, size_t context,
                          size_t drafts);

/* Reads ids into the session; checks nothing but the context. Progress is told where asked. */
FN_NODISCARD fn_status fn_session_read(fn_session *session, const int32_t *ids, size_t n,
                                       bool tell_progress, fn_error *err);

/* Keeps the state as it is now to come back to. */
FN_NODISCARD fn_status fn_session_mark(fn_session *session, fn_error *err);

#endif
