/* engine/state_file.h - a sequence in a file: its ids and its state, with version, fingerprint and digest.
 *
 * Path:    fn_session_save and the prefix cache's folder -> [this] -> back, in this or another process.
 * Refuses: what another checkpoint, precision, quantisation or kernel table made; damage; a short file.
 * Threads: any; a state that is written to a file must not change meanwhile. */
#ifndef FN_ENGINE_STATE_FILE_H
#define FN_ENGINE_STATE_FILE_H

#include "engine/engine.h"

/* What a file of this engine depends on besides its ids, as one number. */
uint64_t fn_state_file_key(const fn_engine *e);

/* ids: as many as the state is long. The file gets its name when it is whole. */
FN_NODISCARD fn_status fn_state_file_write(const fn_engine *e, const char *path, const int32_t *ids,
                                           const fn_state *state, fn_error *err);
/* Into ids [the engine's context] and an empty state with room for them; after a failure both are to be dropped. */
FN_NODISCARD fn_status fn_state_file_read(const fn_engine *e, const char *path, int32_t *ids,
                                          fn_state *state, fn_error *err);
/* The ids alone (fn_ids_free), of a file that this engine could read; their digest is not checked yet. */
FN_NODISCARD fn_status fn_state_file_ids(const fn_engine *e, const char *path, fn_ids *out,
                                         fn_error *err);

#endif
