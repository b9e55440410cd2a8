/* The published checkpoint's 1,658 tensors at their real sizes, in 131 sparse files: opening and
 * binding reads headers and three small constants, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/make_checkpoint.h"
#include "support/sanitized.h"
#include "weights/bind.h"

enum {
    SLOWER = SANITIZED ? 20 : 1
}; /* a sanitizer's own time and memory are not what is promised */

static double now(clockid_t clock) {
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static long peak_kb(void) {
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

typedef struct outcome {
    fn_status status;
    double seconds, busy; /* by the clock, and of the processor */
    long kb;
    size_t n_tensors, n_files, n_vision, n_mtp, n_pieces;
    uint64_t bytes; /* of all tensors */
    fn_error err;
} outcome;

static void open_and_bind(const char *dir, outcome *out) {
    char path[400];
    fn_checkpoint *c = NULL;
    fn_config config = {.root = NULL};
    fn_shape shape;
    fn_bound *bound = NULL;
    long before = peak_kb();
    double start = now(CLOCK_MONOTONIC);
    double busy = now(CLOCK_PROCESS_CPUTIME_ID);
    (void)snprintf(path, sizeof path, "%s/config.json", dir);
    out->status = fn_checkpoint_open(dir, &c, &out->err);
    if (out->status == FN_OK) {
        out->status = fn_config_read(path, &config, &out->err);
    }
    if (out->status == FN_OK) {
        out->status = fn_shape_from_config(&config, &shape, &out->err);
    }
    if (out->status == FN_OK) {
        out->status = fn_bind(c, &shape, &bound, &out->err);
    }
    out->seconds = now(CLOCK_MONOTONIC) - start;
    out->busy = now(CLOCK_PROCESS_CPUTIME_ID) - busy;
    out->kb = peak_kb() - before;
    if (out->status == FN_OK) {
        out->n_tensors = fn_checkpoint_count(c);
        out->n_files = fn_checkpoint_files(c);
        out->n_vision = bound->n_vision;
        out->n_mtp = bound->n_mtp;
        out->n_pieces = bound->layers[1].ple != NULL ? bound->layers[1].ple->n_pieces : 0;
        for (size_t i = 0; i < out->n_tensors; i++) {
            out->bytes += fn_checkpoint_at(c, i)->bytes;
        }
    }
    fn_bound_free(bound);
    fn_config_free(&config);
    fn_checkpoint_close(c);
}

/* In a process of its own, whose peak is not yet that of the writer. */
static outcome measure(const char *dir) {
    int ends[2];
    outcome out = {.status = FN_E_FAILED};
    int exit_code = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        open_and_bind(dir, &out);
        _exit(write(ends[1], &out, sizeof out) == (ssize_t)sizeof out ? 0 : 1);
    }
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &out, sizeof out), sizeof out);
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, &exit_code, 0), child);
    if (out.status != FN_OK) {
        print_error("%s\n", out.err.text);
    }
    assert_int_equal(out.status, FN_OK);
    print_message("%zu tensors in %zu files: %.3f s, %.3f s of the processor, %.1f MB more\n",
                  out.n_tensors, out.n_files, out.seconds, out.busy, (double)out.kb / 1024.0);
    return out;
}

static void published_layout_opens_from_its_headers(void **state) {
    (void)state;
    made_model m;
    fn_shape shape = made_real_shape();
    made_model_init(&m, &shape, made_real_layout());
    made_write(&m);
    outcome out = measure(m.dir);
    assert_int_equal(out.n_tensors, 1658);
    assert_int_equal(out.n_files, 131);
    assert_int_equal(out.n_vision, 333);
    assert_int_equal(out.n_mtp, 31);
    assert_int_equal(out.n_pieces, 128);
    assert_int_equal(out.bytes, UINT64_C(359999963128));
    assert_true(out.seconds < 1.0 * SLOWER);
    assert_true(out.kb < 200L * 1024 * SLOWER);
    made_model_free(&m);
}

/* The count of the layouts that keep experts apart: 48 x 512 x 3 and the rest, twice over. */
static void hundred_and_fifty_thousand_tensors_open_in_seconds(void **state) {
    (void)state;
    static const size_t files[] = {1, 131};
    static const uint64_t dims[] = {0};
    for (size_t i = 0; i < 2; i++) {
        made_model m;
        fn_shape shape = made_real_shape();
        made_layout layout = made_real_layout();
        layout.n_files = files[i];
        layout.stacked = false;
        made_model_init(&m, &shape, layout);
        for (size_t k = 0; m.n < 152089; k++) {
            char name[100];
            (void)snprintf(name, sizeof name, "model.visual.blocks.%zu.mlp.%zu.gate_proj.scale",
                           k / 512, k % 512);
            made_add(&m, name, "BF16", 1, dims)->file = k % files[i];
        }
        made_write(&m);
        outcome out = measure(m.dir);
        assert_int_equal(out.n_tensors, 152089);
        assert_true(out.busy < 4.0 * SLOWER);
        made_model_free(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_layout_opens_from_its_headers),
        cmocka_unit_test(hundred_and_fifty_thousand_tensors_open_in_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
