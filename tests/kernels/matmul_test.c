/* Matrix products: every table, every kind, one row and many, against double and by memcmp. */
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

#include "support/kernel_check.h"

#define MAX_ROWS 67
#define CANARY 12345.678f

static const fn_matrix_kind kinds[] = {FN_MATRIX_F32,  FN_MATRIX_BF16, FN_MATRIX_INT8,
                                       FN_MATRIX_INT4, FN_MATRIX_FP8,  FN_MATRIX_NVFP4};
static const char *const kind_names[] = {"F32", "BF16", "INT8", "INT4", "FP8", "NVFP4"};

/* y [rows, ldy] for `rows` rows from x; every float that must not be written holds CANARY. */
static void product(const fn_kernels *table, const test_matrix *w, const float *x, size_t ldx,
                    size_t rows, float *y, size_t ldy) {
    for (size_t i = 0; i < rows * ldy; i++)
        y[i] = CANARY;
    fn_matmul_args a = {.y = y,
                        .ldy = ldy,
                        .x = x,
                        .ldx = ldx * sizeof(float),
                        .rows = rows,
                        .w = &w->m,
                        .tile_begin = 0,
                        .tile_end = fn_matrix_tiles(w->m.rows)};
    table->matmul[w->m.kind](&a);
    for (size_t r = 0; r < rows; r++)
        for (size_t n = w->m.rows; n < ldy; n++)
            if (y[r * ldy + n] != CANARY)
                fail_msg("%s wrote beyond column %zu", table->name, w->m.rows);
}

/* Each row alone gives `want` [MAX_ROWS, N]; then each number of rows gives the same. */
static void one_row_is_many_rows(const fn_kernels *table, const test_matrix *w, const float *x,
                                 size_t ldx, const float *want, const char *what) {
    size_t n = w->m.rows, ldy = n + 3;
    guarded y = guarded_floats(MAX_ROWS * ldy);
    float *wide = y.data;
    guarded one = guarded_floats(n); /* a write beyond the last column would fault */
    for (size_t r = 0; r < MAX_ROWS; r++) {
        product(table, w, x + r * ldx, ldx, 1, one.data, n);
        assert_same_bits(one.data, want + r * n, n, table->name, what);
    }
    guarded_free(&one);
    /* the slow kernels do a few numbers of rows, the others all */
    bool slow = table->matmul[w->m.kind] == fn_kernels_for(FN_ISA_REF)->matmul[w->m.kind];
    for (size_t rows = 1; rows <= MAX_ROWS; rows += slow || emulated() ? 33 : 1) {
        product(table, w, x, ldx, rows, wide, ldy);
        for (size_t r = 0; r < rows; r++)
            assert_same_bits(wide + r * ldy, want + r * n, n, table->name, what);
    }
    guarded_free(&y);
}

static void compare_with_double(const test_matrix *w, const float *x, size_t ldx, const float *got,
                                const char *what) {
    size_t n_rows = w->m.rows, cols = w->m.cols;
    for (size_t r = 0; r < MAX_ROWS; r += 13) {
        for (size_t n = 0; n < n_rows; n++) {
            double want = 0.0, scale = 0.0;
            for (size_t k = 0; k < cols; k++) {
                double term = (double)w->values[n * cols + k] * (double)x[r * ldx + k];
                want += term;
                scale += fabs(term);
            }
            assert_close(got + r * n_rows + n, &want, &scale, 1, 12.0, what);
        }
    }
}

static void check_shape(fn_matrix_kind kind, size_t n, size_t k, size_t group) {
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables), ldx = k + 5;
    uint64_t seed = n * 10007 + k * 31 + group;
    char what[100];
    snprintf(what, sizeof what, "%s N %zu K %zu group %zu", kind_names[kind], n, k, group);
    test_matrix w = test_matrix_make(kind, n, k, group, &seed);
    guarded x = guarded_floats(MAX_ROWS * ldx - 5);
    fill_random(x.data, MAX_ROWS * ldx - 5, -2.0f, 2.0f, &seed);
    float *want = malloc(MAX_ROWS * n * sizeof(float));
    product(tables[0], &w, x.data, ldx, MAX_ROWS, want, n);
    compare_with_double(&w, x.data, ldx, want, what);
    for (size_t t = 0; t < count; t++)
        one_row_is_many_rows(tables[t], &w, x.data, ldx, want, what);
    free(want);
    guarded_free(&x);
    test_matrix_free(&w);
}

static void every_table_and_number_of_rows_gives_the_same_bits(void **state) {
    (void)state;
    static const size_t outputs[] = {1, 31, 32, 33, 96, 320}, inputs[] = {1, 2, 127, 128, 129, 320};
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        for (size_t n = 0; n < sizeof outputs / sizeof *outputs; n++)
            for (size_t k = 0; k < sizeof inputs / sizeof *inputs; k++)
                check_shape(kinds[kind], outputs[n], inputs[k], FN_GROUP_DEFAULT);
        check_shape(kinds[kind], 96, 2560, FN_GROUP_DEFAULT);
        check_shape(kinds[kind], 33, 640, 64);
        check_shape(kinds[kind], 33, 75, 32);
    }
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
            product(tables[t], &w, x, K, ROWS, whole, N);
            for (size_t cut = 0; cut <= TILES; cut++) {
                for (size_t i = 0; i < ROWS * N; i++)
                    split[i] = CANARY;
                fn_matmul_args a = {.y = split,
                                    .ldy = N,
                                    .x = x,
                                    .ldx = K * sizeof(float),
                                    .rows = ROWS,
                                    .w = &w.m,
                                    .tile_begin = cut,
                                    .tile_end = TILES};
                tables[t]->matmul[kinds[kind]](&a);
                for (size_t r = 0; r < ROWS; r++)
                    for (size_t n = 0; n < cut * FN_TILE && n < N; n++)
                        assert_true(split[r * N + n] == CANARY);
                a.tile_begin = 0;
                a.tile_end = cut;
                tables[t]->matmul[kinds[kind]](&a);
                assert_same_bits(split, whole, ROWS * N, tables[t]->name, "split tiles");
            }
        }
        test_matrix_free(&w);
    }
}

/* A NaN or an infinity in one row of inputs spoils that row's outputs and no other's. */
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
            product(tables[t], &w, x, K, ROWS, y, N);
            for (size_t i = 0; i < ROWS * N; i++)
                assert_int_equal(isnan(y[i]) != 0, i / N == 3 || i / N == 7);
        }
        test_matrix_free(&w);
    }
}

/* Whatever bytes a matrix holds (each code, scales that are subnormal, infinite or no numbers), and
 * inputs of any size: infinities, sums that underflow to a zero of either sign. */
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
        product(tables[0], &w, x, K, ROWS, want, N);
        for (size_t t = 0; t < count; t++) {
            product(tables[t], &w, x, K, ROWS, got, N);
            assert_same_bits(got, want, ROWS * N, tables[t]->name, kind_names[kind]);
            for (size_t r = 0; r < ROWS; r++) {
                product(tables[t], &w, x + r * K, K, 1, got, N);
                assert_same_bits(got, want + r * N, N, tables[t]->name, kind_names[kind]);
            }
        }
        test_matrix_free(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_table_and_number_of_rows_gives_the_same_bits),
        cmocka_unit_test(tiles_may_be_split_anywhere),
        cmocka_unit_test(a_nan_stays_in_its_row),
        cmocka_unit_test(any_bytes_and_inputs_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
