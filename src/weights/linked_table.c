#include "weights/linked_table.h"

#include <math.h>

#include "base/mem.h"
#include "weights/ngram_row.h"

#define PIECE_BYTES ((size_t)4 << 20)

typedef struct checker {
    const fn_checkpoint *c;
    bool (*progress)(void *ud, uint64_t done, uint64_t total);
    void *ud;
    uint64_t done, total;
    fn_ngram_row row;
    uint8_t *stored; /* [step] rows */
    float *values;   /* [row.width] */
    size_t step;
} checker;

/* The first of n rows with a value that is none; n if all are well. */
static size_t find_bad(const checker *k, size_t n) {
    for (size_t r = 0; r < n; r++) {
        fn_ngram_row_widen(&k->row, k->stored + r * k->row.bytes, k->values);
        for (size_t i = 0; i < k->row.width; i++) {
            if (!isfinite(k->values[i])) {
                return r;
            }
        }
    }
    return n;
}

static fn_status check_piece(checker *k, const fn_tensor *t, fn_error *err) {
    size_t rows = (size_t)t->dims[0];
    for (size_t at = 0; at < rows; at += k->step) {
        size_t n = rows - at < k->step ? rows - at : k->step;
        fn_status status =
            fn_tensor_read(k->c, t, at * k->row.bytes, k->stored, n * k->row.bytes, err);
        if (status != FN_OK) {
            return status;
        }
        size_t bad = find_bad(k, n);
        if (bad < n) {
            return fn_fail(err, FN_E_MODEL, "%s: %s: row %zu: found a value that is not finite",
                           fn_checkpoint_file_path(k->c, t->file), t->name, at + bad);
        }
        k->done += n * k->row.bytes;
        if (k->progress != NULL && !k->progress(k->ud, k->done, k->total)) {
            return fn_fail(err, FN_E_CANCELLED, "checking was cancelled");
        }
    }
    return FN_OK;
}

static fn_status check_table(checker *k, const fn_bound_ple *ple, size_t width, fn_error *err) {
    float scale = 1.0f;
    fn_status status = FN_OK;
    if (ple->table_scale != NULL) {
        status = fn_tensor_read_f32(k->c, ple->table_scale, 0, 1, &scale, err);
    }
    fn_ngram_row_init(ple->pieces[0]->dtype, width, scale, &k->row);
    k->step = PIECE_BYTES / k->row.bytes + 1;
    k->stored = fn_alloc(k->step, k->row.bytes);
    k->values = fn_alloc(width, sizeof *k->values);
    if (status == FN_OK && (k->stored == NULL || k->values == NULL)) {
        status = fn_fail_nomem(err, "checking the n-gram table", k->step * k->row.bytes);
    }
    for (size_t i = 0; i < ple->n_pieces && status == FN_OK; i++) {
        status = check_piece(k, ple->pieces[i], err);
    }
    fn_free(k->stored);
    fn_free(k->values);
    return status;
}

static const fn_bound_ple *table_of(const fn_model_files *files, size_t p) {
    return files->bound->layers[files->shape.ple_layer[p]].ple;
}

fn_status fn_linked_table_check(const fn_model_files *files,
                                bool (*progress)(void *ud, uint64_t done, uint64_t total), void *ud,
                                fn_error *err) {
    checker k = {.c = files->checkpoint, .progress = progress, .ud = ud};
    fn_status status = FN_OK;
    if (files->prepared == NULL || files->prepared->n_links == 0) {
        return FN_OK;
    }
    for (size_t p = 0; p < files->shape.n_ple; p++) {
        for (size_t i = 0; i < table_of(files, p)->n_pieces; i++) {
            k.total += table_of(files, p)->pieces[i]->bytes;
        }
    }
    for (size_t p = 0; p < files->shape.n_ple && status == FN_OK; p++) {
        status = check_table(&k, table_of(files, p), fn_shape_ngram_row(&files->shape), err);
    }
    return status;
}
