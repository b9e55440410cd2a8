/* Scales by search: the scale that maps the largest value to the largest code (plain absmax rounding), then a short
 * ladder of smaller ones; the best is refined twice to the least-squares scale of its codes, sum(x q) / sum(q q).
 * Every scale is rounded to FP16 before it is judged, so what is judged is what is stored. The absmax scale takes
 * part, so the result is never worse than absmax rounding.
 * Sums run in 16 lanes (element i in lane i % 16), added as a tree: fast without special instructions, and the
 * same bits everywhere. */
#include "weights/quantize_row.h"

#include <math.h>
#include <stdbool.h>

#include "base/half.h"
#include "base/status.h"

#define LANES 16
#define ROUND                                                                                      \
    12582912.0f /* 1.5 * 2^23: added and taken away it rounds to an integer, ties to even */

typedef struct trial {
    float scale; /* as stored */
    float error; /* sum (x - q scale)^2 */
    float xq, qq;
} trial;

typedef struct codes_range {
    float low, high;
    bool f16; /* the scale is stored as FP16, else as float32 */
} codes_range;

static float lane_sum(const float *lanes) {
    float sum[LANES];
    for (size_t i = 0; i < LANES; i++) {
        sum[i] = lanes[i];
    }
    for (size_t half = LANES / 2; half > 0; half /= 2) {
        for (size_t i = 0; i < half; i++) {
            sum[i] += sum[i + half];
        }
    }
    return sum[0];
}

static inline float code_of(float x, float inverse, codes_range range) {
    float code = x * inverse;
    code = code < range.low ? range.low : code;
    code = code > range.high ? range.high : code;
    return (code + ROUND) - ROUND;
}

typedef struct lanes {
    float error[LANES], xq[LANES], qq[LANES];
} lanes;

/* One value for each of the first n lanes. */
static inline void add_values(lanes *sum, const float *x, size_t n, float scale, float inverse,
                              codes_range range) {
    for (size_t l = 0; l < n; l++) {
        float code = code_of(x[l], inverse, range);
        float rest = x[l] - code * scale;
        sum->error[l] += rest * rest;
        sum->xq[l] += x[l] * code;
        sum->qq[l] += code * code;
    }
}

static trial measure(const float *x, size_t n, float scale, codes_range range) {
    lanes sum = {{0}, {0}, {0}};
    float inverse = 1.0f / scale;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        add_values(&sum, x + i, LANES, scale, inverse, range);
    }
    add_values(&sum, x + i, n - i, scale, inverse, range);
    return (trial){scale, lane_sum(sum.error), lane_sum(sum.xq), lane_sum(sum.qq)};
}

/* What is too small for the stored type becomes its smallest (normal) number, what is too large its largest. */
static float storable(float scale, codes_range range) {
    float magnitude = fabsf(scale);
    if (!range.f16) {
        return magnitude < 0x1p-126f ? copysignf(0x1p-126f, scale) : scale;
    }
    magnitude = magnitude < 0x1p-24f ? 0x1p-24f : magnitude;
    magnitude = magnitude > 65504.0f ? 65504.0f : magnitude;
    return fn_f16_to_float(fn_float_to_f16(scale < 0.0f ? -magnitude : magnitude));
}

static void try_scale(const float *x, size_t n, float scale, codes_range range, trial *best) {
    trial t = measure(x, n, storable(scale, range), range);
    if (t.error < best->error) {
        *best = t;
    }
}

static void try_ladder(const float *x, size_t n, int bits, float largest, codes_range range,
                       trial *best) {
    if (!range.f16) { /* a long row, written once */
        for (int i = 0; i < 32; i++) {
            try_scale(x, n, fabsf(largest) / 127.0f * (1.0f - 0.0013f * (float)i), range, best);
        }
        return;
    }
    if (bits == 8) {
        for (int i = 0; i < 8; i++) {
            try_scale(x, n, fabsf(largest) / 127.0f * (1.0f - 0.0035f * (float)i), range, best);
        }
        return;
    }
    try_scale(x, n, fabsf(largest) / 7.0f, range, best);
    for (int i = 0; i < 5; i++) { /* the largest value at the code -8, or clipped to it */
        try_scale(x, n, -largest / 8.0f * (1.02f - 0.075f * (float)i), range, best);
    }
    for (int i = 0; i < 2; i++) {
        try_scale(x, n, largest / 8.0f * (0.95f - 0.12f * (float)i), range, best);
    }
}

/* The scale, as stored; 0 when all values are 0. */
static float quantize_group(const float *x, size_t n, int bits, codes_range range, int8_t *codes) {
    trial best = {.scale = 1.0f, .error = INFINITY};
    float largest = 0.0f;
    for (size_t i = 0; i < n; i++) {
        largest = fabsf(x[i]) > fabsf(largest) ? x[i] : largest;
    }
    if (largest != 0.0f) { /* where squares are too large for float32, absmax rounding remains */
        best.scale = storable(fabsf(largest) / range.high, range);
        try_ladder(x, n, bits, largest, range, &best);
    }
    for (int i = 0; i < 2 && best.qq > 0.0f; i++) {
        try_scale(x, n, best.xq / best.qq, range, &best);
    }
    for (size_t i = 0; i < n; i++) {
        codes[i] = (int8_t)code_of(x[i], 1.0f / best.scale, range);
    }
    return largest != 0.0f ? best.scale : 0.0f;
}

void fn_quantize_row(const float *x, size_t n, size_t group, int bits, int8_t *codes,
                     uint16_t *scales) {
    codes_range range =
        bits == 8 ? (codes_range){-127.0f, 127.0f, true} : (codes_range){-8.0f, 7.0f, true};
    FN_ASSERT(group <= 128 && (bits == 4 || bits == 8));
    for (size_t at = 0; at < n; at += group) {
        size_t left = n - at;
        float scale = quantize_group(x + at, left < group ? left : group, bits, range, codes + at);
        scales[at / group] = fn_float_to_f16(scale);
    }
}

float fn_quantize_row_whole(const float *x, size_t n, int8_t *codes) {
    return quantize_group(x, n, 8, (codes_range){-127.0f, 127.0f, false}, codes);
}
