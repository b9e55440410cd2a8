/* weights/model_files.h - a model's directory, opened: config, shape, tensors, roles. Headers only.
 *
 * Path:    a published or prepared checkpoint -> [this] -> loading, planning, inspecting, preparing.
 * Threads: read only once open. Memory:  owns all of it. */
#ifndef FN_WEIGHTS_MODEL_FILES_H
#define FN_WEIGHTS_MODEL_FILES_H

#include "checkpoint/config_json.h"
#include "weights/bind.h"
#include "weights/prepared.h"

typedef struct fn_model_files {
    fn_config config;
    fn_shape shape;
    fn_prepared *prepared; /* NULL: a published checkpoint */
    fn_checkpoint *checkpoint;
    fn_bound *bound;
} fn_model_files;

/* no_mtp: as if the model had no MTP head. Fails with FN_E_MODEL or FN_E_IO; then *out needs no closing. */
FN_NODISCARD fn_status fn_model_files_open(const char *dir, bool no_mtp, fn_model_files *out,
                                           fn_error *err);
void fn_model_files_close(fn_model_files *files);

/* Checks settings that somebody asks for against a prepared checkpoint, and makes them those that loading it
 * needs: as stored. A published one takes any. FN_E_USAGE says what differs. */
FN_NODISCARD fn_status fn_model_files_settle(const fn_prepared *prepared,
                                             fn_weight_settings *settings, fn_error *err);

/* A digest of what decides a model's numbers, but for the data themselves: tensors and config.json. A prepared
 * checkpoint has its source's, unless it changed the n-gram table. */
FN_NODISCARD fn_status fn_model_files_digest(const fn_model_files *files, uint64_t *out,
                                             fn_error *err);

#endif
