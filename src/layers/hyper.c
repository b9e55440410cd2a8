/* Hyper-connections: four residual streams instead of one. Reference: Qwen4ExpTextGatedResidual.
 *   xn = grouped RMS norm of the streams;  g = sigmoid(up(silu(down(xn) / hc)))
 *   mixed = mean over streams of g * xn;   inject = 2 sigmoid(block_inject(xn) / hc)
 *   after the block: stream_i += inject_i * block_out */
#include "layers/layers.h"

typedef struct mix_job {
    const fn_mixer_weights *w;
    const float *streams;
    float *mixed, *inject;
    bool pending;
    const fn_input *next;
    /* The rows that are on their way at once: the number of the first in the step, and where they stand. */
    size_t first;
    float *normed;    /* [rows, ld_normed] */
    size_t ld_normed; /* 0: each row in the place of the last one, once its forms are written */
    float *low, *gate;
    fn_input normed_in, low_in;
} mix_job;

static void combine_row(const fn_step *s, size_t row) {
    size_t d = s->shape->hidden;
    size_t hc = s->shape->hc;
    float *streams = s->streams + row * hc * d;
    for (size_t i = 0; i < hc; i++) {
        s->k->axpy(streams + i * d, s->inject[row * hc + i], s->block_out + row * d, d);
    }
}

static void norm_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    const mix_job *j = ctx;
    size_t d = s->shape->hidden;
    size_t hc = s->shape->hc;
    (void)thread;
    for (size_t r = begin; r < end; r++) {
        const float *x = j->streams + (j->first + r) * hc * d;
        float *normed = j->normed + r * j->ld_normed;
        float *scale = s->norm_scale + (j->first + r) * hc;
        if (j->pending) {
            combine_row(s, j->first + r);
        }
        for (size_t i = 0; i < hc; i++) {
            scale[i] = s->k->rms_norm(normed + i * d, x + i * d, j->w->norm + i * d, d,
                                      s->shape->norm_eps);
        }
        fn_input_write_row(s, &j->normed_in, r, normed);
    }
}

static void low_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    const mix_job *j = ctx;
    size_t hc = s->shape->hc;
    float share = 1.0f / (float)hc;
    size_t rank = s->shape->hc_rank;
    (void)thread;
    s->k->silu(j->low + begin * rank, j->low + begin * rank, (end - begin) * rank, share);
    fn_input_write(s, &j->low_in, begin, end);
    if (j->inject != NULL) {
        float *inject = j->inject + (j->first + begin) * hc;
        s->k->sigmoid(inject, inject, (end - begin) * hc, share);
        for (size_t i = 0; i < (end - begin) * hc; i++) {
            inject[i] *= 2.0f;
        }
    }
}

/* Columns [c, c + n) of one row; its gates [hc, ld_gate]. */
static void mix_columns(const fn_step *s, const mix_job *j, size_t row, size_t c, size_t n,
                        const float *gate, size_t ld_gate) {
    size_t d = s->shape->hidden;
    size_t hc = s->shape->hc;
    s->k->mix_streams(&(fn_mix_args){.y = j->mixed + row * d + c,
                                     .gate = gate,
                                     .ld_gate = ld_gate,
                                     .x = j->streams + row * hc * d + c,
                                     .w = j->w->norm + c,
                                     .ldx = d,
                                     .scale = s->norm_scale + row * hc,
                                     .hc = hc,
                                     .n = n});
}

static void mix_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    const mix_job *j = ctx;
    size_t d = s->shape->hidden;
    (void)thread;
    for (size_t r = begin; r < end; r++) {
        mix_columns(s, j, j->first + r, 0, d, j->gate + r * fn_shape_streams(s->shape), d);
    }
    fn_input_write(s, j->next, j->first + begin, j->first + end);
}

/* Where the forms of `rows` rows stand; those of earlier rows for `next` stand in the common room. */
static void place_inputs(const fn_step *s, mix_job *j, size_t rows, uint8_t *room) {
    j->normed_in = fn_input_of(j->normed, fn_shape_streams(s->shape));
    j->low_in = fn_input_of(j->low, s->shape->hc_rank);
    j->normed_in.room = j->low_in.room = room;
    fn_input_add(s, &j->normed_in, rows, &j->w->down);
    fn_input_add(s, &j->low_in, rows, &j->w->up);
    if (j->inject != NULL) {
        fn_input_add(s, &j->normed_in, rows, &j->w->inject);
    }
}

/* The products with the normed rows. */
static size_t list_down(const fn_step *s, const mix_job *j, size_t rows, fn_linear down[2]) {
    down[0] = fn_input_product(s, &j->normed_in, &j->w->down, j->low, rows);
    if (j->inject == NULL) {
        return 1;
    }
    float *inject = j->inject + j->first * s->shape->hc;
    down[1] = fn_input_product(s, &j->normed_in, &j->w->inject, inject, rows);
    return 2;
}

/* ---- few rows: all threads share each product's outputs ---- */

static void mix_together(const fn_step *s, mix_job *j, size_t rows) {
    fn_linear down[2];
    place_inputs(s, j, rows, s->mix_forms);
    fn_step_each(s, rows, norm_rows, j);
    fn_step_linear(s, down, list_down(s, j, rows, down));
    fn_step_each(s, rows, low_rows, j);
    fn_linear up = fn_input_product(s, &j->low_in, &j->w->up, j->gate, rows);
    fn_step_linear(s, &up, 1);
    fn_step_each(s, rows, mix_rows, j);
}

