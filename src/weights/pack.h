/* weights/pack.h - a list of rows to read from a checkpoint, and all threads to work it off: matrices packed,
 * vectors widened.
 *
 * Path:    weights/load.c (into memory), weights/prepare.c (into a buffer on its way to a file) -> [this].
 * Threads: a list is filled by one thread; running it uses the pool. Tasks write disjoint bytes.
 * Memory:  the list owns its tasks; running allocates one staging area a thread, a few megabytes each. */
#ifndef FN_WEIGHTS_PACK_H
#define FN_WEIGHTS_PACK_H

#include "base/pool.h"
#include "weights/source.h"

typedef enum fn_pack_kind {
    FN_PACK_MATRIX, /* rows of source -> rows of matrix, quantised where that is narrower */
    FN_PACK_VECTOR, /* float32 */
    FN_PACK_CONV,   /* [channels, 1, taps] -> float32 [taps, channels]: the kernel walks channels */
    FN_PACK_NEG_EXP, /* float32 -exp(x) */
    FN_PACK_RAW,     /* BF16 as stored, anything else float32 */
    FN_PACK_COPY     /* bytes as stored; a row is cols bytes */
} fn_pack_kind;

typedef struct fn_pack_task {
    fn_pack_kind kind;
    const fn_source *source; /* of a matrix */
    const fn_tensor *tensor; /* of the others */
    size_t first_row;        /* of source or tensor */
    size_t rows, cols;
    fn_matrix matrix; /* where rows go from dst_row on; its tiles are not looked at */
    size_t dst_row;
    void *dst; /* zeroed tiles, floats or raw bytes */
} fn_pack_task;

typedef struct fn_pack_list {
    const fn_checkpoint *checkpoint;
    fn_pack_task *tasks;
    size_t n, capacity;
    uint64_t bytes;       /* that the tasks read */
    size_t staging_bytes; /* that the largest needs */
    bool out_of_memory;   /* running will say so */
} fn_pack_list;

/* Told how far loading is; false from it cancels (FN_E_CANCELLED). */
typedef struct fn_load_watch {
    bool (*progress)(void *ud, uint64_t done_bytes, uint64_t total_bytes);
    void *ud;
} fn_load_watch;

/* Adds one task; one without rows is left out. */
void fn_pack_add(fn_pack_list *list, const fn_pack_task *task);
/* Adds its rows in parts of a few megabytes, whole tiles each. */
void fn_pack_add_rows(fn_pack_list *list, const fn_pack_task *whole);

/* Works the list off; watch may be NULL. Fails with FN_E_IO, FN_E_MODEL (a weight that is not finite, a wrong
 * zero point), FN_E_NOMEM, FN_E_CANCELLED. */
FN_NODISCARD fn_status fn_pack_run(const fn_pack_list *list, fn_pool *pool,
                                   const fn_load_watch *watch, fn_error *err);
/* Forgets the tasks and frees. */
void fn_pack_free(fn_pack_list *list);

#endif
