/* The table on disk and in RAM: every row of every type, wanted in any number and order, has the values that were
 * written; what a disk can do wrong is one clear error and no hang. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/hash.h"
#include "ngram/ngram_table.h"
#include "support/alloc_fail.h"
#include "support/check_error.h"
#include "support/read_fail.h"
#include "support/temp_dir.h"

enum { W = 20, PIECES = 5, N = 7 + 1 + 40 + 300 + 13, MOST = 3000 };

static const uint64_t piece_rows[PIECES] = {7, 1, 40, 300, 13};

/* Pieces lie in two files, out of order, with other bytes between them. */
static const struct {
    size_t file;
    int piece; /* -1: something else, of 13 bytes */
} layout[] = {{1, 4}, {1, -1}, {1, 2}, {0, 3}, {1, 1}, {0, -1}, {0, 0}};
enum { LAYOUT = sizeof layout / sizeof layout[0] };

static const fn_dtype types[] = {FN_DTYPE_F32, FN_DTYPE_BF16, FN_DTYPE_F16, FN_DTYPE_F8_E4M3,
                                 FN_DTYPE_I8};
enum { TYPES = sizeof types / sizeof types[0] };

/* -7 .. 7 quarters, which every type can hold. */
static int quarters(uint64_t row, size_t col) {
    return (int)(fn_hash_mix(row * 1000 + col) % 15) - 7;
}

static float value(fn_dtype type, uint64_t row, size_t col) {
    return (float)quarters(row, col) * (type == FN_DTYPE_F8_E4M3 ? 0.125f : 0.25f);
}

static uint8_t fp8_of(float x) {
    unsigned code = 0;
    while (fn_e4m3_to_float((uint8_t)code) != x) {
        code++;
    }
    return (uint8_t)code;
}

static size_t row_bytes(fn_dtype type) {
    return type == FN_DTYPE_I8 ? W + 4 : W * fn_dtype_bytes(type);
}

static void write_row(FILE *f, fn_dtype type, uint64_t row) {
    uint8_t bytes[W * 4];
    static const float scale = 0.25f;
    for (size_t i = 0; i < W; i++) {
        float x = (float)quarters(row, i) * 0.25f;
        uint16_t half = type == FN_DTYPE_BF16 ? fn_float_to_bf16(x) : fn_float_to_f16(x);
        switch (type) {
        case FN_DTYPE_F32:
            memcpy(bytes + 4 * i, &x, 4);
            break;
        case FN_DTYPE_I8:
            bytes[i] = (uint8_t)(int8_t)quarters(row, i);
            break;
        case FN_DTYPE_F8_E4M3:
            bytes[i] = fp8_of(x);
            break;
        default:
            memcpy(bytes + 2 * i, &half, 2);
        }
    }
    if (type == FN_DTYPE_I8) {
        memcpy(bytes + W, &scale, sizeof scale);
    }
    assert_int_equal(fwrite(bytes, row_bytes(type), 1, f), 1);
}

static void write_file(const char *dir, size_t file, fn_dtype type) {
    char path[300];
    char header[2000] = "{\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}";
    size_t at = 4;
    static const float scale = 0.5f;
    header[2] = file == 0 ? 's' : 't';
    for (size_t k = 0; k < LAYOUT; k++) {
        int p = layout[k].piece;
        size_t used = strlen(header);
        if (layout[k].file != file) {
            continue;
        }
        size_t rows = p >= 0 ? (size_t)piece_rows[p] : 13;
        size_t bytes = p >= 0 ? rows * row_bytes(type) : 13;
        int n = p >= 0 ? snprintf(header + used, sizeof header - used,
                                  ",\"piece_%d\":{\"dtype\":\"%s\",\"shape\":[%zu,%zu],"
                                  "\"data_offsets\":[%zu,%zu]}",
                                  p, fn_dtype_name(type), rows, bytes / rows / fn_dtype_bytes(type),
                                  at, at + bytes)
                       : snprintf(header + used, sizeof header - used,
                                  ",\"other_%zu\":{\"dtype\":\"U8\",\"shape\":[13],"
                                  "\"data_offsets\":[%zu,%zu]}",
                                  file, at, at + bytes);
        assert_true(n > 0);
        at += bytes;
    }
    (void)strcat(header, "}");
    (void)snprintf(path, sizeof path, "%s/model-%05zu-of-00002.safetensors", dir, file + 1);
    FILE *f = fopen(path, "wb");
    uint64_t length = strlen(header);
    assert_true(f != NULL && fwrite(&length, 8, 1, f) == 1 && fwrite(header, length, 1, f) == 1);
    assert_int_equal(fwrite(&scale, 4, 1, f), 1);
    for (size_t k = 0; k < LAYOUT; k++) {
        uint64_t first = 0;
        for (int p = 0; p < layout[k].piece; p++) {
            first += piece_rows[p];
        }
        if (layout[k].file == file && layout[k].piece < 0) {
            assert_int_equal(fwrite("something els", 13, 1, f), 1);
        }
        for (uint64_t r = 0;
             layout[k].file == file && layout[k].piece >= 0 && r < piece_rows[layout[k].piece];
             r++) {
            write_row(f, type, first + r);
        }
    }
    assert_int_equal(fflush(f), 0);
    assert_int_equal(fsync(fileno(f)), 0);
    assert_int_equal(fclose(f), 0);
}

