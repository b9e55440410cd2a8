/* The n-gram memory of one layer: its projections, its table in one piece or many, and the hash
 * constants, which must be what the formula gives. */
#include <stdio.h>
#include <string.h>

#include "shape/ngram_constants.h"
#include "weights/binder.h"
#include "weights/ngram_row.h"

#define PIECE_FORMAT "shard_%zu.weight"

/* How many pieces "shard_0.weight", "shard_1.weight", ... the checkpoint holds, holes or not. */
static size_t count_pieces(fn_binder *b) {
    static const char stem[] = "shard_";
    size_t mark = fn_binder_push(b, stem);
    size_t n = 0;
    for (size_t i = fn_checkpoint_lower_bound(b->c, b->name); i < fn_checkpoint_count(b->c); i++) {
        if (strncmp(fn_checkpoint_at(b->c, i)->name, b->name, b->name_length) != 0) {
            break;
        }
        n++;
    }
    fn_binder_pop(b, mark);
    return n;
}

/* One piece; its rows are free, its width and type are not. */
static const fn_tensor *take_piece(fn_binder *b, const char *name, const fn_bound_ple *ple) {
    size_t mark = fn_binder_push(b, "%s", name);
    const fn_tensor *t = fn_checkpoint_find(b->c, b->name);
    fn_binder_pop(b, mark);
    if (t == NULL) {
        fn_binder_note_missing(b, name, (fn_dims){.n = 0});
        return NULL;
    }
    fn_binder_mark(b, t);
    size_t width = fn_shape_ngram_row(b->shape);
    uint64_t stored = fn_ngram_row_elements(t->dtype, width);
    if (stored == 0 || (t->dtype == FN_DTYPE_I8 && width < 2)) {
        fn_binder_fail(b, t, "BF16, F16, F32, F8_E4M3 or I8 (other formats are not supported)");
    }
    const fn_tensor *first = ple->pieces[0] != NULL ? ple->pieces[0] : t;
    if (b->status == FN_OK &&
        (t->n_dims != 2 || t->dims[1] != stored || t->dtype != first->dtype)) {
        char found[120];
        fn_dims_text(t->dims, t->n_dims, found, sizeof found);
        b->status = fn_fail(b->err, FN_E_MODEL,
                            "%.300s: tensor %.200s: found %s %s, expected %s [rows, %llu]",
                            fn_checkpoint_file_path(b->c, t->file), t->name,
                            fn_dtype_name(t->dtype), found, fn_dtype_name(first->dtype),
                            (unsigned long long)fn_ngram_row_elements(first->dtype, width));
    }
    return t;
}

static void check_rows(fn_binder *b, size_t p, const fn_bound_ple *ple) {
    fn_ngram_constants hash;
    uint64_t rows = 0;
    size_t parts = b->shape->ngram_parts;
    char name[48];
    for (size_t i = 0; i < ple->n_pieces; i++) {
        if (ple->pieces[i] == NULL) {
            return; /* noted as missing */
        }
        rows += ple->pieces[i]->dims[0];
    }
    fn_ngram_constants_init(b->shape, p, &hash);
    if (rows == (uint64_t)hash.padded_rows || b->status != FN_OK) {
        return;
    }
    if (rows < (uint64_t)hash.padded_rows && parts > ple->n_pieces && ple->n_pieces > 1) {
        (void)snprintf(name, sizeof name, PIECE_FORMAT, ple->n_pieces);
        fn_binder_note_missing(b, name, (fn_dims){.n = 0});
        return;
    }
    b->status = fn_fail(b->err, FN_E_MODEL,
                        "%.300s: n-gram table %.200s: found %llu rows in %zu piece%s, "
                        "expected %lld",
                        fn_checkpoint_dir(b->c), b->name, (unsigned long long)rows, ple->n_pieces,
                        ple->n_pieces == 1 ? "" : "s", (long long)hash.padded_rows);
}

/* One scale for the whole table, of FP8 rows only. */
static void bind_scale(fn_binder *b, fn_bound_ple *ple) {
    const fn_tensor *first = ple->pieces[0];
    if (first != NULL && first->dtype == FN_DTYPE_F8_E4M3) {
        ple->table_scale = fn_binder_take_scale(b, "weight_scale", FN_DIMS(1));
    } else if (first != NULL) {
        fn_binder_refuse(b, "weight_scale", "the table's rows are stored without one");
    }
}

