/* weights/prepare_data.c - the bytes of one file of a prepared checkpoint, in order, a window at a time. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "weights/ngram_row.h"
#include "weights/pack.h"
#include "weights/packed.h"
#include "weights/prepare.h"

#define WINDOW_BYTES ((size_t)64 << 20)
#define COPY_BYTES ((size_t)4 << 20)

typedef struct writer {
    const fn_prepare_plan *plan;
    fn_pool *pool;
    const fn_prepare_sink *sink;
    fn_error *err;
    fn_pack_list list;
    uint8_t *window; /* zeroed; [window_bytes] */
    size_t window_bytes, used;
} writer;

/* ---- packed matrices ------------------------------------------------------------------------- */

static fn_status flush(writer *w) {
    fn_load_watch watch = {w->sink->progress, w->sink->ud};
    fn_status status = FN_OK;
    if (w->used > 0) {
        status = fn_pack_run(&w->list, w->pool, &watch, w->err);
        status = status == FN_OK ? w->sink->write(w->sink->ud, w->window, w->used, w->err) : status;
    }
    fn_pack_free(&w->list);
    fn_pages_free(w->window, w->window_bytes);
    w->window = NULL;
    w->used = 0;
    return status;
}

/* Room for n more bytes, zeroed: of this window or a fresh one. */
static fn_status make_room(writer *w, size_t n, uint8_t **out) {
    fn_status status = FN_OK;
    if (w->window != NULL && w->window_bytes - w->used < n) {
        status = flush(w);
    }
    if (status == FN_OK && w->window == NULL) {
        w->window_bytes = n > WINDOW_BYTES ? n : WINDOW_BYTES;
        w->window = fn_pages_alloc(w->window_bytes);
        if (w->window == NULL) {
            return fn_fail_nomem(w->err, "packing", w->window_bytes);
        }
    }
    if (status == FN_OK) {
        *out = w->window + w->used;
        w->used += n;
    }
    return status;
}

/* Rows [first, first + n) of the matrix, which begin a tile. One made of two parts comes whole. */
static fn_status pack_rows(writer *w, const fn_prepare_entry *entry, size_t first, size_t n,
                           size_t bytes) {
    uint8_t *tiles = NULL;
    size_t row = 0;
    fn_status status = make_room(w, bytes, &tiles);
    for (size_t i = 0; status == FN_OK && i < entry->n_parts; i++) {
        const fn_source *part = &entry->parts[i];
        size_t rows = entry->n_parts == 1 ? n : part->rows;
        fn_pack_add_rows(&w->list, &(fn_pack_task){.kind = FN_PACK_MATRIX,
                                                   .source = part,
                                                   .first_row = first,
                                                   .rows = rows,
                                                   .cols = part->cols,
                                                   .matrix = entry->matrix,
                                                   .dst_row = row,
                                                   .dst = tiles});
        row += rows;
    }
    return status;
}

static fn_status write_packed(writer *w, const fn_prepare_entry *entry) {
    const fn_matrix *m = &entry->matrix;
    size_t tile = fn_matrix_tile_bytes(m->kind, m->cols, m->group);
    size_t step = WINDOW_BYTES / tile * FN_TILE;
    fn_status status = FN_OK;
    if (entry->n_parts > 1 || step == 0 || step >= m->rows) {
        return pack_rows(w, entry, 0, m->rows, (size_t)entry->bytes);
    }
    for (size_t row = 0; row < m->rows && status == FN_OK; row += step) {
        bool last = m->rows - row <= step;
        size_t at = row / FN_TILE * tile;
        status = pack_rows(w, entry, row, last ? m->rows - row : step,
                           last ? (size_t)entry->bytes - at : step / FN_TILE * tile);
    }
    return status;
}

/* ---- as stored ------------------------------------------------------------------------------- */

static fn_status write_raw(writer *w, const fn_prepare_entry *entry) {
    uint8_t *piece = fn_alloc(COPY_BYTES, 1);
    fn_status status = piece != NULL ? FN_OK : fn_fail_nomem(w->err, entry->name, COPY_BYTES);
    for (uint64_t at = 0; at < entry->bytes && status == FN_OK; at += COPY_BYTES) {
        size_t n = entry->bytes - at < COPY_BYTES ? (size_t)(entry->bytes - at) : COPY_BYTES;
        status = fn_tensor_read(w->plan->source->checkpoint, entry->tensor, at, piece, n, w->err);
        status = status == FN_OK ? w->sink->write(w->sink->ud, piece, n, w->err) : status;
        if (status == FN_OK && !w->sink->progress(w->sink->ud, 0, 1)) {
            status = fn_fail(w->err, FN_E_CANCELLED, "preparing was cancelled");
        }
    }
    fn_free(piece);
    return status;
}

