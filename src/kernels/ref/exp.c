#include "kernels/exp_poly.h"
#include "kernels/ref/ref.h"

static float power_of_two(uint32_t biased) {
    uint32_t bits = biased << 23;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float fn_ref_exp_value(float x) {
    x = FN_EXP_MAX < x ? FN_EXP_MAX : x; /* written so that NaN stays */
    x = FN_EXP_MIN > x ? FN_EXP_MIN : x;
    float t = fn_ref_fma(x, FN_EXP_LOG2E, FN_EXP_ROUND), n = t - FN_EXP_ROUND;
    float r = fn_ref_fma(n, -FN_EXP_LN2_LOW, fn_ref_fma(n, -FN_EXP_LN2_HIGH, x));
    float p = FN_EXP_C4;
    p = fn_ref_fma(p, r, FN_EXP_C3);
    p = fn_ref_fma(p, r, FN_EXP_C2);
    p = fn_ref_fma(p, r, FN_EXP_C1);
    p = fn_ref_fma(p, r, FN_EXP_C0);
    p = fn_ref_fma(p, r, 1.0f);
    p = fn_ref_fma(p, r, 1.0f);
    uint32_t exponent; /* n + 256, positive */
    memcpy(&exponent, &t, sizeof exponent);
    exponent = exponent - FN_EXP_ROUND_BITS + 256u;
    uint32_t low = exponent >> 1, high = exponent - low;
    return p * power_of_two(low - 1u) * power_of_two(high - 1u);
}

/* exp of the negative magnitude only, so that nothing overflows and small results keep their bits. */
float fn_ref_sigmoid_value(float z) {
    float e = fn_ref_exp_value(z < 0.0f ? z : -z);
    return (z < 0.0f ? e : 1.0f) / (1.0f + e);
}

void fn_ref_exp(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] = fn_ref_exp_value(x[i]);
}

void fn_ref_sigmoid(float *y, const float *x, size_t n, float scale) {
    for (size_t i = 0; i < n; i++)
        y[i] = fn_ref_sigmoid_value(scale * x[i]);
}

void fn_ref_silu(float *y, const float *x, size_t n, float scale) {
    for (size_t i = 0; i < n; i++) {
        float z = scale * x[i];
        y[i] = z * fn_ref_sigmoid_value(z);
    }
}

void fn_ref_silu_mul(float *y, const float *gate, const float *up, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] = gate[i] * fn_ref_sigmoid_value(gate[i]) * up[i];
}

float fn_ref_max(const float *x, size_t n) {
    float max = x[0];
    for (size_t i = 1; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

float fn_ref_exp_sum(float *y, const float *x, size_t n, float max) {
    float lanes[FN_LANES] = {0.0f};
    for (size_t i = 0; i < n; i++) {
        y[i] = fn_ref_exp_value(x[i] - max);
        lanes[i % FN_LANES] += y[i];
    }
    return fn_ref_lanes_sum(lanes);
}

void fn_ref_softmax(float *y, const float *x, size_t n) {
    if (n == 0)
        return;
    float sum = fn_ref_exp_sum(y, x, n, fn_ref_max(x, n));
    for (size_t i = 0; i < n; i++)
        y[i] /= sum;
}
