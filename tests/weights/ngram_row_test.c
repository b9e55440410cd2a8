/* Rows of the n-gram table as stored: values worked out by hand for every type, the same bits in place, INT8 rows
 * never worse than absmax rounding and near the best scale there is. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "weights/ngram_row.h"

enum { W = 160 };

static void assert_values(fn_dtype dtype, float scale, const void *stored, size_t bytes,
                          const float *want, size_t n) {
    fn_ngram_row row;
    float got[4];
    float in_place[4];
    fn_ngram_row_init(dtype, n, scale, &row);
    assert_int_equal(row.bytes, bytes);
    fn_ngram_row_widen(&row, stored, got);
    memcpy(in_place, stored, bytes);
    fn_ngram_row_widen(&row, (const uint8_t *)in_place, in_place);
    assert_memory_equal(got, want, n * sizeof *got);
    assert_memory_equal(in_place, want, n * sizeof *got);
}

/* 1, -2, 0.375 and the smallest subnormal or the largest number of each type. */
static void every_type_gives_the_values_it_stands_for(void **unused) {
    static const float f32[] = {1.0f, -2.0f, 0.375f, 0x1p-149f};
    static const uint16_t bf16[] = {0x3f80, 0xc000, 0x3ec0, 0x0001};
    static const uint16_t f16[] = {0x3c00, 0xc000, 0x3600, 0x7bff};
    static const uint8_t fp8[] = {0x38, 0xc0, 0x2c, 0x7e};
    static const uint8_t i8[] = {0x02, 0x81, 0x03, 0x7f, 0x00, 0x00, 0x00, 0x3e}; /* x 0.125 */
    (void)unused;
    assert_values(FN_DTYPE_F32, 1.0f, f32, sizeof f32, f32, 4);
    assert_values(FN_DTYPE_BF16, 1.0f, bf16, sizeof bf16,
                  (const float[]){1.0f, -2.0f, 0.375f, 0x1p-133f}, 4);
    assert_values(FN_DTYPE_F16, 1.0f, f16, sizeof f16,
                  (const float[]){1.0f, -2.0f, 0.375f, 65504.0f}, 4);
    assert_values(FN_DTYPE_F8_E4M3, 0.5f, fp8, sizeof fp8,
                  (const float[]){0.5f, -1.0f, 0.1875f, 224.0f}, 4);
    assert_values(FN_DTYPE_I8, 1.0f, i8, sizeof i8,
                  (const float[]){0.25f, -15.875f, 0.375f, 15.875f}, 4);
    assert_int_equal(fn_ngram_row_elements(FN_DTYPE_I8, W), W + 4);
    assert_int_equal(fn_ngram_row_elements(FN_DTYPE_U8, W), 0);
}

static float noise(uint64_t i) {
    return (float)((double)(fn_hash_mix(i) >> 11) * 0x1p-53 - 0.5);
}

/* Squared error of rounding to scale, in double. */
static double error_with(const float *x, double scale) {
    double sum = 0.0;
    for (size_t i = 0; i < W; i++) {
        double code = fmax(-127.0, fmin(127.0, nearbyint((double)x[i] / scale)));
        double rest = (double)x[i] - code * scale;
        sum += rest * rest;
    }
    return sum;
}

static double error_of(const float *x, const float *got) {
    double sum = 0.0;
    for (size_t i = 0; i < W; i++) {
        double rest = (double)x[i] - (double)got[i];
        sum += rest * rest;
    }
    return sum;
}

static void int8_rows_are_below_absmax_rounding_and_near_the_least(void **unused) {
    double ours = 0.0;
    double absmax = 0.0;
    double least = 0.0;
    (void)unused;
    for (uint64_t seed = 0; seed < 60; seed++) {
        float x[W];
        float got[W];
        uint8_t stored[W + FN_NGRAM_SCALE_BYTES];
        fn_ngram_row row;
        double top = 0.0;
        for (size_t i = 0; i < W; i++) {
            float a = noise(seed * 1000 + i);
            x[i] = 0.01f * (seed % 2 == 0 ? a : a * a * a);
            top = fmax(top, fabs((double)x[i]));
        }
        fn_ngram_row_quantize(x, W, stored);
        fn_ngram_row_init(FN_DTYPE_I8, W, 1.0f, &row);
        fn_ngram_row_widen(&row, stored, got);
        double best = error_with(x, top / 127.0);
        double error = error_of(x, got);
        assert_true(error <= best * 1.000001);
        absmax += best;
        for (int i = 0; i < 4000; i++) {
            best = fmin(best, error_with(x, top / 127.0 * (0.8 + 0.00006 * i)));
        }
        ours += error;
        least += best;
    }
    print_message("error / absmax rounding's %.4f, / the least %.4f\n", ours / absmax,
                  ours / least);
    assert_true(ours < 0.97 * absmax);
    assert_true(ours < 1.05 * least);
}

/* Tiny, huge and no values: finite, and zero stays zero. */
static void int8_rows_of_any_size_stay_finite(void **unused) {
    static const float sizes[] = {0.0f, 0x1p-149f, 0x1p-126f, 1e-20f, 1e20f, 3e38f};
    (void)unused;
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        float x[W];
        float got[W];
        uint8_t stored[W + FN_NGRAM_SCALE_BYTES];
        fn_ngram_row row;
        for (size_t i = 0; i < W; i++) {
            x[i] = sizes[k] * (i % 2 == 0 ? 1.0f : -0.5f);
        }
        fn_ngram_row_quantize(x, W, stored);
        fn_ngram_row_init(FN_DTYPE_I8, W, 1.0f, &row);
        fn_ngram_row_widen(&row, stored, got);
        for (size_t i = 0; i < W; i++) {
            assert_true(fabsf(got[i] - x[i]) <= 0.005f * fabsf(sizes[k]) + 0x1p-126f);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_gives_the_values_it_stands_for),
        cmocka_unit_test(int8_rows_are_below_absmax_rounding_and_near_the_least),
        cmocka_unit_test(int8_rows_of_any_size_stay_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
