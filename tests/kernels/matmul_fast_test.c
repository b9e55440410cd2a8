/* Products of the fast precision: every table, every kind, one row and many, by memcmp and against
 * double; and the rows they take. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "support/kernel_check.h"

#define MAX_ROWS 67
#define CANARY 12345.678f

static const fn_matrix_kind kinds[] = {FN_MATRIX_F32,  FN_MATRIX_BF16, FN_MATRIX_INT8,
                                       FN_MATRIX_INT4, FN_MATRIX_FP8,  FN_MATRIX_NVFP4};
static const char *const kind_names[] = {"F32", "BF16", "INT8", "INT4", "FP8", "NVFP4"};

/* Rows of inputs as a kind's products take them. */
typedef struct rows {
    guarded g;
    size_t bytes; /* of one */
} rows;

static rows rows_write(const fn_kernels *table, const fn_matrix *w, const float *x, size_t n) {
    fn_row_form form = fn_row_form_of(w->kind);
    rows r = {.bytes = fn_row_bytes(form, w->cols, w->group)};
    r.g = guarded_alloc(n * r.bytes);
    memset(r.g.data, 0x5a, n * r.bytes);
    for (size_t i = 0; i < n; i++)
        table->write_row[form]((uint8_t *)r.g.data + i * r.bytes, x + i * w->cols, w->cols,
                               w->group);
    return r;
}

/* y [n, ldy] of rows first .. first + n; every float that must not be written holds CANARY. */
static void product(const fn_kernels *table, const fn_matrix *w, const rows *x, size_t first,
                    size_t n, float *y, size_t ldy) {
    for (size_t i = 0; i < (n - 1) * ldy + w->rows; i++)
        y[i] = CANARY;
    fn_matmul_args a = {.y = y,
                        .ldy = ldy,
                        .x = (const uint8_t *)x->g.data + first * x->bytes,
                        .ldx = x->bytes,
                        .rows = n,
                        .w = w,
                        .tile_begin = 0,
                        .tile_end = fn_matrix_tiles(w->rows)};
    table->matmul_fast[w->kind](&a);
    for (size_t r = 0; r + 1 < n; r++)
        for (size_t i = w->rows; i < ldy; i++)
            if (y[r * ldy + i] != CANARY)
                fail_msg("%s wrote beyond column %zu", table->name, w->rows);
}

/* Each row alone gives `want` [MAX_ROWS, N]; then each number of rows gives the same. */
static void one_row_is_many_rows(const fn_kernels *table, const fn_matrix *w, const rows *x,
                                 const float *want, const char *what) {
    size_t n = w->rows, ldy = n + 3;
    guarded one = guarded_floats(n); /* a write beyond the last column would fault */
    for (size_t r = 0; r < MAX_ROWS; r++) {
        product(table, w, x, r, 1, one.data, n);
        assert_same_bits(one.data, want + r * n, n, table->name, what);
    }
    guarded_free(&one);
    bool slow = table->matmul_fast[w->kind] == fn_kernels_for(FN_ISA_REF)->matmul_fast[w->kind];
    for (size_t count = 1; count <= MAX_ROWS; count += slow || emulated() ? 33 : 1) {
        guarded y = guarded_floats((count - 1) * ldy + n);
        product(table, w, x, 0, count, y.data, ldy);
        for (size_t r = 0; r < count; r++)
            assert_same_bits((float *)y.data + r * ldy, want + r * n, n, table->name, what);
        guarded_free(&y);
    }
}

/* The input that row stands for, widened. */
static double row_value(const fn_matrix *w, const uint8_t *row, size_t k) {
    float value;
    uint16_t word;
    switch (fn_row_form_of(w->kind)) {
    case FN_ROW_INT8:
        memcpy(&value, row + fn_row_scales_at(w->cols) + k / w->group * sizeof value, sizeof value);
        return (double)value * (int8_t)row[k];
    case FN_ROW_BF16:
        memcpy(&word, row + k * sizeof word, sizeof word);
        return (double)fn_bf16_to_float(word);
    default:
        memcpy(&value, row + k * sizeof value, sizeof value);
        return (double)value;
    }
}

static void compare_with_double(const test_matrix *w, const rows *x, const float *got,
                                const char *what) {
    size_t n_rows = w->m.rows, cols = w->m.cols;
    for (size_t r = 0; r < MAX_ROWS; r += 13) {
        for (size_t n = 0; n < n_rows; n++) {
            double want = 0.0, scale = 0.0;
            for (size_t k = 0; k < cols; k++) {
                double value = row_value(&w->m, (const uint8_t *)x->g.data + r * x->bytes, k);
                double term = (double)w->values[n * cols + k] * value;
                want += term;
                scale += fabs(term);
            }
            assert_close(got + r * n_rows + n, &want, &scale, 1, 12.0, what);
        }
    }
}

