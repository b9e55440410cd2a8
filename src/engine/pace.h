/* engine/pace.h - how many prompt ids go into a forward beside running answers, from measured times.
 *
 * Rule:    with no answer running, as many as fit. Else as many as keep the forward near FN_PACE_STRETCH
 *          times a forward of the answers alone: what a reader sees as the gap between two words. Larger
 *          chunks cost the reader more, smaller ones cost the prompt more. No model of the machine: a chunk
 *          that was too fast grows, one that was too slow shrinks.
 * Threads: one. Memory: the struct. */
#ifndef FN_ENGINE_PACE_H
#define FN_ENGINE_PACE_H

#include <stddef.h>

#define FN_PACE_STRETCH 2.6
#define FN_PACE_MAX_ANSWERS 128

typedef struct fn_pace {
    double alone[FN_PACE_MAX_ANSWERS +
                 1]; /* [answers] seconds of a forward of answers alone; 0: unknown */
    double chunk;    /* prompt ids beside answers; 0: nothing learnt yet */
} fn_pace;

/* Prompt ids for the next forward beside `answers` rows; room: rows that are left. 0: run the answers alone
 * once, so that their time is known. */
size_t fn_pace_chunk(const fn_pace *p, size_t answers, size_t room);
/* A forward of so many answer rows and prompt ids took so long. */
void fn_pace_learn(fn_pace *p, size_t answers, size_t prompt_ids, double seconds);

#endif
