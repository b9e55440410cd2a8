/* engine/prefix_cache.h - states that may be needed again, found by the ids they have read.
 *
 * Path:    scheduler.c adds states at ends of messages, inside long prompts, at ends of turns -> [this: a
 *          radix tree by ids] -> the longest kept beginning of a new prompt.
 * Exact:   a state is what a cold run would make, bit for bit, so a hit changes no answer.
 * Bound:   pages and blocks that kept states hold, each once however many share it, ids and tables: at
 *          most max_bytes; the least recently used state goes first. With a folder (cache_files.h) states
 *          are written behind, and found there when memory has lost them, or in another process.
 * Threads: one thread at a time. Memory:  losing the race for memory means that a state is not kept. */
#ifndef FN_ENGINE_PREFIX_CACHE_H
#define FN_ENGINE_PREFIX_CACHE_H

#include "engine/cache_files.h"

typedef struct fn_prefix_cache fn_prefix_cache;

typedef struct fn_prefix_cache_counts {
    uint64_t lookups, hits, evictions, disk_hits;
    uint64_t states, bytes;           /* in memory, now */
    uint64_t disk_states, disk_bytes; /* now */
} fn_prefix_cache_counts;

/* files is taken over (NULL: memory only) and what is in its folder is found from now on. */
FN_NODISCARD fn_status fn_prefix_cache_create(fn_engine *engine, uint64_t max_bytes,
                                              fn_cache_files *files, fn_prefix_cache **out,
                                              fn_error *err);
/* Waits until what is to be written is written. NULL is allowed. */
void fn_prefix_cache_destroy(fn_prefix_cache *c);

/* Of one who asks for a beginning that may be in a file. */
typedef struct fn_cache_wait {
    bool waiting;   /* it is being read: to be asked for again when cache_files.h has told */
    size_t fetches; /* that were begun for this one */
} fn_cache_wait;

/* The state of the longest kept beginning of ids [n], lent until the next call; NULL: none, or to be waited
 * for. wait NULL: files are not looked at; nor are they after a few fetches, since others may push out what
 * was fetched. */
const fn_state *fn_prefix_cache_find(fn_prefix_cache *c, const int32_t *ids, size_t n,
                                     fn_cache_wait *wait);

/* Keeps the state as it is now; ids: as many as it is long. lasting: write it to the folder, too. On failure
 * the cache is as it was. */
FN_NODISCARD fn_status fn_prefix_cache_add(fn_prefix_cache *c, const int32_t *ids,
                                           const fn_state *state, bool lasting, fn_error *err);

/* Is a state kept for exactly ids [n]? */
bool fn_prefix_cache_has(const fn_prefix_cache *c, const int32_t *ids, size_t n);

fn_prefix_cache_counts fn_prefix_cache_get_counts(const fn_prefix_cache *c);

#endif