static void check_shape(fn_matrix_kind kind, size_t n, size_t k, size_t group) {
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    uint64_t seed = n * 10007 + k * 31 + group;
    char what[100];
    snprintf(what, sizeof what, "%s N %zu K %zu group %zu", kind_names[kind], n, k, group);
    test_matrix w = test_matrix_make(kind, n, k, group, &seed);
    float *x = malloc(MAX_ROWS * k * sizeof *x), *want = malloc(MAX_ROWS * n * sizeof *want);
    assert_true(x != NULL && want != NULL);
    fill_random(x, MAX_ROWS * k, -2.0f, 2.0f, &seed);
    rows first = rows_write(tables[0], &w.m, x, MAX_ROWS);
    product(tables[0], &w.m, &first, 0, MAX_ROWS, want, n);
    compare_with_double(&w, &first, want, what);
    for (size_t t = 0; t < count; t++) {
        rows same = rows_write(tables[t], &w.m, x, MAX_ROWS);
        one_row_is_many_rows(tables[t], &w.m, &same, want, what);
        guarded_free(&same.g);
    }
    guarded_free(&first.g);
    free(x);
    free(want);
    test_matrix_free(&w);
}

static void every_table_and_number_of_rows_gives_the_same_bits(void **state) {
    (void)state;
    static const size_t outputs[] = {1, 31, 33, 96, 320}, inputs[] = {1, 2, 127, 128, 129, 320};
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        for (size_t n = 0; n < sizeof outputs / sizeof *outputs; n++)
            for (size_t k = 0; k < sizeof inputs / sizeof *inputs; k++)
                check_shape(kinds[kind], outputs[n], inputs[k], FN_GROUP_DEFAULT);
        check_shape(kinds[kind], 96, 2560, FN_GROUP_DEFAULT);
        check_shape(kinds[kind], 33, 640, 64);
        check_shape(kinds[kind], 129, 75, 32);
    }
}

/* The same with what a caller may know: that y is read much later, and what is multiplied by next. */
static void product_with_hints(const fn_kernels *table, const fn_matrix *w, const rows *x, size_t n,
                               float *y, size_t ldy) {
    for (size_t i = 0; i < n * ldy; i++)
        y[i] = CANARY;
    fn_matmul_args a = {.y = y,
                        .ldy = ldy,
                        .x = x->g.data,
                        .ldx = x->bytes,
                        .rows = n,
                        .w = w,
                        .tile_begin = 0,
                        .tile_end = fn_matrix_tiles(w->rows),
                        .next = w->tiles,
                        .far = true};
    table->matmul_fast[w->kind](&a);
    for (size_t r = 0; r < n; r++)
        for (size_t i = w->rows; i < ldy; i++)
            assert_true(y[r * ldy + i] == CANARY);
}

/* Long rows, so many rows that tables work through stretches of them, and panels of outputs; the last
 * tile is a part of one. */
static void check_long(fn_matrix_kind kind, size_t group) {
    enum { N = 331, K = 2690, ROWS = 199, ALIGNED = 336 };
    static const size_t counts[] = {25, 26, 31, 40, 41, 47, 192, 193, ROWS};
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables), ldy = N + 3;
    uint64_t seed = group;
    test_matrix w = test_matrix_make(kind, N, K, group, &seed);
    float *x = malloc(sizeof *x * ROWS * K), *want = malloc(sizeof *want * ROWS * N);
    float *aligned = aligned_alloc(64, sizeof *aligned * ROWS * ALIGNED);
    assert_true(x != NULL && want != NULL && aligned != NULL);
    fill_random(x, (size_t)ROWS * K, -2.0f, 2.0f, &seed);
    rows in = rows_write(tables[0], &w.m, x, ROWS);
    const fn_kernels *best = tables[count - 1];
    for (size_t r = 0; r < ROWS; r++)
        product(best, &w.m, &in, r, 1, want + r * N, N);
    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; i < (t == 0 ? 1 : sizeof counts / sizeof *counts); i++) {
            guarded y = guarded_floats((counts[i] - 1) * ldy + N);
            product(tables[t], &w.m, &in, 0, counts[i], y.data, ldy);
            product_with_hints(tables[t], &w.m, &in, counts[i], aligned, ALIGNED);
            for (size_t r = 0; r < counts[i]; r++) {
                assert_same_bits((float *)y.data + r * ldy, want + r * N, N, tables[t]->name,
                                 kind_names[kind]);
                assert_same_bits(aligned + r * ALIGNED, want + r * N, N, tables[t]->name,
                                 kind_names[kind]);
            }
            guarded_free(&y);
        }
    guarded_free(&in.g);
    free(x);
    free(want);
    free(aligned);
    test_matrix_free(&w);
}

