/* Mixture of experts. Reference: Qwen4ExpTextSparseMoeBlock.
 *   p = softmax(router x); the K largest (ties: lower index), renormalised if norm_topk
 *   y = sum over the chosen, in the router's order, of p_e down_e(silu(gate_e x) * up_e x)
 *       + sigmoid(shared_expert_gate x) * shared(x) */
#include <string.h>

#include "layers/layers.h"

typedef struct moe_job {
    const fn_moe_weights *w;
    size_t n_units;
} moe_job;

/* The K largest of E in falling order. K is small: insertion into a sorted list. */
static void choose(const float *p, size_t n, size_t k, int32_t *ids, float *weights) {
    size_t count = 0;
    for (size_t e = 0; e < n; e++) {
        if (count == k && !(p[e] > weights[k - 1])) {
            continue;
        }
        size_t at = count < k ? count++ : k - 1;
        while (at > 0 && p[e] > weights[at - 1]) {
            weights[at] = weights[at - 1];
            ids[at] = ids[at - 1];
            at--;
        }
        weights[at] = p[e];
        ids[at] = (int32_t)e;
    }
}

static void route_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    const fn_shape *m = s->shape;
    (void)ctx;
    (void)thread;
    for (size_t r = begin; r < end; r++) {
        float *p = s->router + r * m->n_experts;
        float *weights = s->chosen_weight + r * m->n_chosen;
        s->k->softmax(p, p, m->n_experts);
        choose(p, m->n_experts, m->n_chosen, s->chosen + r * m->n_chosen, weights);
        float sum = 0.0f;
        for (size_t i = 0; i < m->n_chosen; i++) {
            sum += weights[i];
        }
        for (size_t i = 0; m->norm_topk && i < m->n_chosen; i++) {
            weights[i] /= sum;
        }
    }
    s->k->sigmoid(s->shared_gate + begin, s->shared_gate + begin, end - begin, 1.0f);
}

/* Sorts (row, choice) by expert: expert e's inputs are rows [expert_first[e], expert_first[e + 1]). */
static void sort_by_expert(const fn_step *s) {
    const fn_shape *m = s->shape;
    size_t n = s->rows * m->n_chosen;
    size_t *first = s->expert_first;
    memset(first, 0, (m->n_experts + 1) * sizeof *first);
    for (size_t i = 0; i < n; i++) {
        first[s->chosen[i] + 1]++;
    }
    for (size_t e = 0; e < m->n_experts; e++) {
        first[e + 1] += first[e];
    }
    for (size_t i = 0; i < n; i++) {
        s->expert_row[i] = (int32_t)first[s->chosen[i]]++;
    }
    memmove(first + 1, first, m->n_experts * sizeof *first);
    first[0] = 0;
}

static void gather_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    size_t d = s->shape->hidden;
    (void)ctx;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        memcpy(s->expert_in + (size_t)s->expert_row[i] * d, s->mixed + i / s->shape->n_chosen * d,
               d * sizeof(float));
    }
}

/* One product per expert that has rows, and one for the shared expert. */
static size_t list_units(const fn_step *s, const fn_matrix *experts, const float *x, float *y,
                         fn_linear shared) {
    size_t n = 0;
    for (size_t e = 0; e < s->shape->n_experts; e++) {
        size_t first = s->expert_first[e];
        size_t rows = s->expert_first[e + 1] - first;
        if (rows > 0) {
            s->expert_units[n++] = fn_linear_of(&experts[e], x + first * experts[e].cols,
                                                y + first * experts[e].rows, rows);
        }
    }
    s->expert_units[n++] = shared;
    return n;
}

static void activate(const fn_step *s, float *act, const float *mid, size_t begin, size_t end,
                     size_t width) {
    for (size_t i = begin; i < end; i++) {
        s->k->silu_mul(act + i * width, mid + i * 2 * width, mid + i * 2 * width + width, width);
    }
}

static void activate_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    size_t k = s->shape->n_chosen;
    (void)ctx;
    (void)thread;
    activate(s, s->expert_act, s->expert_mid, begin * k, end * k, s->shape->expert_width);
    activate(s, s->shared_act, s->shared_mid, begin, end, s->shape->shared_width);
}

static void sum_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    const fn_shape *m = s->shape;
    size_t d = m->hidden;
    (void)ctx;
    (void)thread;
    for (size_t r = begin; r < end; r++) {
        float *y = s->block_out + r * d;
        memset(y, 0, d * sizeof *y);
        for (size_t i = r * m->n_chosen; i < (r + 1) * m->n_chosen; i++) {
            s->k->axpy(y, s->chosen_weight[i], s->expert_out + (size_t)s->expert_row[i] * d, d);
        }
        s->k->axpy(y, s->shared_gate[r], s->shared_out + r * d, d);
    }
}

void fn_layer_moe(const fn_step *s, const fn_moe_weights *w, size_t layer) {
    const fn_shape *m = s->shape;
    fn_linear route[2] = {fn_linear_of(&w->router, s->mixed, s->router, s->rows),
                          fn_linear_of(&w->shared_expert_gate, s->mixed, s->shared_gate, s->rows)};
    fn_step_linear(s, route, 2);
    fn_step_each(s, s->rows, route_rows, NULL);
    fn_step_trace(s, s->parts->router_ids, layer, s->rows, m->n_chosen, s->chosen);
    fn_step_trace(s, s->parts->router_weights, layer, s->rows, m->n_chosen, s->chosen_weight);
    sort_by_expert(s);
    fn_step_each(s, s->rows * m->n_chosen, gather_rows, NULL);
    size_t n = list_units(s, w->gate_up, s->expert_in, s->expert_mid,
                          fn_linear_of(&w->shared_gate_up, s->mixed, s->shared_mid, s->rows));
    fn_step_linear(s, s->expert_units, n);
    fn_step_each(s, s->rows, activate_rows, NULL);
    n = list_units(s, w->down, s->expert_act, s->expert_out,
                   fn_linear_of(&w->shared_down, s->shared_act, s->shared_out, s->rows));
    fn_step_linear(s, s->expert_units, n);
    fn_step_each(s, s->rows, sum_rows, NULL);
}
