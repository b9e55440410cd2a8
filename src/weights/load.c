/* weights/load.c - checkpoint tensors -> one arena of packed matrices and float vectors.
 *
 * The same walk over the model runs twice: once to sum the sizes, once to place everything and note what
 * must be read. The notes ("tasks") are then worked off by all threads. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/half.h"
#include "base/mem.h"
#include "weights/quantize_row.h"
#include "weights/weights.h"

/* Source bytes a thread reads and packs at a time. */
#define TASK_BYTES ((size_t)4 << 20)

typedef enum task_kind { TASK_MATRIX, TASK_VECTOR, TASK_CONV, TASK_NEG_EXP, TASK_RAW } task_kind;

typedef struct task {
    task_kind kind;
    const fn_source *source; /* TASK_MATRIX */
    const fn_tensor *tensor; /* the others */
    size_t first_row;        /* of source or tensor */
    size_t rows, cols;
    fn_matrix matrix; /* TASK_MATRIX: where rows go from dst_row on */
    size_t dst_row;
    void *dst; /* tiles, floats or raw bytes */
} task;

/* What decides in which kind of matrix weights are kept. */
typedef enum weight_class {
    KEEP, /* never narrower than stored */
    DENSE,
    EXPERT,
    WEIGHT_CLASSES
} weight_class;

typedef struct loader {
    const fn_checkpoint *checkpoint;
    const fn_shape *shape;
    uint8_t *arena; /* NULL while sizes are summed */
    size_t used;
    task *tasks;
    size_t n_tasks, task_capacity;
    bool out_of_memory;
    const fn_weight_settings *settings;
    int bits[WEIGHT_CLASSES]; /* 0: as stored */
    uint64_t total_bytes;
    size_t staging_bytes;
    const fn_load_watch *watch; /* or NULL */
    uint8_t **staging;          /* [threads] */
    atomic_size_t next;
    atomic_uint_fast64_t done_bytes;
    atomic_int failed;
    fn_error *errors; /* [threads] */
} loader;

static void *place(loader *l, size_t bytes) {
    size_t at = l->used;
    l->used += (bytes + 63) / 64 * 64;
    return l->arena != NULL ? l->arena + at : NULL;
}

static size_t round_64(size_t n) {
    return (n + 63) / 64 * 64;
}

/* Bytes in the files of one row. */
static size_t row_bytes(const task *t) {
    if (t->kind == TASK_MATRIX) {
        return (size_t)(fn_source_bytes(t->source) / t->source->rows);
    }
    return t->cols * fn_dtype_bytes(t->tensor->dtype);
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
    if (t->kind != TASK_MATRIX) {
        return floats;
    }
    return (as_stored(t) ? 0 : floats + row_codes(t) + row_scales(t)) +
           fn_source_scratch(t->source, t->rows);
}

static void add_task(loader *l, const task *t) {
    if (l->arena == NULL || t->rows == 0) {
        return;
    }
    if (!fn_grow((void **)&l->tasks, &l->task_capacity, l->n_tasks + 1, sizeof *l->tasks)) {
        l->out_of_memory = true;
        return;
    }
    l->tasks[l->n_tasks++] = *t;
    l->total_bytes += t->rows * row_bytes(t);
    size_t staging = staging_of(t);
    if (staging > l->staging_bytes) {
        l->staging_bytes = staging;
    }
}

/* Cuts rows into parts of about TASK_BYTES, whole tiles each. */
static void add_rows(loader *l, const task *whole) {
    size_t step = TASK_BYTES / (row_bytes(whole) * FN_TILE) * FN_TILE;
    step = step < FN_TILE ? FN_TILE : step;
    for (size_t row = 0; row < whole->rows; row += step) {
        task part = *whole;
        part.first_row += row;
        part.dst_row += row;
        part.rows = whole->rows - row < step ? whole->rows - row : step;
        add_task(l, &part);
    }
}

/* One matrix made of up to two sources, one below the other. Of two kinds the result is F32, which
 * holds both exactly. */