static void many_long_rows_have_the_bits_of_each_alone(void **state) {
    (void)state;
    check_long(FN_MATRIX_INT8, 128);
    check_long(FN_MATRIX_INT8, 32);
    check_long(FN_MATRIX_INT4, 128);
    check_long(FN_MATRIX_INT4, 64);
    check_long(FN_MATRIX_BF16, 128);
}

/* Any split of the tiles among threads writes the same values, each its own columns only. */
static void tiles_may_be_split_anywhere(void **state) {
    (void)state;
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    uint64_t seed = 5;
    enum { N = 210, K = 300, ROWS = 29, TILES = (N + 31) / 32 };
    static float x[ROWS * K], whole[ROWS * N], split[ROWS * N];
    fill_random(x, ROWS * K, -1.0f, 1.0f, &seed);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        test_matrix w = test_matrix_make(kinds[kind], N, K, FN_GROUP_DEFAULT, &seed);
        for (size_t t = 0; t < count; t++) {
            rows in = rows_write(tables[t], &w.m, x, ROWS);
            product(tables[t], &w.m, &in, 0, ROWS, whole, N);
            for (size_t cut = 0; cut <= TILES; cut++) {
                for (size_t i = 0; i < ROWS * N; i++)
                    split[i] = CANARY;
                fn_matmul_args a = {.y = split,
                                    .ldy = N,
                                    .x = in.g.data,
                                    .ldx = in.bytes,
                                    .rows = ROWS,
                                    .w = &w.m,
                                    .tile_begin = cut,
                                    .tile_end = TILES};
                tables[t]->matmul_fast[kinds[kind]](&a);
                for (size_t r = 0; r < ROWS; r++)
                    for (size_t n = 0; n < cut * FN_TILE && n < N; n++)
                        assert_true(split[r * N + n] == CANARY);
                a.tile_begin = 0;
                a.tile_end = cut;
                tables[t]->matmul_fast[kinds[kind]](&a);
                assert_same_bits(split, whole, ROWS * N, tables[t]->name, "split tiles");
            }
            guarded_free(&in.g);
        }
        test_matrix_free(&w);
    }
}

/* A NaN in one row of inputs spoils that row's outputs and no other's. An infinity, too: its group
 * has no scale, or it meets weights of either sign. */
static void a_nan_stays_in_its_row(void **state) {
    (void)state;
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    uint64_t seed = 6;
    enum { N = 40, K = 200, ROWS = 14 };
    static float x[ROWS * K], y[ROWS * N];
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        test_matrix w = test_matrix_make(kinds[kind], N, K, FN_GROUP_DEFAULT, &seed);
        for (size_t t = 0; t < count; t++) {
            fill_random(x, ROWS * K, -1.0f, 1.0f, &seed);
            x[3 * K + 199] = NAN;
            x[7 * K] = NAN;
            rows in = rows_write(tables[t], &w.m, x, ROWS);
            product(tables[t], &w.m, &in, 0, ROWS, y, N);
            for (size_t i = 0; i < ROWS * N; i++)
                assert_int_equal(isnan(y[i]) != 0, i / N == 3 || i / N == 7);
            guarded_free(&in.g);
        }
        test_matrix_free(&w);
    }
}

/* Whatever bytes a matrix holds, and inputs of any size: infinities, subnormals, sums that
 * underflow. */
static void any_bytes_and_inputs_give_the_same_bits(void **state) {
    (void)state;
    static const float sizes[] = {1.0f,     0x1p-149f, 0x1p-140f, 0x1p-126f,
                                  0x1p-70f, 0x1p120f,  INFINITY};
    enum { SIZES = sizeof sizes / sizeof *sizes, N = 75, K = 303, ROWS = 2 * SIZES };
    static float x[ROWS * K], want[ROWS * N], got[ROWS * N];
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    uint64_t seed = 7;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds * 4; i++) {
        size_t kind = i / 4;
        test_matrix w = test_matrix_make(kinds[kind], N, K, i % 2 == 0 ? 128 : 32, &seed);
        uint8_t *bytes = w.tiles.data;
        for (size_t b = 0; b < fn_matrix_tiles(N) * w.m.tile_bytes; b++)
            if (i % 4 < 2 || next_random(&seed) % 500 == 0) /* all of them, or few */
                bytes[b] = (uint8_t)next_random(&seed);
        fill_random(x, ROWS * K, -1.0f, 1.0f, &seed);
        for (size_t k = 0; k < ROWS * K; k++)
            if (k / K < SIZES || next_random(&seed) % 50 == 0)
                x[k] *= sizes[k / K % SIZES];
        rows in = rows_write(tables[0], &w.m, x, ROWS);
        product(tables[0], &w.m, &in, 0, ROWS, want, N);
        for (size_t t = 0; t < count; t++) {
            product(tables[t], &w.m, &in, 0, ROWS, got, N);
            assert_same_bits(got, want, ROWS * N, tables[t]->name, kind_names[kind]);
            for (size_t r = 0; r < ROWS; r++) {
                product(tables[t], &w.m, &in, r, 1, got, N);
                assert_same_bits(got, want + r * N, N, tables[t]->name, kind_names[kind]);
            }
        }
        guarded_free(&in.g);
        test_matrix_free(&w);
    }
}

