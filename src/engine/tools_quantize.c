/* engine/tools_quantize.c - fn_quantize: a prepared checkpoint from a published one; fn_inspect_check: whether
 * one is still what was written. */
#include <string.h>

#include "base/mem.h"
#include "engine/engine.h"
#include "engine/json_text.h"
#include "flashnext_tools.h"
#include "weights/linked_table.h"
#include "weights/packed.h"
#include "weights/prepare.h"

fn_quantize_options fn_quantize_options_default(void) {
    return (fn_quantize_options){.ngram = "copy"};
}

typedef struct watched {
    fn_progress progress;
    void *ud;
    const char *stage;
} watched;

static bool tell(void *ud, uint64_t done, uint64_t total) {
    const watched *w = ud;
    return w->progress == NULL || w->progress(w->ud, w->stage, done, total);
}

static json_t *files(const fn_prepare_plan *plan) {
    json_t *list = json_array();
    for (size_t i = 0; i < plan->n_files; i++) {
        const fn_prepare_file *file = &plan->files[i];
        fn_json_append(&list, json_pack("{s:s, s:o, s:o}", "name", file->name, "bytes",
                                        fn_json_u64(file->header_bytes + file->data_bytes),
                                        "tensors", fn_json_u64(file->n)));
    }
    return list;
}

static json_t *report(const fn_prepare_plan *plan, uint64_t missing, bool resumes) {
    uint64_t source = 0;
    for (size_t i = 0; i < fn_checkpoint_files(plan->source->checkpoint); i++) {
        source += fn_checkpoint_file_bytes(plan->source->checkpoint, i);
    }
    json_t *object =
        json_pack("{s:{s:i, s:i, s:i, s:s}}", "settings", "expert_bits", plan->settings.expert_bits,
                  "dense_bits", plan->settings.dense_bits, "group_size", (int)plan->settings.group,
                  "ngram", fn_prepared_ngram_word(plan->ngram));
    fn_json_set(&object, "files", files(plan));
    fn_json_set(&object, "bytes", fn_json_u64(plan->bytes));
    fn_json_set(&object, "missing_bytes", fn_json_u64(missing));
    fn_json_set(&object, "source_bytes", fn_json_u64(source));
    fn_json_set(&object, "resumes", json_boolean(resumes));
    return object;
}

static fn_status prepare(const fn_quantize_options *options, fn_prepare_plan *plan, fn_error *err) {
    fn_pool *pool = NULL;
    watched w = {options->progress, options->progress_ud, "preparing"};
    fn_prepare_watch watch = {tell, &w};
    fn_status status = fn_pool_create(options->threads, &pool, err);
    status = status == FN_OK ? fn_prepare_run(plan, options->out_dir, pool, &watch, err) : status;
    fn_pool_destroy(pool);
    return status;
}

fn_status fn_quantize(const fn_quantize_options *options, char **json, fn_error *err) {
    *json = NULL;
    fn_prepared_ngram ngram =
        options->ngram != NULL ? fn_prepared_ngram_parse(options->ngram) : FN_PREPARED_NGRAM_COPY;
    if (options->model_dir == NULL || options->out_dir == NULL || ngram == FN_PREPARED_NGRAMS) {
        return fn_fail(err, FN_E_USAGE,
                       "quantize: expected model_dir, out_dir and ngram copy, link, omit or int8");
    }
    fn_model_files source;
    fn_prepare_plan plan = {0};
    fn_weight_settings settings = {.expert_bits = options->expert_bits,
                                   .dense_bits = options->dense_bits,
                                   .group = options->group_size};
    uint64_t missing = 0;
    bool resumes = false;
    json_t *object = NULL;
    fn_status status = fn_model_files_open(options->model_dir, false, &source, err);
    if (status != FN_OK) {
        return status;
    }
    status = fn_prepare_plan_make(&source, &settings, ngram, &plan, err);
    if (status == FN_OK) {
        status = fn_prepare_missing(&plan, options->out_dir, &missing, &resumes, err);
    }
    if (status == FN_OK) {
        object = report(&plan, missing, resumes);
        status = options->dry_run ? FN_OK : prepare(options, &plan, err);
    }
    if (status == FN_OK) {
        status = fn_json_take_text(object, json, err);
    } else {
        json_decref(object);
    }
    fn_prepare_plan_free(&plan);
    fn_model_files_close(&source);
    return status;
}

fn_status fn_inspect_check(const char *model_dir, fn_progress progress, void *ud, fn_error *err) {
    fn_model_files files;
    watched w = {progress, ud, "checking"};
    fn_status status = fn_model_files_open(model_dir, false, &files, err);
    if (status != FN_OK) {
        return status;
    }
    if (files.prepared == NULL) {
        status = fn_fail(err, FN_E_UNSUPPORTED,
                         "%s: holds no checksums to check; prepared checkpoints do (flashnext "
                         "quantize)",
                         model_dir);
    } else {
        status = fn_prepared_check_data(files.prepared, tell, &w, err);
        w.stage = "n-gram table";
        status = status == FN_OK ? fn_linked_table_check(&files, tell, &w, err) : status;
    }
    fn_model_files_close(&files);
    return status;
}
