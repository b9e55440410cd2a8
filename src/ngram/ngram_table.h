/* ngram/ngram_table.h - the n-gram memory: a table that may be larger than RAM, read by row.
 *
 * Path:    checkpoint pieces -> [this: rows widened to float32] -> layers/ple.h.
 * Shapes:  N rows of W values in n_pieces tensors, in numeric order; a row never crosses a piece. How rows are
 *          stored, and what the tensors are called: weights/ngram_row.h.
 * On disk: a gather starts as soon as rows are known and is finished where they are needed. Its rows are sorted by
 *          place, each read once, by one pread without readahead, spread over the threads of a read pool. A token's
 *          rows that the page cache holds are taken at once, without waking anybody.
 * In RAM:  the stored bytes, read at opening; the same rows, the same bits.
 * Threads: open and close from one thread; gathers from any number at once.
 * Memory:  a gather allocates nothing: what it needs is lent by the caller until it is finished. */
#ifndef FN_NGRAM_NGRAM_TABLE_H
#define FN_NGRAM_NGRAM_TABLE_H

#include "base/read_pool.h"
#include "checkpoint/checkpoint.h"
#include "weights/weights.h"

typedef struct fn_ngram_table fn_ngram_table;

typedef struct fn_ngram_table_options {
    const fn_tensor *const *pieces; /* [n_pieces] */
    size_t n_pieces;
    size_t width;               /* W */
    const fn_tensor *scale;     /* of F8_E4M3 pieces, else NULL */
    bool in_ram;                /* read it all now */
    fn_read_pool *pool;         /* outlives the table; NULL: the finishing thread reads */
    const fn_load_watch *watch; /* of reading it all; or NULL */
} fn_ngram_table_options;

/* The checkpoint must outlive the table. Fails with FN_E_IO (also when a file is no longer the one that was
 * opened), FN_E_NOMEM, FN_E_CANCELLED. */
FN_NODISCARD fn_status fn_ngram_table_open(const fn_checkpoint *c,
                                           const fn_ngram_table_options *options,
                                           fn_ngram_table **out, fn_error *err);
void fn_ngram_table_close(fn_ngram_table *table);

/* One row that a gather wants. */
typedef struct fn_ngram_want {
    uint64_t place; /* in the order of the files */
    size_t index;   /* in rows */
    size_t from;    /* index of the same row where it was wanted first */
} fn_ngram_want;

/* A gather under way. */
typedef struct fn_ngram_gather {
    const fn_ngram_table *table;
    const int64_t *rows; /* [n] */
    fn_ngram_want
        *wants; /* [n]: the rows to read, by place; then those that are there, and repeats */
    float *dst; /* [n, W] */
    size_t n, cached;
    fn_read_batch batch;
    bool running;
} fn_ngram_gather;

/* Begins to fill dst [n, W] with rows [n], widened; repeats are allowed. wants [n] is scratch. All are lent until
 * finish, which must follow. Fails with FN_E_RANGE for a row >= N; then nothing runs. */
FN_NODISCARD fn_status fn_ngram_gather_start(const fn_ngram_table *table, const int64_t *rows,
                                             size_t n, fn_ngram_want *wants, float *dst,
                                             fn_ngram_gather *out, fn_error *err);
/* Waits until dst is full; nothing when the gather does not run. Fails with FN_E_IO, naming file and offset. */
FN_NODISCARD fn_status fn_ngram_gather_finish(fn_ngram_gather *gather, fn_error *err);

/* Of all rows as stored. */
uint64_t fn_ngram_table_bytes(const fn_ngram_table *table);
/* Adds to *sum what gathers that are finished have read. */
void fn_ngram_table_count(const fn_ngram_table *table, fn_ngram_counts *sum);
/* Asks the system what it caches. */
void fn_ngram_table_info(const fn_ngram_table *table, fn_ngram_info *out);

#endif
