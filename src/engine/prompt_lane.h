/* engine/prompt_lane.h - prompts are read beside the answers: one chunk at a time, in the engine's forward, by threads
 * that the answers leave it.
 *
 * Why:     answers wait for memory, prompts for arithmetic. One or a few threads read as fast as memory is, so a forward
 *          of answers loses little with half of them, and the other half multiplies meanwhile.
 * Path:    batch_chunk.c -> [start -> a thread of its own: fn_forward_run] -> done -> [outcome, free].
 * Threads: one uses the lane, the scheduler's. Until it is free the lane has the engine's mutex, forward and pool.
 * Memory:  a thread. */
#ifndef FN_ENGINE_PROMPT_LANE_H
#define FN_ENGINE_PROMPT_LANE_H

#include "engine/engine.h"

typedef struct fn_prompt_lane fn_prompt_lane;

/* What a chunk is, and who hears of it: lent until the lane is free. */
typedef struct fn_prompt_chunk {
    const fn_segment *segments; /* [n] */
    size_t n, rows;
    float *logits; /* [wanted, V] */
    bool (*go_on)(
        void *ud); /* from the lane's thread, before each part of a layer: false ends it */
    void *ud;
} fn_prompt_chunk;

/* done: called from the lane's thread when a chunk is done. Fails with FN_E_NOMEM or FN_E_FAILED. */
FN_NODISCARD fn_status fn_prompt_lane_create(fn_engine *engine, void (*done)(void *ud), void *ud,
                                             fn_prompt_lane **out, fn_error *err);
void fn_prompt_lane_destroy(fn_prompt_lane *lane); /* idle; NULL is allowed */

/* Begins to read a chunk; the lane is idle. */
void fn_prompt_lane_start(fn_prompt_lane *lane, const fn_prompt_chunk *chunk);
/* A chunk was started, and the lane is not free again. */
bool fn_prompt_lane_busy(fn_prompt_lane *lane);
/* Has it been read, or failed? Then the engine's forward holds its rows (fn_forward_logits) until the lane is free. */
bool fn_prompt_lane_done(fn_prompt_lane *lane);
/* Until it is done; the lane is busy. */
void fn_prompt_lane_wait(fn_prompt_lane *lane);
/* Of what is done: what the forward returned; *seconds that it took, the time it stood still among it. */
FN_NODISCARD fn_status fn_prompt_lane_outcome(fn_prompt_lane *lane, double *seconds, fn_error *err);
/* What is done needs nothing any more: the lane is idle. */
void fn_prompt_lane_free(fn_prompt_lane *lane);

/* While it is busy: at most so many threads read; 0: it stands still. Returns when no more do. */
void fn_prompt_lane_limit(fn_prompt_lane *lane, size_t threads);

#endif
