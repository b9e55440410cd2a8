/* engine/drafting.h - which drafter an engine has, the drafter of a session, and one pass: guess, run all guesses
 * in one forward, keep what the sampler would have chosen anyway.
 *
 * Path:    options -> [setup] -> fn_engine; stepper.h's choices + drafting/ -> [pass] -> the session goes on. */
#ifndef FN_ENGINE_DRAFTING_H
#define FN_ENGINE_DRAFTING_H

#include "drafting/draft_pace.h"
#include "drafting/drafter.h"
#include "engine/stepper.h"

/* Drafts in a pass, where nobody says how many. */
#define FN_DRAFTS_DEFAULT 4

/* What an engine drafts with. */
typedef struct fn_draft_setup {
    fn_drafter_choice kind; /* never AUTO */
    size_t most;            /* drafts in a pass; 0: none */
    bool fixed;
    float least;
    fn_shortlist shortlist;
    bool whole_vocab; /* the shortlist is not used */
    fn_engine *model; /* of the draft model, or NULL */
} fn_draft_setup;

/* Before the main model is planned: loads the draft model if one is asked for. */
FN_NODISCARD fn_status fn_draft_setup_open(const fn_engine_options *options, fn_draft_setup *out,
                                           fn_error *err);
/* With the model's shape known: settles the kind. Fails with FN_E_USAGE for what cannot be. */
FN_NODISCARD fn_status fn_draft_setup_settle(fn_draft_setup *setup,
                                             const fn_engine_options *options,
                                             const fn_shape *shape, fn_error *err);
/* With its text known: which ids are guessed. Fails with FN_E_USAGE when they mean others in the draft model. */
FN_NODISCARD fn_status fn_draft_setup_read_text(fn_draft_setup *setup,
                                                const fn_engine_options *options,
                                                const fn_shape *shape, const fn_text *text,
                                                fn_error *err);
void fn_draft_setup_close(fn_draft_setup *setup);
const char *fn_draft_name(const fn_draft_setup *setup);

/* What is left of a limit (0: none) for the main model, when the draft model and its sessions have theirs. */
uint64_t fn_draft_limit(const fn_draft_setup *setup, uint64_t mem_limit, size_t sessions,
                        size_t context);

/* Bytes that one session takes for `most` drafts in a pass. */
uint64_t fn_draft_bytes(const fn_shape *shape, const fn_state_layout *layout, size_t most);

/* A drafter of the engine's kind for a sequence of up to `context` ids and at most so many drafts in a pass, by this
 * forward of the engine's model; NULL when there are none. What its passes need of the state is reserved there. */
FN_NODISCARD fn_status fn_draft_make(const fn_engine *e, fn_forward *forward, fn_state *state,
                                     size_t most, size_t context, fn_drafter **out, fn_error *err);
/* fn_drafters_propose for such drafters, from any thread: those of one draft model wait for each other. */
FN_NODISCARD fn_status fn_draft_propose(const fn_engine *e, fn_draft_request *requests, size_t n,
                                        float *logits, fn_error *err);

/* Makes session->drafter and reserves what its passes need. */
FN_NODISCARD fn_status fn_session_make_drafter(fn_session *session, fn_error *err);

/* For fn_draft_request.pick: ud is the stepper. */
FN_NODISCARD fn_status fn_draft_guess(void *ud, const float *logits, size_t position, int32_t *id,
                                      fn_error *err);
/* Adds a pass to what is told of an answer. */
void fn_draft_count(fn_drafting *counts, const fn_draft_outcome *pass);

/* An answer that is being made. */
typedef struct fn_draft_run {
    fn_session *session;
    fn_stepper *stepper;
    fn_drafting counts;
} fn_draft_run;

/* One pass: *id, chosen and not yet read, becomes part of the answer and is told at once, before the forward that
 * reads it; so do then the guesses behind it that hold. *id is then the next one, if the stepper wants more. */
FN_NODISCARD fn_status fn_draft_pass(fn_draft_run *run, int32_t *id, fn_error *err);

#endif