typedef struct table_case {
    char dir[200];
    fn_checkpoint *c;
    const fn_tensor *pieces[PIECES];
    fn_ngram_table_options options;
} table_case;

static void make_case(table_case *t, fn_dtype type, fn_read_pool *pool) {
    fn_error err = {0};
    temp_dir_make(t->dir, sizeof t->dir);
    write_file(t->dir, 0, type);
    write_file(t->dir, 1, type);
    if (fn_checkpoint_open(t->dir, &t->c, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    for (size_t i = 0; i < PIECES; i++) {
        char name[20];
        (void)snprintf(name, sizeof name, "piece_%zu", i);
        t->pieces[i] = fn_checkpoint_find(t->c, name);
        assert_non_null(t->pieces[i]);
    }
    t->options = (fn_ngram_table_options){
        .pieces = t->pieces,
        .n_pieces = PIECES,
        .width = W,
        .scale = type == FN_DTYPE_F8_E4M3 ? fn_checkpoint_find(t->c, "s") : NULL,
        .pool = pool};
}

static void free_case(table_case *t) {
    fn_checkpoint_close(t->c);
    temp_dir_remove(t->dir);
}

static fn_ngram_table *open_table(const table_case *t, bool in_ram) {
    fn_error err = {0};
    fn_ngram_table *table = NULL;
    fn_ngram_table_options options = t->options;
    options.in_ram = in_ram;
    if (fn_ngram_table_open(t->c, &options, &table, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    return table;
}

/* Nothing of the files stays in the page cache, where the file system has one. */
static void forget(const table_case *t) {
    for (size_t i = 0; i < 2; i++) {
        int fd = open(fn_checkpoint_file_path(t->c, i), O_RDONLY);
        assert_true(fd >= 0);
        assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
        (void)close(fd);
    }
}

static fn_status gather(const fn_ngram_table *table, const int64_t *rows, size_t n, float *dst,
                        fn_error *err) {
    static fn_ngram_want wants[MOST];
    fn_ngram_gather g;
    fn_status status = fn_ngram_gather_start(table, rows, n, wants, dst, &g, err);
    return status == FN_OK ? fn_ngram_gather_finish(&g, err) : status;
}

static void check_rows(const fn_ngram_table *table, fn_dtype type, const int64_t *rows, size_t n) {
    static float got[MOST * W];
    fn_error err = {0};
    memset(got, 0x7f, n * W * sizeof *got);
    if (gather(table, rows, n, got, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    for (size_t i = 0; i < n * W; i++) {
        float want = value(type, (uint64_t)rows[i / W], i % W);
        if (memcmp(&want, &got[i], sizeof want) != 0) {
            fail_msg("%s, %zu rows: row %lld, value %zu: found %g, expected %g",
                     fn_dtype_name(type), n, (long long)rows[i / W], i % W, (double)got[i],
                     (double)want);
        }
    }
}

/* Few and many rows, all different and all the same, in and out of order; warm and cold. */
static void check_table(const table_case *t, const fn_ngram_table *table, fn_dtype type) {
    static const size_t counts[] = {0, 1, 2, 16, 100, 256, 257, MOST};
    static int64_t rows[MOST];
    for (int64_t i = 0; i < N; i++) {
        rows[i] = N - 1 - i;
    }
    check_rows(table, type, rows, N);
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        for (uint64_t spread = 1; spread <= N; spread = spread * 7 + 1) {
            for (size_t i = 0; i < counts[k]; i++) {
                rows[i] = (int64_t)(fn_hash_mix(i + 10000 * k) % spread);
            }
            forget(t);
            check_rows(table, type, rows, counts[k]);
            check_rows(table, type, rows, counts[k]);
        }
    }
}

static void every_row_of_every_type_is_what_was_written(void **unused) {
    (void)unused;
    fn_read_pool *pool = NULL;
    assert_int_equal(fn_read_pool_create(5, &pool, NULL), FN_OK);
    for (size_t i = 0; i < TYPES; i++) {
        table_case t;
        make_case(&t, types[i], pool);
        fn_ngram_table *disk = open_table(&t, false);
        fn_ngram_table *ram = open_table(&t, true);
        t.options.pool = NULL;
        fn_ngram_table *alone = open_table(&t, false);
        check_table(&t, disk, types[i]);
        check_table(&t, ram, types[i]);
        check_table(&t, alone, types[i]);
        fn_ngram_table_close(alone);
        fn_ngram_table_close(ram);
        fn_ngram_table_close(disk);
        free_case(&t);
    }
    fn_read_pool_destroy(pool);
}

static void interrupted_and_short_reads_go_on(void **unused) {
    (void)unused;
    fn_read_pool *pool = NULL;
    assert_int_equal(fn_read_pool_create(3, &pool, NULL), FN_OK);
    for (size_t i = 0; i < TYPES; i++) {
        table_case t;
        make_case(&t, types[i], pool);
        fn_read_short(7);
        fn_ngram_table *disk = open_table(&t, false);
        fn_ngram_table *ram = open_table(&t, true);
        check_table(&t, disk, types[i]);
        check_table(&t, ram, types[i]);
        fn_read_short(0);
        fn_ngram_table_close(ram);
        fn_ngram_table_close(disk);
        free_case(&t);
    }
    fn_read_pool_destroy(pool);
}

/* Each different row once, whatever the repeats, and no byte beside it. */
static void a_row_is_one_read(void **unused) {
    (void)unused;
    table_case t;
    int64_t rows[300];
    make_case(&t, FN_DTYPE_BF16, NULL);
    fn_ngram_table *table = open_table(&t, false);
    for (size_t i = 0; i < 300; i++) {
        rows[i] = (int64_t)(i % 75 * 4);
    }
    fn_read_fail_at(-1);
    check_rows(table, FN_DTYPE_BF16, rows, 300);
    assert_int_equal(fn_read_calls(), 75);
    fn_ngram_table_close(table);
    free_case(&t);
}

/* What was looked up, and what of it came from where, of tables on disk and in RAM. */
static void what_was_read_is_counted(void **unused) {
    (void)unused;
    table_case t;
    int64_t rows[300];
    make_case(&t, FN_DTYPE_BF16, NULL);
    fn_ngram_table *disk = open_table(&t, false);
    fn_ngram_table *ram = open_table(&t, true);
    for (size_t i = 0; i < 300; i++) {
        rows[i] = (int64_t)(i % 75 * 4);
    }
    fn_ngram_counts counts = {0};
    check_rows(disk, FN_DTYPE_BF16, rows, 300);
    fn_ngram_table_count(disk, &counts);
    assert_int_equal(counts.rows, 300);
    assert_int_equal(counts.read_rows, 75);
    assert_int_equal(counts.read_bytes, 75 * 2 * W);
    assert_int_equal(counts.cached_rows, 0);
    check_rows(disk, FN_DTYPE_BF16, rows, 100); /* so few that the page cache is asked */
    counts = (fn_ngram_counts){0};
    fn_ngram_table_count(disk, &counts);
    assert_int_equal(counts.rows, 400);
    assert_int_equal(counts.read_rows + counts.cached_rows, 2 * 75);
    check_rows(ram, FN_DTYPE_BF16, rows, 300);
    fn_ngram_table_count(ram, &counts); /* a sum */
    assert_int_equal(counts.rows, 700);
    assert_int_equal(counts.read_rows + counts.cached_rows, 2 * 75);
    fn_ngram_table_close(ram);
    fn_ngram_table_close(disk);
    free_case(&t);
}

static void rows_outside_the_table_are_refused(void **unused) {
    static const int64_t wrong[] = {-1, N, INT64_MAX, INT64_MIN};
    (void)unused;
    table_case t;
    float dst[2 * W];
    make_case(&t, FN_DTYPE_F32, NULL);
    fn_ngram_table *table = open_table(&t, false);
    for (size_t i = 0; i < 4; i++) {
        fn_error err = {0};
        char found[40];
        (void)snprintf(found, sizeof found, "found %lld", (long long)wrong[i]);
        check_error(gather(table, (const int64_t[]){3, wrong[i]}, 2, dst, &err), &err, FN_E_RANGE,
                    found, "expected 0 to 360");
    }
    fn_ngram_table_close(table);
    free_case(&t);
}

static void a_failing_disk_is_told_with_file_and_offset(void **unused) {
    static const size_t threads[] = {0, 1, 6};
    (void)unused;
    for (size_t k = 0; k < 3; k++) {
        table_case t;
        fn_read_pool *pool = NULL;
        static int64_t rows[MOST];
        static float dst[MOST * W];
        if (threads[k] > 0) {
            assert_int_equal(fn_read_pool_create(threads[k], &pool, NULL), FN_OK);
        }
        make_case(&t, FN_DTYPE_F16, pool);
        fn_ngram_table *table = open_table(&t, false);
        for (size_t i = 0; i < MOST; i++) {
            rows[i] = (int64_t)(fn_hash_mix(i) % N);
        }
        for (long call = 0; call < 300; call += 7) {
            fn_error err = {0};
            fn_read_fail_at(call);
            fn_status status = gather(table, rows, call % 2 == 0 ? 400 : MOST, dst, &err);
            fn_read_fail_at(-1);
            if (status != FN_OK || call < 200) { /* of 400 wanted rows at least 200 differ */
                check_error(status, &err, FN_E_IO, t.dir, "of-00002.safetensors", "40 bytes",
                            "at offset ", "Input/output error");
            }
        }
        check_rows(table, FN_DTYPE_F16, rows, MOST); /* and goes on when the disk does */
        fn_error err = {0};
        fn_ngram_table *ram = NULL;
        t.options.in_ram = true;
        fn_read_fail_at(3);
        check_error(fn_ngram_table_open(t.c, &t.options, &ram, &err), &err, FN_E_IO, t.dir,
                    "Input/output error");
        fn_read_fail_at(-1);
        assert_null(ram);
        fn_ngram_table_close(table);
        free_case(&t);
        fn_read_pool_destroy(pool);
    }
}

static void a_file_that_shrinks_is_told(void **unused) {
    (void)unused;
    table_case t;
    fn_read_pool *pool = NULL;
    static int64_t rows[N];
    static float dst[N * W];
    char path[400];
    assert_int_equal(fn_read_pool_create(4, &pool, NULL), FN_OK);
    make_case(&t, FN_DTYPE_BF16, pool);
    fn_ngram_table *table = open_table(&t, false);
    fn_ngram_table *ram = open_table(&t, true);
    for (int64_t i = 0; i < N; i++) {
        rows[i] = i;
    }
    (void)snprintf(path, sizeof path, "%s/model-00001-of-00002.safetensors", t.dir);
    assert_int_equal(truncate(path, 2000), 0);
    static const size_t counts[] = {16, N}; /* one that looks into the page cache first */
    for (size_t k = 0; k < 2; k++) {
        fn_error err = {0};
        fn_status status = gather(table, rows + (k == 0 ? 200 : 0), counts[k], dst, &err);
        check_error(status, &err, FN_E_IO, path, "file ends early", "40 bytes at offset");
    }
    check_rows(table, FN_DTYPE_BF16, (const int64_t[]){8, 47, 348, 360}, 4); /* the other file */
    check_rows(ram, FN_DTYPE_BF16, rows, N);
    fn_ngram_table_close(ram);
    fn_ngram_table_close(table);
    free_case(&t);
    fn_read_pool_destroy(pool);
}

static void a_file_that_was_replaced_is_refused(void **unused) {
    (void)unused;
    table_case t;
    char path[400];
    char aside[400];
    fn_ngram_table *table = NULL;
    make_case(&t, FN_DTYPE_F32, NULL);
    (void)snprintf(path, sizeof path, "%s/model-00002-of-00002.safetensors", t.dir);
    (void)snprintf(aside, sizeof aside, "%s/aside", t.dir);
    assert_int_equal(rename(path, aside), 0);
    write_file(t.dir, 1, FN_DTYPE_F32);
    fn_error err = {0};
    check_error(fn_ngram_table_open(t.c, &t.options, &table, &err), &err, FN_E_IO, path,
                "changed or replaced");
    assert_null(table);
    assert_int_equal(unlink(path), 0);
    err = (fn_error){0};
    check_error(fn_ngram_table_open(t.c, &t.options, &table, &err), &err, FN_E_IO, path);
    free_case(&t);
}

static bool stop(void *ud, uint64_t done, uint64_t total) {
    *(uint64_t *)ud = total;
    return done > total;
}

static void reading_it_all_can_be_stopped(void **unused) {
    (void)unused;
    table_case t;
    uint64_t total = 0;
    fn_error err = {0};
    fn_ngram_table *table = NULL;
    make_case(&t, FN_DTYPE_I8, NULL);
    t.options.in_ram = true;
    t.options.watch = &(fn_load_watch){stop, &total};
    check_error(fn_ngram_table_open(t.c, &t.options, &table, &err), &err, FN_E_CANCELLED,
                "n-gram table");
    assert_int_equal(total, N * (W + 4));
    free_case(&t);
}

static void the_page_cache_is_told(void **unused) {
    (void)unused;
    table_case t;
    fn_ngram_info info;
    static int64_t rows[N];
    make_case(&t, FN_DTYPE_F32, NULL);
    fn_ngram_table *disk = open_table(&t, false);
    fn_ngram_table *ram = open_table(&t, true);
    fn_ngram_table_info(ram, &info);
    assert_true(info.in_ram && !info.cache_known && info.bytes == N * W * 4);
    for (int64_t i = 0; i < N; i++) {
        rows[i] = i;
    }
    check_rows(disk, FN_DTYPE_F32, rows, N);
    fn_ngram_table_info(disk, &info);
    assert_true(!info.in_ram && info.bytes == N * W * 4);
    if (info.cache_known) {
        assert_int_equal(info.cached_bytes, info.bytes);
    }
    fn_ngram_table_close(ram);
    fn_ngram_table_close(disk);
    free_case(&t);
}

static void lost_memory_is_told_and_gathers_need_none(void **unused) {
    (void)unused;
    table_case t;
    fn_ngram_table *table = NULL;
    make_case(&t, FN_DTYPE_BF16, NULL);
    for (int ram = 0; ram < 2; ram++) {
        long n = 0;
        t.options.in_ram = ram == 1;
        for (; table == NULL && n < 20; n++) {
            fn_error err = {0};
            fn_alloc_fail_at(n);
            fn_status status = fn_ngram_table_open(t.c, &t.options, &table, &err);
            fn_alloc_fail_at(-1);
            assert_true(status == FN_OK || status == FN_E_NOMEM);
            assert_true((status == FN_OK) == (table != NULL));
        }
        assert_true(n > 2);
        check_rows(table, FN_DTYPE_BF16, (const int64_t[]){5, 5, 300}, 3);
        assert_int_equal(fn_alloc_calls(), 0);
        fn_ngram_table_close(table);
        table = NULL;
    }
    free_case(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_of_every_type_is_what_was_written),
        cmocka_unit_test(interrupted_and_short_reads_go_on),
        cmocka_unit_test(a_row_is_one_read),
        cmocka_unit_test(what_was_read_is_counted),
        cmocka_unit_test(rows_outside_the_table_are_refused),
        cmocka_unit_test(a_failing_disk_is_told_with_file_and_offset),
        cmocka_unit_test(a_file_that_shrinks_is_told),
        cmocka_unit_test(a_file_that_was_replaced_is_refused),
        cmocka_unit_test(reading_it_all_can_be_stopped),
        cmocka_unit_test(the_page_cache_is_told),
        cmocka_unit_test(lost_memory_is_told_and_gathers_need_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
