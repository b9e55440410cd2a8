/* Safetensors files of the tools: tests/data/tensors/types.safetensors was written by the Python
 * package safetensors (torch), and the writer makes the same bytes. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "flashnext_tools.h"
#include "support/alloc_fail.h"
#include "support/check_error.h"
#include "support/temp_dir.h"

#define TYPES "tests/data/tensors/types.safetensors"

static void every_type_reads_as_numbers(void **state) {
    (void)state;
    const struct {
        const char *name, *dtype;
        size_t n;
        double values[6];
    } known[] = {
        {"f32", "F32", 6, {1.5, -2.25, 0, 3.0000000054977558e+38, 0x1p-149, (double)INFINITY}},
        {"f64", "F64", 2, {0.1, -1e300}},
        {"bf16", "BF16", 3, {1, -0.0078125, 3.3895313892515355e+38}},
        {"f16", "F16", 5, {1, 65504, -0x1p-24, 0.333251953125, (double)INFINITY}},
        {"i64", "I64", 3, {-1, 9007199254740992.0, 23703573157769.0}},
        {"i32", "I32", 2, {-2147483648.0, 2147483647.0}},
        {"i16", "I16", 2, {-32768, 32767}},
        {"i8", "I8", 2, {-128, 127}},
        {"u8", "U8", 2, {0, 255}},
        {"bool", "BOOL", 3, {1, 0, 1}},
        {"f8", "F8_E4M3", 3, {448, -0x1p-9, 1.125}},
        {"f8e5", "F8_E5M2", 3, {57344, 0x1p-16, -1.25}},
        {"empty", "F32", 0, {0}},
        {"scalar", "F32", 1, {7.5}},
    };
    fn_error err = {0};
    fn_tensor_file *file = NULL;
    assert_int_equal(fn_tensor_file_open(TYPES, &file, &err), FN_OK);
    assert_int_equal(fn_tensor_file_count(file), sizeof known / sizeof known[0]);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        fn_tensor_view view;
        double values[6] = {0};
        assert_true(fn_tensor_file_find(file, known[i].name, &view));
        assert_string_equal(view.dtype, known[i].dtype);
        assert_int_equal(fn_tensor_file_read(file, known[i].name, values, &err), FN_OK);
        for (size_t j = 0; j < known[i].n; j++) {
            if (values[j] != known[i].values[j]) {
                fail_msg("%s[%zu]: %.17g, expected %.17g", known[i].name, j, values[j],
                         known[i].values[j]);
            }
        }
    }
    fn_tensor_view view;
    assert_true(fn_tensor_file_find(file, "f32", &view));
    assert_int_equal(view.n_dims, 2);
    assert_int_equal(view.dims[0], 2);
    assert_int_equal(view.dims[1], 3);
    assert_false(fn_tensor_file_find(file, "none", &view));
    double none;
    fn_status status = fn_tensor_file_read(file, "none", &none, &err);
    check_error(status, &err, FN_E_MODEL, "types.safetensors", "none");
    fn_tensor_file_close(file);
}

/* In the order of the Python file's data. */
static const struct {
    const char *name, *dtype;
    uint64_t dims[2];
    size_t n_dims, bytes;
} layout[] = {
    {"i64", "I64", {3}, 1, 24},    {"f64", "F64", {2}, 1, 16},     {"empty", "F32", {0, 4}, 2, 0},
    {"f32", "F32", {2, 3}, 2, 24}, {"scalar", "F32", {0}, 0, 4},   {"i32", "I32", {2}, 1, 8},
    {"bf16", "BF16", {3}, 1, 6},   {"f16", "F16", {5}, 1, 10},     {"i16", "I16", {2}, 1, 4},
    {"f8", "F8_E4M3", {3}, 1, 3},  {"f8e5", "F8_E5M2", {3}, 1, 3}, {"i8", "I8", {2}, 1, 2},
    {"u8", "U8", {2}, 1, 2},       {"bool", "BOOL", {3}, 1, 3},
};
enum { TENSORS = sizeof layout / sizeof layout[0], DATA_BYTES = 109 };

static fn_status write_types(const char *path, const char *data, size_t n, size_t step,
                             fn_error *err) {
    fn_tensor_writer *writer = NULL;
    fn_status status = fn_tensor_writer_create(path, &writer, err);
    if (status != FN_OK) {
        return status;
    }
    for (size_t i = 0; i < TENSORS && status == FN_OK; i++) {
        status = fn_tensor_writer_declare(writer, layout[i].name, layout[i].dtype, layout[i].dims,
                                          layout[i].n_dims, err);
    }
    for (size_t at = 0; at < n && status == FN_OK; at += step) {
        status = fn_tensor_writer_append(writer, data + at, n - at < step ? n - at : step, err);
    }
    if (status != FN_OK) {
        fn_tensor_writer_abandon(writer);
        return status;
    }
    return fn_tensor_writer_finish(writer, err);
}

static size_t files_in(const char *dir) {
    size_t n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        n += e->d_name[0] != '.';
    }
    (void)closedir(d);
    return n;
}

