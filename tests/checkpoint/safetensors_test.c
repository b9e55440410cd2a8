/* One file's header: what is read, and every way a header can lie about its file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "checkpoint/checkpoint.h"
#include "support/check_error.h"
#include "support/temp_dir.h"

static char folder[200];

static int make_folder(void **state) {
    (void)state;
    temp_dir_make(folder, sizeof folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    temp_dir_remove(folder);
    return 0;
}

/* A file of `header` with its length in front and n bytes of data: 0, 1, 2, ... */
static const char *write_file(const char *header, uint64_t length, size_t n) {
    static char path[260];
    (void)snprintf(path, sizeof path, "%s/x.safetensors", folder);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(&length, sizeof length, 1, f), 1);
    assert_int_equal(fwrite(header, 1, strlen(header), f), strlen(header));
    for (size_t i = 0; i < n; i++) {
        assert_int_not_equal(fputc((int)(i & 0xff), f), EOF);
    }
    assert_int_equal(fclose(f), 0);
    return path;
}

static fn_status open_header(const char *header, size_t n, fn_checkpoint **out, fn_error *err) {
    return fn_checkpoint_open_file(write_file(header, strlen(header), n), out, err);
}

static void every_type_of_the_format_has_its_size(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t count, bytes;
    } types[] = {{"BOOL", 3, 3},        {"U8", 3, 3},         {"I8", 3, 3},      {"F8_E4M3", 3, 3},
                 {"F8_E5M2", 3, 3},     {"F8_E8M0", 3, 3},    {"I16", 3, 6},     {"U16", 3, 6},
                 {"F16", 3, 6},         {"BF16", 3, 6},       {"I32", 3, 12},    {"U32", 3, 12},
                 {"F32", 3, 12},        {"F64", 3, 24},       {"I64", 3, 24},    {"U64", 3, 24},
                 {"C64", 3, 24},        {"F4", 6, 3},         {"F6_E2M3", 4, 3}, {"F6_E3M2", 8, 6},
                 {"F8_E4M3FNUZ", 2, 2}, {"F8_E5M2FNUZ", 2, 2}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char header[200];
        fn_checkpoint *c = NULL;
        fn_error err = {0};
        (void)snprintf(header, sizeof header,
                       "{\"t\":{\"dtype\":\"%s\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}",
                       types[i].name, types[i].count, types[i].bytes);
        assert_int_equal(open_header(header, types[i].bytes, &c, &err), FN_OK);
        assert_string_equal(fn_dtype_name(fn_checkpoint_at(c, 0)->dtype), types[i].name);
        assert_int_equal(fn_tensor_elements(fn_checkpoint_at(c, 0)), types[i].count);
        fn_checkpoint_close(c);
    }
}

static void tensors_are_views_into_the_file(void **state) {
    (void)state;
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[2,3],\"data_offsets\":[4,10]},"
        "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
        "\"empty\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[4,4]},"
        "\"one\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[10,11]}}   ";
    fn_checkpoint *c = NULL;
    fn_error err = {0};
    unsigned char bytes[6];
    assert_int_equal(open_header(header, 11, &c, &err), FN_OK);
    assert_int_equal(fn_checkpoint_count(c), 4);
    assert_string_equal(fn_checkpoint_at(c, 0)->name, "a");
    assert_string_equal(fn_checkpoint_at(c, 3)->name, "one");
    const fn_tensor *b = fn_checkpoint_find(c, "b");
    assert_non_null(b);
    assert_int_equal(b->n_dims, 2);
    assert_int_equal(b->dims[1], 3);
    assert_int_equal(b->offset, 8 + strlen(header) + 4);
    assert_int_equal(fn_tensor_read(c, b, 2, bytes, 4, &err), FN_OK);
    assert_int_equal(bytes[0], 6);
    assert_int_equal(bytes[3], 9);
    assert_int_equal(fn_tensor_elements(fn_checkpoint_find(c, "one")), 1);
    assert_null(fn_checkpoint_find(c, "ab"));
    assert_null(fn_checkpoint_find(c, "zz"));
    assert_null(fn_checkpoint_find(c, "__metadata__"));
    check_error(fn_tensor_read(c, b, 3, bytes, 4, &err), &err, FN_E_RANGE, "b: ", "6 bytes");
    fn_checkpoint_close(c);
}

