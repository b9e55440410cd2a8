/* Gated delta net (linear attention). Reference: Qwen4ExpTextGatedDeltaNet and
 * torch_recurrent_gated_delta_rule; the recurrence runs token after token, so a chunk's edge is invisible.
 *   [q k v] = silu(causal conv(in_proj_qkv x));  z = in_proj_z x
 *   q = l2norm(q) / sqrt(dk);  k = l2norm(k);  value head h reads key head h / (Hv / Hk)
 *   decay = exp(-exp(A_log) * softplus(in_proj_a x + dt_bias));  beta = sigmoid(in_proj_b x)
 *   S = decay S;  S += k (beta (v - S^T k))^T;  o = S^T q
 *   y = out_proj(rmsnorm(o) * w * gate(z)) */
#include <math.h>
#include <string.h>

#include "layers/layers.h"

#define EPS_L2 1e-6f
#define MAX_TAPS 64 /* as shape allows */

typedef struct delta_job {
    const fn_delta_weights *w;
    size_t index;
} delta_job;

/* Row t of a segment's conv input; before its first row stands the tail, oldest first. */
static const float *conv_row(const fn_step *s, const fn_step_segment *g, const float *tail,
                             size_t tails, ptrdiff_t t) {
    size_t width = fn_shape_conv(s->shape);
    return t < 0 ? tail + ((ptrdiff_t)tails + t) * (ptrdiff_t)width
                 : s->qkv + (g->first + (size_t)t) * width;
}

/* Columns [c, c + n) of the conv's rows after row t. */
static void keep_tail(const fn_step *s, const delta_job *j, const fn_step_segment *g,
                      const float *tail, size_t t, size_t c, size_t n) {
    size_t tails = s->shape->conv_kernel - 1;
    size_t width = fn_shape_conv(s->shape);
    uint8_t *block = fn_state_after(g->state, t);
    if (block == NULL) {
        return;
    }
    float *dst = fn_recurrent_part(s->layout, block, FN_PART_CONV, j->index);
    for (size_t i = 0; i < tails; i++) {
        ptrdiff_t from = (ptrdiff_t)(t + 1 + i) - (ptrdiff_t)tails;
        memcpy(dst + i * width + c, conv_row(s, g, tail, tails, from) + c, n * sizeof *dst);
    }
}

/* Columns [c, c + n) of row r's conv. */
static void convolve(const fn_step *s, const delta_job *j, size_t r, size_t c, size_t n) {
    const fn_step_segment *g = fn_step_segment_of(s, r);
    const float *tail =
        fn_recurrent_view(s->layout, fn_state_before(g->state), FN_PART_CONV, j->index);
    const float *rows[MAX_TAPS];
    size_t width = fn_shape_conv(s->shape);
    size_t taps = s->shape->conv_kernel;
    size_t t = r - g->first;
    for (size_t i = 0; i < taps; i++) {
        rows[i] = c + conv_row(s, g, tail, taps - 1, (ptrdiff_t)(t + i) - (ptrdiff_t)(taps - 1));
    }
    s->k->conv_silu(s->conv + r * width + c, rows, j->w->conv + c, width, taps, n);
    keep_tail(s, j, g, tail, t, c, n);
}

/* Conv, normalisation, decay and beta of a row: everything before the recurrence, of key heads [begin, end) and the
 * value heads that read them. */
static void prepare_heads(const fn_step *s, const delta_job *j, size_t r, size_t begin,
                          size_t end) {
    const fn_shape *m = s->shape;
    size_t dk = m->delta_k_dim;
    size_t shared_by = m->delta_v_heads / m->delta_k_heads;
    size_t n = (end - begin) * shared_by;
    float *decay = s->decay + r * m->delta_v_heads + begin * shared_by;
    float *beta = s->beta + r * m->delta_v_heads + begin * shared_by;
    float *q = s->conv + r * fn_shape_conv(m);
    float *k = q + fn_shape_delta_k(m);
    float scale = 1.0f / sqrtf((float)dk);
    convolve(s, j, r, begin * dk, (end - begin) * dk);
    convolve(s, j, r, fn_shape_delta_k(m) + begin * dk, (end - begin) * dk);
    convolve(s, j, r, 2 * fn_shape_delta_k(m) + begin * shared_by * m->delta_v_dim,
             n * m->delta_v_dim);
    for (size_t h = begin; h < end; h++) {
        s->k->l2_norm(q + h * dk, q + h * dk, dk, EPS_L2, scale);
        s->k->l2_norm(k + h * dk, k + h * dk, dk, EPS_L2, 1.0f);
    }
    for (size_t h = 0; h < n; h++) {
        decay[h] += j->w->dt_bias[begin * shared_by + h];
    }
    s->k->softplus(decay, decay, n);
    s->k->mul(decay, decay, j->w->a + begin * shared_by, n);
    s->k->exp(decay, decay, n);
    s->k->sigmoid(beta, beta, n, 1.0f);
}

static void prepare_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    (void)thread;
    for (size_t r = begin; r < end; r++) {
        prepare_heads(s, ctx, r, 0, s->shape->delta_k_heads);
    }
}

