/* What `flashnext bench` needs beside sessions: the machine's limits, the work of a forward, its times by class,
 * and a step of several sequences. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "flashnext_tools.h"

/* ---- limits ---- */

#define READ_BYTES ((size_t)256 << 20) /* at most: so many that caches keep little of them */
#define PROBE_ROUNDS 2000000

typedef struct probe_job {
    const fn_engine *engine;
    size_t streams; /* 0: multiply */
    double (*multiply)(size_t rounds);
    double operations;    /* of the first thread: all do the same */
    _Atomic uint64_t sum; /* keeps the reads */
} probe_job;

/* Reads what of bytes [begin, end) lies in m, which begins at *at. */
static void read_matrix(probe_job *j, const fn_matrix *m, size_t begin, size_t end, size_t *at) {
    size_t bytes = fn_matrix_tiles(m->rows) * m->tile_bytes;
    bytes = bytes < READ_BYTES - *at ? bytes : READ_BYTES - *at;
    size_t from = begin > *at ? begin - *at : 0;
    size_t to = end > *at ? end - *at : 0;
    to = to < bytes ? to : bytes;
    if (from < to) {
        j->sum += j->engine->kernels->probe_read(m->tiles + from, to - from, j->streams);
    }
    *at += bytes;
}

/* The LM head, the largest matrix; where it is small, experts behind it. Returns how many bytes there are. */
static size_t read_weights(probe_job *j, size_t begin, size_t end) {
    const fn_shape *shape = &j->engine->shape;
    const fn_weights *w = j->engine->weights;
    size_t at = 0;
    read_matrix(j, &w->head, begin, end, &at);
    for (size_t i = 0; i < shape->n_layers * shape->n_experts && at < READ_BYTES; i++) {
        const fn_moe_weights *moe = &w->layers[i / shape->n_experts].moe;
        read_matrix(j, &moe->gate_up[i % shape->n_experts], begin, end, &at);
        read_matrix(j, &moe->down[i % shape->n_experts], begin, end, &at);
    }
    return at;
}

static void probe(void *ctx, const fn_turn *turn) {
    probe_job *j = ctx;
    if (j->streams > 0) {
        size_t begin = 0;
        size_t end = 0;
        fn_turn_share(turn, read_weights(j, 0, 0) / 64, &begin, &end);
        (void)read_weights(j, begin * 64, end * 64);
        return;
    }
    double operations = j->multiply(PROBE_ROUNDS);
    if (turn->share == 0) {
        j->operations = operations;
    }
}

static double timed(const fn_engine *e, probe_job *j) {
    double begin = fn_clock_seconds();
    fn_pool_run(e->pool, probe, j);
    return fn_clock_seconds() - begin;
}

static double read_rate(const fn_engine *e, size_t streams) {
    probe_job j = {.engine = e, .streams = streams};
    return (double)read_weights(&j, 0, 0) / timed(e, &j);
}

static double multiply_rate(const fn_engine *e, double (*multiply)(size_t rounds)) {
    probe_job j = {.engine = e, .multiply = multiply};
    double seconds = timed(e, &j);
    return j.operations * (double)fn_pool_threads(e->pool) / seconds;
}

void fn_limits_measure(fn_engine *e, fn_limits *out) {
    pthread_mutex_lock(&e->mutex);
    out->read = fmax(read_rate(e, 1), read_rate(e, 8));
    out->int8 = multiply_rate(e, e->kernels->probe_int8);
    out->bf16 = multiply_rate(e, e->kernels->probe_bf16);
    out->f32 = multiply_rate(e, e->kernels->probe_f32);
    pthread_mutex_unlock(&e->mutex);
}

/* ---- work ---- */

static void add_matrix(const fn_engine *e, const fn_matrix *m, double copies, double rows,
                       fn_work *out) {
    if (m->tiles == NULL) {
        return;
    }
    double operations = 2.0 * (double)m->rows * (double)m->cols * rows;
    out->weight_bytes += copies * (double)(fn_matrix_tiles(m->rows) * m->tile_bytes);
    if (e->precision == FN_PRECISION_EXACT || fn_row_form_of(m->kind) == FN_ROW_F32) {
        out->f32_operations += operations;
    } else if (fn_row_form_of(m->kind) == FN_ROW_INT8) {
        out->int8_operations += operations;
    } else {
        out->bf16_operations += operations;
    }
}

static void add_mixer(const fn_engine *e, const fn_mixer_weights *w, double rows, fn_work *out) {
    add_matrix(e, &w->down, 1.0, rows, out);
    add_matrix(e, &w->up, 1.0, rows, out);
    add_matrix(e, &w->inject, 1.0, rows, out);
}

