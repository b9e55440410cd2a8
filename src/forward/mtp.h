/* forward/mtp.h - the multi-token-prediction head: pairs of (the trunk's streams at t, the token at t + 1)
 * -> streams -> logits of the token at t + 2.
 *
 * Path:    every forward runs the pairs that its tokens complete, drafting or not, so that a state's head is
 *          always in step with its trunk; a chain of drafts starts behind the true pairs and feeds the head
 *          its own streams.
 * Bits:    as in forward.h: a pair's streams depend on its sequence alone.
 * Memory:  a chain owns its few vectors; running allocates nothing. */
#ifndef FN_FORWARD_MTP_H
#define FN_FORWARD_MTP_H

#include "layers/step.h"

/* Drafts behind one state; what they leave in its pages is scratch. */
typedef struct fn_mtp_chain {
    fn_state *state;
    size_t depth;   /* drafts so far */
    float *streams; /* [hc*D]: input of the next draft */
    fn_open_block open;
    int32_t next_position[3]; /* of the next draft's pair */
} fn_mtp_chain;

FN_NODISCARD fn_status fn_mtp_chain_init(fn_mtp_chain *chain, const fn_shape *shape, fn_error *err);
void fn_mtp_chain_deinit(fn_mtp_chain *chain);
size_t fn_mtp_chain_bytes(const fn_shape *shape);

/* Points the chain at a state with at least one token, for up to n drafts. Fails with FN_E_RANGE, FN_E_NOMEM. */
FN_NODISCARD fn_status fn_mtp_chain_start(fn_mtp_chain *chain, const fn_state_layout *layout,
                                          fn_state *state, size_t n, fn_error *err);

/* After the trunk: runs the pairs that the step's tokens complete. s->streams hold the trunk's. */
void fn_mtp_run(fn_step *s);

/* One draft for each of n chains: tokens [n] follow their streams; mixed [n, D] is what the LM head reads. Each
 * chain's streams become the head's own. */
void fn_mtp_draft(fn_step *s, fn_mtp_chain *const *chains, size_t n, const int32_t *tokens,
                  float *mixed);

#endif