/* One head through rows [t, t + rows) of a segment. */
static void run_head(const fn_step *s, size_t index, const fn_step_segment *g, size_t head,
                     size_t t, size_t rows) {
    const fn_shape *m = s->shape;
    size_t dk = m->delta_k_dim;
    size_t dv = m->delta_v_dim;
    size_t width = fn_shape_conv(m);
    size_t k_head = head / (m->delta_v_heads / m->delta_k_heads);
    size_t offset = head * dk * dv;
    size_t r = g->first + t;
    const float *x = s->conv + r * width;
    const uint8_t *before = t == 0 ? fn_state_before(g->state) : fn_state_after(g->state, t - 1);
    uint8_t *after = fn_state_after(g->state, t + rows - 1);
    s->k->delta_run(&(fn_delta_run_args){
        .state_out = (float *)fn_recurrent_part(s->layout, after, FN_PART_DELTA, index) + offset,
        .state_in =
            (const float *)fn_recurrent_view(s->layout, before, FN_PART_DELTA, index) + offset,
        .ld_state = dv,
        .dk = dk,
        .dv = dv,
        .tokens = rows,
        .q = x + k_head * dk,
        .k = x + fn_shape_delta_k(m) + k_head * dk,
        .v = x + 2 * fn_shape_delta_k(m) + head * dv,
        .ldx = width,
        .decay = s->decay + r * m->delta_v_heads + head,
        .beta = s->beta + r * m->delta_v_heads + head,
        .ld_gate = m->delta_v_heads,
        .out = s->delta_out + r * fn_shape_delta_v(m) + head * dv,
        .ldo = fn_shape_delta_v(m),
        .far = g->n == 1 && fn_step_far(s->layout->recurrent_bytes / sizeof(float)),
    });
}

/* y = rmsnorm(o) * w * gate(z), of one head of one row. */
static void gate_head(const fn_step *s, const fn_delta_weights *w, size_t row, size_t head) {
    const fn_shape *m = s->shape;
    size_t dv = m->delta_v_dim;
    float *z = s->z + (row * m->delta_v_heads + head) * dv;
    float *out = s->delta_out + (row * m->delta_v_heads + head) * dv;
    if (m->delta_gate == FN_GATE_SIGMOID) {
        s->k->sigmoid(z, z, dv, 1.0f);
    } else {
        s->k->silu(z, z, dv, 1.0f);
    }
    s->k->rms_norm_gated(out, out, w->norm, z, dv, m->norm_eps);
}

/* Rows lie far apart: what gate_head will read of one is fetched some rows before. */
#define GATE_AHEAD 6
static void fetch_head(const fn_step *s, size_t row, size_t head) {
    size_t dv = s->shape->delta_v_dim;
    size_t at = (row * s->shape->delta_v_heads + head) * dv;
    for (size_t i = 0; i < dv; i += FN_LINE_FLOATS) {
        __builtin_prefetch(s->z + at + i, 1);
        __builtin_prefetch(s->delta_out + at + i, 1);
    }
}

/* Rows whose blocks are kept run one by one, the others at once: the same bits. */
static void run_rows(const fn_step *s, const delta_job *j, const fn_step_segment *g, size_t head) {
    size_t rows = fn_state_after(g->state, 0) != NULL ? 1 : g->n;
    for (size_t t = 0; t < g->n; t += rows) {
        run_head(s, j->index, g, head, t, rows);
    }
    for (size_t t = 0; t < g->n; t++) {
        if (t + GATE_AHEAD < g->n) {
            fetch_head(s, g->first + t + GATE_AHEAD, head);
        }
        gate_head(s, j->w, g->first + t, head);
    }
}

/* Head after head, each of all segments: threads share every segment, however long one is. */
static void run_heads(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        run_rows(s, ctx, &s->segments[i % s->n_segments], i / s->n_segments);
    }
}

/* Where every segment is a single row: a key head with all that reads it, from the conv on. */
static void run_key_heads(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    size_t shared_by = s->shape->delta_v_heads / s->shape->delta_k_heads;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        size_t segment = i % s->n_segments;
        size_t head = i / s->n_segments;
        prepare_heads(s, ctx, s->segments[segment].first, head, head + 1);
        for (size_t h = head * shared_by; h < (head + 1) * shared_by; h++) {
            run_rows(s, ctx, &s->segments[segment], h);
        }
    }
}

fn_input fn_layer_delta_input(const fn_step *s, const fn_delta_weights *w) {
    fn_input in = fn_input_of(s->mixed, s->shape->hidden);
    fn_input_add(s, &in, s->rows, &w->in_qkv);
    fn_input_add(s, &in, s->rows, &w->in_z);
    fn_input_add(s, &in, s->rows, &w->in_a);
    fn_input_add(s, &in, s->rows, &w->in_b);
    return in;
}

void fn_layer_delta(const fn_step *s, const fn_delta_weights *w, const fn_input *in, size_t index) {
    delta_job j = {w, index};
    fn_linear products[4] = {fn_input_product(s, in, &w->in_qkv, s->qkv, s->rows),
                             fn_input_product(s, in, &w->in_z, s->z, s->rows),
                             fn_input_product(s, in, &w->in_a, s->decay, s->rows),
                             fn_input_product(s, in, &w->in_b, s->beta, s->rows)};
    fn_step_linear(s, products, 4);
    fn_step_lap(s, FN_PROFILE_DELTA_PROJECTIONS);
    if (s->rows == s->n_segments) {
        fn_step_each(s, s->n_segments * s->shape->delta_k_heads, run_key_heads, &j);
    } else {
        fn_step_each(s, s->rows, prepare_rows, &j);
        fn_step_each(s, s->n_segments * s->shape->delta_v_heads, run_heads, &j);
    }
    fn_step_lap(s, FN_PROFILE_DELTA_RULE);
    fn_step_project(s, &w->out, s->delta_out, s->block_out, s->rows);
    fn_step_lap(s, FN_PROFILE_DELTA_PROJECTIONS);
}
