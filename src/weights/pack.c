#include "weights/pack.h"

#include <math.h>
#include <stdatomic.h>

#include "base/half.h"
#include "base/mem.h"
#include "weights/quantize_row.h"

/* Source bytes a thread reads and packs at a time. */
#define TASK_BYTES ((size_t)4 << 20)

typedef struct fn_pack_task task;

/* What all threads share while a list is worked off. */
typedef struct runner {
    const fn_pack_list *list;
    const fn_load_watch *watch; /* or NULL */
    uint8_t **staging;          /* [threads] */
    atomic_size_t next;
    atomic_uint_fast64_t done_bytes;
    atomic_int failed;
    fn_error *errors; /* [threads] */
} runner;

/* ---- the list -------------------------------------------------------------------------------- */

static size_t round_64(size_t n) {
    return (n + 63) / 64 * 64;
}

/* Bytes in the files of one row. */
static size_t row_bytes(const task *t) {
    if (t->kind == FN_PACK_MATRIX) {
        return (size_t)(fn_source_bytes(t->source) / t->source->rows);
    }
    return t->kind == FN_PACK_COPY ? t->cols : t->cols * fn_dtype_bytes(t->tensor->dtype);
}

static bool as_stored(const task *t) {
    return t->matrix.kind == fn_source_kind(t->source) && t->matrix.kind != FN_MATRIX_F32 &&
           t->matrix.group == fn_source_group(t->matrix.kind);
}

/* Of one row on its way into a narrower kind: codes or 16-bit words, then the groups' scales. */
static size_t row_codes(const task *t) {
    return round_64(t->cols * sizeof(uint16_t));
}

static size_t row_scales(const task *t) {
    return round_64((t->cols + t->matrix.group - 1) / t->matrix.group * sizeof(uint16_t));
}

/* Memory that the task works in. */
static size_t staging_of(const task *t) {
    size_t floats = round_64(t->rows * t->cols * sizeof(float));
    if (t->kind == FN_PACK_COPY) {
        return 0;
    }
    if (t->kind != FN_PACK_MATRIX) {
        return floats;
    }
    return (as_stored(t) ? 0 : floats + row_codes(t) + row_scales(t)) +
           fn_source_scratch(t->source, t->rows);
}

void fn_pack_add(fn_pack_list *list, const task *t) {
    if (t->rows == 0) {
        return;
    }
    if (!fn_grow((void **)&list->tasks, &list->capacity, list->n + 1, sizeof *list->tasks)) {
        list->out_of_memory = true;
        return;
    }
    list->tasks[list->n++] = *t;
    list->bytes += t->rows * row_bytes(t);
    size_t staging = staging_of(t);
    if (staging > list->staging_bytes) {
        list->staging_bytes = staging;
    }
}

void fn_pack_add_rows(fn_pack_list *list, const task *whole) {
    size_t step = TASK_BYTES / (row_bytes(whole) * FN_TILE) * FN_TILE;
    step = step < FN_TILE ? FN_TILE : step;
    for (size_t row = 0; row < whole->rows; row += step) {
        task part = *whole;
        part.first_row += row;
        part.dst_row += row;
        part.rows = whole->rows - row < step ? whole->rows - row : step;
        fn_pack_add(list, &part);
    }
}

void fn_pack_free(fn_pack_list *list) {
    fn_free(list->tasks);
    *list = (fn_pack_list){.checkpoint = list->checkpoint};
}

/* ---- one task -------------------------------------------------------------------------------- */

/* A tensor's rows -> float32 in dst [rows, cols]. */
static fn_status read_floats(const fn_checkpoint *checkpoint, const task *t, float *dst,
                             fn_error *err) {
    return fn_tensor_read_f32(checkpoint, t->tensor, (uint64_t)t->first_row * t->cols,
                              t->rows * t->cols, dst, err);
}

