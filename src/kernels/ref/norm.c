#include "kernels/ref/ref.h"

float fn_ref_dot(const float *a, const float *b, size_t n) {
    float lanes[FN_LANES] = {0.0f};
    for (size_t i = 0; i < n; i++)
        lanes[i % FN_LANES] = fn_ref_fma(a[i], b[i], lanes[i % FN_LANES]);
    return fn_ref_lanes_sum(lanes);
}

static float rms_scale(const float *x, size_t n, float eps) {
    return 1.0f / sqrtf(fn_ref_dot(x, x, n) / (float)n + eps);
}

float fn_ref_rms_norm(float *y, const float *x, const float *w, size_t n, float eps) {
    float s = rms_scale(x, n, eps);
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * s * (1.0f + w[i]);
    return s;
}

void fn_ref_rms_norm_gated(float *y, const float *x, const float *w, const float *gate, size_t n,
                           float eps) {
    float s = rms_scale(x, n, eps);
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * s * w[i] * gate[i];
}

void fn_ref_l2_norm(float *y, const float *x, size_t n, float eps, float scale) {
    float s = scale / sqrtf(fn_ref_dot(x, x, n) + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * s;
}