static void a_file_without_tensors_is_valid(void **state) {
    (void)state;
    fn_checkpoint *c = NULL;
    fn_error err = {0};
    assert_int_equal(open_header("{}", 0, &c, &err), FN_OK);
    assert_int_equal(fn_checkpoint_count(c), 0);
    assert_null(fn_checkpoint_find(c, "a"));
    fn_checkpoint_close(c);
}

typedef struct bad_header {
    const char *header;
    size_t bytes; /* of data */
    const char *first, *second, *third;
} bad_header;

#define T(dtype, shape, offsets)                                                                   \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void headers_that_lie_are_refused(void **state) {
    (void)state;
    static const bad_header bad[] = {
        {"{\"a\":" T("U8", "[4]", "[0,4]") ",\"b\":" T("U8", "[4]", "[2,6]") "}", 6,
         "b: ", "overlap", "offset 2, expected 4"},
        {"{\"a\":" T("U8", "[4]", "[0,4]") ",\"b\":" T("U8", "[4]", "[0,4]") "}", 4, "overlap",
         "offset 0, expected 4", ""},
        {"{\"a\":" T("U8", "[4]", "[0,4]") ",\"b\":" T("U8", "[4]", "[5,9]") "}", 9, "b: ", "gap",
         "offset 5, expected 4, the end of a"},
        {"{\"a\":" T("U8", "[4]", "[1,5]") "}", 5, "a: ", "gap", "the end of the header"},
        {"{\"a\":" T("U8", "[4]", "[0,4]") "}", 5, "found 66 bytes, expected 65",
         "belong to no tensor", ""},
        {"{\"a\":" T("U8", "[4]", "[0,4]") "}", 3, "found 64 bytes, expected 65", "truncated", ""},
        {"{\"a\":" T("U8", "[4]", "[0,5]") "}", 5, "a: ", "5 bytes", "U8 [4] needs 4"},
        {"{\"a\":" T("F4", "[3]", "[0,2]") "}", 2, "a: ", "2 bytes", "F4 [3]"},
        {"{\"a\":" T("U8", "[4]", "[4,0]") "}", 4, "a: ", "data_offsets", "begin <= end"},
        {"{\"a\":" T("U8", "[4]", "[-4,0]") "}", 4, "a: ", "data_offsets", ""},
        {"{\"a\":" T("U8", "[4]", "[0,4,8]") "}", 4, "a: ", "data_offsets", ""},
        {"{\"a\":" T("U8", "[4]", "[0,4.0]") "}", 4, "a: ", "data_offsets", ""},
        {"{\"a\":" T("U8", "[4]", "4") "}", 4, "a: ", "data_offsets", ""},
        {"{\"a\":" T("U8", "[-4]", "[0,4]") "}", 4, "a: ", "shape", "element 0"},
        {"{\"a\":" T("U8", "[4.0]", "[0,4]") "}", 4, "a: ", "shape", "element 0"},
        {"{\"a\":" T("U8", "4", "[0,4]") "}", 4, "a: ", "shape", "array"},
        {"{\"a\":" T("U8", "[1,1,1,1,1,1,1,1,4]", "[0,4]") "}", 4, "a: ", "shape", "8"},
        {"{\"a\":" T("F32", "[4294967296,4294967296]", "[0,4]") "}", 4, "a: ", "larger than any",
         "[4294967296, 4294967296]"},
        {"{\"a\":" T("F32", "[9223372036854775807,2,0]", "[0,0]") "}", 0, "a: ", "larger", ""},
        {"{\"a\":" T("Q4_K", "[4]", "[0,4]") "}", 4, "a: dtype: found Q4_K", "expected", ""},
        {"{\"a\":" T("U\\n8", "[4]", "[0,4]") "}", 4, "a: dtype", "unreadable", ""},
        {"{\"a\":" T("U8\\u0000", "[4]", "[0,4]") "}", 4, "a: dtype", "U8", ""},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, "a: ", "data_offsets", ""},
        {"{\"a\":{\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "a: ", "dtype", ""},
        {"{\"a\":3}", 4, "a: ", "expected an object", ""},
        {"{\"a\\nb\":" T("U8", "[4]", "[0,4]") "}", 4, "not printable", "", ""},
        {"{\"\":" T("U8", "[4]", "[0,4]") "}", 4, "empty", "", ""},
        {"{\"a\":" T("U8", "[2]", "[0,2]") ",\"a\":" T("U8", "[2]", "[2,4]") "}", 4,
         "not valid JSON", "duplicate", ""},
        {"[]", 0, "found an array", "expected an object", ""},
        {"{", 0, "not valid JSON", "", ""},
        {"", 0, "not valid JSON", "", ""},
        {"{} x", 0, "not valid JSON", "", ""},
        {"\xff\xff", 0, "not valid JSON", "", ""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fn_checkpoint *c = NULL;
        fn_error err = {0};
        fn_status status = open_header(bad[i].header, bad[i].bytes, &c, &err);
        check_error(status, &err, FN_E_MODEL, "x.safetensors: ", bad[i].first, bad[i].second,
                    bad[i].third);
        assert_null(c);
    }
}