/* Rows whose codes and scales go into tiles as they are. */
static fn_status pack_as_stored(const fn_checkpoint *checkpoint, const task *t, uint8_t *staging,
                                fn_error *err) {
    fn_source_codes c;
    const fn_matrix *m = &t->matrix;
    size_t groups = (t->cols + m->group - 1) / m->group;
    fn_status status =
        fn_source_read_codes(checkpoint, t->source, t->first_row, t->rows, staging, &c, err);
    for (size_t r = 0; status == FN_OK && r < t->rows; r++) {
        size_t n = t->dst_row + r;
        if (m->kind == FN_MATRIX_FP8) {
            fn_matrix_pack_fp8(m, t->dst, n, c.codes + r * t->cols, c.f32_scales + r * groups);
        } else if (m->kind == FN_MATRIX_NVFP4) {
            fn_matrix_pack_nvfp4(m, t->dst, n, c.codes + r * ((t->cols + 1) / 2),
                                 c.e4m3_scales + r * groups, c.global);
        } else if (m->kind == FN_MATRIX_INT4) {
            fn_matrix_pack_codes(m, t->dst, n, c.ints + r * t->cols, c.f16_scales + r * groups);
        } else {
            fn_matrix_pack_row(m, t->dst, n, c.codes + r * t->cols * sizeof(uint16_t));
        }
    }
    return status;
}

/* A weight that is not finite would spoil its whole group, or be lost. */
static fn_status check_finite(const fn_checkpoint *checkpoint, const task *t, size_t r,
                              const float *row, fn_error *err) {
    for (size_t k = 0; k < t->cols; k++) {
        if (!isfinite(row[k])) {
            return fn_fail(err, FN_E_MODEL,
                           "%s: tensor %s, row %zu: found a weight that is not finite",
                           fn_checkpoint_file_path(checkpoint, t->source->weight->file),
                           t->source->weight->name, t->first_row + r);
        }
    }
    return FN_OK;
}

/* Row r of the task into its matrix; room: memory for codes and scales. */
static fn_status pack_floats(const fn_checkpoint *checkpoint, const task *t, size_t r,
                             const float *row, uint8_t *room, fn_error *err) {
    const fn_matrix *m = &t->matrix;
    size_t n = t->dst_row + r;
    if (m->kind == FN_MATRIX_F32) {
        fn_matrix_pack_row(m, t->dst, n, row);
        return FN_OK;
    }
    if (m->kind == FN_MATRIX_BF16) {
        uint16_t *words = (uint16_t *)(void *)room;
        for (size_t k = 0; k < t->cols; k++) {
            words[k] = fn_float_to_bf16(row[k]);
        }
        fn_matrix_pack_row(m, t->dst, n, words);
        return FN_OK;
    }
    int8_t *codes = (int8_t *)(void *)room;
    uint16_t *scales = (uint16_t *)(void *)(room + row_codes(t));
    fn_status status = check_finite(checkpoint, t, r, row, err);
    if (status == FN_OK) {
        fn_quantize_row(row, t->cols, m->group, m->kind == FN_MATRIX_INT8 ? 8 : 4, codes, scales);
        fn_matrix_pack_codes(m, t->dst, n, codes, scales);
    }
    return status;
}

static fn_status pack(const fn_checkpoint *checkpoint, const task *t, uint8_t *staging,
                      fn_error *err) {
    if (as_stored(t)) {
        return pack_as_stored(checkpoint, t, staging, err);
    }
    float *rows = (float *)(void *)staging;
    uint8_t *room = staging + round_64(t->rows * t->cols * sizeof *rows);
    uint8_t *scratch = room + row_codes(t) + row_scales(t);
    fn_status status =
        fn_source_read_f32(checkpoint, t->source, t->first_row, t->rows, scratch, rows, err);
    for (size_t r = 0; status == FN_OK && r < t->rows; r++) {
        status = pack_floats(checkpoint, t, r, rows + r * t->cols, room, err);
    }
    return status;
}

static fn_status read_conv(const fn_checkpoint *checkpoint, const task *t, float *staging,
                           fn_error *err) {
    fn_status status = read_floats(checkpoint, t, staging, err);
    float *dst = t->dst;
    for (size_t c = 0; status == FN_OK && c < t->rows; c++) {
        for (size_t j = 0; j < t->cols; j++) {
            dst[j * t->rows + c] = staging[c * t->cols + j];
        }
    }
    return status;
}

