#include "ngram/ngram_table.h"

#include "base/mem.h"
#include "weights/ngram_row.h"

struct fn_ngram_table {
    const fn_checkpoint *checkpoint;
    const fn_tensor *const *pieces;
    uint64_t *first_row; /* [n_pieces + 1] running sum of rows */
    size_t n_pieces;
    fn_ngram_row row; /* how each is stored */
};

fn_status fn_ngram_table_open(const fn_checkpoint *c, const fn_tensor *const *pieces,
                              size_t n_pieces, size_t width, const fn_tensor *scale,
                              fn_ngram_table **out, fn_error *err) {
    *out = NULL;
    fn_ngram_table *table = fn_alloc_zero(1, sizeof *table);
    uint64_t *first_row = fn_alloc_zero(n_pieces + 1, sizeof *first_row);
    if (table == NULL || first_row == NULL) {
        fn_free(table);
        fn_free(first_row);
        return fn_fail_nomem(err, "the n-gram table", sizeof *table + n_pieces * sizeof *first_row);
    }
    for (size_t i = 0; i < n_pieces; i++) {
        first_row[i + 1] = first_row[i] + pieces[i]->dims[0];
    }
    *table = (fn_ngram_table){
        .checkpoint = c, .pieces = pieces, .first_row = first_row, .n_pieces = n_pieces};
    float factor = 1.0F;
    fn_status status = scale != NULL ? fn_tensor_read_f32(c, scale, 0, 1, &factor, err) : FN_OK;
    fn_ngram_row_init(pieces[0]->dtype, width, factor, &table->row);
    if (status != FN_OK) {
        fn_ngram_table_close(table);
        return status;
    }
    *out = table;
    return FN_OK;
}

void fn_ngram_table_close(fn_ngram_table *table) {
    if (table != NULL) {
        fn_free(table->first_row);
        fn_free(table);
    }
}

/* The piece that holds a row: pieces are few (128) and rows spread evenly, so bisect. */
static size_t piece_of(const fn_ngram_table *table, uint64_t row) {
    size_t low = 0;
    size_t high = table->n_pieces;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (table->first_row[middle] <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Stored bytes are read to the beginning of dst and widened from there. */
static fn_status read_row(const fn_ngram_table *table, const fn_tensor *piece, uint64_t row,
                          float *dst, fn_error *err) {
    fn_status status = fn_tensor_read(table->checkpoint, piece, row * table->row.bytes, dst,
                                      table->row.bytes, err);
    if (status == FN_OK) {
        fn_ngram_row_widen(&table->row, (const uint8_t *)dst, dst);
    }
    return status;
}

fn_status fn_ngram_table_gather(const fn_ngram_table *table, const int64_t *rows, size_t n,
                                float *dst, fn_error *err) {
    for (size_t i = 0; i < n; i++) {
        if (rows[i] < 0 || (uint64_t)rows[i] >= table->first_row[table->n_pieces]) {
            return fn_fail(err, FN_E_RANGE, "n-gram table row: found %lld, expected 0 to %llu",
                           (long long)rows[i],
                           (unsigned long long)table->first_row[table->n_pieces] - 1);
        }
        uint64_t row = (uint64_t)rows[i];
        size_t piece = piece_of(table, row);
        fn_status status = read_row(table, table->pieces[piece], row - table->first_row[piece],
                                    dst + i * table->row.width, err);
        if (status != FN_OK) {
            return status;
        }
    }
    return FN_OK;
}