static void header_longer_than_the_file_is_refused(void **state) {
    (void)state;
    static const uint64_t lengths[] = {
        3, 100, 100000001, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char found[40];
        fn_checkpoint *c = NULL;
        fn_error err = {0};
        (void)snprintf(found, sizeof found, "found %llu", (unsigned long long)lengths[i]);
        fn_status status = fn_checkpoint_open_file(write_file("{}", lengths[i], 0), &c, &err);
        check_error(status, &err, FN_E_MODEL, "header length", found, "at most 2 in a file of 10");
    }
}

static void a_file_shorter_than_its_length_field_is_refused(void **state) {
    (void)state;
    char path[260];
    for (size_t n = 0; n < 8; n++) {
        fn_checkpoint *c = NULL;
        fn_error err = {0};
        char found[40];
        (void)snprintf(path, sizeof path, "%s/short.safetensors", folder);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite("\2\0\0\0\0\0\0\0", 1, n, f), n);
        assert_int_equal(fclose(f), 0);
        (void)snprintf(found, sizeof found, "found %zu bytes", n);
        check_error(fn_checkpoint_open_file(path, &c, &err), &err, FN_E_MODEL,
                    "short.safetensors: ", found, "at least 8");
    }
}

static void what_is_no_file_is_refused(void **state) {
    (void)state;
    fn_checkpoint *c = NULL;
    fn_error err = {0};
    check_error(fn_checkpoint_open_file(folder, &c, &err), &err, FN_E_IO, folder, "regular file");
    err = (fn_error){0};
    check_error(fn_checkpoint_open_file("/nonexistent/x", &c, &err), &err, FN_E_IO,
                "/nonexistent/x");
}

