/* weights/load.c - checkpoint tensors -> one arena of packed matrices and float vectors.
 *
 * The same walk over the model runs twice: once to sum the sizes, once to place everything and note what
 * must be read. The notes ("tasks") are then worked off by all threads. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "weights/weights.h"

/* Source bytes a thread reads and packs at a time. */
#define TASK_BYTES ((size_t)4 << 20)

typedef enum task_kind { TASK_MATRIX, TASK_VECTOR, TASK_CONV, TASK_NEG_EXP, TASK_RAW } task_kind;

typedef struct task {
    task_kind kind;
    const fn_tensor *tensor;
    uint64_t first_row; /* of the tensor seen as [rows, cols]; of this task's part */
    size_t rows, cols;
    fn_matrix matrix; /* TASK_MATRIX: where rows go from dst_row on */
    size_t dst_row;
    void *dst; /* tiles, floats or raw bytes */
} task;

typedef struct loader {
    const fn_checkpoint *checkpoint;
    const fn_shape *shape;
    uint8_t *arena; /* NULL while sizes are summed */
    size_t used;
    task *tasks;
    size_t n_tasks, task_capacity;
    bool out_of_memory;
    uint64_t total_bytes;
    size_t staging_bytes;
    fn_load_progress progress;
    void *ud;
    uint8_t **staging; /* [threads] */
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

static void add_task(loader *l, const task *t) {
    if (l->arena == NULL || t->rows == 0) {
        return;
    }
    if (!fn_grow((void **)&l->tasks, &l->task_capacity, l->n_tasks + 1, sizeof *l->tasks)) {
        l->out_of_memory = true;
        return;
    }
    l->tasks[l->n_tasks++] = *t;
    size_t bytes = t->rows * t->cols * fn_dtype_bytes(t->tensor->dtype);
    l->total_bytes += bytes;
    if (bytes > l->staging_bytes) {
        l->staging_bytes = bytes;
    }
}

/* Cuts rows into parts of about TASK_BYTES, whole tiles each. */
static void add_rows(loader *l, const task *whole) {
    size_t row_bytes = whole->cols * fn_dtype_bytes(whole->tensor->dtype);
    size_t step = TASK_BYTES / (row_bytes * FN_TILE) * FN_TILE;
    step = step < FN_TILE ? FN_TILE : step;
    for (size_t row = 0; row < whole->rows; row += step) {
        task part = *whole;
        part.first_row += row;
        part.dst_row += row;
        part.rows = whole->rows - row < step ? whole->rows - row : step;
        add_task(l, &part);
    }
}

/* One matrix made of up to two tensors (or ranges of rows of one), one below the other. */
typedef struct part {
    const fn_tensor *tensor;
    uint64_t first_row;
    size_t rows;
} part;

static fn_matrix matrix_of(loader *l, const part *parts, size_t n_parts, size_t cols) {
    fn_dtype dtype = parts[0].tensor->dtype;
    fn_matrix m = {.kind = dtype == FN_DTYPE_BF16 ? FN_MATRIX_BF16 : FN_MATRIX_F32,
                   .cols = cols,
                   .group = FN_GROUP_DEFAULT};
    for (size_t i = 0; i < n_parts; i++) {
        m.rows += parts[i].rows;
        if (parts[i].tensor->dtype != dtype) {
            m.kind = FN_MATRIX_F32; /* mixed: the wider holds both exactly */
        }
    }
    m.tile_bytes = fn_matrix_tile_bytes(m.kind, m.cols, m.group);
    uint8_t *tiles = place(l, fn_matrix_bytes(m.kind, m.rows, m.cols, m.group));
    m.tiles = tiles;
    size_t row = 0;
    for (size_t i = 0; i < n_parts; i++) {
        add_rows(l, &(task){.kind = TASK_MATRIX,
                            .tensor = parts[i].tensor,
                            .first_row = parts[i].first_row,
                            .rows = parts[i].rows,
                            .cols = cols,
                            .matrix = m,
                            .dst_row = row,
                            .dst = tiles});
        row += parts[i].rows;
    }
    return m;
}

static fn_matrix matrix(loader *l, const fn_tensor *tensor) {
    if (tensor == NULL) {
        return (fn_matrix){0};
    }
    part whole = {tensor, 0, (size_t)tensor->dims[0]};
    return matrix_of(l, &whole, 1, (size_t)tensor->dims[1]);
}

static fn_matrix two_matrices(loader *l, const fn_tensor *above, const fn_tensor *below) {
    part parts[2] = {{above, 0, (size_t)above->dims[0]}, {below, 0, (size_t)below->dims[0]}};
    return matrix_of(l, parts, 2, (size_t)above->dims[1]);
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
                              .down = matrix(l, b->down),
                              .up = matrix(l, b->up),
                              .inject = matrix(l, b->inject)};
}

