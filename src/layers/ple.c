/* Per-layer embedding: hashed n-grams injected into every stream. Reference: Qwen4ExpTextPLELayer.
 *   e = table rows of the position's n-grams, one after the other;  key = key_proj e;  value = value_proj e
 *   s_i = <norm_key(key)_i, norm_query(stream)_i> / sqrt(D);  gate_i = sigmoid(sign(s_i) sqrt(max(|s_i|, 1e-6)))
 *   v_i = gate_i value;  out = v + silu(conv(norm_conv(v))), depthwise, dilation = ngram_size
 *   streams += out. The conv's history and the n-gram history are part of the state. */
#include <math.h>
#include <string.h>

#include "layers/layers.h"
#include "ngram/ngram_hash.h"

#define MAX_TAPS 64 /* as shape allows */

typedef struct ple_job {
    const fn_ple_weights *w;
    size_t p;
} ple_job;

/* ids before row t of a segment, oldest first, into history [ngram_size - 1]. */
static void history_at(const fn_step *s, size_t segment, size_t t, int32_t *history) {
    const fn_step_segment *g = &s->segments[segment];
    size_t n = s->shape->ngram_size - 1;
    const int32_t *carried =
        fn_recurrent_view(s->layout, fn_state_before(g->state), FN_PART_NGRAM_IDS, 0);
    for (size_t i = 0; i < n; i++) {
        ptrdiff_t at = (ptrdiff_t)(t + i) - (ptrdiff_t)n;
        history[i] = at < 0 ? carried[(ptrdiff_t)n + at] : s->ids[segment][at];
    }
}

void fn_layer_ngram_history(const fn_step *s) {
    if (s->shape->n_ple == 0) {
        return;
    }
    for (size_t i = 0; i < s->n_segments; i++) {
        for (size_t t = 0; t < s->segments[i].n; t++) {
            uint8_t *block = fn_state_after(s->segments[i].state, t);
            if (block != NULL) {
                history_at(s, i, t + 1, fn_recurrent_part(s->layout, block, FN_PART_NGRAM_IDS, 0));
            }
        }
    }
}

/* The p-th layer's part of the step's buffers. */
static int64_t *rows_of(const fn_step *s, size_t p) {
    return s->ngram_rows + p * s->max_rows * fn_shape_ngram_heads(s->shape);
}

static float *values_of(const fn_step *s, size_t p) {
    return s->ngram + p * s->max_rows * s->shape->ple_embed;
}

static void hash_rows(const fn_step *s, const fn_ple_weights *w, int64_t *rows) {
    size_t heads = fn_shape_ngram_heads(s->shape);
    for (size_t i = 0; i < s->n_segments; i++) {
        const fn_step_segment *g = &s->segments[i];
        int32_t history[FN_MAX_NGRAM];
        history_at(s, i, 0, history);
        fn_ngram_hash_rows(&w->hash, history, s->ids[i], g->n, rows + g->first * heads);
    }
}

fn_status fn_layer_ngram_start(const fn_step *s, fn_error *err) {
    fn_status status = FN_OK;
    for (size_t p = 0; p < s->shape->n_ple; p++) {
        s->ngram_gathers[p].running = false;
    }
    for (size_t p = 0; p < s->shape->n_ple && status == FN_OK; p++) {
        size_t heads = fn_shape_ngram_heads(s->shape);
        int64_t *rows = rows_of(s, p);
        hash_rows(s, &s->weights->ple[p], rows);
        status = fn_ngram_gather_start(s->tables[p], rows, s->rows * heads,
                                       s->ngram_wants + p * s->max_rows * heads, values_of(s, p),
                                       &s->ngram_gathers[p], err);
    }
    return status;
}

void fn_layer_ngram_end(const fn_step *s) {
    for (size_t p = 0; p < s->shape->n_ple; p++) {
        fn_status status = fn_ngram_gather_finish(&s->ngram_gathers[p], NULL);
        (void)status; /* nobody needs these rows any more */
    }
}