/* Values with the bits that numpy and torch give for them. */
static void sixteen_and_sixty_four_bit_floats_widen_exactly(void **state) {
    (void)state;
    static const char header[] =
        "{\"b\":" T("BF16", "[3]", "[0,6]") ",\"h\":" T("F16", "[8]", "[6,22]") ",\"d\":" T(
            "F64", "[2]", "[22,38]") ",\"i\":" T("I64", "[1]", "[38,46]") "}";
    static const uint16_t bf16[3] = {0x3f80, 0xc2f7, 0x0001}; /* 1, -123.5, 2^-133 */
    static const uint16_t f16[8] = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x83ff, 0x7c00, 0xfc00, 0x8000};
    static const double f64[2] = {0.1, -1e300};
    fn_checkpoint *c = NULL;
    fn_error err = {0};
    float got[8];
    const char *path = write_file(header, strlen(header), 0);
    FILE *f = fopen(path, "ab");
    assert_non_null(f);
    assert_int_equal(fwrite(bf16, sizeof bf16, 1, f) + fwrite(f16, sizeof f16, 1, f) +
                         fwrite(f64, sizeof f64, 1, f) + fwrite(f64, 8, 1, f),
                     4);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(fn_checkpoint_open_file(path, &c, &err), FN_OK);
    assert_int_equal(fn_tensor_read_f32(c, fn_checkpoint_find(c, "b"), 0, 3, got, &err), FN_OK);
    assert_true(got[0] == 1.0F && got[1] == -123.5F && got[2] == 0x1p-133F);
    const fn_tensor *h = fn_checkpoint_find(c, "h");
    assert_int_equal(fn_tensor_read_f32(c, h, 0, 8, got, &err), FN_OK);
    assert_true(got[0] == 1.0F && got[1] == -2.0F && got[2] == 65504.0F && got[3] == 0x1p-24F);
    assert_true(got[4] == -1023.0F * 0x1p-24F && got[5] > 65504.0F && got[6] < -65504.0F);
    assert_true(got[7] == 0.0F && 1.0F / got[7] < 0.0F);
    assert_int_equal(fn_tensor_read_f32(c, h, 2, 1, got, &err), FN_OK);
    assert_true(got[0] == 65504.0F);
    assert_int_equal(fn_tensor_read_f32(c, fn_checkpoint_find(c, "d"), 0, 2, got, &err), FN_OK);
    assert_true(got[0] == 0.1F && got[1] < -3e38F);
    check_error(fn_tensor_read_f32(c, h, 7, 2, got, &err), &err, FN_E_RANGE, "h: ", "8 elements");
    err = (fn_error){0};
    check_error(fn_tensor_read_f32(c, fn_checkpoint_find(c, "i"), 0, 1, got, &err), &err,
                FN_E_MODEL, "i: found I64", "expected F32, BF16, F16 or F64");
    fn_checkpoint_close(c);
}

/* 64-bit offsets all the way: a sparse file of 5 GiB, with the last tensor behind them. */
static void offsets_beyond_4_gib_are_exact(void **state) {
    (void)state;
    static const char header[] =
        "{\"big\":" T("U8", "[5,1073741824]",
                      "[0,5368709120]") ",\"end\":" T("U8", "[4]", "[5368709120,5368709124]") "}";
    const off_t start = 8 + sizeof header - 1;
    const off_t big = (off_t)5 << 30;
    fn_checkpoint *c = NULL;
    fn_error err = {0};
    char got[4];
    const char *path = write_file(header, sizeof header - 1, 0);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseeko(f, start + big - 2, SEEK_SET), 0);
    assert_int_equal(fwrite("yzabcd", 1, 6, f), 6);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(fn_checkpoint_open_file(path, &c, &err), FN_OK);
    assert_int_equal(fn_tensor_read(c, fn_checkpoint_find(c, "end"), 0, got, 4, &err), FN_OK);
    assert_memory_equal(got, "abcd", 4);
    const fn_tensor *t = fn_checkpoint_find(c, "big");
    assert_int_equal(fn_tensor_read(c, t, (uint64_t)big - 2, got, 2, &err), FN_OK);
    assert_memory_equal(got, "yz", 2);
    assert_int_equal(fn_tensor_read(c, t, (uint64_t)big - ((uint64_t)4 << 30) - 2, got, 2, &err),
                     FN_OK);
    assert_memory_equal(got, "\0\0", 2);
    check_error(fn_tensor_read(c, t, (uint64_t)big - 2, got, 3, &err), &err, FN_E_RANGE, "big");
    fn_checkpoint_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_of_the_format_has_its_size),
        cmocka_unit_test(tensors_are_views_into_the_file),
        cmocka_unit_test(a_file_without_tensors_is_valid),
        cmocka_unit_test(headers_that_lie_are_refused),
        cmocka_unit_test(header_longer_than_the_file_is_refused),
        cmocka_unit_test(a_file_shorter_than_its_length_field_is_refused),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(offsets_beyond_4_gib_are_exact),
        cmocka_unit_test(sixteen_and_sixty_four_bit_floats_widen_exactly),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
