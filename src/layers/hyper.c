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
    size_t first; /* row of the step that the block's first row is */
    const fn_input *normed, *low, *next;
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
        if (j->pending) {
            combine_row(s, j->first + r);
        }
        for (size_t i = 0; i < hc; i++) {
            s->k->rms_norm(s->normed + (r * hc + i) * d, x + i * d, j->w->norm + i * d, d,
                           s->shape->norm_eps);
        }
    }
    fn_input_write(s, j->normed, begin, end);
}

static void low_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    const mix_job *j = ctx;
    size_t hc = s->shape->hc;
    float share = 1.0f / (float)hc;
    size_t rank = s->shape->hc_rank;
    (void)thread;
    s->k->silu(s->low + begin * rank, s->low + begin * rank, (end - begin) * rank, share);
    fn_input_write(s, j->low, begin, end);
    if (j->inject != NULL) {
        float *inject = j->inject + (j->first + begin) * hc;
        s->k->sigmoid(inject, inject, (end - begin) * hc, share);
        for (size_t i = 0; i < (end - begin) * hc; i++) {
            inject[i] *= 2.0f;
        }
    }
}

static void mix_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    const mix_job *j = ctx;
    size_t d = s->shape->hidden;
    size_t width = fn_shape_streams(s->shape);
    (void)thread;
    for (size_t r = begin; r < end; r++) {
        s->k->mix_streams(j->mixed + (j->first + r) * d, s->gate + r * width, s->normed + r * width,
                          s->shape->hc, d);
    }
    fn_input_write(s, j->next, j->first + begin, j->first + end);
}

static void mix_block(const fn_step *s, mix_job *j, size_t rows) {
    const fn_mixer_weights *w = j->w;
    fn_input normed = fn_input_of(s->normed, fn_shape_streams(s->shape));
    fn_input low = fn_input_of(s->low, s->shape->hc_rank);
    normed.room = low.room = s->mix_forms; /* next's forms of earlier blocks stand in the other */
    j->normed = &normed;
    j->low = &low;
    fn_input_add(s, &normed, rows, &w->down);
    fn_input_add(s, &low, rows, &w->up);
    if (j->inject != NULL) {
        fn_input_add(s, &normed, rows, &w->inject);
    }
    fn_step_each(s, rows, norm_rows, j);
    fn_linear down[2] = {fn_input_product(s, &normed, &w->down, s->low, rows)};
    if (j->inject != NULL) {
        float *inject = j->inject + j->first * s->shape->hc;
        down[1] = fn_input_product(s, &normed, &w->inject, inject, rows);
    }
    fn_step_linear(s, down, j->inject != NULL ? 2 : 1);
    fn_step_each(s, rows, low_rows, j);
    fn_linear up = fn_input_product(s, &low, &w->up, s->gate, rows);
    fn_step_linear(s, &up, 1);
    fn_step_each(s, rows, mix_rows, j);
}

static void mix(const fn_step *s, mix_job *j, size_t rows) {
    for (j->first = 0; j->first < rows; j->first += FN_MIX_ROWS) {
        size_t left = rows - j->first;
        mix_block(s, j, left < FN_MIX_ROWS ? left : FN_MIX_ROWS);
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