static fn_status run_task(const fn_checkpoint *checkpoint, const task *t, uint8_t *staging,
                          fn_error *err) {
    switch (t->kind) {
    case FN_PACK_MATRIX:
        return pack(checkpoint, t, staging, err);
    case FN_PACK_VECTOR:
        return read_floats(checkpoint, t, t->dst, err);
    case FN_PACK_CONV:
        return read_conv(checkpoint, t, (float *)(void *)staging, err);
    case FN_PACK_NEG_EXP: {
        fn_status status = read_floats(checkpoint, t, t->dst, err);
        float *a = t->dst;
        for (size_t i = 0; status == FN_OK && i < t->cols; i++) {
            a[i] = -(float)exp((double)a[i]);
        }
        return status;
    }
    case FN_PACK_COPY:
        return fn_tensor_read(checkpoint, t->tensor, (uint64_t)t->first_row * t->cols,
                              (uint8_t *)t->dst + t->dst_row * t->cols, t->rows * t->cols, err);
    case FN_PACK_RAW: {
        bool bf16 = t->tensor->dtype == FN_DTYPE_BF16;
        size_t row = t->cols * (bf16 ? 2 : sizeof(float));
        uint8_t *dst = (uint8_t *)t->dst + t->dst_row * row;
        return bf16 ? fn_tensor_read(checkpoint, t->tensor, (uint64_t)t->first_row * row, dst,
                                     t->rows * row, err)
                    : read_floats(checkpoint, t, (float *)(void *)dst, err);
    }
    }
    return FN_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static bool tell(const runner *r, uint64_t done) {
    return r->watch == NULL || r->watch->progress(r->watch->ud, done, r->list->bytes);
}

static void work(void *ctx, const fn_turn *turn) {
    runner *r = ctx;
    while (atomic_load(&r->failed) == 0) {
        size_t i = atomic_fetch_add(&r->next, 1);
        if (i >= r->list->n) {
            return;
        }
        const task *t = &r->list->tasks[i];
        if (run_task(r->list->checkpoint, t, r->staging[turn->thread], &r->errors[turn->thread]) !=
            FN_OK) {
            atomic_store(&r->failed, 1);
            return;
        }
        uint64_t bytes = t->rows * row_bytes(t);
        uint64_t done = atomic_fetch_add(&r->done_bytes, bytes) + bytes;
        if (turn->thread == 0 && !tell(r, done)) {
            (void)fn_fail(&r->errors[0], FN_E_CANCELLED, "loading was cancelled");
            atomic_store(&r->failed, 1);
        }
    }
}

fn_status fn_pack_run(const fn_pack_list *list, fn_pool *pool, const fn_load_watch *watch,
                      fn_error *err) {
    size_t threads = fn_pool_threads(pool);
    runner r = {.list = list, .watch = watch};
    fn_status status = FN_OK;
    r.staging = fn_alloc_zero(threads, sizeof *r.staging);
    r.errors = fn_alloc_zero(threads, sizeof *r.errors);
    bool ok = r.staging != NULL && r.errors != NULL && !list->out_of_memory;
    for (size_t i = 0; ok && i < threads; i++) {
        r.staging[i] = fn_alloc_aligned(list->staging_bytes, 1);
        ok = r.staging[i] != NULL;
    }
    if (!ok) {
        status = fn_fail_nomem(err, "loading", list->staging_bytes * threads);
        goto done;
    }
    (void)tell(&r, 0); /* the clock starts */
    fn_pool_run(pool, work, &r);
    for (size_t i = 0; i < threads && status == FN_OK; i++) {
        if (r.errors[i].code != FN_OK) {
            status = fn_fail(err, r.errors[i].code, "%s", r.errors[i].text);
        }
    }
    if (status == FN_OK) {
        (void)tell(&r, list->bytes);
    }
done:
    for (size_t i = 0; r.staging != NULL && i < threads; i++) {
        fn_free(r.staging[i]);
    }
    fn_free(r.staging);
    fn_free(r.errors);
    return status;
}
