/* forward/forward.h - one forward for everything: prompt chunks, decode steps, drafts to verify, batches.
 *
 * Path:    segments of ids -> embedding -> layers -> final mixer -> head -> logits.
 * Bits:    a row's logits depend on its sequence alone, not on the other rows, segments or threads.
 * Threads: one forward of an fn_forward at a time; it uses the pool. Several fn_forward, each with a pool of its own,
 *          may run at once over the same weights, tables and state pool, in different states.
 * Memory:  everything is reserved at creation; running allocates nothing (states with reserved room). */
#ifndef FN_FORWARD_FORWARD_H
#define FN_FORWARD_FORWARD_H

#include "forward/mtp.h"
#include "forward/shortlist.h"
#include "layers/step.h"

typedef struct fn_segment {
    fn_state *state;
    const int32_t *ids;  /* [n]: also at image positions, the n-gram hash reads them */
    size_t n;            /* >= 1 */
    const float *embeds; /* [n, D] rows that replace the table's where use_embed is set; or NULL */
    const uint8_t *use_embed; /* [n] or NULL */
    const int32_t *positions; /* [n, 3] (t, h, w); NULL: the token's index + the state's offset */
    const uint8_t *wants;     /* [n]: which rows want logits; NULL: none */
    bool keep_rows;           /* keep the recurrent state after each row (fn_state_roll_back) */
} fn_segment;

typedef struct fn_model {
    const fn_weights *weights;
    fn_ngram_table *const *tables; /* [n_ple] */
    const fn_kernels *kernels;
    const fn_state_layout *layout;
    fn_pool *pool;
    /* The layout's precision is the model's. */
} fn_model;

typedef struct fn_forward fn_forward;

/* For at most max_rows rows at once and states of at most `context` tokens. */
FN_NODISCARD fn_status fn_forward_create(const fn_model *model, size_t max_rows, size_t context,
                                         fn_forward **out, fn_error *err);
void fn_forward_destroy(fn_forward *forward);
/* Takes all its memory from the system now, which otherwise comes as rows need it. */
void fn_forward_touch(fn_forward *forward);
/* Bytes that creating takes, for the plan. */
size_t fn_forward_bytes(const fn_shape *shape, size_t max_rows, size_t context, size_t threads);
size_t fn_forward_max_rows(const fn_forward *forward);
const fn_shape *fn_forward_shape(const fn_forward *forward);

/* From now on asked before each part of a layer: false ends a forward with FN_E_CANCELLED, no state changed. NULL: off. */
void fn_forward_watch(fn_forward *forward, bool (*go_on)(void *ud), void *ud);

/* From now on forwards add their times there. NULL: off. */
void fn_forward_time(fn_forward *forward, fn_step_clock *clock);

/* Runs all segments (states all different) and appends their rows to their states. logits [wanted, V], in
 * the order of segments and rows; may be NULL when none are wanted. trace may be NULL. Fails with FN_E_RANGE
 * (id, context, too many rows), FN_E_IO (n-gram table), FN_E_NOMEM; then no state has changed. */
FN_NODISCARD fn_status fn_forward_run(fn_forward *forward, const fn_segment *segments, size_t n,
                                      float *logits, const fn_trace *trace, fn_error *err);

/* ---- drafts, and logits of rows that did not ask for them ---- */

/* Points a chain of up to n drafts at a state (fn_mtp_chain_start). */
FN_NODISCARD fn_status fn_forward_start_chain(fn_forward *forward, fn_mtp_chain *chain,
                                              fn_state *state, size_t n, fn_error *err);
/* One draft of the MTP head for each of n chains: tokens [n] (ids the model has) come next; logits [n, V] of
 * the tokens after them, -inf where the shortlist (NULL: every id) has none. */
void fn_forward_draft(fn_forward *forward, fn_mtp_chain *const *chains, size_t n,
                      const int32_t *tokens, const fn_shortlist *shortlist, float *logits);

/* Logits [n, V] after rows [first, first + n) of one segment of the last forward; rows count over its segments. */
void fn_forward_logits(fn_forward *forward, size_t first, size_t n, float *logits);

/* Logits [V] after a state's last row, from the streams it keeps: the bits of the forward that made it. */
void fn_forward_head(fn_forward *forward, const fn_state *state, float *logits);

#endif
