/* engine/tools_inspect.c - fn_inspect: what a checkpoint's headers say, checked, as JSON.
 *
 *   model_dir
 *   files           [{name, bytes}]
 *   tensors         [{name, dtype, shape, file, bytes}], sorted by name; file counts in `files`
 *   formats         {dtype: {tensors, bytes}}
 *   shape           the model's dimensions, under the names of shape/shape.h
 *   params          {class: numbers} as in weights/plan.h, and "total"
 *   ngram           {bytes, row_bytes, cached_bytes}: the n-gram tables of all layers, and what the page
 *                   cache holds of them now (null: the system does not tell); null without n-gram memory
 *   bytes           of all tensors
 *   prepared        {source, expert_bits, dense_bits, group_size, ngram} of a prepared checkpoint; else null */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "engine/engine.h"
#include "engine/json_text.h"
#include "flashnext_tools.h"
#include "weights/plan.h"

typedef struct inspected {
    fn_model_files files;
    fn_shape shape;
    const fn_checkpoint *checkpoint; /* of files, as is bound */
    const fn_bound *bound;
    fn_memory_plan plan;
    fn_ngram_info ngram;
} inspected;

/* Opened and closed again: rows are not read. */
static fn_status look_at_tables(inspected *in, fn_error *err) {
    fn_status status = FN_OK;
    in->ngram.cache_known = true;
    for (size_t p = 0; p < in->shape.n_ple && status == FN_OK; p++) {
        const fn_bound_ple *b = in->bound->layers[in->shape.ple_layer[p]].ple;
        fn_ngram_table_options options = {.pieces = (const fn_tensor *const *)b->pieces,
                                          .n_pieces = b->n_pieces,
                                          .width = fn_shape_ngram_row(&in->shape),
                                          .scale = b->table_scale};
        fn_ngram_table *table = NULL;
        fn_ngram_info info = {0};
        status = fn_ngram_table_open(in->checkpoint, &options, &table, err);
        if (status == FN_OK) {
            fn_ngram_table_info(table, &info);
        }
        in->ngram.bytes += info.bytes;
        in->ngram.cached_bytes += info.cached_bytes;
        in->ngram.cache_known = in->ngram.cache_known && info.cache_known;
        fn_ngram_table_close(table);
    }
    return status;
}

static fn_status read_dir(inspected *in, const char *dir, fn_error *err) {
    fn_status status = fn_model_files_open(dir, false, &in->files, err);
    if (status == FN_OK) {
        in->shape = in->files.shape;
        in->checkpoint = in->files.checkpoint;
        in->bound = in->files.bound;
        fn_plan_source source = {
            .shape = &in->shape, .bound = in->bound, .checkpoint = in->checkpoint};
        status = fn_memory_plan_make(&source, &(fn_plan_settings){0}, &in->plan, err);
    }
    return status == FN_OK ? look_at_tables(in, err) : status;
}

/* How it was prepared; null when it was not. */
static json_t *prepared(const fn_prepared *p) {
    char source[24];
    if (p == NULL) {
        return json_null();
    }
    (void)snprintf(source, sizeof source, "%016" PRIx64, p->source);
    return json_pack("{s:s, s:i, s:i, s:i, s:s}", "source", source, "expert_bits",
                     p->settings.expert_bits, "dense_bits", p->settings.dense_bits, "group_size",
                     (int)p->settings.group, "ngram", fn_prepared_ngram_word(p->ngram));
}

static json_t *files(const fn_checkpoint *c) {
    json_t *list = json_array();
    for (size_t i = 0; i < fn_checkpoint_files(c); i++) {
        const char *path = fn_checkpoint_file_path(c, i);
        const char *slash = strrchr(path, '/');
        fn_json_append(&list, json_pack("{s:s, s:o}", "name", slash != NULL ? slash + 1 : path,
                                        "bytes", fn_json_u64(fn_checkpoint_file_bytes(c, i))));
    }
    return list;
}

static json_t *tensors(const fn_checkpoint *c) {
    json_t *list = json_array();
    for (size_t i = 0; i < fn_checkpoint_count(c); i++) {
        const fn_tensor *t = fn_checkpoint_at(c, i);
        json_t *dims = json_array();
        for (size_t d = 0; d < t->n_dims; d++) {
            fn_json_append(&dims, fn_json_u64(t->dims[d]));
        }
        fn_json_append(&list, json_pack("{s:s, s:s, s:o, s:i, s:o}", "name", t->name, "dtype",
                                        fn_dtype_name(t->dtype), "shape", dims, "file",
                                        (int)t->file, "bytes", fn_json_u64(t->bytes)));
    }
    return list;
}

static json_t *formats(const fn_checkpoint *c, uint64_t *bytes) {
    uint64_t counts[FN_DTYPE_OTHER] = {0};
    uint64_t sums[FN_DTYPE_OTHER] = {0};
    json_t *object = json_object();
    for (size_t i = 0; i < fn_checkpoint_count(c); i++) {
        const fn_tensor *t = fn_checkpoint_at(c, i);
        counts[t->dtype] += 1;
        sums[t->dtype] += t->bytes;
        *bytes += t->bytes;
    }
    for (size_t i = 0; i < FN_DTYPE_OTHER; i++) {
        if (counts[i] > 0) {
            fn_json_set(
                &object, fn_dtype_name((fn_dtype)i),
                fn_json_numbers(
                    (const fn_json_number[]){{"tensors", counts[i]}, {"bytes", sums[i]}}, 2));
        }
    }
    return object;
}

