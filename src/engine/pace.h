/* engine/pace.h - how prompts and running answers share the machine, from measured times.
 *
 * Rule:    while a chunk of prompts is read (prompt_lane.h), forwards of answers begin so far apart that they take a
 *          share of the machine's time, and prompts the rest; but at most FN_PACE_STRETCH times as far as one takes
 *          with the machine to itself: that is what a reader sees as the gap between two words. A prompt so short that
 *          it fits such a forward rides in it.
 * Threads: one. Memory: the struct. */
#ifndef FN_ENGINE_PACE_H
#define FN_ENGINE_PACE_H

#include "engine/row_times.h"

/* Gaps three times as long are to be the exception, also where a thread of the other lane leaves late. */
#define FN_PACE_STRETCH 2.8
#define FN_PACE_MAX_ANSWERS 128

typedef struct fn_pace {
    double part;         /* of all threads: what answers have beside a chunk */
    fn_row_times alone;  /* forwards of so many rows of answers, on all threads */
    fn_row_times riding; /* of answers and short prompts, */
    fn_row_times beside; /* and of either on the threads that they have beside a chunk */
    double chunk_rate;   /* rows a second of late chunks; 0: unknown */
} fn_pace;

/* Is anything measured that tells how long forwards of answers take alone? */
bool fn_pace_knows(const fn_pace *p);
/* Seconds from the beginning of one forward of so many rows of answers to the next, while a chunk is read; 0: unknown. */
double fn_pace_period(const fn_pace *p, size_t rows);
/* Rows for the next chunk; shared: there are answers, or prompts that will wait for its end. */
size_t fn_pace_rows(const fn_pace *p, bool shared, size_t room);
/* Ids of short prompts that may ride in a forward of so many rows of answers. */
size_t fn_pace_ride(const fn_pace *p, size_t answers, bool beside, size_t room);

/* A forward of so many rows took so long. ids: of these, those of riding prompts. */
void fn_pace_learn(fn_pace *p, size_t rows, size_t ids, bool beside, double seconds);
/* A chunk of so many rows took so long. */
void fn_pace_learn_chunk(fn_pace *p, size_t rows, double seconds);

#endif
