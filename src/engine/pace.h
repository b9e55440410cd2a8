/* engine/pace.h - how many prompt ids go into a forward beside running answers, from measured times.
 *
 * Rule:    with no answer running, as many as fit. Else as many as keep the forward near FN_PACE_STRETCH
 *          times a forward of the answers alone: what a reader sees as the gap between two words. Larger
 *          chunks cost the reader more, smaller ones cost the prompt more. No model of the machine: a chunk
 *          that was too fast grows, one that was too slow shrinks; of the last three the one in the middle
 *          counts, so that a forward that the system held up changes nothing.
 * Threads: one. Memory: the struct. */
#ifndef FN_ENGINE_PACE_H
#define FN_ENGINE_PACE_H

#include "engine/row_times.h"

#define FN_PACE_STRETCH 2.75
#define FN_PACE_MAX_ANSWERS 128

typedef struct fn_pace {
    fn_row_times alone; /* forwards of so many answers' rows without a prompt */
    double chunk;       /* prompt ids beside answers; 0: nothing learnt yet */
    double seen[3];     /* what the last forwards would make of it, the last one first; 0: none */
} fn_pace;

/* Prompt ids for the next forward beside that many answers; room: rows that are left. 0: run the answers alone
 * once, so that their time is known. */
size_t fn_pace_chunk(const fn_pace *p, size_t answers, size_t room);
/* A forward of so many rows of answers, guesses among them, and prompt ids took so long. */
void fn_pace_learn(fn_pace *p, size_t rows, size_t prompt_ids, double seconds);

#endif
