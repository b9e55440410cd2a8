/* weights/linked_table.h - whether an n-gram table that lies in linked files can be read, and holds numbers.
 *
 * Path:    a prepared checkpoint made with `--ngram link` -> [this: every row read once, in the files' order].
 * Why:     a link knows its files' sizes and headers, and no checksum of their data: making one would read them all.
 * Threads: one. Memory: a piece of the table. */
#ifndef FN_WEIGHTS_LINKED_TABLE_H
#define FN_WEIGHTS_LINKED_TABLE_H

#include "weights/model_files.h"

/* Nothing to do without linked files. progress may be NULL; false from it cancels. Fails with FN_E_IO, FN_E_MODEL
 * (a row with a value that is not finite), FN_E_NOMEM, FN_E_CANCELLED. */
FN_NODISCARD fn_status fn_linked_table_check(const fn_model_files *files,
                                             bool (*progress)(void *ud, uint64_t done,
                                                              uint64_t total),
                                             void *ud, fn_error *err);

#endif
