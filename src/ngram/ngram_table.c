#include "ngram/ngram_table.h"

#include <stdatomic.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/page_cache.h"
#include "weights/ngram_row.h"

/* Bytes that one thread reads at a time when the whole table is read. */
#define SLICE ((uint64_t)4 << 20)
/* Slices between two looks at the watch. */
#define SLICES 64

/* Neighbouring rows that a thread takes at once in a large gather: few enough to keep all threads busy to the end. */
#define LARGEST_RUN 16

/* Up to so many rows, those of some tokens, the page cache is asked first: a look costs less than waking a thread. */
#define FEW_ROWS 256

typedef struct piece {
    uint64_t row;   /* its first, in numeric order */
    uint64_t place; /* of that row in the order of the files */
    uint64_t rows, offset;
    uint32_t file;
} piece;

typedef struct tally {
    atomic_uint_least64_t rows, cached, read;
} tally;

struct fn_ngram_table {
    const fn_checkpoint *checkpoint;
    piece *pieces; /* [n_pieces], numeric order */
    size_t n_pieces;
    uint64_t n_rows;
    int *fds;        /* [files of the checkpoint], -1 where there are no rows; NULL in RAM */
    uint8_t *stored; /* [N, row.bytes] in RAM, or NULL */
    fn_read_pool *pool;
    fn_ngram_row row; /* how each is stored */
    tally *tally;
};

uint64_t fn_ngram_table_bytes(const fn_ngram_table *table) {
    return table->n_rows * table->row.bytes;
}

/* ---- opening -------------------------------------------------------------------------------- */

static bool stands_before(const piece *a, const piece *b) {
    return a->file != b->file ? a->file < b->file : a->offset < b->offset;
}

static void fill_pieces(fn_ngram_table *table, const fn_tensor *const *tensors) {
    for (size_t i = 0; i < table->n_pieces; i++) {
        const fn_tensor *t = tensors[i];
        table->pieces[i] =
            (piece){.row = table->n_rows, .rows = t->dims[0], .offset = t->offset, .file = t->file};
        table->n_rows += t->dims[0];
    }
    for (size_t i = 0; i < table->n_pieces; i++) { /* few: quadratic is quick */
        for (size_t k = 0; k < table->n_pieces; k++) {
            if (stands_before(&table->pieces[k], &table->pieces[i])) {
                table->pieces[i].place += table->pieces[k].rows;
            }
        }
    }
}

/* Descriptors of our own, so that the advice does not slow down what else reads these files. */
static fn_status open_files(fn_ngram_table *table, fn_error *err) {
    const fn_checkpoint *c = table->checkpoint;
    size_t n = fn_checkpoint_files(c);
    table->fds = fn_alloc(n, sizeof *table->fds);
    if (table->fds == NULL) {
        return fn_fail_nomem(err, "the n-gram table's files", n * sizeof *table->fds);
    }
    for (size_t i = 0; i < n; i++) {
        table->fds[i] = -1;
    }
    for (size_t i = 0; i < table->n_pieces; i++) {
        int *fd = &table->fds[table->pieces[i].file];
        if (*fd < 0) {
            fn_status status = fn_checkpoint_reopen(c, table->pieces[i].file, fd, err);
            if (status != FN_OK) {
                return status;
            }
            fn_page_cache_no_readahead(*fd);
        }
    }
    return FN_OK;
}

/* A part of the table that is read into RAM: slices of one piece. */
typedef struct filling {
    const fn_ngram_table *table;
    const fn_tensor *tensor;
    uint8_t *dst;   /* of the piece */
    uint64_t first; /* byte of the piece with which slice 0 begins */
} filling;

static fn_status read_slice(void *ctx, size_t i, fn_error *err) {
    const filling *f = ctx;
    uint64_t at = f->first + i * SLICE;
    uint64_t left = f->tensor->bytes - at;
    return fn_tensor_read(f->table->checkpoint, f->tensor, at, f->dst + at,
                          (size_t)(left < SLICE ? left : SLICE), err);
}

static fn_status fill_piece(const fn_ngram_table *table, const fn_tensor *tensor, uint64_t before,
                            const fn_load_watch *watch, fn_error *err) {
    filling f = {.table = table, .tensor = tensor, .dst = table->stored + before};
    fn_status status = FN_OK;
    while (status == FN_OK && f.first < tensor->bytes) {
        if (watch != NULL &&
            !watch->progress(watch->ud, before + f.first, fn_ngram_table_bytes(table))) {
            return fn_fail(err, FN_E_CANCELLED, "reading the n-gram table was stopped");
        }
        uint64_t slices = (tensor->bytes - f.first + SLICE - 1) / SLICE;
        fn_read_batch batch = {.job = read_slice,
                               .ctx = &f,
                               .n = (size_t)(slices < SLICES ? slices : SLICES),
                               .run = 1};
        fn_read_pool_start(table->pool, &batch);
        status = fn_read_pool_wait(table->pool, &batch, err);
        f.first += batch.n * SLICE;
    }
    return status;
}

