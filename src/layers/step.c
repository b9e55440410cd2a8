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

static void run_each(void *ctx, const fn_turn *turn) {
    const each_job *e = ctx;
    size_t begin;
    size_t end;
    fn_turn_share(turn, e->n, &begin, &end);
    if (begin < end) {
        e->job(e->step, e->ctx, begin, end, turn->thread);
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

/* ---- products ---- */

typedef struct linear_job {
    const fn_step *step;
    const fn_linear *units;
    size_t n_units;
    size_t threads;
    size_t cost; /* of all units that are split by tiles */
} linear_job;

static bool split_by_rows(const fn_linear *u, size_t n_threads) {
    return fn_matrix_tiles(u->w->rows) < 4 * n_threads && u->rows >= 2 * n_threads;
}

/* Of one tile, in the time of a multiplication: reading a byte takes as long as about ten. */
static size_t tile_cost(const fn_linear *u) {
    size_t multiply = FN_TILE * u->w->cols * u->rows;
    multiply *= u->w->kind == FN_MATRIX_INT8 || u->w->kind == FN_MATRIX_INT4 ? 1 : 2;
    size_t read = 10 * u->w->tile_bytes;
    return read > multiply ? read : multiply;
}

void fn_step_product(const fn_step *s, const fn_linear *u, const size_t tiles[2],
                     const size_t rows[2]) {
    if (tiles[0] >= tiles[1] || rows[0] >= rows[1]) {
        return;
    }
    fn_matmul_args args = {.y = u->y + rows[0] * u->ldy,
                           .ldy = u->ldy,
                           .x = (const uint8_t *)u->x + rows[0] * u->ldx,
                           .ldx = u->ldx,
                           .rows = rows[1] - rows[0],
                           .w = u->w,
                           .tile_begin = tiles[0],
                           .tile_end = tiles[1],
                           .next = u->next,
                           .far = u->far};
    if (s->layout->precision == FN_PRECISION_EXACT) {
        s->k->matmul[u->w->kind](&args);
    } else {
        s->k->matmul_fast[u->w->kind](&args);
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

static void run_linear(void *ctx, const fn_turn *turn) {
    const linear_job *j = ctx;
    size_t begin;
    size_t end;
    size_t before = 0;
    fn_turn_share(turn, j->cost, &begin, &end);
    for (size_t i = 0; i < j->n_units; i++) {
        const fn_linear *u = &j->units[i];
        size_t tiles[2] = {0, fn_matrix_tiles(u->w->rows)};
        size_t rows[2] = {0, u->rows};
        if (split_by_rows(u, j->threads)) {
            fn_turn_share(turn, u->rows, &rows[0], &rows[1]);
        } else {
            size_t n_tiles = tiles[1];
            tiles[0] = tile_at(u, before, begin);
            tiles[1] = tile_at(u, before, end);
            before += n_tiles * tile_cost(u);
        }
        fn_step_product(j->step, u, tiles, rows);
    }
}

void fn_step_linear(const fn_step *s, const fn_linear *units, size_t n_units) {
    linear_job j = {
        .step = s, .units = units, .n_units = n_units, .threads = fn_pool_threads(s->pool)};
    for (size_t i = 0; i < n_units; i++) {
        if (!split_by_rows(&units[i], j.threads)) {
            j.cost += fn_matrix_tiles(units[i].w->rows) * tile_cost(&units[i]);
        }
    }
    fn_pool_run(s->pool, run_linear, &j);
}

void fn_step_project(const fn_step *s, const fn_matrix *w, const float *x, float *y, size_t rows) {
    fn_input in = fn_input_of(x, w->cols);
    fn_input_add(s, &in, rows, w);
    fn_input_write_all(s, &in, rows);
    fn_linear out = fn_input_product(s, &in, w, y, rows);
    fn_step_linear(s, &out, 1);
}

/* ---- inputs ---- */

static size_t most(size_t a, size_t b) {
    return a > b ? a : b;
}

size_t fn_step_input_bytes(const fn_shape *m) {
    size_t cols = most(fn_shape_streams(m), fn_shape_delta_v(m));
    cols = most(cols, m->n_heads * m->head_dim);
    cols = most(cols, most(m->shared_width, m->ple_embed));
    cols = most(cols, most(m->hidden, m->hc_rank));
    return fn_row_bytes(FN_ROW_BF16, cols, 8) +
           (FN_INPUT_FORMS - 1) * fn_row_bytes(FN_ROW_INT8, cols, 8);
}

static const struct fn_input_form *form_for(const fn_step *s, const fn_input *in,
                                            const fn_matrix *w) {
    fn_row_form form = fn_step_form(s, w);
    for (size_t i = 0; i < in->n_forms; i++) {
        const struct fn_input_form *f = &in->forms[i];
        if (f->form == form && (form != FN_ROW_INT8 || f->group == w->group)) {
            return f;
        }
    }
    return NULL;
}

fn_input fn_input_of(const float *x, size_t cols) {
    return (fn_input){.x = x, .cols = cols};
}

void fn_input_add(const fn_step *s, fn_input *in, size_t rows, const fn_matrix *w) {
    fn_row_form form = fn_step_form(s, w);
    if (form == FN_ROW_F32 || form_for(s, in, w) != NULL) {
        return;
    }
    FN_ASSERT(in->n_forms < FN_INPUT_FORMS && w->cols == in->cols);
    uint8_t *at = in->room != NULL ? in->room : s->forms;
    if (in->n_forms > 0) {
        const struct fn_input_form *last = &in->forms[in->n_forms - 1];
        at = last->rows + rows * last->stride;
    }
    in->forms[in->n_forms++] =
        (struct fn_input_form){.form = form,
                               .group = w->group,
                               .rows = at,
                               .stride = fn_row_bytes(form, in->cols, w->group)};
}

void fn_input_write_row(const fn_step *s, const fn_input *in, size_t r, const float *x) {
    for (size_t i = 0; i < in->n_forms; i++) {
        const struct fn_input_form *f = &in->forms[i];
        s->k->write_row[f->form](f->rows + r * f->stride, x, in->cols, f->group);
    }
}

void fn_input_write(const fn_step *s, const fn_input *in, size_t begin, size_t end) {
    for (size_t r = begin; r < end; r++) {
        fn_input_write_row(s, in, r, in->x + r * in->cols);
    }
}

static void write_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    (void)thread;
    fn_input_write(s, ctx, begin, end);
}

void fn_input_write_all(const fn_step *s, const fn_input *in, size_t rows) {
    fn_input copy = *in;
    if (in->n_forms > 0) {
        fn_step_each(s, rows, write_rows, &copy);
    }
}

fn_linear fn_input_product(const fn_step *s, const fn_input *in, const fn_matrix *w, float *y,
                           size_t rows) {
    const struct fn_input_form *f = form_for(s, in, w);
    return (fn_linear){.w = w,
                       .x = f != NULL ? (const void *)f->rows : in->x,
                       .ldx = f != NULL ? f->stride : in->cols * sizeof(float),
                       .y = y,
                       .ldy = w->rows,
                       .rows = rows,
                       .far = fn_step_far(rows * w->rows)};
}

const fn_step_segment *fn_step_segment_of(const fn_step *s, size_t row) {
    size_t i = 0;
    while (row >= s->segments[i].first + s->segments[i].n) {
        i++;
    }
    return &s->segments[i];
}
