/* Files that are written beside the old one: what may not be replaced is not, and a failure loses nothing. */
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/new_file.h"
#include "support/check_error.h"
#include "support/temp_dir.h"

static char dir[200];
static char path[300];

static int setup(void **unused) {
    (void)unused;
    temp_dir_make(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/target", dir);
    return 0;
}

static int teardown(void **unused) {
    (void)unused;
    temp_dir_remove(dir);
    return 0;
}

static void put(const char *name, const char *text) {
    FILE *f = fopen(name, "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
}

static void assert_holds(const char *name, const char *text) {
    char got[64] = "";
    FILE *f = fopen(name, "rb");
    assert_non_null(f);
    size_t n = fread(got, 1, sizeof got - 1, f);
    fclose(f);
    assert_int_equal(n, strlen(text));
    assert_string_equal(got, text);
}

static void replace(const char *name, const char *text) {
    fn_new_file f;
    assert_int_equal(fn_new_file_open(name, &f, NULL), FN_OK);
    assert_int_equal(fn_new_file_write(&f, text, strlen(text), NULL), FN_OK);
    assert_int_equal(fn_new_file_finish(&f, NULL), FN_OK);
}

static void a_new_and_an_old_name_get_the_whole_file(void **unused) {
    (void)unused;
    replace(path, "one");
    assert_holds(path, "one");
    replace(path, "two");
    assert_holds(path, "two");
}

static void the_old_file_stays_until_the_end_and_when_abandoned(void **unused) {
    (void)unused;
    fn_new_file f;
    put(path, "old");
    assert_int_equal(fn_new_file_open(path, &f, NULL), FN_OK);
    char partial[400];
    (void)snprintf(partial, sizeof partial, "%s", f.partial);
    assert_int_equal(fn_new_file_write(&f, "new", 3, NULL), FN_OK);
    assert_holds(path, "old");
    fn_new_file_abandon(&f);
    assert_holds(path, "old");
    assert_int_not_equal(access(partial, F_OK), 0);
}

static void a_link_stays_a_link(void **unused) {
    (void)unused;
    char link[300];
    struct stat info;
    (void)snprintf(link, sizeof link, "%s/link", dir);
    put(path, "old");
    assert_int_equal(symlink(path, link), 0);
    replace(link, "new");
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_holds(path, "new");
}

static void what_is_no_regular_file_is_not_replaced(void **unused) {
    (void)unused;
    fn_error err = {0};
    fn_new_file f;
    struct stat info;
    assert_int_equal(mkfifo(path, 0600), 0);
    check_error(fn_new_file_open(path, &f, &err), &err, FN_E_IO, "target", "not a regular file");
    assert_int_equal(lstat(path, &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    err = (fn_error){0};
    check_error(fn_new_file_open(dir, &f, &err), &err, FN_E_IO, "not a regular file");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("nowhere", path), 0);
    err = (fn_error){0};
    check_error(fn_new_file_open(path, &f, &err), &err, FN_E_IO, "not a regular file");
    assert_int_equal(unlink(path), 0);
    put(path, "kept");
    assert_int_equal(chmod(path, 0444), 0);
    err = (fn_error){0};
    check_error(fn_new_file_open(path, &f, &err), &err, FN_E_IO, "may not be written");
    assert_holds(path, "kept");
}

static void a_missing_directory_is_named(void **unused) {
    (void)unused;
    fn_error err = {0};
    fn_new_file f;
    (void)snprintf(path, sizeof path, "%s/none/target", dir);
    check_error(fn_new_file_open(path, &f, &err), &err, FN_E_IO, "none/target", "cannot create");
    fn_new_file_abandon(&f); /* of one that is not open: nothing happens */
}

int main(void) {
#define ONE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ONE(a_new_and_an_old_name_get_the_whole_file),
        ONE(the_old_file_stays_until_the_end_and_when_abandoned),
        ONE(a_link_stays_a_link),
        ONE(what_is_no_regular_file_is_not_replaced),
        ONE(a_missing_directory_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
