#include "weights/model_files.h"

#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "weights/packed.h"

#define MAX_CONFIG_BYTES ((size_t)16 << 20)

static fn_status read_config(const char *dir, fn_model_files *files, fn_error *err) {
    char *path = fn_path_join(dir, "config.json");
    if (path == NULL) {
        return fn_fail_nomem(err, dir, strlen(dir));
    }
    fn_status status = fn_config_read(path, &files->config, err);
    fn_free(path);
    return status == FN_OK ? fn_shape_from_config(&files->config, &files->shape, err) : status;
}

/* Packed matrices without a manifest: somebody moved files about. */
static fn_status check_unprepared(const fn_checkpoint *c, fn_error *err) {
    for (size_t i = 0; i < fn_checkpoint_count(c); i++) {
        const fn_tensor *t = fn_checkpoint_at(c, i);
        if (t->dtype == FN_DTYPE_U8 && strstr(t->name, FN_PACKED_MARK) != NULL) {
            return fn_fail(err, FN_E_MODEL,
                           "%.600s: %.200s is of a prepared checkpoint, but " FN_PREPARED_MANIFEST
                           " is missing",
                           fn_checkpoint_file_path(c, t->file), t->name);
        }
    }
    return FN_OK;
}

static fn_status open_checkpoint(const char *dir, fn_model_files *files, fn_error *err) {
    const fn_prepared *p = files->prepared;
    fn_status status = fn_checkpoint_open_linked(
        dir, p != NULL ? p->links : NULL, p != NULL ? p->n_links : 0, &files->checkpoint, err);
    if (status == FN_OK) {
        status = p != NULL ? fn_prepared_check(p, files->checkpoint, err)
                           : check_unprepared(files->checkpoint, err);
    }
    if (status == FN_OK) {
        status = fn_bind(files->checkpoint, &files->shape, &files->bound, err);
        if (status != FN_OK && p != NULL && p->ngram == FN_PREPARED_NGRAM_OMIT) {
            fn_error_prefix(err, "prepared without its n-gram table, whose files belong beside it");
        }
    }
    return status;
}

fn_status fn_model_files_open(const char *dir, bool no_mtp, fn_model_files *out, fn_error *err) {
    *out = (fn_model_files){0};
    fn_status status = fn_prepared_read(dir, &out->prepared, err);
    if (status == FN_OK && out->prepared != NULL) {
        status = fn_prepared_check_config(out->prepared, err);
    }
    status = status == FN_OK ? read_config(dir, out, err) : status;
    out->shape.n_mtp = no_mtp ? 0 : out->shape.n_mtp;
    status = status == FN_OK ? open_checkpoint(dir, out, err) : status;
    if (status != FN_OK) {
        fn_model_files_close(out);
    }
    return status;
}

void fn_model_files_close(fn_model_files *files) {
    fn_bound_free(files->bound);
    fn_checkpoint_close(files->checkpoint);
    fn_prepared_free(files->prepared);
    fn_config_free(&files->config);
    *files = (fn_model_files){0};
}

fn_status fn_model_files_settle(const fn_prepared *prepared, fn_weight_settings *settings,
                                fn_error *err) {
    if (prepared == NULL) {
        return FN_OK;
    }
    fn_status status = fn_prepared_agrees(prepared, settings, err);
    settings->expert_bits = 0;
    settings->dense_bits = 0;
    settings->group = 0;
    return status;
}

fn_status fn_model_files_digest(const fn_model_files *files, uint64_t *out, fn_error *err) {
    char *text = NULL;
    size_t n = 0;
    *out = 0;
    if (files->prepared != NULL) {
        bool changed = files->prepared->ngram == FN_PREPARED_NGRAM_INT8;
        *out = changed ? fn_hash_mix(files->prepared->source) : files->prepared->source;
        return FN_OK;
    }
    fn_status status = fn_file_read_all(files->config.path, MAX_CONFIG_BYTES, &text, &n, err);
    status = status == FN_OK ? fn_checkpoint_digest(files->checkpoint, out, err) : status;
    if (status == FN_OK) {
        *out = fn_hash_bytes(*out, text, n);
    }
    fn_free(text);
    return status;
}
