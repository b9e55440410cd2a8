/* The packed layout: sizes, where each weight stands (worked out by hand from the header), and the
 * way back. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/kernel_check.h"

static void tile_sizes(void **state) {
    (void)state;
    static const struct {
        fn_matrix_kind kind;
        size_t cols, group, bytes;
    } cases[] = {
        {FN_MATRIX_F32, 1, 128, 128},
        {FN_MATRIX_F32, 2560, 128, 2560 * 128},
        {FN_MATRIX_BF16, 1, 128, 128}, /* padded to a pair */
        {FN_MATRIX_BF16, 2560, 128, 2560 * 64},
        {FN_MATRIX_BF16, 321, 128, 322 * 64},
        {FN_MATRIX_INT8, 128, 128, 4096 + 64},
        {FN_MATRIX_INT8, 320, 128, 2 * (4096 + 64) + 64 * 32 + 64},
        {FN_MATRIX_INT8, 5, 128, 8 * 32 + 64},
        {FN_MATRIX_INT4, 128, 128, 2048 + 64},
        {FN_MATRIX_INT4, 320, 128, 2 * (2048 + 64) + 32 * 32 + 64},
        {FN_MATRIX_INT4, 9, 32, 16 * 16 + 64},
        {FN_MATRIX_INT4, 64, 32, 2 * (512 + 64)},
        {FN_MATRIX_FP8, 128, 128, 4096 + 128},
        {FN_MATRIX_FP8, 160, 128, 4096 + 128 + 32 * 32 + 128},
        {FN_MATRIX_FP8, 1, 128, 192},   /* 32 + 128, rounded up */
        {FN_MATRIX_NVFP4, 16, 16, 448}, /* 256 + 32 + 128, rounded up */
        {FN_MATRIX_NVFP4, 2560, 16, 160 * 288 + 128},
        {FN_MATRIX_NVFP4, 35, 16, 2 * 288 + 64 + 32 + 128 + 32},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t bytes = fn_matrix_tile_bytes(cases[i].kind, cases[i].cols, cases[i].group);
        assert_int_equal(bytes, cases[i].bytes);
        assert_int_equal(bytes % 64, 0);
        assert_int_equal(fn_matrix_bytes(cases[i].kind, 33, cases[i].cols, cases[i].group),
                         2 * bytes);
    }
}

static void packed_rows_come_back(void **state) {
    (void)state;
    static const size_t rows[] = {1, 31, 32, 33, 64, 65}, cols[] = {1, 2, 3, 127, 128, 129, 320};
    uint64_t seed = 9;
    for (int kind = 0; kind < FN_MATRIX_KINDS; kind++) {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            for (size_t j = 0; j < sizeof cols / sizeof *cols; j++) {
                test_matrix t =
                    test_matrix_make((fn_matrix_kind)kind, rows[i], cols[j], 128, &seed);
                guarded row = guarded_floats(cols[j]);
                for (size_t n = 0; n < rows[i]; n++) {
                    fn_matrix_row(&t.m, n, row.data);
                    assert_memory_equal(row.data, t.values + n * cols[j], cols[j] * sizeof(float));
                }
                guarded_free(&row);
                test_matrix_free(&t);
            }
        }
    }
}

/* Output 19 (half 1, lane 3) of the second tile, input 5 (pair 2, second). */
static void bf16_stands_in_pairs(void **state) {
    (void)state;
    uint64_t seed = 10;
    test_matrix t = test_matrix_make(FN_MATRIX_BF16, 64, 8, 128, &seed);
    uint16_t word;
    memcpy(&word, t.m.tiles + t.m.tile_bytes + 2 * 128 + 64 + 3 * 4 + 2, sizeof word);
    assert_int_equal(word, to_bf16(t.values[(32 + 19) * 8 + 5]));
    test_matrix_free(&t);
}

