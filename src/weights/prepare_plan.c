/* weights/prepare_plan.c - which tensors go into which file of a prepared checkpoint. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "weights/ngram_row.h"
#include "weights/packed.h"
#include "weights/prepare.h"

enum { MAX_NAME = 512 };

#define METADATA_BEGIN "{\"__metadata__\":{\"data\":\""
#define NO_DIGEST "0000000000000000"

/* While the walk is on. */
typedef struct collector {
    fn_prepare_plan *plan;
    uint8_t *taken; /* [tensors of the source] */
    fn_status status;
    fn_error *err;
} collector;

/* ---- entries --------------------------------------------------------------------------------- */

static fn_prepare_entry *add_entry(collector *k, const char *name) {
    fn_prepare_plan *p = k->plan;
    char *copy = k->status == FN_OK ? fn_strndup(name, strlen(name)) : NULL;
    if (copy == NULL ||
        !fn_grow((void **)&p->entries, &p->entry_capacity, p->n_entries + 1, sizeof *p->entries)) {
        fn_free(copy);
        k->status = k->status == FN_OK ? fn_fail_nomem(k->err, name, MAX_NAME) : k->status;
        return NULL;
    }
    fn_prepare_entry *entry = &p->entries[p->n_entries++];
    *entry = (fn_prepare_entry){.name = copy};
    return entry;
}

static void take(collector *k, const fn_tensor *t) {
    if (t != NULL) {
        k->taken[t - fn_checkpoint_at(k->plan->source->checkpoint, 0)] = 1;
    }
}

static bool is_taken(const collector *k, const fn_tensor *t) {
    return k->taken[t - fn_checkpoint_at(k->plan->source->checkpoint, 0)] != 0;
}

static void on_matrix(void *ud, const fn_source *const *parts, size_t n_parts,
                      const fn_matrix *matrix) {
    collector *k = ud;
    char name[MAX_NAME];
    fn_packed_name(parts, n_parts, matrix, name, sizeof name);
    fn_prepare_entry *entry = add_entry(k, name);
    for (size_t i = 0; entry != NULL && i < n_parts; i++) {
        entry->parts[i] = *parts[i];
        take(k, parts[i]->weight);
        take(k, parts[i]->scale);
        take(k, parts[i]->global);
        take(k, parts[i]->zeros);
    }
    if (entry != NULL) {
        entry->kind = FN_PREPARE_PACKED;
        entry->n_parts = n_parts;
        entry->matrix = *matrix;
        entry->dtype = FN_DTYPE_U8;
        entry->n_dims = 1;
        entry->bytes = fn_packed_round(
            fn_matrix_bytes(matrix->kind, matrix->rows, matrix->cols, matrix->group));
        entry->dims[0] = entry->bytes;
    }
}

static void on_tensor(void *ud, const fn_tensor *t) {
    collector *k = ud;
    if (is_taken(k, t)) {
        return;
    }
    fn_prepare_entry *entry = add_entry(k, t->name);
    if (entry != NULL) {
        entry->kind = FN_PREPARE_RAW;
        entry->tensor = t;
        entry->dtype = t->dtype;
        entry->n_dims = t->n_dims;
        memcpy(entry->dims, t->dims, sizeof entry->dims);
        entry->bytes = t->bytes;
        take(k, t);
    }
}

/* Tensors that the walk leaves alone. */
static void add_prefix(collector *k, const char *prefix) {
    const fn_checkpoint *c = k->plan->source->checkpoint;
    for (size_t i = fn_checkpoint_lower_bound(c, prefix); i < fn_checkpoint_count(c); i++) {
        const fn_tensor *t = fn_checkpoint_at(c, i);
        if (strncmp(t->name, prefix, strlen(prefix)) != 0) {
            return;
        }
        on_tensor(k, t);
    }
}

static void add_piece(collector *k, const fn_bound_ple *ple, const fn_tensor *t) {
    size_t before = k->plan->n_entries;
    on_tensor(k, t);
    if (k->plan->ngram != FN_PREPARED_NGRAM_INT8 || k->plan->n_entries == before ||
        t->dtype == FN_DTYPE_I8) {
        return;
    }
    fn_prepare_entry *entry = &k->plan->entries[before];
    entry->kind = FN_PREPARE_INT8;
    entry->dtype = FN_DTYPE_I8;
    entry->dims[1] = fn_ngram_row_elements(FN_DTYPE_I8, (size_t)t->dims[1]);
    entry->bytes = entry->dims[0] * entry->dims[1];
    entry->fp8_scale = 1.0F;
    if (ple->table_scale != NULL && k->status == FN_OK) {
        k->status = fn_tensor_read_f32(k->plan->source->checkpoint, ple->table_scale, 0, 1,
                                       &entry->fp8_scale, k->err);
    }
}

static void add_tables(collector *k) {
    const fn_model_files *source = k->plan->source;
    fn_prepared_ngram ngram = k->plan->ngram;
    for (size_t p = 0; p < source->shape.n_ple; p++) {
        const fn_bound_ple *ple = source->bound->layers[source->shape.ple_layer[p]].ple;
        on_tensor(k, ple->multipliers);
        on_tensor(k, ple->vocab_sizes);
        on_tensor(k, ple->offsets);
        if (ple->table_scale != NULL && ngram == FN_PREPARED_NGRAM_COPY) {
            on_tensor(k, ple->table_scale);
        }
    }
}

