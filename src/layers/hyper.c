/* Hyper-connections: four residual streams instead of one. Reference: Qwen4ExpTextGatedResidual.
 *   xn = grouped RMS norm of the streams;  g = sigmoid(up(silu(down(xn) / hc)))
 *   mixed = mean over streams of g * xn;   inject = 2 sigmoid(block_inject(xn) / hc)
 *   after the block: stream_i += inject_i * block_out */
#include "layers/layers.h"

typedef struct mix_job {
    const fn_mixer_weights *w;
    const float *streams;
    float *mixed, *inject;
} mix_job;

static void norm_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    const mix_job *j = ctx;
    size_t d = s->shape->hidden;
    (void)thread;
    for (size_t i = begin * s->shape->hc; i < end * s->shape->hc; i++) {
        s->k->rms_norm(s->normed + i * d, j->streams + i * d, j->w->norm + i % s->shape->hc * d, d,
                       s->shape->norm_eps);
    }
}

static void low_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    const mix_job *j = ctx;
    size_t hc = s->shape->hc;
    float share = 1.0f / (float)hc;
    size_t rank = s->shape->hc_rank;
    (void)thread;
    s->k->silu(s->low + begin * rank, s->low + begin * rank, (end - begin) * rank, share);
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
}

void fn_layer_mix(const fn_step *s, const fn_mixer_weights *w, const float *streams, size_t rows,
                  float *mixed, float *inject) {
    mix_job j = {w, streams, mixed, inject};
    fn_step_each(s, rows, norm_rows, &j);
    fn_linear down[2] = {fn_linear_of(&w->down, s->normed, s->low, rows)};
    if (inject != NULL) {
        down[1] = fn_linear_of(&w->inject, s->normed, inject, rows);
    }
    fn_step_linear(s, down, inject != NULL ? 2 : 1);
    fn_step_each(s, rows, low_rows, &j);
    fn_linear up = fn_linear_of(&w->up, s->low, s->gate, rows);
    fn_step_linear(s, &up, 1);
    fn_step_each(s, rows, mix_rows, &j);
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
}