static void f32_stands_output_by_output(void **state) {
    (void)state;
    uint64_t seed = 11;
    test_matrix t = test_matrix_make(FN_MATRIX_F32, 64, 8, 128, &seed);
    float value;
    memcpy(&value, t.m.tiles + t.m.tile_bytes + 5 * 128 + 19 * 4, sizeof value);
    assert_true(value == t.values[(32 + 19) * 8 + 5]);
    test_matrix_free(&t);
}

/* Hand-made tile, 40 inputs in groups of 32: input 37 is quad 1, byte 1 of the second group. */
static void quantised_rows_are_code_times_scale(void **state) {
    (void)state;
    static const uint16_t one_and_half = 0x3e00, minus_quarter = 0xb400, subnormal = 0x0001;
    float row[40];
    fn_matrix m = {FN_MATRIX_INT8, 32, 40, 32, fn_matrix_tile_bytes(FN_MATRIX_INT8, 40, 32), NULL};
    uint8_t *tiles = malloc(m.tile_bytes);
    assert_non_null(tiles);
    memset(tiles, 128, m.tile_bytes);
    m.tiles = tiles;
    size_t second = 32 * 32 + 64, codes = 8 * 32;
    tiles[second + (1 * 2 + 1) * 64 + 3 * 4 + 1] = 128 - 100; /* output 19 */
    memcpy(tiles + second + codes + 19 * 2, &one_and_half, 2);
    memcpy(tiles + 32 * 32 + 19 * 2, &minus_quarter, 2);
    tiles[(7 * 2 + 1) * 64 + 3 * 4 + 3] = 128 + 127; /* output 19, input 31 */
    fn_matrix_row(&m, 19, row);
    assert_true(row[37] == -150.0f && row[31] == -31.75f && row[36] == 0.0f && row[0] == 0.0f);
    free(tiles);

    m.kind = FN_MATRIX_INT4;
    m.tile_bytes = fn_matrix_tile_bytes(FN_MATRIX_INT4, 40, 32);
    tiles = malloc(m.tile_bytes);
    assert_non_null(tiles);
    memset(tiles, 0x88, m.tile_bytes);
    m.tiles = tiles;
    second = 32 * 16 + 64;
    codes = 8 * 16;
    tiles[second + 64 + 3 * 4 + 1] = 0x1f; /* output 19: input 33 is code 7, input 37 is -7 */
    memcpy(tiles + second + codes + 19 * 2, &one_and_half, 2);
    memcpy(tiles + 32 * 16 + 19 * 2, &subnormal, 2);
    tiles[64 + 3 * 4] = 0x80; /* output 19, input 0: code -8 */
    fn_matrix_row(&m, 19, row);
    assert_true(row[33] == 10.5f && row[37] == -10.5f && row[0] == -8.0f * 0x1p-24f);
    assert_true(row[1] == 0.0f && row[39] == 0.0f);
    free(tiles);
}

static fn_matrix hand_made(fn_matrix_kind kind, size_t cols, size_t group, uint8_t **tiles) {
    fn_matrix m = {kind, 32, cols, group, fn_matrix_tile_bytes(kind, cols, group), NULL};
    *tiles = calloc(m.tile_bytes, 1);
    assert_non_null(*tiles);
    m.tiles = *tiles;
    return m;
}

/* 130 inputs: the second group has two. Output 19. */
static void fp8_stands_input_by_input(void **state) {
    (void)state;
    static const float scales[2] = {0.5f, 3.0f};
    uint8_t codes[130] = {0}, *tiles;
    float row[130], scale;
    fn_matrix m = hand_made(FN_MATRIX_FP8, 130, 128, &tiles);
    codes[5] = 0x38;   /* 1 */
    codes[129] = 0xfe; /* -448 */
    fn_matrix_pack_fp8(&m, tiles, 19, codes, scales);
    size_t second = 128 * 32 + 128;
    assert_int_equal(tiles[5 * 32 + 19], 0x38);
    assert_int_equal(tiles[second + 32 + 19], 0xfe);
    memcpy(&scale, tiles + second + 64 + 19 * 4, sizeof scale);
    assert_true(scale == 3.0f);
    fn_matrix_row(&m, 19, row);
    assert_true(row[5] == 0.5f && row[129] == -1344.0f && row[128] == 0.0f);
    free(tiles);
}

