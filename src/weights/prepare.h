/* weights/prepare.h - writes a prepared checkpoint: what loading would make of one, in files to be mapped.
 *
 * Path:    a published checkpoint -> the walk of weights/load.h -> [this] -> a directory for weights/model_files.h.
 * Files:   prepared-NNNNN-of-MMMMM.safetensors: the ends (embedding, head, final mixer); one a layer; the MTP head;
 *          the vision tower; the n-gram tables, one a piece. In each, packed matrices (weights/packed.h) and the
 *          embedding first, at multiples of a page, then tensors as their source has them. The header's metadata
 *          hold the digest of the data, the source's digest and the settings. Beside them config, tokenizer, template
 *          and the like as they are; last the manifest (weights/prepared.h).
 * Resumes: a file gets its name when it is whole and synchronised; one whose header is what would be written is
 *          kept. The bytes depend on source and settings alone.
 * Threads: one call; it uses the pool. Memory:  a window of 64 MiB, or the largest expert if larger. */
#ifndef FN_WEIGHTS_PREPARE_H
#define FN_WEIGHTS_PREPARE_H

#include "base/pool.h"
#include "weights/model_files.h"
#include "weights/weights.h"

typedef enum fn_prepare_kind {
    FN_PREPARE_RAW,    /* as stored */
    FN_PREPARE_PACKED, /* a matrix of parts */
    FN_PREPARE_INT8    /* n-gram rows, quantised (weights/ngram_row.h) */
} fn_prepare_kind;

/* One tensor to write. */
typedef struct fn_prepare_entry {
    fn_prepare_kind kind;
    char *name;
    const fn_tensor *tensor; /* RAW, INT8 */
    float fp8_scale;         /* INT8 from F8_E4M3 rows */
    fn_source parts[2];      /* PACKED */
    size_t n_parts;
    fn_matrix matrix;
    fn_dtype dtype; /* as written, as are the next two */
    size_t n_dims;
    uint64_t dims[FN_MAX_DIMS];
    uint64_t bytes;
} fn_prepare_entry;

/* Entries [first, first + n) are one file. */
typedef struct fn_prepare_file {
    char name[80];
    size_t first, n;
    uint64_t header_bytes; /* with its length: the data begin there */
    uint64_t data_bytes;
    uint64_t header_digest, data_digest; /* known once written */
} fn_prepare_file;

/* What is to be written. */
typedef struct fn_prepare_plan {
    const fn_model_files *source;
    fn_weight_settings settings; /* group filled in */
    fn_prepared_ngram ngram;
    uint64_t digest; /* of the source */
    fn_prepare_entry *entries;
    size_t n_entries, entry_capacity;
    fn_prepare_file *files;
    size_t n_files, file_capacity;
    uint64_t bytes; /* of all these files */
} fn_prepare_plan;

/* Reads headers only. Fails with FN_E_USAGE (settings; a source that is prepared already), FN_E_NOMEM. */
FN_NODISCARD fn_status fn_prepare_plan_make(const fn_model_files *source,
                                            const fn_weight_settings *settings,
                                            fn_prepared_ngram ngram, fn_prepare_plan *out,
                                            fn_error *err);
void fn_prepare_plan_free(fn_prepare_plan *plan);

/* The header of a file, its length in front and padded to whole pages; freed with fn_free. */
FN_NODISCARD fn_status fn_prepare_header(const fn_prepare_plan *plan, const fn_prepare_file *file,
                                         char **out, size_t *n, fn_error *err);
/* Where in a header the 16 digits of the data's digest are; they are written as zeros. */
size_t fn_prepare_digest_place(void);

/* Writes the data of one file to `write`, in order. */
typedef struct fn_prepare_sink {
    fn_status (*write)(void *ud, const void *bytes, size_t n, fn_error *err);
    bool (*progress)(void *ud, uint64_t done, uint64_t total); /* within the bytes of one window */
    void *ud;
} fn_prepare_sink;
FN_NODISCARD fn_status fn_prepare_data(const fn_prepare_plan *plan, const fn_prepare_file *file,
                                       fn_pool *pool, const fn_prepare_sink *sink, fn_error *err);

typedef struct fn_prepare_watch {
    bool (*progress)(void *ud, uint64_t done_bytes, uint64_t total_bytes); /* false cancels */
    void *ud;
} fn_prepare_watch;

/* Bytes that writing to dir still needs: nothing is changed. *resumes tells whether dir holds a part of it. Fails
 * with FN_E_USAGE when dir is in use for something else. */
FN_NODISCARD fn_status fn_prepare_missing(const fn_prepare_plan *plan, const char *dir,
                                          uint64_t *bytes, bool *resumes, fn_error *err);

/* Writes all that is missing. Fails with FN_E_USAGE (as above, or another process is writing there), FN_E_IO (the disk
 * is full: with numbers, before anything is written, or when it happens), FN_E_MODEL, FN_E_CANCELLED; what is whole
 * stays, to go on from. */
FN_NODISCARD fn_status fn_prepare_run(fn_prepare_plan *plan, const char *dir, fn_pool *pool,
                                      const fn_prepare_watch *watch, fn_error *err);

#endif
