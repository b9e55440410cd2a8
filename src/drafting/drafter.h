/* drafting/drafter.h - guesses of the next ids, to be verified by one forward of the model.
 *
 * Path:    ids of a sequence and its state -> [this: the MTP head, a second model, or text that came before] ->
 *          ids that engine/ verifies. A wrong guess costs time, never a bit of the text.
 * Threads: a drafter belongs to one sequence and one thread at a time; those that compute use the forward they
 *          were made with, which nobody else may use meanwhile.
 * Memory:  everything at creation; proposing allocates nothing. */
#ifndef FN_DRAFTING_DRAFTER_H
#define FN_DRAFTING_DRAFTER_H

#include "forward/forward.h"

typedef struct fn_drafter fn_drafter;

typedef struct fn_draft_request {
    fn_drafter *drafter;
    fn_state *state;    /* of the sequence: has read ids [n - 1] */
    const int32_t *ids; /* [n], n >= 2: the last one is chosen, but not read */
    size_t n;
    size_t wanted; /* at least 1; the context has room for n + wanted ids */
    float least;   /* end where the guesses' probabilities multiply to less than this; 0: never */
    /* The id that the sequence's sampler would take from logits [V] at a position; asked in order. */
    fn_status (*pick)(void *ud, const float *logits, size_t position, int32_t *id, fn_error *err);
    void *ud;
    int32_t *out;   /* [wanted]: the guesses, ... */
    size_t made;    /* ... so many of them; 0 where there is nothing to say */
    float together; /* their probabilities multiplied */
} fn_draft_request;

/* Guesses for n sequences whose drafters are of one kind; logits [n, V] is room to work in. */
FN_NODISCARD fn_status fn_drafters_propose(fn_draft_request *requests, size_t n, float *logits,
                                           fn_error *err);
void fn_drafter_destroy(fn_drafter *drafter); /* NULL is allowed */

/* The model's own MTP head; shortlist: the ids it may guess, NULL: all. Both are lent. */
FN_NODISCARD fn_status fn_drafter_mtp(fn_forward *forward, const fn_shortlist *shortlist,
                                      fn_drafter **out, fn_error *err);
/* A second model of the same vocabulary: its forward and the pool of its states, for sequences of up to
 * `context` ids; it reads at most `chunk` at once. Both are lent. */
FN_NODISCARD fn_status fn_drafter_model(fn_forward *forward, fn_state_pool *pool, size_t context,
                                        fn_drafter **out, fn_error *err);
/* What followed the longest earlier stretch of ids that equals the last ones. */
FN_NODISCARD fn_status fn_drafter_lookup(fn_drafter **out, fn_error *err);

/* Bytes of one drafter of each kind. */
size_t fn_drafter_mtp_bytes(const fn_shape *shape);
size_t fn_drafter_model_bytes(const fn_state_layout *layout, size_t context);

/* ---- for the kinds of drafters ---- */

typedef struct fn_drafter_kind {
    /* made is 0 in every request. */
    fn_status (*propose)(fn_draft_request *requests, size_t n, float *logits, fn_error *err);
    void (*destroy)(fn_drafter *drafter);
} fn_drafter_kind;

struct fn_drafter {
    const fn_drafter_kind *kind;
};

/* The sampler's pick from logits [V] for the request's next guess. Becomes one unless all guesses together are too
 * unlikely: then, and where no more are wanted, *more is false. */
FN_NODISCARD fn_status fn_draft_take(fn_draft_request *request, const float *logits, size_t vocab,
                                     bool *more, fn_error *err);

#endif
