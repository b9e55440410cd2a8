/* Opening and binding when memory runs out at any of our allocations: an error, no crash, no leak.
 * jansson's own are left out: its 2.14 scanner goes on after a failed allocation and writes past
 * its buffer, which nothing outside it can prevent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/alloc_fail.h"
#include "support/check_error.h"
#include "support/make_checkpoint.h"
#include "weights/bind.h"

static fn_status open_and_bind(const char *dir, fn_error *err) {
    char path[400];
    fn_checkpoint *c = NULL;
    fn_config config = {.root = NULL};
    fn_shape shape;
    fn_bound *bound = NULL;
    (void)snprintf(path, sizeof path, "%s/config.json", dir);
    fn_status status = fn_checkpoint_open(dir, &c, err);
    if (status == FN_OK) {
        status = fn_config_read(path, &config, err);
    }
    if (status == FN_OK) {
        status = fn_shape_from_config(&config, &shape, err);
    }
    if (status == FN_OK) {
        status = fn_bind(c, &shape, &bound, err);
    }
    assert_true((status == FN_OK) == (bound != NULL));
    fn_bound_free(bound);
    fn_config_free(&config);
    fn_checkpoint_close(c);
    return status;
}

static made_model small(void) {
    made_model m;
    fn_shape shape = made_tiny_shape();
    made_layout layout = made_plain_layout();
    shape.n_layers = 2; /* a delta layer with n-gram memory, and an attention layer */
    shape.ple_layer[0] = 0;
    shape.n_experts = 2;
    layout.n_files = 2;
    made_model_init(&m, &shape, layout);
    made_write(&m);
    return m;
}

/* Fails allocation 0, 1, 2, ... until all succeed; how many there were. */
static long fail_each(const char *dir) {
    for (long n = 0;; n++) {
        fn_error err = {0};
        fn_alloc_fail_at(n);
        fn_status status = open_and_bind(dir, &err);
        long calls = fn_alloc_calls();
        fn_alloc_fail_at(-1);
        if (calls <= n) {
            assert_int_equal(status, FN_OK);
            return n;
        }
        check_error(status, &err, FN_E_NOMEM, "out of memory");
    }
}

static void our_own_failed_allocations_are_errors(void **state) {
    (void)state;
    made_model m = small();
    assert_true(fail_each(m.dir) > 25);
    made_model_free(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_own_failed_allocations_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