static void add_pieces(collector *k) {
    const fn_model_files *source = k->plan->source;
    fn_prepared_ngram ngram = k->plan->ngram;
    for (size_t p = 0; p < source->shape.n_ple; p++) {
        const fn_bound_ple *ple = source->bound->layers[source->shape.ple_layer[p]].ple;
        bool written = ngram == FN_PREPARED_NGRAM_COPY || ngram == FN_PREPARED_NGRAM_INT8;
        for (size_t i = 0; i < ple->n_pieces && written; i++) {
            add_piece(k, ple, ple->pieces[i]);
        }
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Tensors of one number share a file: the ends, a layer, the MTP head, the vision tower, a piece of a table. */
static size_t group_of(const fn_prepare_entry *entry, size_t index) {
    enum { MTP = 1 << 20, VISION, PIECES };
    const char *layer = strstr(entry->name, "layers.");
    if (strncmp(entry->name, "mtp.", 4) == 0) {
        return MTP;
    }
    if (strncmp(entry->name, "model.visual.", 13) == 0 || strncmp(entry->name, "visual.", 7) == 0) {
        return VISION;
    }
    if (strstr(entry->name, ".ngram_embedding.") != NULL &&
        strstr(entry->name, "weight_scale") == NULL) {
        return PIECES + index;
    }
    return layer != NULL ? 1 + (size_t)strtoul(layer + strlen("layers."), NULL, 10) : 0;
}

typedef struct ordered {
    fn_prepare_entry entry;
    size_t group, rank, index; /* rank: what is mapped comes first */
} ordered;

static int by_file(const void *a, const void *b) {
    const ordered *x = a;
    const ordered *y = b;
    if (x->group != y->group) {
        return x->group < y->group ? -1 : 1;
    }
    if (x->rank != y->rank) {
        return x->rank < y->rank ? -1 : 1;
    }
    return x->index < y->index ? -1 : x->index > y->index;
}

/* The embedding is mapped, too: before the matrices, where the data begin at a page. */
static size_t rank_of(const fn_prepare_plan *p, const fn_prepare_entry *entry) {
    if (entry->kind == FN_PREPARE_PACKED) {
        return 1;
    }
    bool aligned = entry->bytes % FN_PACKED_PAGE == 0;
    bool embedding = entry->tensor != NULL && entry->tensor == p->source->bound->embed;
    return embedding ? (aligned ? 0 : 2) : 3;
}

static void open_file(collector *k, size_t first) {
    fn_prepare_plan *p = k->plan;
    if (!fn_grow((void **)&p->files, &p->file_capacity, p->n_files + 1, sizeof *p->files)) {
        k->status = fn_fail_nomem(k->err, "the list of files", p->n_files * sizeof *p->files);
        return;
    }
    p->files[p->n_files++] = (fn_prepare_file){.first = first};
}

static void sort_into_files(collector *k) {
    fn_prepare_plan *p = k->plan;
    ordered *list = fn_alloc(p->n_entries, sizeof *list);
    if (list == NULL) {
        k->status = fn_fail_nomem(k->err, "the list of tensors", p->n_entries * sizeof *list);
        return;
    }
    for (size_t i = 0; i < p->n_entries; i++) {
        list[i] = (ordered){.entry = p->entries[i],
                            .group = group_of(&p->entries[i], i),
                            .rank = rank_of(p, &p->entries[i]),
                            .index = i};
    }
    qsort(list, p->n_entries, sizeof *list, by_file);
    for (size_t i = 0; i < p->n_entries && k->status == FN_OK; i++) {
        p->entries[i] = list[i].entry;
        if (i == 0 || list[i].group != list[i - 1].group) {
            open_file(k, i);
        }
        if (k->status == FN_OK) {
            p->files[p->n_files - 1].n++;
            p->files[p->n_files - 1].data_bytes += list[i].entry.bytes;
        }
    }
    fn_free(list);
}

static fn_status name_files(fn_prepare_plan *p, fn_error *err) {
    for (size_t i = 0; i < p->n_files; i++) {
        fn_prepare_file *file = &p->files[i];
        char *header = NULL;
        size_t n = 0;
        (void)snprintf(file->name, sizeof file->name, "prepared-%05zu-of-%05zu.safetensors", i + 1,
                       p->n_files);
        fn_status status = fn_prepare_header(p, file, &header, &n, err);
        fn_free(header);
        if (status != FN_OK) {
            return status;
        }
        file->header_bytes = n;
        p->bytes += n + file->data_bytes;
    }
    return FN_OK;
}

/* ---- header ---------------------------------------------------------------------------------- */

size_t fn_prepare_digest_place(void) {
    return sizeof(uint64_t) + strlen(METADATA_BEGIN);
}

static json_t *metadata(const fn_prepare_plan *p) {
    char source[24];
    char settings[96];
    (void)snprintf(source, sizeof source, "%016" PRIx64, p->digest);
    (void)snprintf(settings, sizeof settings, "experts %d, dense %d, group %zu, n-gram %s",
                   p->settings.expert_bits, p->settings.dense_bits, p->settings.group,
                   fn_prepared_ngram_word(p->ngram));
    return json_pack("{s:s, s:s, s:i, s:s, s:s}", "data", NO_DIGEST, "format", FN_PREPARED_FORMAT,
                     "version", FN_PREPARED_VERSION, "source", source, "settings", settings);
}

static json_t *header_object(const fn_prepare_plan *p, const fn_prepare_file *file) {
    json_t *root = json_object();
    uint64_t at = 0;
    bool good = root != NULL && json_object_set_new(root, "__metadata__", metadata(p)) == 0;
    for (size_t i = file->first; good && i < file->first + file->n; i++) {
        const fn_prepare_entry *entry = &p->entries[i];
        json_t *shape = json_array();
        for (size_t d = 0; d < entry->n_dims; d++) {
            good =
                good && json_array_append_new(shape, json_integer((json_int_t)entry->dims[d])) == 0;
        }
        json_t *value =
            json_pack("{s:s, s:o, s:[I, I]}", "dtype", fn_dtype_name(entry->dtype), "shape", shape,
                      "data_offsets", (json_int_t)at, (json_int_t)at + (json_int_t)entry->bytes);
        good = json_object_set_new(root, entry->name, value) == 0 && good;
        at += entry->bytes;
    }
    if (!good) {
        json_decref(root);
        return NULL;
    }
    return root;
}

fn_status fn_prepare_header(const fn_prepare_plan *p, const fn_prepare_file *file, char **out,
                            size_t *n, fn_error *err) {
    json_t *root = header_object(p, file);
    size_t length = root != NULL ? json_dumpb(root, NULL, 0, JSON_COMPACT) : 0;
    size_t whole = (size_t)fn_packed_round(sizeof(uint64_t) + length);
    char *header = length > 0 ? fn_alloc(whole, 1) : NULL;
    *out = NULL;
    *n = 0;
    if (header == NULL) {
        json_decref(root);
        return fn_fail_nomem(err, file->name, whole);
    }
    memset(header, ' ', whole);
    uint64_t stated = whole - sizeof stated;
    for (size_t i = 0; i < sizeof stated; i++) {
        header[i] = (char)(stated >> (8 * i) & 0xff);
    }
    (void)json_dumpb(root, header + sizeof stated, length, JSON_COMPACT);
    json_decref(root);
    FN_ASSERT(memcmp(header + sizeof stated, METADATA_BEGIN NO_DIGEST,
                     strlen(METADATA_BEGIN NO_DIGEST)) == 0);
    *out = header;
    *n = whole;
    return FN_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static fn_status collect(fn_prepare_plan *plan, fn_error *err) {
    const fn_model_files *source = plan->source;
    collector k = {.plan = plan, .status = FN_OK, .err = err};
    k.taken = fn_alloc_zero(fn_checkpoint_count(source->checkpoint), 1);
    if (k.taken == NULL) {
        return fn_fail_nomem(err, "preparing", fn_checkpoint_count(source->checkpoint));
    }
    fn_weight_visitor visitor = {.matrix = on_matrix, .tensor = on_tensor, .ud = &k};
    fn_status status =
        fn_weights_visit(source->bound, &source->shape, &plan->settings, &visitor, err);
    if (status == FN_OK) {
        add_tables(&k);
        add_prefix(&k, "mtp.");
        add_prefix(&k, "model.visual.");
        add_prefix(&k, "visual.");
        add_pieces(&k);
        if (k.status == FN_OK) {
            sort_into_files(&k);
        }
        status = k.status;
    }
    fn_free(k.taken);
    return status == FN_OK ? name_files(plan, err) : status;
}

fn_status fn_prepare_plan_make(const fn_model_files *source, const fn_weight_settings *settings,
                               fn_prepared_ngram ngram, fn_prepare_plan *out, fn_error *err) {
    *out = (fn_prepare_plan){.source = source, .settings = *settings, .ngram = ngram};
    fn_status status = fn_weight_settings_check(settings, err);
    if (status == FN_OK && source->prepared != NULL) {
        status = fn_fail(err, FN_E_USAGE,
                         "%.600s: is prepared already; give the checkpoint that it was made from",
                         fn_checkpoint_dir(source->checkpoint));
    }
    if (out->settings.group == 0) {
        out->settings.group = FN_GROUP_DEFAULT;
    }
    status = status == FN_OK ? fn_model_files_digest(source, &out->digest, err) : status;
    status = status == FN_OK ? collect(out, err) : status;
    if (status != FN_OK) {
        fn_prepare_plan_free(out);
    }
    return status;
}

void fn_prepare_plan_free(fn_prepare_plan *plan) {
    for (size_t i = 0; i < plan->n_entries; i++) {
        fn_free(plan->entries[i].name);
    }
    fn_free(plan->entries);
    fn_free(plan->files);
    *plan = (fn_prepare_plan){0};
}
