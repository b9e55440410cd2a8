/* Hyper-connections: four residual streams instead of one. Reference: Qwen4ExpTextGatedResidual.
 *   xn = grouped RMS norm of the streams;  g = sigmoid(up(silu(down(xn) / hc)))
 *   mixed = mean over streams of g * xn;   inject = 2 sigmoid(block_inject(xn) / hc)
 *   after the block: stream_i += inject_i * block_out */
#include "layers/layers.h"

typedef struct mix_job {
    const fn_mixer_weights *w;
    const float *streams;
    float *mixed, *inject;
    const fn_input *normed, *low, *next;
} mix_job;

static void norm_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    const mix_job *j = ctx;
    size_t d = s->shape->hidden;
    (void)thread;
    for (size_t i = begin * s->shape->hc; i < end * s->shape->hc; i++) {
        s->k->rms_norm(s->normed + i * d, j->streams + i * d, j->w->norm + i % s->shape->hc * d, d,
                       s->shape->norm_eps);
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
        float *inject = j->inject + begin * hc;
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
        s->k->sigmoid(s->gate + r * width, s->gate + r * width, width, 1.0f);
        s->k->mix_streams(j->mixed + r * d, s->gate + r * width, s->normed + r * width,
                          s->shape->hc, d);
    }
    fn_input_write(s, j->next, begin, end);
}

void fn_layer_mix(const fn_step *s, const fn_mixer_weights *w, const float *streams, size_t rows,
                  float *mixed, float *inject, const fn_input *next) {
    fn_input normed = fn_input_of(s->normed, fn_shape_streams(s->shape));
    fn_input low = fn_input_of(s->low, s->shape->hc_rank);
    mix_job j = {w, streams, mixed, inject, &normed, &low, next};
    fn_input_add(s, &normed, rows, &w->down);
    fn_input_add(s, &low, rows, &w->up);
    if (inject != NULL) {
        fn_input_add(s, &normed, rows, &w->inject);
    }
    fn_step_each(s, rows, norm_rows, &j);
    fn_linear down[2] = {fn_input_product(s, &normed, &w->down, s->low, rows)};
    if (inject != NULL) {
        down[1] = fn_input_product(s, &normed, &w->inject, inject, rows);
    }
    fn_step_linear(s, down, inject != NULL ? 2 : 1);
    fn_step_each(s, rows, low_rows, &j);
    fn_linear up = fn_input_product(s, &low, &w->up, s->gate, rows);
    fn_step_linear(s, &up, 1);
    fn_step_each(s, rows, mix_rows, &j);
    fn_step_lap(s, FN_PROFILE_MIXERS);
}

static void combine_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    size_t d = s->shape->hidden;
    size_t hc = s->shape->hc;
    (void)ctx;
    (void)thread;
    for (size_t i = begin * hc; i < end * hc; i++) {
        s->k->axpy(s->streams + i * d, s->inject[i], s->block_out + i / hc * d, d);
    }
}

void fn_layer_combine(const fn_step *s) {
    fn_step_each(s, s->rows, combine_rows, NULL);
    fn_step_lap(s, FN_PROFILE_MIXERS);
}