static fn_matrix matrix_of(loader *l, const fn_source *const *parts, size_t n_parts,
                           weight_class class) {
    fn_matrix m = {.kind = fn_source_kind(parts[0]), .cols = parts[0]->cols};
    for (size_t i = 0; i < n_parts; i++) {
        m.rows += parts[i]->rows;
        m.kind = fn_source_kind(parts[i]) == m.kind ? m.kind : FN_MATRIX_F32;
    }
    m.kind = fn_weight_kind(l->bits[class], m.kind);
    m.group = fn_weight_group(l->settings, m.kind, l->bits[class]);
    m.tile_bytes = fn_matrix_tile_bytes(m.kind, m.cols, m.group);
    uint8_t *tiles = place(l, fn_matrix_bytes(m.kind, m.rows, m.cols, m.group));
    m.tiles = tiles;
    size_t row = 0;
    for (size_t i = 0; i < n_parts; i++) {
        add_rows(l, &(task){.kind = TASK_MATRIX,
                            .source = parts[i],
                            .rows = parts[i]->rows,
                            .cols = m.cols,
                            .matrix = m,
                            .dst_row = row,
                            .dst = tiles});
        row += parts[i]->rows;
    }
    return m;
}

static fn_matrix matrix(loader *l, const fn_source *source, weight_class class) {
    return source->weight != NULL ? matrix_of(l, &source, 1, class) : (fn_matrix){0};
}

static fn_matrix two_matrices(loader *l, const fn_source *above, const fn_source *below,
                              weight_class class) {
    return matrix_of(l, (const fn_source *const[]){above, below}, 2, class);
}

static const float *floats(loader *l, const fn_tensor *tensor, task_kind kind) {
    if (tensor == NULL) {
        return NULL;
    }
    size_t n = (size_t)fn_tensor_elements(tensor);
    float *dst = place(l, n * sizeof *dst);
    size_t rows = kind == TASK_CONV ? (size_t)tensor->dims[0] : 1;
    add_task(l,
             &(task){.kind = kind, .tensor = tensor, .rows = rows, .cols = n / rows, .dst = dst});
    return dst;
}

static const float *vector(loader *l, const fn_tensor *tensor) {
    return floats(l, tensor, TASK_VECTOR);
}

static fn_mixer_weights mixer(loader *l, const fn_bound_mixer *b) {
    return (fn_mixer_weights){.norm = vector(l, b->norm),
                              .down = matrix(l, &b->down, DENSE),
                              .up = matrix(l, &b->up, DENSE),
                              .inject = matrix(l, &b->inject, KEEP)};
}

static void experts(loader *l, const fn_bound_layer *b, fn_moe_weights *w) {
    const fn_shape *s = l->shape;
    fn_matrix *gate_up = place(l, s->n_experts * sizeof *gate_up);
    fn_matrix *down = place(l, s->n_experts * sizeof *down);
    for (size_t e = 0; e < s->n_experts; e++) {
        fn_matrix m_gate_up = two_matrices(l, &b->expert_gate[e], &b->expert_up[e], EXPERT);
        fn_matrix m_down = matrix(l, &b->expert_down[e], EXPERT);
        if (l->arena != NULL) {
            gate_up[e] = m_gate_up;
            down[e] = m_down;
        }
    }
    w->gate_up = gate_up;
    w->down = down;
}

