/* Mixture of experts. Reference: Qwen4ExpTextSparseMoeBlock.
 *   p = softmax(router x); the K largest (ties: lower index), renormalised if norm_topk
 *   y = sum over the chosen, in the router's order, of p_e down_e(silu(gate_e x) * up_e x)
 *       + sigmoid(shared_expert_gate x) * shared(x) */
#include <string.h>

#include "layers/experts.h"

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

fn_input fn_layer_moe_input(const fn_step *s, const fn_moe_weights *w) {
    fn_input in = fn_input_of(s->mixed, s->shape->hidden);
    fn_input_add(s, &in, s->rows, &w->router);
    fn_input_add(s, &in, s->rows, &w->shared_expert_gate);
    fn_input_add(s, &in, s->rows, &w->shared_gate_up);
    for (size_t e = 0; e < s->shape->n_experts; e++) {
        fn_input_add(s, &in, s->rows, &w->gate_up[e]);
    }
    return in;
}

void fn_layer_moe(const fn_step *s, const fn_moe_weights *w, const fn_input *in, size_t layer) {
    const fn_shape *m = s->shape;
    fn_linear route[2] = {fn_input_product(s, in, &w->router, s->router, s->rows),
                          fn_input_product(s, in, &w->shared_expert_gate, s->shared_gate, s->rows)};
    fn_step_linear(s, route, 2);
    fn_step_each(s, s->rows, route_rows, NULL);
    fn_step_trace(s, s->parts->router_ids, layer, s->rows, m->n_chosen, s->chosen);
    fn_step_trace(s, s->parts->router_weights, layer, s->rows, m->n_chosen, s->chosen_weight);
    fn_step_lap(s, FN_PROFILE_ROUTER);
    fn_layer_experts(s, w, in);
    fn_step_lap(s, FN_PROFILE_EXPERTS);
    fn_step_each(s, s->rows, sum_rows, NULL);
    fn_step_lap(s, FN_PROFILE_EXPERT_SUM);
}
