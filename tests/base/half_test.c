/* The small float formats, every value of each: FP8 and FP4 against the tables below (made with
 * torch's float8_e4m3fn; the FP4 values are those of the OCP specification), FP16 against its
 * definition. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"

static const float e4m3[127] = {
    0.0F,        0.001953125F, 0.00390625F, 0.005859375F, 0.0078125F,  0.009765625F,
    0.01171875F, 0.013671875F, 0.015625F,   0.017578125F, 0.01953125F, 0.021484375F,
    0.0234375F,  0.025390625F, 0.02734375F, 0.029296875F, 0.03125F,    0.03515625F,
    0.0390625F,  0.04296875F,  0.046875F,   0.05078125F,  0.0546875F,  0.05859375F,
    0.0625F,     0.0703125F,   0.078125F,   0.0859375F,   0.09375F,    0.1015625F,
    0.109375F,   0.1171875F,   0.125F,      0.140625F,    0.15625F,    0.171875F,
    0.1875F,     0.203125F,    0.21875F,    0.234375F,    0.25F,       0.28125F,
    0.3125F,     0.34375F,     0.375F,      0.40625F,     0.4375F,     0.46875F,
    0.5F,        0.5625F,      0.625F,      0.6875F,      0.75F,       0.8125F,
    0.875F,      0.9375F,      1.0F,        1.125F,       1.25F,       1.375F,
    1.5F,        1.625F,       1.75F,       1.875F,       2.0F,        2.25F,
    2.5F,        2.75F,        3.0F,        3.25F,        3.5F,        3.75F,
    4.0F,        4.5F,         5.0F,        5.5F,         6.0F,        6.5F,
    7.0F,        7.5F,         8.0F,        9.0F,         10.0F,       11.0F,
    12.0F,       13.0F,        14.0F,       15.0F,        16.0F,       18.0F,
    20.0F,       22.0F,        24.0F,       26.0F,        28.0F,       30.0F,
    32.0F,       36.0F,        40.0F,       44.0F,        48.0F,       52.0F,
    56.0F,       60.0F,        64.0F,       72.0F,        80.0F,       88.0F,
    96.0F,       104.0F,       112.0F,      120.0F,       128.0F,      144.0F,
    160.0F,      176.0F,       192.0F,      208.0F,       224.0F,      240.0F,
    256.0F,      288.0F,       320.0F,      352.0F,       384.0F,      416.0F,
    448.0F,
};

static void assert_bits(float got, float want) {
    assert_int_equal(fn_bits_of_float(got), fn_bits_of_float(want));
}

static void every_e4m3_value(void **state) {
    (void)state;
    for (unsigned code = 0; code < 127; code++) {
        assert_bits(fn_e4m3_to_float((uint8_t)code), e4m3[code]);
        assert_bits(fn_e4m3_to_float((uint8_t)(code | 128u)), -e4m3[code]);
    }
    assert_true(isnan(fn_e4m3_to_float(0x7f)) && isnan(fn_e4m3_to_float(0xff)));
}

static void every_e2m1_value(void **state) {
    (void)state;
    static const float values[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
    for (unsigned code = 0; code < 8; code++) {
        assert_bits(fn_e2m1_to_float((uint8_t)code), values[code]);
        assert_bits(fn_e2m1_to_float((uint8_t)(code | 8u)), -values[code]);
        assert_bits(fn_e2m1_to_float((uint8_t)(code | 0x70u)), values[code]); /* four bits count */
    }
}

/* sign, 5 bits of exponent with bias 15, 10 of fraction */
static float defined_f16(unsigned bits) {
    int exponent = (int)(bits >> 10 & 31u);
    double fraction = bits & 1023u;
    double value = exponent == 0    ? ldexp(fraction, -24)
                   : exponent == 31 ? (fraction == 0 ? (double)INFINITY : (double)NAN)
                                    : ldexp(1024.0 + fraction, exponent - 25);
    return (float)((bits & 0x8000u) != 0 ? -value : value);
}

static void every_f16_value_and_back(void **state) {
    (void)state;
    for (unsigned bits = 0; bits < 65536; bits++) {
        float want = defined_f16(bits);
        float got = fn_f16_to_float((uint16_t)bits);
        if (isnan(want)) {
            assert_true(isnan(got) && isnan(fn_f16_to_float(fn_float_to_f16(got))));
        } else {
            assert_bits(got, want);
            assert_int_equal(fn_float_to_f16(want), bits);
        }
    }
}

/* Half-way between neighbours: to the even one; a float's step beside it: to the nearer. */
static void f16_rounds_to_nearest_even(void **state) {
    (void)state;
    for (unsigned bits = 0; bits < 0x7bffu; bits++) {
        float low = defined_f16(bits);
        float high = defined_f16(bits + 1);
        float middle = (low + high) / 2.0F;
        unsigned even = bits % 2 == 0 ? bits : bits + 1;
        assert_int_equal(fn_float_to_f16(middle), even);
        assert_int_equal(fn_float_to_f16(-middle), even | 0x8000u);
        assert_int_equal(fn_float_to_f16(nextafterf(middle, 0.0F)), bits);
        assert_int_equal(fn_float_to_f16(nextafterf(middle, high)), bits + 1);
    }
    assert_int_equal(fn_float_to_f16(65519.996F), 0x7bff);
    assert_int_equal(fn_float_to_f16(65520.0F), 0x7c00);
    assert_int_equal(fn_float_to_f16(-1e30F), 0xfc00);
}

static void bf16_is_the_upper_half(void **state) {
    (void)state;
    for (unsigned bits = 0; bits < 65536; bits++) {
        assert_int_equal(fn_bits_of_float(fn_bf16_to_float((uint16_t)bits)), bits << 16);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_e4m3_value),         cmocka_unit_test(every_e2m1_value),
        cmocka_unit_test(every_f16_value_and_back), cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(bf16_is_the_upper_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