static fn_status fill_ram(fn_ngram_table *table, const fn_ngram_table_options *o, fn_error *err) {
    uint64_t bytes = fn_ngram_table_bytes(table);
    table->stored = bytes <= SIZE_MAX ? fn_pages_alloc((size_t)bytes) : NULL;
    if (table->stored == NULL) {
        return fn_fail_nomem(err, "the n-gram table", (size_t)bytes);
    }
    fn_status status = FN_OK;
    for (size_t i = 0; i < table->n_pieces && status == FN_OK; i++) {
        status =
            fill_piece(table, o->pieces[i], table->pieces[i].row * table->row.bytes, o->watch, err);
    }
    if (status == FN_OK && o->watch != NULL) {
        (void)o->watch->progress(o->watch->ud, bytes, bytes);
    }
    return status;
}

fn_status fn_ngram_table_open(const fn_checkpoint *c, const fn_ngram_table_options *options,
                              fn_ngram_table **out, fn_error *err) {
    size_t n = options->n_pieces;
    float scale = 1.0f;
    *out = NULL;
    fn_ngram_table *table = fn_alloc_zero(1, sizeof *table);
    piece *pieces = fn_alloc_zero(n, sizeof *pieces);
    tally *counts = fn_alloc_zero(1, sizeof *counts);
    if (table == NULL || pieces == NULL || counts == NULL) {
        fn_free(table);
        fn_free(pieces);
        fn_free(counts);
        return fn_fail_nomem(err, "the n-gram table", sizeof *table + n * sizeof *pieces);
    }
    *table = (fn_ngram_table){
        .checkpoint = c, .pieces = pieces, .n_pieces = n, .pool = options->pool, .tally = counts};
    fill_pieces(table, options->pieces);
    fn_status status = FN_OK;
    if (options->scale != NULL) {
        status = fn_tensor_read_f32(c, options->scale, 0, 1, &scale, err);
    }
    fn_ngram_row_init(options->pieces[0]->dtype, options->width, scale, &table->row);
    if (status == FN_OK) {
        status = options->in_ram ? fill_ram(table, options, err) : open_files(table, err);
    }
    if (status != FN_OK) {
        fn_ngram_table_close(table);
        return status;
    }
    *out = table;
    return FN_OK;
}

void fn_ngram_table_close(fn_ngram_table *table) {
    if (table == NULL) {
        return;
    }
    for (size_t i = 0; table->fds != NULL && i < fn_checkpoint_files(table->checkpoint); i++) {
        fn_file_close(table->fds[i]);
    }
    if (table->stored != NULL) {
        fn_pages_free(table->stored, (size_t)fn_ngram_table_bytes(table));
    }
    fn_free(table->fds);
    fn_free(table->pieces);
    fn_free(table->tally);
    fn_free(table);
}

/* ---- gathering ------------------------------------------------------------------------------ */