static void the_writer_makes_the_bytes_of_the_python_package(void **state) {
    (void)state;
    char dir[256];
    char path[300];
    char *python = NULL;
    char *ours = NULL;
    size_t n_python = 0;
    size_t n_ours = 0;
    fn_error err = {0};
    temp_dir_make(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/out.safetensors", dir);
    assert_int_equal(fn_file_read_all(TYPES, 1 << 20, &python, &n_python, &err), FN_OK);
    for (size_t step = 1; step < 200; step += 53) {
        assert_int_equal(write_types(path, python + n_python - DATA_BYTES, DATA_BYTES, step, &err),
                         FN_OK);
        assert_int_equal(fn_file_read_all(path, 1 << 20, &ours, &n_ours, &err), FN_OK);
        assert_int_equal(n_ours, n_python);
        assert_memory_equal(ours, python, n_python);
        fn_free(ours);
        assert_int_equal(files_in(dir), 1);
    }
    fn_free(python);
    temp_dir_remove(dir);
}

/* Too few bytes, too many, or an abandoned file: the name does not appear, an older file stays. */
static void a_file_appears_only_when_whole(void **state) {
    (void)state;
    char dir[256];
    char path[300];
    char *text = NULL;
    size_t n = 0;
    const char data[DATA_BYTES + 1] = {0};
    temp_dir_make(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/out.safetensors", dir);
    FILE *older = fopen(path, "w");
    assert_non_null(older);
    assert_true(fputs("older", older) >= 0 && fclose(older) == 0);
    fn_error err = {0};
    fn_status status = write_types(path, data, DATA_BYTES - 1, 10, &err);
    check_error(status, &err, FN_E_USAGE, "out.safetensors", "108", "109");
    err = (fn_error){0};
    status = write_types(path, data, DATA_BYTES + 1, 10, &err);
    check_error(status, &err, FN_E_USAGE, "out.safetensors", "10 bytes", "9 were left");
    fn_tensor_writer *writer = NULL;
    assert_int_equal(fn_tensor_writer_create(path, &writer, &err), FN_OK);
    assert_int_equal(files_in(dir), 2);
    fn_tensor_writer_abandon(writer);
    assert_int_equal(files_in(dir), 1);
    assert_int_equal(fn_file_read_all(path, 100, &text, &n, NULL), FN_OK);
    assert_string_equal(text, "older");
    fn_free(text);
    temp_dir_remove(dir);
}

static void wrong_declarations_are_refused(void **state) {
    (void)state;
    char dir[256];
    char path[300];
    const uint64_t dims[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    const uint64_t huge[3] = {UINT64_MAX / 2, 3, 5};
    temp_dir_make(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/out.safetensors", dir);
    fn_tensor_writer *w = NULL;
    assert_int_equal(fn_tensor_writer_create(path, &w, NULL), FN_OK);
    assert_int_equal(fn_tensor_writer_declare(w, "a", "F32", dims, 1, NULL), FN_OK);
    assert_int_equal(fn_tensor_writer_declare(w, "a", "F32", dims, 1, NULL), FN_E_USAGE);
    assert_int_equal(fn_tensor_writer_declare(w, "b", "F33", dims, 1, NULL), FN_E_USAGE);
    assert_int_equal(fn_tensor_writer_declare(w, "b", "F32", dims, 9, NULL), FN_E_USAGE);
    assert_int_equal(fn_tensor_writer_declare(w, "b", "F32", huge, 3, NULL), FN_E_USAGE);
    assert_int_equal(fn_tensor_writer_declare(w, "__metadata__", "F32", dims, 1, NULL), FN_E_USAGE);
    assert_int_equal(fn_tensor_writer_append(w, dims, 4, NULL), FN_OK);
    assert_int_equal(fn_tensor_writer_declare(w, "c", "F32", dims, 1, NULL), FN_E_USAGE);
    assert_int_equal(fn_tensor_writer_finish(w, NULL), FN_OK);
    fn_tensor_file *file = NULL;
    assert_int_equal(fn_tensor_file_open(path, &file, NULL), FN_OK);
    assert_int_equal(fn_tensor_file_count(file), 1);
    fn_tensor_file_close(file);
    temp_dir_remove(dir);
}

static void a_file_that_cannot_be_written_is_an_error(void **state) {
    (void)state;
    fn_error err = {0};
    fn_tensor_writer *w = NULL;
    fn_status status = fn_tensor_writer_create("no/such/dir/x.safetensors", &w, &err);
    check_error(status, &err, FN_E_IO, "no/such/dir/x.safetensors");
    assert_null(w);
}

static void lost_memory_leaves_no_file_behind(void **state) {
    (void)state;
    char dir[256];
    char path[300];
    const char data[DATA_BYTES] = {0};
    fn_alloc_watch_jansson();
    temp_dir_make(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/out.safetensors", dir);
    for (long n = 0;; n++) {
        fn_error err = {0};
        fn_alloc_fail_at(n);
        fn_status status = write_types(path, data, DATA_BYTES, 50, &err);
        fn_alloc_fail_at(-1);
        if (status == FN_OK) {
            assert_true(n > 50);
            break;
        }
        assert_int_equal(files_in(dir), 0);
    }
    for (long n = 0;; n++) {
        fn_error err = {0};
        fn_tensor_file *file = NULL;
        double values[3];
        fn_alloc_fail_at(n);
        fn_status status = fn_tensor_file_open(path, &file, &err);
        status = status == FN_OK ? fn_tensor_file_read(file, "i64", values, &err) : status;
        fn_alloc_fail_at(-1);
        fn_tensor_file_close(file);
        if (status == FN_OK) {
            break;
        }
        /* The JSON parser words a lost allocation as a fault of the text here and there. */
        if ((status != FN_E_NOMEM && status != FN_E_MODEL) || n > 2000) {
            fail_msg("allocation %ld: %s", n, err.text);
        }
    }
    temp_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_reads_as_numbers),
        cmocka_unit_test(the_writer_makes_the_bytes_of_the_python_package),
        cmocka_unit_test(a_file_appears_only_when_whole),
        cmocka_unit_test(wrong_declarations_are_refused),
        cmocka_unit_test(a_file_that_cannot_be_written_is_an_error),
        cmocka_unit_test(lost_memory_leaves_no_file_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