/* ---- many rows: each thread takes rows of its own through the whole mixer ---- */

#define MIX_COLUMNS ((size_t)128) /* of each stream, whose gates stay in the second cache */

/* The streams' columns of a row, which lie far from those of the row before. */
static void fetch_columns(const fn_step *s, const mix_job *j, size_t row, size_t c, size_t n) {
    size_t d = s->shape->hidden;
    const float *x = j->streams + row * fn_shape_streams(s->shape) + c;
    for (size_t i = 0; i < s->shape->hc; i++) {
        for (size_t at = 0; at < n; at += FN_LINE_FLOATS) {
            __builtin_prefetch(x + i * d + at);
        }
    }
}

/* gate = up(low) for some columns of all streams, then their mixture, and so on. */
static void open_and_mix(const fn_step *s, const mix_job *j, size_t rows) {
    size_t d = s->shape->hidden;
    size_t hc = s->shape->hc;
    fn_linear up = fn_input_product(s, &j->low_in, &j->w->up, NULL, rows);
    fn_matrix part = j->w->up;
    size_t most = d < MIX_COLUMNS ? d : MIX_COLUMNS;
    up.w = &part;
    up.ldy = hc * most;
    for (size_t c = 0; c < d; c += most) {
        part.rows = d - c < most ? d - c : most;
        for (size_t i = 0; i < hc; i++) {
            part.tiles = j->w->up.tiles + (i * d + c) / FN_TILE * part.tile_bytes;
            up.y = j->gate + i * most;
            up.next = part.tiles + (i + 1 < hc ? d / FN_TILE * part.tile_bytes : 0);
            fn_step_product(s, &up, (const size_t[2]){0, fn_matrix_tiles(part.rows)},
                            (const size_t[2]){0, rows});
        }
        for (size_t r = 0; r < rows; r++) {
            if (r + 2 < rows) {
                fetch_columns(s, j, j->first + r + 2, c, part.rows);
            }
            mix_columns(s, j, j->first + r, c, part.rows, j->gate + r * up.ldy, most);
        }
    }
    fn_input_write(s, j->next, j->first, j->first + rows);
}

static void mix_alone(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    mix_job j = *(const mix_job *)ctx;
    size_t width = fn_shape_streams(s->shape);
    size_t parts = (end - begin + FN_MIX_ALONE - 1) / FN_MIX_ALONE;
    bool floats = fn_step_form(s, &j.w->down) == FN_ROW_F32 ||
                  (j.inject != NULL && fn_step_form(s, &j.w->inject) == FN_ROW_F32);
    j.normed += begin * width;
    j.ld_normed = floats ? width : 0;
    j.low += begin * s->shape->hc_rank;
    j.gate += begin * width;
    for (size_t rows, at = begin; parts > 0; parts--, at += rows) {
        fn_linear down[2];
        rows = (end - at + parts - 1) / parts;
        j.first = at;
        place_inputs(s, &j, rows,
                     s->mix_forms + thread * FN_MIX_ALONE * fn_step_mix_bytes(s->shape));
        norm_rows(s, &j, 0, rows, thread);
        for (size_t n = list_down(s, &j, rows, down), i = 0; i < n; i++) {
            fn_step_product(s, &down[i], (const size_t[2]){0, fn_matrix_tiles(down[i].w->rows)},
                            (const size_t[2]){0, rows});
        }
        low_rows(s, &j, 0, rows, thread);
        open_and_mix(s, &j, rows);
    }
}

static void mix(const fn_step *s, mix_job *j, size_t rows) {
    j->normed = s->normed;
    j->ld_normed = fn_shape_streams(s->shape);
    j->low = s->low;
    j->gate = s->gate;
    if (rows >= fn_pool_threads(s->pool) * FN_MIX_LEAST && s->shape->hidden % FN_TILE == 0) {
        fn_step_each(s, rows, mix_alone, j);
    } else {
        for (j->first = 0; j->first < rows; j->first += FN_MIX_ROWS) {
            size_t left = rows - j->first;
            mix_together(s, j, left < FN_MIX_ROWS ? left : FN_MIX_ROWS);
        }
    }
    fn_step_lap(s, FN_PROFILE_MIXERS);
}

void fn_layer_mix(const fn_step *s, const fn_mixer_weights *w, bool pending, const fn_input *next) {
    mix_job j = {.w = w,
                 .streams = s->streams,
                 .mixed = s->mixed,
                 .inject = s->inject,
                 .pending = pending,
                 .next = next};
    mix(s, &j, s->rows);
}

void fn_layer_mix_last(const fn_step *s, const fn_mixer_weights *w, const float *streams,
                       size_t rows, float *mixed, const fn_input *next) {
    mix_job j = {.w = w, .streams = streams, .mixed = mixed, .next = next};
    mix(s, &j, rows);
}

static void combine_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    (void)ctx;
    (void)thread;
    for (size_t r = begin; r < end; r++) {
        combine_row(s, r);
    }
}

void fn_layer_combine(const fn_step *s) {
    fn_step_each(s, s->rows, combine_rows, NULL);
    fn_step_lap(s, FN_PROFILE_MIXERS);
}