/* ---- n-gram rows at 8 bits ------------------------------------------------------------------- */

typedef struct rows_job {
    const fn_ngram_row *row;
    const uint8_t *stored; /* [n] rows */
    uint8_t *dst;          /* [n, width + 4] */
    float *values;         /* [threads, width] */
    size_t n;
    atomic_size_t next;
    atomic_size_t bad; /* a row that is not finite, plus 1 */
} rows_job;

static void quantize_rows(void *ctx, const fn_turn *turn) {
    enum { STEP = 64 };
    rows_job *job = ctx;
    size_t width = job->row->width;
    size_t out = fn_ngram_row_elements(FN_DTYPE_I8, width);
    float *x = job->values + turn->thread * width;
    for (;;) {
        size_t first = atomic_fetch_add(&job->next, STEP);
        for (size_t r = first; r < first + STEP && r < job->n; r++) {
            bool finite = true;
            fn_ngram_row_widen(job->row, job->stored + r * job->row->bytes, x);
            for (size_t i = 0; i < width; i++) {
                finite = finite && isfinite(x[i]);
            }
            if (finite) {
                fn_ngram_row_quantize(x, width, job->dst + r * out);
            } else {
                atomic_store(&job->bad, r + 1);
            }
        }
        if (first >= job->n) {
            return;
        }
    }
}

static fn_status write_int8_rows(writer *w, const fn_prepare_entry *entry, rows_job *job,
                                 uint8_t *stored, size_t step) {
    size_t rows = (size_t)entry->dims[0];
    fn_status status = FN_OK;
    for (size_t row = 0; row < rows && status == FN_OK; row += step) {
        size_t n = rows - row < step ? rows - row : step;
        status = fn_tensor_read(w->plan->source->checkpoint, entry->tensor, row * job->row->bytes,
                                stored, n * job->row->bytes, w->err);
        if (status != FN_OK) {
            break;
        }
        job->n = n;
        atomic_store(&job->next, 0);
        fn_pool_run(w->pool, quantize_rows, job);
        if (atomic_load(&job->bad) > 0) {
            return fn_fail(
                w->err, FN_E_MODEL, "%s: %s: row %zu: found a value that is not finite",
                fn_checkpoint_file_path(w->plan->source->checkpoint, entry->tensor->file),
                entry->tensor->name, row + atomic_load(&job->bad) - 1);
        }
        status = w->sink->write(w->sink->ud, job->dst, n * (size_t)entry->dims[1], w->err);
        if (status == FN_OK && !w->sink->progress(w->sink->ud, 0, 1)) {
            status = fn_fail(w->err, FN_E_CANCELLED, "preparing was cancelled");
        }
    }
    return status;
}

static fn_status write_int8(writer *w, const fn_prepare_entry *entry) {
    fn_ngram_row row;
    size_t width = (size_t)entry->tensor->dims[1];
    fn_ngram_row_init(entry->tensor->dtype, width, entry->fp8_scale, &row);
    size_t step = COPY_BYTES / row.bytes + 1;
    size_t out = (size_t)entry->dims[1];
    uint8_t *stored = fn_alloc(step, row.bytes);
    rows_job job = {.row = &row, .stored = stored};
    job.dst = fn_alloc(step, out);
    job.values = fn_alloc(fn_pool_threads(w->pool) * width, sizeof *job.values);
    fn_status status = stored != NULL && job.dst != NULL && job.values != NULL
                           ? write_int8_rows(w, entry, &job, stored, step)
                           : fn_fail_nomem(w->err, entry->name, step * (row.bytes + out));
    fn_free(job.values);
    fn_free(job.dst);
    fn_free(stored);
    return status;
}

/* ---- a file ---------------------------------------------------------------------------------- */

fn_status fn_prepare_data(const fn_prepare_plan *plan, const fn_prepare_file *file, fn_pool *pool,
                          const fn_prepare_sink *sink, fn_error *err) {
    writer w = {.plan = plan, .pool = pool, .sink = sink, .err = err};
    fn_status status = FN_OK;
    w.list.checkpoint = plan->source->checkpoint;
    for (size_t i = file->first; i < file->first + file->n && status == FN_OK; i++) {
        const fn_prepare_entry *entry = &plan->entries[i];
        if (entry->kind == FN_PREPARE_PACKED) {
            status = write_packed(&w, entry);
            continue;
        }
        status = flush(&w);
        if (status == FN_OK) {
            status = entry->kind == FN_PREPARE_RAW ? write_raw(&w, entry) : write_int8(&w, entry);
        }
    }
    if (status == FN_OK) {
        return flush(&w);
    }
    fn_pack_free(&w.list);
    fn_pages_free(w.window, w.window_bytes);
    return status;
}
