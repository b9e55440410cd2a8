/* engine/cache_files.h - the prefix cache's folder: one file a state, written and read by threads of its own.
 *
 * Path:    prefix_cache.c -> [this: a name from fingerprint and ids; two queues; a writer, a reader] ->
 *          state_file.h.
 * Damage:  a file has its name only when it is whole; what is damaged is found by its digest when it is
 *          read, removed, and counts as never written. Files of other engines are left alone.
 * Threads: one caller's thread; writer and reader are inside.
 * Memory:  a queued state holds its pages until it is written; a full queue loses the new one. What was
 *          read is held until it is collected. */
#ifndef FN_ENGINE_CACHE_FILES_H
#define FN_ENGINE_CACHE_FILES_H

#include "engine/engine.h"

typedef struct fn_cache_files fn_cache_files;

/* Told of a file that is there: ids [n] (lent), its bytes, when it was last used (in nanoseconds, any
 * origin). */
typedef fn_status (*fn_cache_file_seen)(void *ud, const int32_t *ids, size_t n, uint64_t bytes,
                                        int64_t used, fn_error *err);
/* Told of what was fetched for ids [n]: a new state, taken over; NULL: it cannot be had, and its file is
 * removed. */
typedef void (*fn_cache_file_fetched)(void *ud, const int32_t *ids, size_t n, fn_state *state);

/* Makes the folder (not its parents), readable by its owner alone. Fails with FN_E_IO or FN_E_NOMEM. */
FN_NODISCARD fn_status fn_cache_files_open(fn_engine *engine, const char *dir, uint64_t max_bytes,
                                           fn_cache_files **out, fn_error *err);
/* Writes what is queued, reads no more, then ends. NULL is allowed. */
void fn_cache_files_close(fn_cache_files *f);
uint64_t fn_cache_files_limit(const fn_cache_files *f);

/* Every file of this engine; removes what dead writers left unfinished. */
FN_NODISCARD fn_status fn_cache_files_scan(fn_cache_files *f, fn_cache_file_seen seen, void *ud,
                                           fn_error *err);

/* Queues a state (a clone is made) under its ids. */
FN_NODISCARD fn_status fn_cache_files_write(fn_cache_files *f, const int32_t *ids,
                                            const fn_state *state, fn_error *err);
/* Starts to read the state of ids [n]; false: no memory. */
bool fn_cache_files_fetch(fn_cache_files *f, const int32_t *ids, size_t n);
/* Called on the reader's thread when something has been fetched. Set before the first fetch. */
void fn_cache_files_on_fetched(fn_cache_files *f, void (*tell)(void *ud), void *ud);
/* What has been written and fetched since the last call. A file that `seen` has no memory for is seen by the
 * next process. */
void fn_cache_files_collect(fn_cache_files *f, fn_cache_file_seen seen,
                            fn_cache_file_fetched fetched, void *ud);

void fn_cache_files_remove(fn_cache_files *f, const int32_t *ids, size_t n);

#endif
