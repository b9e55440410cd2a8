/* Scales by search: from the scale that maps the largest value to the largest code, a ladder of smaller ones is
 * tried; each is refined once to the least-squares scale of its codes, sum(x q) / sum(q q), rounded to FP16, and
 * the codes are rounded anew. The one with the least squared error stays; the first rung is plain absmax
 * rounding, so the result is never worse than that. */
#include "weights/quantize_row.h"

#include <math.h>

#include "base/half.h"

#define MAX_GROUP 128
#define RUNGS_4 20
#define RUNGS_8 6

typedef struct trial {
    uint16_t scale;
    float error;
    int8_t codes[MAX_GROUP];
} trial;

static float clamp(float x, float low, float high) {
    return x < low ? low : x > high ? high : x;
}

/* Codes and squared error of a group for an FP16 scale. */
static void round_group(const float *x, size_t n, float low, float high, trial *t) {
    float scale = fn_f16_to_float(t->scale);
    float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    float error = 0.0f;
    for (size_t i = 0; i < n; i++) {
        float code = clamp(nearbyintf(x[i] * inverse), low, high);
        float rest = x[i] - code * scale;
        error += rest * rest;
        t->codes[i] = (int8_t)code;
    }
    t->error = error;
}

static float least_squares_scale(const float *x, size_t n, const int8_t *codes) {
    float xq = 0.0f;
    float qq = 0.0f;
    for (size_t i = 0; i < n; i++) {
        xq += x[i] * (float)codes[i];
        qq += (float)codes[i] * (float)codes[i];
    }
    return qq > 0.0f ? xq / qq : 0.0f;
}

/* The scale goes into FP16: what is too small for it becomes its smallest, what is too large its largest. */
static uint16_t storable(float scale) {
    float magnitude = clamp(fabsf(scale), 0x1p-24f, 65504.0f);
    return fn_float_to_f16(scale < 0.0f ? -magnitude : magnitude);
}

static void try_scale(const float *x, size_t n, int bits, float scale, trial *best) {
    float low = bits == 8 ? -127.0f : -8.0f;
    float high = bits == 8 ? 127.0f : 7.0f;
    trial t = {.scale = storable(scale)};
    round_group(x, n, low, high, &t);
    if (t.error < best->error) {
        *best = t;
    }
    float refined = least_squares_scale(x, n, t.codes);
    if (refined != 0.0f && storable(refined) != t.scale) {
        t.scale = storable(refined);
        round_group(x, n, low, high, &t);
        if (t.error < best->error) {
            *best = t;
        }
    }
}

static void quantize_group(const float *x, size_t n, int bits, int8_t *codes, uint16_t *scale) {
    float largest = 0.0f;
    for (size_t i = 0; i < n; i++) {
        largest = fabsf(x[i]) > fabsf(largest) ? x[i] : largest;
    }
    trial best = {.error = INFINITY};
    if (largest == 0.0f) {
        best.scale = 0;
        round_group(x, n, 0.0f, 0.0f, &best);
    } else if (bits == 8) {
        for (int i = 0; i < RUNGS_8; i++) {
            try_scale(x, n, bits, fabsf(largest) / 127.0f * (1.0f - 0.004f * (float)i), &best);
        }
    } else {
        try_scale(x, n, bits, fabsf(largest) / 7.0f, &best);
        for (int i = 0; i < RUNGS_4; i++) { /* the largest value at the code -8, or beyond it */
            float rung = -largest / 8.0f * (1.04f - 0.025f * (float)i);
            try_scale(x, n, bits, rung, &best);
            try_scale(x, n, bits, -rung, &best);
        }
    }
    for (size_t i = 0; i < n; i++) {
        codes[i] = best.codes[i];
    }
    *scale = best.scale;
}

void fn_quantize_row(const float *x, size_t n, size_t group, int bits, int8_t *codes,
                     uint16_t *scales) {
    for (size_t at = 0; at < n; at += group) {
        size_t left = n - at;
        quantize_group(x + at, left < group ? left : group, bits, codes + at, &scales[at / group]);
    }
}
