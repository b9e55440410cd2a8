/* ngram/ngram_table.h - the n-gram memory: a table larger than RAM, left on disk and read by row.
 *
 * Path:    checkpoint pieces -> [this: rows widened to float32] -> layers/ple.h.
 * Shapes:  N rows of W values in n_pieces tensors, in numeric order; a row never crosses a piece. How rows are
 *          stored, and what the tensors are called: weights/ngram_row.h.
 * Threads: open and close from one thread; gather from any number at once.
 * Memory:  gather allocates nothing; one pread a row, no readahead. */
#ifndef FN_NGRAM_NGRAM_TABLE_H
#define FN_NGRAM_NGRAM_TABLE_H

#include "checkpoint/checkpoint.h"

typedef struct fn_ngram_table fn_ngram_table;

/* The checkpoint must outlive the table; width is W. `scale` is the one number that values of F8_E4M3 pieces
 * are multiplied by; else NULL. Fails with FN_E_IO or FN_E_NOMEM. */
FN_NODISCARD fn_status fn_ngram_table_open(const fn_checkpoint *c, const fn_tensor *const *pieces,
                                           size_t n_pieces, size_t width, const fn_tensor *scale,
                                           fn_ngram_table **out, fn_error *err);
void fn_ngram_table_close(fn_ngram_table *table);

/* dst [n, W] = rows[n], widened. Fails with FN_E_RANGE for a row >= N, FN_E_IO. */
FN_NODISCARD fn_status fn_ngram_table_gather(const fn_ngram_table *table, const int64_t *rows,
                                             size_t n, float *dst, fn_error *err);

#endif