static void bind_table(fn_binder *b, size_t p, fn_bound_ple *ple) {
    size_t mark = fn_binder_push(b, "ple_embedding.ngram_embedding.");
    bool whole = fn_binder_has(b, "weight");
    size_t n = whole ? 1 : count_pieces(b);
    char name[48] = "weight";
    ple->n_pieces = n > 0 ? n : 1; /* without any, shard_0 is what is missing */
    ple->pieces = fn_binder_alloc(b, ple->n_pieces, sizeof *ple->pieces);
    for (size_t i = 0; ple->pieces != NULL && i < ple->n_pieces; i++) {
        if (!whole) {
            (void)snprintf(name, sizeof name, PIECE_FORMAT, i);
        }
        ple->pieces[i] = take_piece(b, name, ple);
    }
    if (ple->pieces != NULL) {
        check_rows(b, p, ple);
        bind_scale(b, ple);
    }
    fn_binder_pop(b, mark);
}

fn_bound_ple *fn_bind_ple(fn_binder *b, size_t p) {
    const fn_shape *s = b->shape;
    uint64_t streams = fn_shape_streams(s);
    fn_bound_ple *ple = fn_binder_alloc(b, 1, sizeof *ple);
    if (ple == NULL) {
        return NULL;
    }
    size_t mark = fn_binder_push(b, "ple.");
    ple->key = fn_binder_take_matrix(b, "key_proj", streams, s->ple_embed);
    ple->value = fn_binder_take_matrix(b, "value_proj", s->hidden, s->ple_embed);
    ple->norm_key = fn_binder_take(b, "norm_key.weight", FN_DIMS(streams));
    ple->norm_query = fn_binder_take(b, "norm_query.weight", FN_DIMS(streams));
    ple->norm_conv = fn_binder_take(b, "norm_conv.weight", FN_DIMS(streams));
    ple->conv = fn_binder_take(b, "conv1d.weight", FN_DIMS(streams, 1, s->ple_kernel));
    ple->multipliers =
        fn_binder_take_i64(b, "ple_embedding.layer_multipliers", FN_DIMS(s->ngram_size));
    ple->vocab_sizes = fn_binder_take_i64(b, "ple_embedding.ngram_heads_vocab_sizes",
                                          FN_DIMS(fn_shape_ngram_heads(s)));
    ple->offsets = fn_binder_take_i64(b, "ple_embedding.ngram_heads_offsets",
                                      FN_DIMS(fn_shape_ngram_heads(s)));
    bind_table(b, p, ple);
    fn_binder_pop(b, mark);
    return ple;
}

static fn_status check_constant(const fn_checkpoint *c, const fn_tensor *t, const int64_t *expected,
                                size_t n, fn_error *err) {
    int64_t found[FN_MAX_NGRAM_HEADS];
    fn_status status = fn_tensor_read(c, t, 0, found, n * sizeof *found, err);
    for (size_t i = 0; i < n && status == FN_OK; i++) {
        if (found[i] != expected[i]) {
            status = fn_fail(err, FN_E_MODEL,
                             "%.300s: tensor %.200s[%zu]: found %lld, expected %lld by the n-gram "
                             "formula (is `seed` or `vocab_size` another one?)",
                             fn_checkpoint_file_path(c, t->file), t->name, i, (long long)found[i],
                             (long long)expected[i]);
        }
    }
    return status;
}

fn_status fn_bind_check_hash(const fn_checkpoint *c, const fn_shape *shape, size_t p,
                             const fn_bound_ple *ple, fn_error *err) {
    fn_ngram_constants hash;
    fn_ngram_constants_init(shape, p, &hash);
    fn_status status = check_constant(c, ple->multipliers, hash.multipliers, hash.ngram_size, err);
    if (status == FN_OK) {
        status = check_constant(c, ple->vocab_sizes, hash.primes, hash.heads, err);
    }
    if (status == FN_OK) {
        status = check_constant(c, ple->offsets, hash.offsets, hash.heads, err);
    }
    return status;
}
