/* engine/pace.h - how large a prompt's chunk is beside running answers, and how many of its parts go along in each
 * forward, from measured times.
 *
 * Rule:    a forward is to take FN_PACE_STRETCH times as long as one of the answers alone: what a reader sees as the
 *          gap between two words. The chunk has as many rows as fill such forwards best, one forward or several: with
 *          many rows an expert is read once for more of them; with few the whole chunk goes along, and all weights
 *          are read once for it and the answers. Its parts (forward.h) then go along as long as the forward stays below
 *          FN_PACE_LIMIT times, one at least, so that every prompt goes on; and what little is left of one chunk
 *          goes before the answers, so that the next can fill their forward. No model of the machine: what a part took
 *          with about as many rows is what the next one takes.
 * Threads: one. Memory: what parts took. */
#ifndef FN_ENGINE_PACE_H
#define FN_ENGINE_PACE_H

#include "base/status.h"
#include "engine/row_times.h"

#define FN_PACE_STRETCH 2.6
#define FN_PACE_LIMIT 2.75
#define FN_PACE_MAX_ANSWERS 128

/* What a part takes, as measured last for about as many rows. */
typedef struct fn_pace_cost {
    double seconds; /* 0: unknown */
    double rows;
} fn_pace_cost;

#define FN_PACE_SIZES 14 /* numbers of rows from a power of two up to the next */

typedef struct fn_pace {
    fn_row_times alone; /* forwards of so many answers' rows without a prompt */
    size_t n_parts;     /* of a chunk */
    fn_pace_cost *cost; /* [n_parts, FN_PACE_SIZES] */
    double *planned;    /* [n_parts]: of a chunk that is thought of */
    double bias;        /* of late, what parts took over what was expected */
    double
        outside; /* share of a forward of answers that lies outside the parts: the LM head's, above all */

    /* the forward at hand */
    double quiet; /* seconds of the answers alone; 0: there are none */
    size_t rows;  /* of the chunk */
    size_t taken; /* parts, so far, together with the answers */
    double used;  /* seconds in them, and in those that were taken before */
    double at;    /* when the last one began */
    bool rest;    /* they go before the answers */
    size_t marks; /* parts that have begun, taken or not */
    double first_mark, last_mark;
} fn_pace;

FN_NODISCARD fn_status fn_pace_init(fn_pace *p, size_t n_parts, fn_error *err);
void fn_pace_deinit(fn_pace *p);

/* Is anything measured that tells how long forwards of so many answers take? If not: run them alone once. */
bool fn_pace_knows(const fn_pace *p, size_t answers);

/* Prompt ids for the next chunk beside so many rows of answers; 0 rows: there are none, the chunk has all the room. */
size_t fn_pace_rows(const fn_pace *p, size_t answers, size_t room);
/* Prompt ids that a forward may read as a whole, beside as many rows of answers: a prompt so short waits for no
 * chunk. */
size_t fn_pace_ride(const fn_pace *p, size_t answers, size_t room);

/* A step of so many answers begins. */
void fn_pace_begin(fn_pace *p, size_t answers);
/* The chunk on its way has so many rows; is what is left of it from `part` on so little that it should be read to its
 * end at once, before the answers' forward, so that another chunk can fill that? */
bool fn_pace_ends(fn_pace *p, size_t rows, size_t part);
/* From here on parts go together with the rows of the answers and their guesses; the chunk beside has so many. */
void fn_pace_join(fn_pace *p, size_t answers, size_t rows);
/* A part begins, whoever's rows go through it. */
void fn_pace_mark(fn_pace *p, double now);
/* Does this part go along? As of fn_carry (forward.h), with the time. */
bool fn_pace_take(fn_pace *p, size_t part, double now);
/* The forward over so many rows of answers took so long, its chunk's parts among it. */
void fn_pace_end(fn_pace *p, size_t answers, double seconds);

#endif