static void layer(loader *l, const fn_bound_layer *b, fn_layer_weights *w) {
    w->attn_mixer = mixer(l, &b->attn_mixer);
    w->mlp_mixer = mixer(l, &b->mlp_mixer);
    if (b->in_qkv.weight != NULL) {
        w->delta = (fn_delta_weights){.in_qkv = matrix(l, &b->in_qkv, DENSE),
                                      .in_z = matrix(l, &b->in_z, DENSE),
                                      .in_a = matrix(l, &b->in_a, KEEP),
                                      .in_b = matrix(l, &b->in_b, KEEP),
                                      .out = matrix(l, &b->delta_out, DENSE),
                                      .conv = floats(l, b->conv, TASK_CONV),
                                      .a = floats(l, b->a_log, TASK_NEG_EXP),
                                      .dt_bias = vector(l, b->dt_bias),
                                      .norm = vector(l, b->delta_norm)};
    } else {
        w->attention = (fn_attention_weights){.q = matrix(l, &b->q, DENSE),
                                              .k = matrix(l, &b->k, DENSE),
                                              .v = matrix(l, &b->v, DENSE),
                                              .o = matrix(l, &b->o, DENSE),
                                              .q_bias = vector(l, b->q_bias),
                                              .k_bias = vector(l, b->k_bias),
                                              .v_bias = vector(l, b->v_bias),
                                              .o_bias = vector(l, b->o_bias),
                                              .q_norm = vector(l, b->q_norm),
                                              .k_norm = vector(l, b->k_norm),
                                              .index_qk = matrix(l, &b->index_qk, KEEP),
                                              .index_q_norm = vector(l, b->index_q_norm),
                                              .index_k_norm = vector(l, b->index_k_norm)};
    }
    w->moe.router = matrix(l, &b->router, KEEP);
    w->moe.shared_gate_up = two_matrices(l, &b->shared_gate, &b->shared_up, DENSE);
    w->moe.shared_down = matrix(l, &b->shared_down, DENSE);
    w->moe.shared_expert_gate = matrix(l, &b->shared_expert_gate, KEEP);
    experts(l, b, &w->moe);
}

static void ple(loader *l, const fn_bound_ple *b, fn_ple_weights *w) {
    w->key = matrix(l, &b->key, DENSE);
    w->value = matrix(l, &b->value, DENSE);
    w->norm_key = vector(l, b->norm_key);
    w->norm_query = vector(l, b->norm_query);
    w->norm_conv = vector(l, b->norm_conv);
    w->conv = floats(l, b->conv, TASK_CONV);
}

static void embedding(loader *l, const fn_bound *b, fn_weights *w) {
    const fn_tensor *t = b->embed;
    if (b->head.weight == NULL) {
        w->head = matrix(l, &b->tied_head, KEEP);
        return;
    }
    w->head = matrix(l, &b->head, DENSE);
    w->embed_dtype = t->dtype == FN_DTYPE_BF16 ? FN_DTYPE_BF16 : FN_DTYPE_F32;
    uint8_t *dst = place(l, (size_t)fn_tensor_elements(t) * fn_dtype_bytes(w->embed_dtype));
    w->embed = dst;
    if (l->arena == NULL) {
        return;
    }
    add_rows(l, &(task){.kind = TASK_RAW,
                        .tensor = t,
                        .rows = (size_t)t->dims[0],
                        .cols = (size_t)t->dims[1],
                        .dst = dst});
}

static void walk(loader *l, const fn_bound *bound, fn_weights *w) {
    embedding(l, bound, w);
    w->mixer = mixer(l, &bound->mixer);
    for (size_t i = 0; i < l->shape->n_layers; i++) {
        layer(l, &bound->layers[i], &w->layers[i]);
        size_t p = fn_shape_ple_index(l->shape, i);
        if (p < l->shape->n_ple) {
            fn_ngram_constants_init(l->shape, p, &w->ple[p].hash);
            ple(l, bound->layers[i].ple, &w->ple[p]);
            w->layers[i].ple = &w->ple[p];
        }
    }
}

/* A tensor's rows -> float32 in dst [rows, cols]. */
static fn_status read_floats(const loader *l, const task *t, float *dst, fn_error *err) {
    return fn_tensor_read_f32(l->checkpoint, t->tensor, (uint64_t)t->first_row * t->cols,
                              t->rows * t->cols, dst, err);
}