/* The rows themselves: the same bytes from every table, and within half a step of the input. */
static void every_table_writes_the_same_rows(void **state) {
    (void)state;
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    static const float sizes[] = {1.0f, 0.0f, 0x1p-149f, 0x1p-127f, 0x1p-101f, 0x1p100f, 3e38f};
    static const size_t groups[] = {128, 64, 32, 8};
    uint64_t seed = 8;
    float x[400];
    for (size_t i = 0; i < 3000; i++) {
        size_t cols = 1 + next_random(&seed) % 400, group = groups[i % 4];
        fill_random(x, cols, -1.0f, 1.0f, &seed);
        for (size_t k = 0; k < cols; k++)
            x[k] *= sizes[i % 3 == 0 ? 0 : next_random(&seed) % (sizeof sizes / sizeof *sizes)];
        if (i % 10 == 9)
            x[next_random(&seed) % cols] = i % 20 == 9 ? NAN : -INFINITY;
        for (int form = 0; form < FN_ROW_FORMS; form++) {
            size_t bytes = fn_row_bytes((fn_row_form)form, cols, group);
            guarded want = guarded_alloc(bytes), got = guarded_alloc(bytes);
            guarded in = guarded_floats(cols);
            memcpy(in.data, x, cols * sizeof *x);
            memset(want.data, 0, bytes);
            tables[0]->write_row[form](want.data, in.data, cols, group);
            for (size_t t = 1; t < count; t++) {
                memset(got.data, 0, bytes);
                tables[t]->write_row[form](got.data, in.data, cols, group);
                if (memcmp(got.data, want.data, bytes) != 0)
                    fail_msg("form %d, %zu inputs, group %zu: %s differs", form, cols, group,
                             tables[t]->name);
            }
            guarded_free(&in);
            guarded_free(&got);
            guarded_free(&want);
        }
    }
}

static void codes_are_the_nearest_to_the_inputs(void **state) {
    (void)state;
    const fn_kernels *ref = fn_kernels_for(FN_ISA_REF);
    enum { K = 320, GROUP = 128 };
    uint64_t seed = 9;
    float x[K];
    uint8_t row[1024];
    assert_true(fn_row_bytes(FN_ROW_INT8, K, GROUP) <= sizeof row);
    fill_random(x, K, -3.0f, 3.0f, &seed);
    x[5] = 3.5f;   /* the largest of the first group */
    x[200] = 0.0f; /* stays zero */
    ref->write_row[FN_ROW_INT8](row, x, K, GROUP);
    assert_int_equal((int8_t)row[5], 127);
    assert_int_equal((int8_t)row[200], 0);
    for (size_t g = 0; g < 3; g++) {
        float scale;
        int32_t four, eight, sum = 0;
        memcpy(&scale, row + K + g * sizeof scale, sizeof scale);
        memcpy(&four, row + K + (3 + g) * sizeof four, sizeof four);
        memcpy(&eight, row + K + (6 + g) * sizeof eight, sizeof eight);
        for (size_t k = g * GROUP; k < K && k < (g + 1) * GROUP; k++) {
            double code = (int8_t)row[k];
            assert_true(fabs(code * (double)scale - (double)x[k]) <= 0.5001 * (double)scale);
            sum += (int8_t)row[k];
        }
        assert_int_equal(four, -8 * sum);
        assert_int_equal(eight, -128 * sum);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_table_and_number_of_rows_gives_the_same_bits),
        cmocka_unit_test(many_long_rows_have_the_bits_of_each_alone),
        cmocka_unit_test(tiles_may_be_split_anywhere),
        cmocka_unit_test(a_nan_stays_in_its_row),
        cmocka_unit_test(any_bytes_and_inputs_give_the_same_bits),
        cmocka_unit_test(every_table_writes_the_same_rows),
        cmocka_unit_test(codes_are_the_nearest_to_the_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
