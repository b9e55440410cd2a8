/* Quantised rows: never worse than absmax rounding, the best scale nearly found (against a dense search), exact
 * where the row is exactly representable. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/hash.h"
#include "weights/quantize_row.h"

#define N 640

static double gaussian(uint64_t i) {
    double u = (double)(fn_hash_mix(2 * i + 1) >> 11 | 1) * 0x1p-53;
    double v = (double)(fn_hash_mix(2 * i + 2) >> 11) * 0x1p-53;
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

/* kind 0: Gaussian, 1: heavy tails, 2: outlier channels, 3: all of one sign. */
static void fill(float *x, size_t n, unsigned kind, uint64_t seed) {
    for (size_t i = 0; i < n; i++) {
        double g = gaussian(seed * 100000 + i);
        double value = kind == 1 ? g * g * g : kind == 2 && i % 61 == 7 ? 20.0 * g : g;
        x[i] = (float)(0.02 * (kind == 3 ? fabs(value) : value));
    }
}

static double error_of(const float *x, size_t n, size_t group, const int8_t *codes,
                       const uint16_t *scales) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)x[i] - (double)codes[i] * (double)fn_f16_to_float(scales[i / group]);
        sum += d * d;
    }
    return sum;
}

static double error_with(const float *x, size_t n, int bits, double scale) {
    double low = bits == 8 ? -127.0 : -8.0;
    double high = bits == 8 ? 127.0 : 7.0;
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        double code = fmax(low, fmin(high, nearbyint((double)x[i] / scale)));
        double d = (double)x[i] - code * scale;
        sum += d * d;
    }
    return sum;
}

static double largest_of(const float *x, size_t n) {
    double largest = 0.0;
    for (size_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)x[i]));
    }
    return largest;
}

static void squared_error_is_below_absmax_rounding_and_near_the_least(void **unused) {
    static const size_t groups[] = {32, 64, 128};
    static const int widths[] = {4, 8};
    (void)unused;
    for (unsigned kind = 0; kind < 4; kind++) {
        for (size_t w = 0; w < 2; w++) {
            for (size_t g = 0; g < 3; g++) {
                float x[N];
                int8_t codes[N];
                uint16_t scales[N / 32];
                double ours = 0.0;
                double absmax = 0.0;
                double least = 0.0;
                for (uint64_t row = 0; row < 20; row++) {
                    fill(x, N, kind, row * 7 + kind);
                    fn_quantize_row(x, N, groups[g], widths[w], codes, scales);
                    ours += error_of(x, N, groups[g], codes, scales);
                    for (size_t at = 0; at < N; at += groups[g]) {
                        double top = largest_of(x + at, groups[g]);
                        double plain = top / (widths[w] == 8 ? 127.0 : 7.0);
                        double best = INFINITY;
                        absmax += error_with(x + at, groups[g], widths[w], plain);
                        for (int i = -500; i <= 500; i++) { /* every scale of either sign */
                            double scale = plain * 1.1 * i / 500.0;
                            best = i == 0 ? best
                                          : fmin(best,
                                                 error_with(x + at, groups[g], widths[w], scale));
                        }
                        least += best;
                    }
                }
                assert_true(ours < absmax);
                /* At 8 bits the error jumps with every code that flips: the least is luck. */
                assert_true(ours < least * (widths[w] == 4 ? 1.02 : 1.25));
            }
        }
    }
}

static void codes_times_scale_come_back_exactly(void **unused) {
    (void)unused;
    for (int bits = 4; bits <= 8; bits += 4) {
        float x[128];
        int8_t codes[128];
        uint16_t scale;
        for (size_t i = 0; i < 128; i++) {
            int code = (int)(fn_hash_mix(i) % (bits == 4 ? 16 : 255)) - (bits == 4 ? 8 : 127);
            x[i] = (float)code * 0x1p-9f;
        }
        x[5] = bits == 4 ? -8.0f * 0x1p-9f : 127.0f * 0x1p-9f;
        fn_quantize_row(x, 128, 128, bits, codes, &scale);
        for (size_t i = 0; i < 128; i++) {
            assert_true((float)codes[i] * fn_f16_to_float(scale) == x[i]);
        }
    }
}

static void odd_groups_zeros_and_extremes_stay_in_range(void **unused) {
    float x[N];
    int8_t codes[N];
    uint16_t scales[N];
    (void)unused;
    for (size_t n = 1; n <= 130; n++) {
        for (int bits = 4; bits <= 8; bits += 4) {
            static const float sizes[] = {0.0f, 1e-30f, 1e-6f, 1.0f, 1e30f};
            for (size_t s = 0; s < 5; s++) {
                fill(x, n, 0, n);
                for (size_t i = 0; i < n; i++) {
                    x[i] *= sizes[s];
                }
                fn_quantize_row(x, n, 64, bits, codes, scales);
                for (size_t i = 0; i < n; i++) {
                    assert_true(codes[i] >= (bits == 4 ? -8 : -127) &&
                                codes[i] <= (bits == 4 ? 7 : 127));
                    assert_true(isfinite(fn_f16_to_float(scales[i / 64])));
                    assert_true(sizes[s] != 0.0f || codes[i] == 0);
                }
            }
        }
    }
}

static void f16_numbers_survive_the_way_through_float(void **unused) {
    (void)unused;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float value = fn_f16_to_float((uint16_t)bits);
        if (value == value) {
            assert_int_equal(fn_float_to_f16(value), bits);
        } else {
            assert_int_equal(fn_float_to_f16(value) & 0x7c00, 0x7c00);
        }
    }
    assert_int_equal(fn_float_to_f16(1.00048828125f), 0x3c00); /* half-way: to even */
    assert_int_equal(fn_float_to_f16(1.00146484375f), 0x3c02);
    assert_int_equal(fn_float_to_f16(65519.0f), 0x7bff);
    assert_int_equal(fn_float_to_f16(65520.0f), 0x7c00);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(squared_error_is_below_absmax_rounding_and_near_the_least),
        cmocka_unit_test(codes_times_scale_come_back_exactly),
        cmocka_unit_test(odd_groups_zeros_and_extremes_stay_in_range),
        cmocka_unit_test(f16_numbers_survive_the_way_through_float),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