static void experts(loader *l, const fn_bound_layer *b, fn_moe_weights *w) {
    const fn_shape *s = l->shape;
    fn_matrix *gate_up = place(l, s->n_experts * sizeof *gate_up);
    fn_matrix *down = place(l, s->n_experts * sizeof *down);
    for (size_t e = 0; e < s->n_experts; e++) {
        fn_matrix m_gate_up;
        fn_matrix m_down;
        if (b->experts_gate_up != NULL) {
            part stacked = {b->experts_gate_up, e * 2 * s->expert_width, 2 * s->expert_width};
            m_gate_up = matrix_of(l, &stacked, 1, s->hidden);
            stacked = (part){b->experts_down, e * s->hidden, s->hidden};
            m_down = matrix_of(l, &stacked, 1, s->expert_width);
        } else {
            m_gate_up = two_matrices(l, b->expert_gate[e], b->expert_up[e]);
            m_down = matrix(l, b->expert_down[e]);
        }
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
    if (b->in_qkv != NULL) {
        w->delta = (fn_delta_weights){.in_qkv = matrix(l, b->in_qkv),
                                      .in_z = matrix(l, b->in_z),
                                      .in_a = matrix(l, b->in_a),
                                      .in_b = matrix(l, b->in_b),
                                      .out = matrix(l, b->delta_out),
                                      .conv = floats(l, b->conv, TASK_CONV),
                                      .a = floats(l, b->a_log, TASK_NEG_EXP),
                                      .dt_bias = vector(l, b->dt_bias),
                                      .norm = vector(l, b->delta_norm)};
    } else {
        w->attention = (fn_attention_weights){.q = matrix(l, b->q),
                                              .k = matrix(l, b->k),
                                              .v = matrix(l, b->v),
                                              .o = matrix(l, b->o),
                                              .q_bias = vector(l, b->q_bias),
                                              .k_bias = vector(l, b->k_bias),
                                              .v_bias = vector(l, b->v_bias),
                                              .o_bias = vector(l, b->o_bias),
                                              .q_norm = vector(l, b->q_norm),
                                              .k_norm = vector(l, b->k_norm),
                                              .index_qk = matrix(l, b->index_qk),
                                              .index_q_norm = vector(l, b->index_q_norm),
                                              .index_k_norm = vector(l, b->index_k_norm)};
    }
    w->moe.router = matrix(l, b->router);
    w->moe.shared_gate_up = two_matrices(l, b->shared_gate, b->shared_up);
    w->moe.shared_down = matrix(l, b->shared_down);
    w->moe.shared_expert_gate = matrix(l, b->shared_expert_gate);
    experts(l, b, &w->moe);
}

static void ple(loader *l, const fn_bound_ple *b, fn_ple_weights *w) {
    w->key = matrix(l, b->key);
    w->value = matrix(l, b->value);
    w->norm_key = vector(l, b->norm_key);
    w->norm_query = vector(l, b->norm_query);
    w->norm_conv = vector(l, b->norm_conv);
    w->conv = floats(l, b->conv, TASK_CONV);
}

static void embedding(loader *l, const fn_bound *b, fn_weights *w) {
    const fn_tensor *t = b->embed;
    if (b->head == NULL) {
        w->head = matrix(l, t);
        return;
    }
    w->head = matrix(l, b->head);
    w->embed_dtype = t->dtype == FN_DTYPE_BF16 ? FN_DTYPE_BF16 : FN_DTYPE_F32;
    size_t row_bytes = (size_t)t->dims[1] * fn_dtype_bytes(w->embed_dtype);
    uint8_t *dst = place(l, (size_t)t->dims[0] * row_bytes);
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

/* A part's rows -> float32 in dst [rows, cols]. */
static fn_status read_floats(const loader *l, const task *t, float *dst, fn_error *err) {
    return fn_tensor_read_f32(l->checkpoint, t->tensor, t->first_row * t->cols, t->rows * t->cols,
                              dst, err);
}

static fn_status pack(const loader *l, const task *t, uint8_t *staging, fn_error *err) {
    bool as_stored = t->matrix.kind == FN_MATRIX_BF16;
    size_t element = as_stored ? 2 : sizeof(float);
    fn_status status =
        as_stored ? fn_tensor_read(l->checkpoint, t->tensor, t->first_row * t->cols * element,
                                   staging, t->rows * t->cols * element, err)
                  : read_floats(l, t, (float *)(void *)staging, err);
    for (size_t r = 0; status == FN_OK && r < t->rows; r++) {
        fn_matrix_pack_row(&t->matrix, t->dst, t->dst_row + r, staging + r * t->cols * element);
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
        size_t row_bytes = t->cols * (bf16 ? 2 : sizeof(float));
        uint8_t *dst = (uint8_t *)t->dst + t->dst_row * row_bytes;
        return bf16 ? fn_tensor_read(l->checkpoint, t->tensor, t->first_row * row_bytes, dst,
                                     t->rows * row_bytes, err)
                    : read_floats(l, t, (float *)(void *)dst, err);
    }
    }
    return FN_OK;
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
        uint64_t bytes = t->rows * t->cols * fn_dtype_bytes(t->tensor->dtype);
        uint64_t done = atomic_fetch_add(&l->done_bytes, bytes) + bytes;
        if (thread == 0 && l->progress != NULL && !l->progress(l->ud, done, l->total_bytes)) {
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
    /* Float32 staging of a 16-bit source needs twice the source's bytes. */
    size_t staging_bytes = l->staging_bytes * 2;
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
    if (status == FN_OK && l->progress != NULL) {
        (void)l->progress(l->ud, l->total_bytes, l->total_bytes);
    }
done:
    for (size_t i = 0; l->staging != NULL && i < threads; i++) {
        fn_free(l->staging[i]);
    }
    fn_free(l->staging);
    fn_free(l->errors);
    return status;
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

fn_status fn_weights_size(const fn_bound *bound, const fn_shape *shape, size_t *bytes,
                          fn_error *err) {
    fn_weights *w = NULL;
    *bytes = 0;
    fn_status status = weights_create(shape, &w, err);
    if (status == FN_OK) {
        loader l = {.shape = shape};
        walk(&l, bound, w);
        *bytes = l.used;
    }
    fn_weights_free(w);
    return status;
}

fn_status fn_weights_load(const fn_checkpoint *c, const fn_bound *bound, const fn_shape *shape,
                          fn_pool *pool, fn_load_progress progress, void *ud, fn_weights **out,
                          fn_error *err) {
    fn_weights *w = NULL;
    loader l = {.checkpoint = c, .shape = shape, .progress = progress, .ud = ud};
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
