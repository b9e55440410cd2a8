#include "kernels/ref/ref.h"

void fn_ref_mul(float *y, const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

void fn_ref_add(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

void fn_ref_axpy(float *y, float a, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] = fn_ref_fma(a, x[i], y[i]);
}

void fn_ref_mix_streams(const fn_mix_args *a) {
    float share = 1.0f / (float)a->hc;
    for (size_t i = 0; i < a->n; i++) {
        float sum = 0.0f;
        for (size_t s = 0; s < a->hc; s++) {
            size_t at = s * a->ldx + i;
            float normed = a->x[at] * a->scale[s] * (1.0f + a->w[at]);
            sum = fn_ref_fma(fn_ref_sigmoid_value(a->gate[s * a->ld_gate + i]), normed, sum);
        }
        a->y[i] = sum * share;
    }
}

void fn_ref_conv_silu(float *y, const float *const *x, const float *w, size_t ldw, size_t taps,
                      size_t c) {
    for (size_t i = 0; i < c; i++) {
        float sum = 0.0f;
        for (size_t j = 0; j < taps; j++)
            sum = fn_ref_fma(w[j * ldw + i], x[j][i], sum);
        y[i] = sum * fn_ref_sigmoid_value(sum);
    }
}

void fn_ref_rope(float *x, const float *cos, const float *sin, size_t rotary) {
    size_t half = rotary / 2;
    for (size_t i = 0; i < half; i++) {
        float x1 = x[i], x2 = x[i + half];
        x[i] = x1 * cos[i] - x2 * sin[i];
        x[i + half] = x2 * cos[i] + x1 * sin[i];
    }
}

void fn_ref_bf16_to_f32(float *y, const uint16_t *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)x[i] << 16;
        memcpy(&y[i], &bits, sizeof bits);
    }
}