static json_t *layer_kinds(const fn_shape *s) {
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_layers; i++) {
        fn_json_append(&list,
                       json_string(s->layer_kind[i] == FN_LAYER_DELTA ? "delta" : "attention"));
    }
    return list;
}

static json_t *ple_layers(const fn_shape *s) {
    json_t *list = json_array();
    for (size_t p = 0; p < s->n_ple; p++) {
        fn_json_append(&list, fn_json_u64(s->ple_layer[p]));
    }
    return list;
}

static json_t *dimensions(const fn_shape *s) {
    const fn_json_number numbers[] = {
        {"n_layers", s->n_layers},
        {"hidden", s->hidden},
        {"vocab", s->vocab},
        {"max_positions", s->max_positions},
        {"hc", s->hc},
        {"hc_rank", s->hc_rank},
        {"n_heads", s->n_heads},
        {"n_kv_heads", s->n_kv_heads},
        {"head_dim", s->head_dim},
        {"rotary", s->rotary},
        {"index_heads", s->has_indexer ? s->index_heads : 0},
        {"index_dim", s->has_indexer ? s->index_dim : 0},
        {"index_budget", s->has_indexer ? s->index_budget : 0},
        {"index_ratio", s->has_indexer ? s->index_ratio : 0},
        {"delta_k_heads", s->delta_k_heads},
        {"delta_v_heads", s->delta_v_heads},
        {"delta_k_dim", s->delta_k_dim},
        {"delta_v_dim", s->delta_v_dim},
        {"conv_kernel", s->conv_kernel},
        {"n_experts", s->n_experts},
        {"n_chosen", s->n_chosen},
        {"expert_width", s->expert_width},
        {"shared_width", s->shared_width},
        {"ple_embed", s->n_ple > 0 ? s->ple_embed : 0},
        {"ngram_size", s->n_ple > 0 ? s->ngram_size : 0},
        {"heads_per_ngram", s->n_ple > 0 ? s->heads_per_ngram : 0},
        {"n_mtp", s->n_mtp},
    };
    json_t *object = fn_json_numbers(numbers, sizeof numbers / sizeof numbers[0]);
    fn_json_set(&object, "tied_head", json_boolean(s->tied_head));
    fn_json_set(&object, "has_vision", json_boolean(s->has_vision));
    fn_json_set(&object, "layers", layer_kinds(s));
    fn_json_set(&object, "ple_layers", ple_layers(s));
    return object;
}

static json_t *params(const fn_memory_plan *plan) {
    json_t *object = json_object();
    for (size_t i = 0; i < FN_PLAN_CLASSES; i++) {
        if (plan->lines[i].params > 0) {
            fn_json_set(&object, fn_plan_class_name((fn_plan_class)i),
                        fn_json_u64(plan->lines[i].params));
        }
    }
    fn_json_set(&object, "total", fn_json_u64(plan->total.params));
    return object;
}

static json_t *ngram(const inspected *in) {
    if (in->shape.n_ple == 0) {
        return json_null();
    }
    const fn_bound_ple *first = in->bound->layers[in->shape.ple_layer[0]].ple;
    const fn_tensor *piece = first->pieces[0];
    json_t *object =
        fn_json_numbers((const fn_json_number[]){{"bytes", in->ngram.bytes},
                                                 {"row_bytes", piece->bytes / piece->dims[0]}},
                        2);
    fn_json_set(&object, "cached_bytes",
                in->ngram.cache_known ? fn_json_u64(in->ngram.cached_bytes) : json_null());
    return object;
}

fn_status fn_inspect(const char *model_dir, char **json, fn_error *err) {
    *json = NULL;
    inspected *in = fn_alloc_zero(1, sizeof *in);
    if (in == NULL) {
        return fn_fail_nomem(err, "an inspection", sizeof *in);
    }
    fn_status status = read_dir(in, model_dir, err);
    if (status == FN_OK) {
        uint64_t bytes = 0;
        json_t *object = json_pack("{s:s}", "model_dir", model_dir);
        fn_json_set(&object, "files", files(in->checkpoint));
        fn_json_set(&object, "tensors", tensors(in->checkpoint));
        fn_json_set(&object, "formats", formats(in->checkpoint, &bytes));
        fn_json_set(&object, "bytes", fn_json_u64(bytes));
        fn_json_set(&object, "prepared", prepared(in->files.prepared));
        fn_json_set(&object, "shape", dimensions(&in->shape));
        fn_json_set(&object, "params", params(&in->plan));
        fn_json_set(&object, "ngram", ngram(in));
        status = fn_json_take_text(object, json, err);
    }
    fn_model_files_close(&in->files);
    fn_free(in);
    return status;
}