static void add_layer(const fn_engine *e, size_t layer, double rows, fn_work *out) {
    const fn_layer_weights *w = &e->weights->layers[layer];
    const fn_matrix *delta[] = {&w->delta.in_qkv, &w->delta.in_z, &w->delta.in_a, &w->delta.in_b,
                                &w->delta.out};
    const fn_matrix *attention[] = {&w->attention.q, &w->attention.k, &w->attention.v,
                                    &w->attention.o, &w->attention.index_qk};
    const fn_matrix *dense[] = {&w->moe.router, &w->moe.shared_gate_up, &w->moe.shared_down,
                                &w->moe.shared_expert_gate};
    bool is_delta = e->shape.layer_kind[layer] == FN_LAYER_DELTA;
    double experts = (double)e->shape.n_experts;
    double chosen = (double)e->shape.n_chosen;
    double met = experts * (1.0 - pow(1.0 - chosen / experts, rows));
    for (size_t i = 0; i < 5; i++) {
        add_matrix(e, is_delta ? delta[i] : attention[i], 1.0, rows, out);
    }
    for (size_t i = 0; i < 4; i++) {
        add_matrix(e, dense[i], 1.0, rows, out);
    }
    add_matrix(e, &w->moe.gate_up[0], met, rows * chosen, out);
    add_matrix(e, &w->moe.down[0], met, rows * chosen, out);
    add_mixer(e, &w->attn_mixer, rows, out);
    add_mixer(e, &w->mlp_mixer, rows, out);
    if (w->ple != NULL) {
        add_matrix(e, &w->ple->key, 1.0, rows, out);
        add_matrix(e, &w->ple->value, 1.0, rows, out);
    }
}

/* Of one sequence at that depth. */
static double state_read(const fn_engine *e, size_t depth) {
    const fn_part_layout *parts = e->layout.part;
    size_t keys = depth;
    double bytes = (double)e->layout.recurrent_bytes;
    if (e->shape.has_indexer) {
        size_t most = e->shape.index_budget + e->shape.index_ratio - 1;
        const fn_part_layout *pooled = &parts[FN_PART_POOLED];
        size_t blocks = depth > most ? depth / e->shape.index_ratio : 0;
        bytes += (double)(pooled->layers * blocks * pooled->row_bytes);
        keys = keys < most ? keys : most;
    }
    return bytes +
           (double)(keys * (parts[FN_PART_KEYS].layers * parts[FN_PART_KEYS].row_bytes +
                            parts[FN_PART_VALUES].layers * parts[FN_PART_VALUES].row_bytes));
}

void fn_work_of(const fn_engine *e, size_t rows, size_t depth, size_t sequences, size_t logits,
                fn_work *out) {
    *out = (fn_work){0};
    for (size_t layer = 0; layer < e->shape.n_layers; layer++) {
        add_layer(e, layer, (double)rows, out);
    }
    if (logits > 0) {
        add_mixer(e, &e->weights->mixer, (double)logits, out);
        add_matrix(e, &e->weights->head, 1.0, (double)logits, out);
    }
    out->state_bytes = (double)sequences * state_read(e, depth);
}

/* ---- several sequences ---- */

fn_status fn_sessions_step(fn_session *const *sessions, const int32_t *ids, size_t n, float *logits,
                           fn_error *err) {
    static const uint8_t wants[1] = {1};
    fn_segment segments[FN_STEP_SEGMENTS];
    if (n == 0 || n > FN_STEP_SEGMENTS) {
        return fn_fail(err, FN_E_RANGE, "a step of %zu sessions: expected 1 to %d", n,
                       FN_STEP_SEGMENTS);
    }
    fn_engine *e = sessions[0]->engine;
    for (size_t i = 0; i < n; i++) {
        if (sessions[i]->engine != e) {
            return fn_fail(err, FN_E_USAGE, "session %zu belongs to another engine", i);
        }
        segments[i] =
            (fn_segment){.state = sessions[i]->state, .ids = ids + i, .n = 1, .wants = wants};
    }
    pthread_mutex_lock(&e->mutex);
    fn_status status = fn_forward_run(e->forward, segments, n, logits, NULL, err);
    pthread_mutex_unlock(&e->mutex);
    for (size_t i = 0; i < n && status == FN_OK; i++) {
        sessions[i]->ids[fn_session_length(sessions[i]) - 1] = ids[i];
        sessions[i]->logits_ready = false;
    }
    return status;
}

/* ---- times ---- */

void fn_profile_begin(fn_engine *e) {
    pthread_mutex_lock(&e->mutex);
    e->clock = (fn_step_clock){0};
    fn_forward_time(e->forward, &e->clock);
    pthread_mutex_unlock(&e->mutex);
}

void fn_profile_end(fn_engine *e, fn_profile *out) {
    pthread_mutex_lock(&e->mutex);
    fn_forward_time(e->forward, NULL);
    memcpy(out->seconds, e->clock.seconds, sizeof out->seconds);
    pthread_mutex_unlock(&e->mutex);
}