/* 19 inputs: the second group has three, the last nibble of the source belongs to none. */
static void nvfp4_stands_in_pairs(void **state) {
    (void)state;
    static const uint8_t scales[2] = {0x40, 0x30}; /* 2, 0.5 */
    uint8_t codes[10] = {0}, *tiles;
    float row[19], global;
    fn_matrix m = hand_made(FN_MATRIX_NVFP4, 19, 16, &tiles);
    codes[1] = 0xf1; /* input 2: 0.5; input 3: -6 */
    codes[9] = 0x7a; /* input 18: -1 */
    fn_matrix_pack_nvfp4(&m, tiles, 19, codes, scales, 0.25f);
    assert_int_equal(tiles[32 + 19], 0xf1);
    assert_int_equal(tiles[256 + 19], 0x40);
    assert_int_equal(tiles[288 + 32 + 19], 0x0a); /* padding holds the code of 0 */
    assert_int_equal(tiles[288 + 64 + 19], 0x30);
    memcpy(&global, tiles + 288 + 64 + 32 + 19 * 4, sizeof global);
    assert_true(global == 0.25f);
    fn_matrix_row(&m, 19, row);
    assert_true(row[2] == 0.25f && row[3] == -3.0f && row[18] == -0.125f && row[17] == 0.0f);
    free(tiles);
}

/* Inputs beyond a group's end must add nothing, so their codes stand for 0. */
static void integer_padding_stands_for_zero(void **state) {
    (void)state;
    static const int8_t codes[9] = {-7, 1, 2, 3, 4, 5, 6, 7, -8};
    static const uint16_t scales[1] = {0x3c00};
    uint8_t *tiles;
    fn_matrix m = hand_made(FN_MATRIX_INT8, 9, 32, &tiles);
    fn_matrix_pack_codes(&m, tiles, 3, codes, scales);
    assert_int_equal(tiles[2 * 128 + 3 * 4], 120);
    for (size_t k = 9; k < 12; k++)
        assert_int_equal(tiles[2 * 128 + 3 * 4 + k % 4], 128);
    free(tiles);
    m = hand_made(FN_MATRIX_INT4, 9, 32, &tiles);
    fn_matrix_pack_codes(&m, tiles, 3, codes, scales);
    assert_int_equal(tiles[3 * 4], 0xc1); /* inputs 0 and 4 */
    assert_int_equal(tiles[128 + 3 * 4], 0x80);
    for (size_t k = 1; k < 4; k++)
        assert_int_equal(tiles[128 + 3 * 4 + k], 0x88);
    free(tiles);
}

static void scales_are_counted(void **state) {
    (void)state;
    assert_int_equal(fn_matrix_scale_bytes(FN_MATRIX_F32, 64, 320, 128), 0);
    assert_int_equal(fn_matrix_scale_bytes(FN_MATRIX_BF16, 64, 320, 128), 0);
    assert_int_equal(fn_matrix_scale_bytes(FN_MATRIX_INT4, 33, 320, 128), 2 * 3 * 64);
    assert_int_equal(fn_matrix_scale_bytes(FN_MATRIX_INT8, 32, 320, 32), 10 * 64);
    assert_int_equal(fn_matrix_scale_bytes(FN_MATRIX_FP8, 640, 2560, 128), 20 * 20 * 128);
    assert_int_equal(fn_matrix_scale_bytes(FN_MATRIX_NVFP4, 640, 2560, 16), 20 * (160 * 32 + 128));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tile_sizes),
        cmocka_unit_test(packed_rows_come_back),
        cmocka_unit_test(bf16_stands_in_pairs),
        cmocka_unit_test(f32_stands_output_by_output),
        cmocka_unit_test(quantised_rows_are_code_times_scale),
        cmocka_unit_test(fp8_stands_input_by_input),
        cmocka_unit_test(nvfp4_stands_in_pairs),
        cmocka_unit_test(integer_padding_stands_for_zero),
        cmocka_unit_test(scales_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