/* Rows whose codes and scales go into tiles as they are. */
static fn_status pack_as_stored(const loader *l, const task *t, uint8_t *staging, fn_error *err) {
    fn_source_codes c;
    const fn_matrix *m = &t->matrix;
    size_t groups = (t->cols + m->group - 1) / m->group;
    fn_status status =
        fn_source_read_codes(l->checkpoint, t->source, t->first_row, t->rows, staging, &c, err);
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
static fn_status check_finite(const task *t, size_t r, const float *row, fn_error *err) {
    for (size_t k = 0; k < t->cols; k++) {
        if (!isfinite(row[k])) {
            return fn_fail(err, FN_E_MODEL, "tensor %s, row %zu: found a weight that is not finite",
                           t->source->weight->name, t->first_row + r);
        }
    }
    return FN_OK;
}

/* Row r of the task into its matrix; room: memory for codes and scales. */
static fn_status pack_floats(const task *t, size_t r, const float *row, uint8_t *room,
                             fn_error *err) {
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
    fn_status status = check_finite(t, r, row, err);
    if (status == FN_OK) {
        fn_quantize_row(row, t->cols, m->group, m->kind == FN_MATRIX_INT8 ? 8 : 4, codes, scales);
        fn_matrix_pack_codes(m, t->dst, n, codes, scales);
    }
    return status;
}

static fn_status pack(const loader *l, const task *t, uint8_t *staging, fn_error *err) {
    if (as_stored(t)) {
        return pack_as_stored(l, t, staging, err);
    }
    float *rows = (float *)(void *)staging;
    uint8_t *room = staging + round_64(t->rows * t->cols * sizeof *rows);
    uint8_t *scratch = room + row_codes(t) + row_scales(t);
    fn_status status =
        fn_source_read_f32(l->checkpoint, t->source, t->first_row, t->rows, scratch, rows, err);
    for (size_t r = 0; status == FN_OK && r < t->rows; r++) {
        status = pack_floats(t, r, rows + r * t->cols, room, err);
    }
    return status;
}

/* conv1d.weight [channels, 1, taps] -> [taps, channels]: the kernel walks channels. */
static fn_status read_conv(const loader *l, const task *t, float *staging, fn_error *err) {
    fn_status status = read_floats(l, t, staging, err);
    float *dst = t->dst;
    for (size_t c = 0; status == FN_OK && c < t->rows; c++) {
        for (size_t j = 0; j < t->cols; j++) {
            dst[j * t->rows + c] = staging[c * t->cols + j];
        }
    }
    return status;
}

static fn_status run_task(const loader *l, const task *t, uint8_t *staging, fn_error *err) {
    switch (t->kind) {
    case TASK_MATRIX:
        return pack(l, t, staging, err);
    case TASK_VECTOR:
        return read_floats(l, t, t->dst, err);
    case TASK_CONV:
        return read_conv(l, t, (float *)(void *)staging, err);
    case TASK_NEG_EXP: {
        fn_status status = read_floats(l, t, t->dst, err);
        float *a = t->dst;
        for (size_t i = 0; status == FN_OK && i < t->cols; i++) {
            a[i] = -(float)exp((double)a[i]);
        }
        return status;
    }
    case TASK_RAW: {
        bool bf16 = t->tensor->dtype == FN_DTYPE_BF16;
        size_t row = t->cols * (bf16 ? 2 : sizeof(float));
        uint8_t *dst = (uint8_t *)t->dst + t->dst_row * row;
        return bf16 ? fn_tensor_read(l->checkpoint, t->tensor, (uint64_t)t->first_row * row, dst,
                                     t->rows * row, err)
                    : read_floats(l, t, (float *)(void *)dst, err);
    }
    }
    return FN_OK;
}

static bool tell(const loader *l, uint64_t done) {
    return l->watch == NULL || l->watch->progress(l->watch->ud, done, l->total_bytes);
}

static void work(void *ctx, size_t thread, size_t n_threads) {
    loader *l = ctx;
    (void)n_threads;
    while (atomic_load(&l->failed) == 0) {
        size_t i = atomic_fetch_add(&l->next, 1);
        if (i >= l->n_tasks) {
            return;
        }
        const task *t = &l->tasks[i];
        if (run_task(l, t, l->staging[thread], &l->errors[thread]) != FN_OK) {
            atomic_store(&l->failed, 1);
            return;
        }
        uint64_t bytes = t->rows * row_bytes(t);
        uint64_t done = atomic_fetch_add(&l->done_bytes, bytes) + bytes;
        if (thread == 0 && !tell(l, done)) {
            (void)fn_fail(&l->errors[0], FN_E_CANCELLED, "loading was cancelled");
            atomic_store(&l->failed, 1);
        }
    }
}

static fn_status run_tasks(loader *l, fn_pool *pool, fn_error *err) {
    size_t threads = fn_pool_threads(pool);
    fn_status status = FN_OK;
    l->staging = fn_alloc_zero(threads, sizeof *l->staging);
    l->errors = fn_alloc_zero(threads, sizeof *l->errors);
    size_t staging_bytes = l->staging_bytes;
    bool ok = l->staging != NULL && l->errors != NULL && !l->out_of_memory;
    for (size_t i = 0; ok && i < threads; i++) {
        l->staging[i] = fn_alloc_aligned(staging_bytes, 1);
        ok = l->staging[i] != NULL;
    }
    if (!ok) {
        status = fn_fail_nomem(err, "loading", staging_bytes * threads);
        goto done;
    }
    fn_pool_run(pool, work, l);
    for (size_t i = 0; i < threads && status == FN_OK; i++) {
        if (l->errors[i].code != FN_OK) {
            status = fn_fail(err, l->errors[i].code, "%s", l->errors[i].text);
        }
    }
    if (status == FN_OK) {
        (void)tell(l, l->total_bytes);
    }
done:
    for (size_t i = 0; l->staging != NULL && i < threads; i++) {
        fn_free(l->staging[i]);
    }
    fn_free(l->staging);
    fn_free(l->errors);
    return status;
}

static loader loader_of(const fn_shape *shape, const fn_weight_settings *settings) {
    return (loader){.shape = shape,
                    .settings = settings,
                    .bits = {[DENSE] = settings->dense_bits, [EXPERT] = settings->expert_bits}};
}

static fn_status weights_create(const fn_shape *shape, fn_weights **out, fn_error *err) {
    fn_weights *w = fn_alloc_zero(1, sizeof *w);
    *out = NULL;
    if (w == NULL) {
        return fn_fail_nomem(err, "the weights", sizeof *w);
    }
    w->shape = *shape;
    w->layers = fn_alloc_zero(shape->n_layers, sizeof *w->layers);
    w->ple = fn_alloc_zero(shape->n_ple, sizeof *w->ple);
    if (w->layers == NULL || w->ple == NULL) {
        fn_weights_free(w);
        return fn_fail_nomem(err, "the table of layers", shape->n_layers * sizeof *w->layers);
    }
    *out = w;
    return FN_OK;
}

fn_status fn_weights_size(const fn_bound *bound, const fn_shape *shape,
                          const fn_weight_settings *settings, size_t *bytes, fn_error *err) {
    fn_weights *w = NULL;
    *bytes = 0;
    fn_status status = weights_create(shape, &w, err);
    if (status == FN_OK) {
        loader l = loader_of(shape, settings);
        walk(&l, bound, w);
        *bytes = l.used;
    }
    fn_weights_free(w);
    return status;
}

fn_status fn_weights_load(const fn_checkpoint *c, const fn_bound *bound, const fn_shape *shape,
                          const fn_weight_settings *settings, fn_pool *pool,
                          const fn_load_watch *watch, fn_weights **out, fn_error *err) {
    fn_weights *w = NULL;
    loader l = loader_of(shape, settings);
    l.checkpoint = c;
    l.watch = watch;
    *out = NULL;
    fn_status status = weights_create(shape, &w, err);
    if (status != FN_OK) {
        return status;
    }
    walk(&l, bound, w);
    w->arena_bytes = l.used;
    w->arena = fn_pages_alloc(l.used);
    if (w->arena == NULL) {
        status = fn_fail_nomem(err, "the weights", l.used);
        goto done;
    }
    l.arena = w->arena;
    l.used = 0;
    walk(&l, bound, w);
    status = run_tasks(&l, pool, err);
done:
    fn_free(l.tasks);
    if (status != FN_OK) {
        fn_weights_free(w);
        w = NULL;
    }
    *out = w;
    return status;
}

void fn_weights_free(fn_weights *w) {
    if (w == NULL) {
        return;
    }
    fn_pages_free(w->arena, w->arena_bytes);
    fn_free(w->layers);
    fn_free(w->ple);
    fn_free(w);
}
