/* Kept states that lie on disk: while one is read, however slowly, other requests are answered, and who waits
 * for it may leave. The slow disk is a pipe in the file's place. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/scheduler.h"
#include "support/model_case.h"
#include "support/requests.h"
#include "support/temp_dir.h"

#define CONTEXT 256
#define PROMPT 100

typedef struct slow_disk {
    char dir[200], file[700], aside[700];
    fn_engine *engine;
    fn_scheduler *s;
    asked a; /* whose beginning is kept */
} slow_disk;

static fn_scheduler *new_scheduler(fn_engine *engine, const char *dir) {
    fn_scheduler_options o = {
        .max_running = 2, .state_bytes = 1 << 28, .cache_bytes = 1 << 26, .cache_dir = dir};
    return told_scheduler(engine, o);
}

static asked greedy(const fn_engine *engine, size_t seed, size_t n, size_t limit) {
    asked a = {.n = n, .generation = fn_generation_default(fn_engine_text(engine))};
    make_ids(engine, seed, a.ids, n);
    for (size_t i = 0; i < n; i++) { /* no end ids: only the prompt's end is kept */
        a.ids[i] = a.ids[i] == engine->shape.eos_id ? 1 : a.ids[i];
    }
    a.generation.sampling = (fn_sampling){.top_p = 1, .repetition_penalty = 1};
    a.generation.ignore_end = true;
    a.generation.max_tokens = limit;
    return a;
}

/* A folder with the state after a's prompt, which another scheduler wrote. */
static slow_disk make_disk(void) {
    slow_disk d = {0};
    told t;
    temp_dir_make(d.dir, sizeof d.dir);
    d.engine = open_model(model_dirs[0], 2, 32, CONTEXT);
    d.a = greedy(d.engine, 5, PROMPT, 0);
    d.s = new_scheduler(d.engine, d.dir);
    told_start(d.s, &d.a, NULL, &t);
    told_wait(&t);
    told_free(&t);
    fn_scheduler_destroy(d.s);
    DIR *dir = opendir(d.dir);
    for (const struct dirent *entry = NULL; (entry = readdir(dir)) != NULL;) {
        if (strstr(entry->d_name, ".state") != NULL) {
            (void)snprintf(d.file, sizeof d.file, "%s/%s", d.dir, entry->d_name);
        }
    }
    (void)closedir(dir);
    assert_true(d.file[0] != 0);
    (void)snprintf(d.aside, sizeof d.aside, "%s/aside", d.dir);
    d.s = new_scheduler(d.engine, d.dir);
    assert_int_equal(rename(d.file, d.aside), 0);
    assert_int_equal(mkfifo(d.file, 0600), 0);
    d.a.n += 3;
    make_ids(d.engine, 9, d.a.ids + PROMPT, 3);
    d.a.generation.max_tokens = 8;
    return d;
}

static void free_disk(slow_disk *d) {
    fn_scheduler_destroy(d->s);
    fn_engine_close(d->engine);
    temp_dir_remove(d->dir);
}

/* The disk delivers n bytes of the file (SIZE_MAX: all), or none. */
static void deliver(const slow_disk *d, size_t n) {
    int out = open(d->file, O_WRONLY);
    FILE *in = fopen(d->aside, "rb");
    assert_true(out >= 0 && in != NULL);
    for (int c = 0; n > 0 && (c = fgetc(in)) != EOF; n--) {
        char byte = (char)c;
        if (write(out, &byte, 1) != 1) {
            break;
        }
    }
    (void)fclose(in);
    (void)close(out);
}

static void wait_until_it_runs(const told *t) {
    fn_request_state state = {0};
    while (state.ahead > 0 || state.phase != FN_REQUEST_WAITING) {
        fn_request_get_state(t->request, &state);
    }
    (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    fn_request_get_state(t->request, &state);
    assert_int_equal(state.phase, FN_REQUEST_WAITING);
}

static void answer_another(const slow_disk *d, size_t seed) {
    asked b = greedy(d->engine, seed, 20, 12);
    told t;
    told alone;
    told_start(d->s, &b, NULL, &t);
    told_wait(&t);
    told_alone(d->engine, &b, &alone);
    assert_same_told(&t, &alone);
    told_free(&t);
    told_free(&alone);
}

static void a_slow_disk_holds_nobody_else_up(void **unused) {
    (void)unused;
    slow_disk d = make_disk();
    told t;
    told alone;
    told_start(d.s, &d.a, NULL, &t);
    wait_until_it_runs(&t);
    for (size_t i = 0; i < 3; i++) {
        answer_another(&d, 20 + i);
    }
    assert_false(t.done);
    deliver(&d, SIZE_MAX);
    told_wait(&t);
    told_alone(d.engine, &d.a, &alone);
    assert_same_told(&t, &alone);
    assert_int_equal(t.result.n_cached, PROMPT);
    told_free(&t);
    told_free(&alone);
    free_disk(&d);
}

/* What comes from the disk is damaged: the request is answered as if nothing had been kept. */
static void a_disk_that_fails_in_the_middle_is_a_miss(void **unused) {
    (void)unused;
    slow_disk d = make_disk();
    told t;
    told alone;
    told_start(d.s, &d.a, NULL, &t);
    wait_until_it_runs(&t);
    deliver(&d, 5000);
    told_wait(&t);
    told_alone(d.engine, &d.a, &alone);
    assert_same_told(&t, &alone);
    assert_int_equal(t.result.n_cached, 0);
    told_free(&t);
    told_free(&alone);
    free_disk(&d);
}

static void who_waits_for_the_disk_may_leave(void **unused) {
    (void)unused;
    slow_disk d = make_disk();
    told t;
    told again;
    told alone;
    told_start(d.s, &d.a, NULL, &t);
    wait_until_it_runs(&t);
    fn_request_cancel(t.request);
    told_wait(&t);
    assert_int_equal(t.result.status, FN_E_CANCELLED);
    answer_another(&d, 30);
    told_start(d.s, &d.a, NULL, &again); /* the same read serves it */
    wait_until_it_runs(&again);
    deliver(&d, SIZE_MAX);
    told_wait(&again);
    told_alone(d.engine, &d.a, &alone);
    assert_same_told(&again, &alone);
    assert_int_equal(again.result.n_cached, PROMPT);
    told_free(&t);
    told_free(&again);
    told_free(&alone);
    free_disk(&d);
}

/* The scheduler ends while a file is being read: it waits for the read alone. */
static void the_end_waits_for_the_read(void **unused) {
    (void)unused;
    slow_disk d = make_disk();
    told t;
    told_start(d.s, &d.a, NULL, &t);
    wait_until_it_runs(&t);
    if (fork() == 0) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        deliver(&d, 100);
        _exit(0);
    }
    fn_scheduler_destroy(d.s);
    d.s = NULL;
    told_wait(&t);
    assert_int_equal(t.result.status, FN_E_CANCELLED);
    told_free(&t);
    free_disk(&d);
}

int main(void) {
    (void)signal(SIGPIPE, SIG_IGN); /* who reads a damaged file stops early */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_disk_holds_nobody_else_up),
        cmocka_unit_test(a_disk_that_fails_in_the_middle_is_a_miss),
        cmocka_unit_test(who_waits_for_the_disk_may_leave),
        cmocka_unit_test(the_end_waits_for_the_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
