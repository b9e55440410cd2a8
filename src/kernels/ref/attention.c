#include "base/half.h"
#include "kernels/flush.h"
#include "kernels/ref/ref.h"

void fn_ref_attention(const fn_attention_args *a) {
    for (size_t h = 0; h < a->heads; h++) {
        const float *q = a->q + h * a->ldq;
        float *p = a->scores + h * a->n_keys, *out = a->out + h * a->head_dim;
        for (size_t i = 0; i < a->n_keys; i++)
            p[i] = a->scale * fn_ref_dot(q, a->k[i], a->head_dim);
        float sum = fn_ref_exp_sum(p, p, a->n_keys, fn_ref_max(p, a->n_keys));
        memset(out, 0, a->head_dim * sizeof(float));
        for (size_t i = 0; i < a->n_keys; i++)
            for (size_t d = 0; d < a->head_dim; d++)
                out[d] = fn_ref_fma(p[i], a->v[i][d], out[d]);
        for (size_t d = 0; d < a->head_dim; d++)
            out[d] /= sum;
    }
}

void fn_ref_index_scores(float *scores, const float *q, size_t heads, const float *keys, size_t n,
                         size_t d, float scale) {
    for (size_t b = 0; b < n; b++) {
        float sum = 0.0f;
        for (size_t h = 0; h < heads; h++) {
            float dot = fn_ref_dot(q + h * d, keys + b * d, d);
            sum += dot < 0.0f ? 0.0f : dot; /* NaN stays */
        }
        scores[b] = scale * sum;
    }
}

/* BF16 dot order. */
static float dot_bf16(const uint16_t *a, const uint16_t *b, size_t n) {
    float lanes[FN_LANES] = {0.0f};
    unsigned before = fn_flush_begin();
    for (size_t i = 0; i < n; i += 2) {
        float *lane = &lanes[i / 2 % FN_LANES], sum = *lane;
        if (i + 1 < n)
            sum = fn_ref_fma(fn_bf16_to_float(a[i + 1]), fn_bf16_to_float(b[i + 1]), sum);
        *lane = fn_ref_fma(fn_bf16_to_float(a[i]), fn_bf16_to_float(b[i]), sum);
    }
    float sum = fn_ref_lanes_sum(lanes);
    fn_flush_end(before);
    return sum;
}

void fn_ref_attention_bf16(const fn_attention_bf16_args *a) {
    for (size_t h = 0; h < a->heads; h++) {
        const uint16_t *q = a->q + h * a->ldq;
        float *p = a->scores + h * a->n_keys, *out = a->out + h * a->head_dim;
        for (size_t i = 0; i < a->n_keys; i++)
            p[i] = a->scale * dot_bf16(q, a->k[i], a->head_dim);
        float sum = fn_ref_exp_sum(p, p, a->n_keys, fn_ref_max(p, a->n_keys));
        memset(out, 0, a->head_dim * sizeof(float));
        for (size_t i = 0; i < a->n_keys; i++)
            for (size_t d = 0; d < a->head_dim; d++)
                out[d] = fn_ref_fma(p[i], fn_bf16_to_float(a->v[i][d]), out[d]);
        for (size_t d = 0; d < a->head_dim; d++)
            out[d] /= sum;
    }
}

void fn_ref_index_scores_bf16(float *scores, const uint16_t *q, size_t heads, const uint16_t *keys,
                              size_t n, size_t d, float scale) {
    unsigned before = fn_flush_begin();
    for (size_t b = 0; b < n; b++) {
        float sum = 0.0f;
        for (size_t h = 0; h < heads; h++) {
            float dot = dot_bf16(q + h * d, keys + b * d, d);
            sum += dot < 0.0f ? 0.0f : dot; /* NaN stays */
        }
        scores[b] = scale * sum;
    }
    fn_flush_end(before);
}
