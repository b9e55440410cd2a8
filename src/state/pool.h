/* state/pool.h - reference-counted pages and recurrent blocks; private to the state room.
 *
 * Classes: one a paged part of the layout, and one for recurrent blocks (FN_CLASS_RECURRENT).
 * Threads: every function may be called from any thread.
 * Memory:  slabs of address space, touched when used; a promise makes later takes free of allocation. */
#ifndef FN_STATE_POOL_H
#define FN_STATE_POOL_H

#include "state/state.h"

#define FN_CLASS_RECURRENT FN_PARTS
#define FN_CLASSES (FN_PARTS + 1)

typedef struct fn_block {
    uint8_t *data;
    size_t refs; /* under the pool's mutex */
    size_t class_index;
    size_t kept;           /* kept states that hold it, under the pool's mutex */
    bool spared;           /* while memory is given back: not this one's */
    struct fn_block *next; /* while free */
} fn_block;

/* Grows the pool until `promised + more` of a class can be held at once by states that asked. */
FN_NODISCARD fn_status fn_pool_promise(fn_state_pool *pool, size_t class_index, size_t more,
                                       fn_error *err);
void fn_pool_unpromise(fn_state_pool *pool, size_t class_index, size_t less);

/* A block with one reference; its bytes are whatever they were. */
FN_NODISCARD fn_status fn_block_take(fn_state_pool *pool, size_t class_index, fn_block **out,
                                     fn_error *err);
void fn_block_hold(fn_state_pool *pool, fn_block *block);
void fn_block_drop(fn_state_pool *pool, fn_block *block); /* NULL is allowed */
bool fn_block_shared(fn_state_pool *pool, const fn_block *block);

/* Counts blocks [n] of one class as held by a kept state; what no other one held is promised too, so that
 * sequences find what was promised to them. On failure nothing was counted. */
FN_NODISCARD fn_status fn_blocks_keep(fn_state_pool *pool, fn_block *const *blocks, size_t n,
                                      fn_error *err);
void fn_blocks_unkeep(fn_state_pool *pool, fn_block *const *blocks, size_t n);

size_t fn_block_bytes(const fn_state_pool *pool, size_t class_index);

#endif
