#include "layers/step.h"

const fn_attention_parts fn_trunk_parts = {.keys = FN_PART_KEYS,
                                           .values = FN_PART_VALUES,
                                           .pooled = FN_PART_POOLED,
                                           .raw_keys = FN_PART_RAW_KEYS,
                                           .positions = FN_PART_OPEN_POSITIONS,
                                           .keeps_positions = true,
                                           .selected = FN_TRACE_SELECTED,
                                           .mixer_out = FN_TRACE_MIXER_OUT,
                                           .mlp_out = FN_TRACE_MLP_OUT,
                                           .router_ids = FN_TRACE_ROUTER_IDS,
                                           .router_weights = FN_TRACE_ROUTER_WEIGHTS};

const fn_attention_parts fn_mtp_parts = {.keys = FN_PART_MTP_KEYS,
                                         .values = FN_PART_MTP_VALUES,
                                         .pooled = FN_PART_MTP_POOLED,
                                         .raw_keys = FN_PART_MTP_RAW_KEYS,
                                         .positions = FN_PART_MTP_POSITIONS,
                                         .selected = FN_TRACE_MTP_SELECTED,
                                         .mixer_out = FN_TRACE_NONE,
                                         .mlp_out = FN_TRACE_NONE,
                                         .router_ids = FN_TRACE_NONE,
                                         .router_weights = FN_TRACE_NONE};

typedef struct each_job {
    const fn_step *step;
    size_t n;
    fn_part_job job;
    void *ctx;
} each_job;

static void run_each(void *ctx, size_t thread, size_t n_threads) {
    const each_job *e = ctx;
    size_t begin;
    size_t end;
    fn_share(e->n, thread, n_threads, &begin, &end);
    if (begin < end) {
        e->job(e->step, e->ctx, begin, end, thread);
    }
}

void fn_step_each(const fn_step *s, size_t n, fn_part_job job, void *ctx) {
    if (n <= 1) {
        if (n == 1) {
            job(s, ctx, 0, 1, 0);
        }
        return;
    }
    fn_pool_run(s->pool, run_each, &(each_job){s, n, job, ctx});
}

typedef struct linear_job {
    const fn_kernels *k;
    const fn_linear *units;
    size_t n_units;
    size_t cost; /* of all units that are split by tiles */
} linear_job;

static bool split_by_rows(const fn_linear *u, size_t n_threads) {
    return fn_matrix_tiles(u->w->rows) < 4 * n_threads && u->rows >= 2 * n_threads;
}

static size_t tile_cost(const fn_linear *u) {
    return u->w->tile_bytes * (u->rows + 1);
}

static void run_unit(const linear_job *j, const fn_linear *u, size_t tiles[2], size_t rows[2]) {
    if (tiles[0] < tiles[1] && rows[0] < rows[1]) {
        j->k->matmul[u->w->kind](&(fn_matmul_args){.y = u->y + rows[0] * u->ldy,
                                                   .ldy = u->ldy,
                                                   .x = u->x + rows[0] * u->ldx,
                                                   .ldx = u->ldx * sizeof(float),
                                                   .rows = rows[1] - rows[0],
                                                   .w = u->w,
                                                   .tile_begin = tiles[0],
                                                   .tile_end = tiles[1]});
    }
}

/* The first tile of u whose cost, counted from `before`, lies at or beyond `at`. */
static size_t tile_at(const fn_linear *u, size_t before, size_t at) {
    size_t n = fn_matrix_tiles(u->w->rows);
    size_t cost = tile_cost(u);
    if (at <= before) {
        return 0;
    }
    size_t tile = (at - before + cost - 1) / cost;
    return tile < n ? tile : n;
}

static void run_linear(void *ctx, size_t thread, size_t n_threads) {
    const linear_job *j = ctx;
    size_t begin;
    size_t end;
    size_t before = 0;
    fn_share(j->cost, thread, n_threads, &begin, &end);
    for (size_t i = 0; i < j->n_units; i++) {
        const fn_linear *u = &j->units[i];
        size_t tiles[2] = {0, fn_matrix_tiles(u->w->rows)};
        size_t rows[2] = {0, u->rows};
        if (split_by_rows(u, n_threads)) {
            fn_share(u->rows, thread, n_threads, &rows[0], &rows[1]);
        } else {
            size_t n_tiles = tiles[1];
            tiles[0] = tile_at(u, before, begin);
            tiles[1] = tile_at(u, before, end);
            before += n_tiles * tile_cost(u);
        }
        run_unit(j, u, tiles, rows);
    }
}

void fn_step_linear(const fn_step *s, const fn_linear *units, size_t n_units) {
    linear_job j = {.k = s->k, .units = units, .n_units = n_units};
    size_t n_threads = fn_pool_threads(s->pool);
    for (size_t i = 0; i < n_units; i++) {
        if (!split_by_rows(&units[i], n_threads)) {
            j.cost += fn_matrix_tiles(units[i].w->rows) * tile_cost(&units[i]);
        }
    }
    fn_pool_run(s->pool, run_linear, &j);
}

const fn_step_segment *fn_step_segment_of(const fn_step *s, size_t row) {
    size_t i = 0;
    while (row >= s->segments[i].first + s->segments[i].n) {
        i++;
    }
    return &s->segments[i];
}