/* Pieces are few (128) and rows spread evenly, so bisect. */
static const piece *piece_of(const fn_ngram_table *table, uint64_t row) {
    size_t low = 0;
    size_t high = table->n_pieces;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (table->pieces[middle].row <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &table->pieces[low];
}

static bool comes_before(const fn_ngram_want *a, const fn_ngram_want *b) {
    return a->place != b->place ? a->place < b->place : a->index < b->index;
}

static void sift(fn_ngram_want *heap, size_t at, size_t n) {
    fn_ngram_want moved = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < n && comes_before(&heap[child], &heap[child + 1])) {
            child++;
        }
        if (child >= n || !comes_before(&moved, &heap[child])) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

/* In place and without memory of its own, which qsort does not promise. */
static void sort_wants(fn_ngram_want *wants, size_t n) {
    for (size_t i = n / 2; i-- > 0;) {
        sift(wants, i, n);
    }
    for (size_t end = n; end-- > 1;) {
        fn_ngram_want top = wants[0];
        wants[0] = wants[end];
        wants[end] = top;
        sift(wants, 0, end);
    }
}

/* Where the bytes of a row stand. */
typedef struct source {
    int fd;
    const char *path;
    uint64_t offset;
} source;

static source source_of(const fn_ngram_table *table, uint64_t row) {
    const piece *p = piece_of(table, row);
    return (source){table->fds[p->file], fn_checkpoint_file_path(table->checkpoint, p->file),
                    p->offset + (row - p->row) * table->row.bytes};
}

/* Stored bytes are read to the beginning of where the values go, and widened there. */
static fn_status gather_row(void *ctx, size_t i, fn_error *err) {
    const fn_ngram_gather *g = ctx;
    const fn_ngram_table *table = g->table;
    uint64_t row = (uint64_t)g->rows[g->wants[i].index];
    float *dst = g->dst + g->wants[i].index * table->row.width;
    if (table->stored != NULL) {
        fn_ngram_row_widen(&table->row, table->stored + row * table->row.bytes, dst);
        return FN_OK;
    }
    source from = source_of(table, row);
    fn_status status = fn_file_read_at(from.fd, from.path, from.offset, dst, table->row.bytes, err);
    if (status == FN_OK) {
        fn_ngram_row_widen(&table->row, (const uint8_t *)dst, dst);
    }
    return status;
}

/* Takes a row from the page cache, if it is there. */
static bool take_cached(const fn_ngram_gather *g, size_t i) {
    const fn_ngram_table *table = g->table;
    source from = source_of(table, (uint64_t)g->rows[g->wants[i].index]);
    float *dst = g->dst + g->wants[i].index * table->row.width;
    if (!fn_page_cache_read(from.fd, from.offset, dst, table->row.bytes)) {
        return false;
    }
    fn_ngram_row_widen(&table->row, (const uint8_t *)dst, dst);
    return true;
}

/* Moves what must be read to the front, still sorted; how many. */
static size_t choose_reads(fn_ngram_gather *g) {
    bool look = g->table->stored == NULL && g->n <= FEW_ROWS;
    fn_ngram_want *wants = g->wants;
    size_t reads = 0;
    uint64_t place = UINT64_MAX; /* of the row before, in sorted order, and its first index */
    size_t from = 0;
    for (size_t i = 0; i < g->n; i++) {
        bool repeats = wants[i].place == place;
        from = repeats ? from : wants[i].index;
        place = wants[i].place;
        wants[i].from = from;
        if (repeats) {
            continue;
        }
        if (look && take_cached(g, i)) {
            g->cached++;
        } else {
            fn_ngram_want chosen = wants[i];
            wants[i] = wants[reads];
            wants[reads++] = chosen;
        }
    }
    return reads;
}

static fn_read_pool *pool_of(const fn_ngram_table *table) {
    return table->stored == NULL ? table->pool : NULL;
}

fn_status fn_ngram_gather_start(const fn_ngram_table *table, const int64_t *rows, size_t n,
                                fn_ngram_want *wants, float *dst, fn_ngram_gather *out,
                                fn_error *err) {
    out->running = false;
    for (size_t i = 0; i < n; i++) {
        if (rows[i] < 0 || (uint64_t)rows[i] >= table->n_rows) {
            return fn_fail(err, FN_E_RANGE, "n-gram table row: found %lld, expected 0 to %llu",
                           (long long)rows[i], (unsigned long long)table->n_rows - 1);
        }
        const piece *p = piece_of(table, (uint64_t)rows[i]);
        wants[i] = (fn_ngram_want){p->place + ((uint64_t)rows[i] - p->row), i, i};
    }
    sort_wants(wants, n);
    *out = (fn_ngram_gather){
        .table = table, .rows = rows, .wants = wants, .dst = dst, .n = n, .running = true};
    size_t reads = choose_reads(out);
    size_t run = reads / 512;
    out->batch = (fn_read_batch){.job = gather_row,
                                 .ctx = out,
                                 .n = reads,
                                 .run = run < 1             ? 1
                                        : run < LARGEST_RUN ? run
                                                            : LARGEST_RUN};
    fn_read_pool_start(pool_of(table), &out->batch);
    return FN_OK;
}

static void add(atomic_uint_least64_t *sum, size_t n) {
    (void)atomic_fetch_add_explicit(sum, n, memory_order_relaxed);
}

static void count_gather(const fn_ngram_gather *g) {
    tally *t = g->table->tally;
    add(&t->rows, g->n);
    add(&t->cached, g->cached);
    add(&t->read, g->table->stored == NULL ? g->batch.n : 0);
}

fn_status fn_ngram_gather_finish(fn_ngram_gather *g, fn_error *err) {
    if (!g->running) {
        return FN_OK;
    }
    size_t width = g->table->row.width;
    fn_status status = fn_read_pool_wait(pool_of(g->table), &g->batch, err);
    g->running = false;
    if (status == FN_OK) {
        count_gather(g);
    }
    for (size_t i = 0; i < g->n && status == FN_OK; i++) {
        const fn_ngram_want *want = &g->wants[i];
        if (want->from != want->index) {
            memcpy(g->dst + want->index * width, g->dst + want->from * width,
                   width * sizeof *g->dst);
        }
    }
    return status;
}

/* ---- where it is, and what was read --------------------------------------------------------- */

void fn_ngram_table_count(const fn_ngram_table *table, fn_ngram_counts *sum) {
    const tally *t = table->tally;
    uint64_t read = atomic_load_explicit(&t->read, memory_order_relaxed);
    sum->rows += atomic_load_explicit(&t->rows, memory_order_relaxed);
    sum->cached_rows += atomic_load_explicit(&t->cached, memory_order_relaxed);
    sum->read_rows += read;
    sum->read_bytes += read * table->row.bytes;
}

void fn_ngram_table_info(const fn_ngram_table *table, fn_ngram_info *out) {
    *out = (fn_ngram_info){.bytes = fn_ngram_table_bytes(table),
                           .in_ram = table->stored != NULL,
                           .cache_known = table->stored == NULL};
    for (size_t i = 0; i < table->n_pieces && out->cache_known; i++) {
        const piece *p = &table->pieces[i];
        uint64_t held = 0;
        out->cache_known =
            fn_page_cache_held(table->fds[p->file], p->offset, p->rows * table->row.bytes, &held);
        out->cached_bytes += held;
    }
    out->cached_bytes = out->cached_bytes < out->bytes ? out->cached_bytes : out->bytes;
}