/* Stream after stream of all rows. */
static void gate_streams(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    const ple_job *j = ctx;
    size_t d = s->shape->hidden;
    size_t hc = s->shape->hc;
    float eps = s->shape->norm_eps;
    float share = 1.0f / sqrtf((float)d);
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        size_t w = i % hc * d;
        float *key = s->gate + i * d;      /* key_proj's output; then the gated value */
        float *normed = s->normed + i * d; /* the query; then the conv's input */
        s->k->rms_norm(key, key, j->w->norm_key + w, d, eps);
        s->k->rms_norm(normed, s->streams + i * d, j->w->norm_query + w, d, eps);
        float score = s->k->dot(key, normed, d) * share;
        float size = sqrtf(fmaxf(fabsf(score), 1e-6f));
        float gate = score > 0.0f ? size : score < 0.0f ? -size : score;
        s->k->sigmoid(&gate, &gate, 1, 1.0f);
        memset(key, 0, d * sizeof *key);
        s->k->axpy(key, gate, s->ple_value + i / hc * d, d);
        s->k->rms_norm(normed, key, j->w->norm_conv + w, d, eps);
    }
}

static const float *conv_row(const fn_step *s, const fn_step_segment *g, const float *tail,
                             ptrdiff_t t) {
    size_t width = fn_shape_streams(s->shape);
    return t < 0 ? tail + ((ptrdiff_t)fn_shape_ple_tail(s->shape) + t) * (ptrdiff_t)width
                 : s->normed + (g->first + (size_t)t) * width;
}

/* A stream of the conv's rows after row t. */
static void keep_tail(const fn_step *s, const ple_job *j, const fn_step_segment *g,
                      const float *tail, ptrdiff_t t, size_t stream) {
    size_t width = fn_shape_streams(s->shape);
    size_t d = s->shape->hidden;
    size_t tails = fn_shape_ple_tail(s->shape);
    uint8_t *block = fn_state_after(g->state, (size_t)t);
    if (block == NULL) {
        return;
    }
    float *dst = fn_recurrent_part(s->layout, block, FN_PART_PLE_CONV, j->p);
    for (size_t k = 0; k < tails; k++) {
        const float *from = conv_row(s, g, tail, t + (ptrdiff_t)(1 + k) - (ptrdiff_t)tails);
        memcpy(dst + k * width + stream * d, from + stream * d, d * sizeof *dst);
    }
}

static void conv_streams(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    const ple_job *j = ctx;
    size_t width = fn_shape_streams(s->shape);
    size_t d = s->shape->hidden;
    size_t hc = s->shape->hc;
    size_t taps = s->shape->ple_kernel;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        size_t r = i / hc;
        size_t c = i % hc * d;
        const fn_step_segment *g = fn_step_segment_of(s, r);
        const float *tail =
            fn_recurrent_view(s->layout, fn_state_before(g->state), FN_PART_PLE_CONV, j->p);
        const float *rows[MAX_TAPS];
        ptrdiff_t t = (ptrdiff_t)(r - g->first);
        for (size_t a = 0; a < taps; a++) {
            rows[a] =
                c + conv_row(s, g, tail, t - (ptrdiff_t)((taps - 1 - a) * s->shape->ngram_size));
        }
        float *out = s->ple_gated + r * width + c;
        s->k->conv_silu(out, rows, j->w->conv + c, width, taps, d);
        s->k->add(out, s->gate + r * width + c, d);
        s->k->add(s->streams + r * width + c, out, d);
        keep_tail(s, j, g, tail, t, i % hc);
    }
}

fn_status fn_layer_ple(const fn_step *s, const fn_ple_weights *w, size_t p, fn_error *err) {
    ple_job j = {w, p};
    fn_status status = fn_ngram_gather_finish(&s->ngram_gathers[p], err);
    if (status != FN_OK) {
        return status;
    }
    fn_input in = fn_input_of(values_of(s, p), s->shape->ple_embed);
    fn_input_add(s, &in, s->rows, &w->key);
    fn_input_add(s, &in, s->rows, &w->value);
    fn_input_write_all(s, &in, s->rows);
    fn_linear products[2] = {fn_input_product(s, &in, &w->key, s->gate, s->rows),
                             fn_input_product(s, &in, &w->value, s->ple_value, s->rows)};
    fn_step_linear(s, products, 2);
    fn_step_each(s, s->rows * s->shape->hc, gate_streams, &j);
    fn_step_each(s, s->rows * s->shape->hc, conv_streams, &j);
    fn_step_trace(s, FN_TRACE_NGRAM_ROWS, p, s->rows, fn_shape_ngram_heads(s->shape),
                  rows_of(s, p));
    fn_step_trace(s, FN_TRACE_PLE_OUT, p, s->rows, fn_shape_streams(s->shape), s->ple_gated);
    fn_step_lap(s, FN_PROFILE_NGRAM);
    return FN_OK;
}
