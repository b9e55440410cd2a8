/* engine/stepper.h - one answer, id by id: choosing, telling, stopping. Knows no states and no forward.
 *
 * Path:    logits of a row -> [choose: sampling/, forced ids] -> [accept: counts, dialogue/, events] ->
 *          more or not. generate.c drives it for a session, scheduler.c for requests.
 * Threads: one stepper belongs to one thread at a time; several may choose at once on several threads.
 * Memory:  all of it at creation, except a text that outgrows the dialogue's buffer. */
#ifndef FN_ENGINE_STEPPER_H
#define FN_ENGINE_STEPPER_H

#include "base/status.h"

typedef struct fn_stepper fn_stepper;

typedef struct fn_stepper_options {
    const fn_text *text;
    size_t vocab;
    const fn_generation *generation; /* lent: outlives the stepper */
    size_t answer;                   /* told in events, added to the seed */
    size_t room;                     /* ids that the context has left after the prompt */
    const int32_t *prompt;           /* [n_prompt], for penalties; lent for the call */
    size_t n_prompt;
} fn_stepper_options;

/* What creation would refuse (FN_E_USAGE), without the memory of a sampler. */
FN_NODISCARD fn_status fn_generation_check(const fn_generation *generation, const fn_text *text,
                                           size_t vocab, fn_error *err);

FN_NODISCARD fn_status fn_stepper_create(const fn_stepper_options *options, fn_stepper **out,
                                         fn_error *err);
void fn_stepper_destroy(fn_stepper *s); /* NULL is allowed */
/* Bytes that a stepper takes, about. */
size_t fn_stepper_bytes(size_t vocab);

/* Is there another id to choose? False from the start when the limit is 0. */
bool fn_stepper_more(const fn_stepper *s);

/* How many more ids there may be, at most. */
size_t fn_stepper_left(const fn_stepper *s);

/* For guesses: id stands before the next of them, chosen and not accepted yet. */
void fn_stepper_suppose(fn_stepper *s, int32_t id);
/* What would be chosen at `position` from logits [V] behind the ids that are supposed, as far as that is known now;
 * is supposed itself from then on. Everything else stays as it is. */
FN_NODISCARD fn_status fn_stepper_guess(fn_stepper *s, const float *logits, size_t position,
                                        int32_t *id, fn_error *err);
/* Nothing is supposed any more. */
void fn_stepper_forget(fn_stepper *s);
/* Chooses the id at `position` (ids before it in the sequence) from logits [V]; counts and tells nothing. */
FN_NODISCARD fn_status fn_stepper_choose(fn_stepper *s, const float *logits, size_t position,
                                         int32_t *id, fn_error *err);
/* The id that was chosen last is part of the answer. */
FN_NODISCARD fn_status fn_stepper_accept(fn_stepper *s, fn_error *err);

/* No more ids: what was held back comes out. */
FN_NODISCARD fn_status fn_stepper_finish(fn_stepper *s, fn_error *err);

/* Finish, end id, counts so far; the times are the caller's to fill. */
fn_generated fn_stepper_result(const fn_stepper *s);

#endif
