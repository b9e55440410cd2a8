/* The prefix cache: what it gives back is what a cold run would have made, within its bound, also from disk,
 * also after a crash. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "engine/prefix_cache.h"
#include "engine/state_file.h"
#include "support/alloc_fail.h"
#include "support/check_error.h"
#include "support/model_case.h"
#include "support/temp_dir.h"

#define CONTEXT 200
#define MANY (UINT64_C(1) << 40)

typedef struct bench {
    fn_engine *engine;
    fn_prefix_cache *cache;
    fn_state *state; /* what a scheduler's sequence would have */
    float *logits;
} bench;

static bench make_bench(const char *dir, uint64_t max_bytes, const char *cache_dir,
                        uint64_t dir_bytes) {
    bench b = {.engine = open_model(dir, 1, 32, CONTEXT)};
    fn_cache_files *files = NULL;
    if (cache_dir != NULL) {
        assert_int_equal(fn_cache_files_open(b.engine, cache_dir, dir_bytes, &files, NULL), FN_OK);
    }
    assert_int_equal(fn_prefix_cache_create(b.engine, max_bytes, files, &b.cache, NULL), FN_OK);
    assert_int_equal(fn_state_create(b.engine->states, CONTEXT, &b.state, NULL), FN_OK);
    b.logits = malloc(b.engine->shape.vocab * sizeof *b.logits);
    assert_non_null(b.logits);
    return b;
}

static void free_bench(bench *b) {
    fn_prefix_cache_destroy(b->cache);
    fn_state_destroy(b->state);
    free(b->logits);
    fn_engine_close(b->engine);
}

/* Reads ids on; n in all. */
static void read_to(bench *b, const int32_t *ids, size_t n) {
    while (fn_state_length(b->state) < n) {
        size_t at = fn_state_length(b->state);
        fn_segment segment = {.state = b->state, .ids = ids + at, .n = n - at < 32 ? n - at : 32};
        assert_int_equal(fn_forward_run(b->engine->forward, &segment, 1, NULL, NULL, NULL), FN_OK);
    }
}

static void read_and_keep(bench *b, const int32_t *ids, size_t n, bool lasting) {
    read_to(b, ids, n);
    assert_int_equal(fn_prefix_cache_add(b->cache, ids, b->state, lasting, NULL), FN_OK);
}

/* Starts over with what the cache has of ids [n]; how many ids that is. */
static size_t begin(bench *b, const int32_t *ids, size_t n) {
    fn_cache_wait wait = {0};
    const fn_state *known = fn_prefix_cache_find(b->cache, ids, n, &wait);
    while (wait.waiting) { /* for the disk */
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        known = fn_prefix_cache_find(b->cache, ids, n, &wait);
    }
    assert_int_equal(fn_state_clear(b->state, NULL), FN_OK);
    if (known != NULL) {
        assert_int_equal(fn_state_assign(b->state, known, NULL), FN_OK);
    }
    return fn_state_length(b->state);
}

static const float *logits_of(bench *b) {
    fn_forward_head(b->engine->forward, b->state, b->logits);
    return b->logits;
}

static void hits_leaving_few_ids_have_the_bits_of_a_cold_run(void **unused) {
    (void)unused;
    for (size_t m = 0; m < n_model_dirs; m++) {
        bench b = make_bench(model_dirs[m], MANY, NULL, 0);
        size_t vocab = b.engine->shape.vocab;
        int32_t ids[60];
        make_ids(b.engine, 5, ids, 60);
        float *cold = stepwise_logits(b.engine, ids, 60);
        read_and_keep(&b, ids, 21, false);
        read_and_keep(&b, ids, 47, false);
        for (size_t left = 0; left < 4; left++) {
            assert_int_equal(begin(&b, ids, 47 + left), 47);
            read_to(&b, ids, 47 + left);
            assert_same_floats(logits_of(&b), cold + (46 + left) * vocab, vocab, "leaving", left);
            read_to(&b, ids, 60); /* what was kept is not touched by going on */
            assert_same_floats(logits_of(&b), cold + 59 * vocab, vocab, "going on", left);
        }
        assert_int_equal(begin(&b, ids, 46), 21);
        assert_int_equal(begin(&b, ids, 21), 21);
        assert_int_equal(begin(&b, ids, 20), 0);
        free(cold);
        free_bench(&b);
    }
}

/* A tree of texts that part at random places, against the plain way: compare with every kept text. */
static void random_texts_find_their_longest_kept_beginning(void **unused) {
    (void)unused;
    enum { TEXTS = 60, LONGEST = 24 };
    bench b = make_bench(model_dirs[0], MANY, NULL, 0);
    size_t vocab = b.engine->shape.vocab;
    int32_t texts[TEXTS][LONGEST];
    size_t lengths[TEXTS];
    for (size_t t = 0; t < TEXTS; t++) {
        uint64_t seed = fn_hash_mix(t);
        size_t from = t > 0 ? seed % t : 0;
        size_t shared = t > 0 ? (seed >> 16) % (lengths[from] + 1) : 0;
        lengths[t] = 1 + (seed >> 32) % LONGEST;
        shared = shared < lengths[t] ? shared : lengths[t];
        memcpy(texts[t], texts[from], shared * sizeof texts[t][0]);
        for (size_t i = shared; i < lengths[t]; i++) {
            texts[t][i] = (int32_t)(fn_hash_mix(seed + i) % 3);
        }
        size_t expected = 0;
        for (size_t k = 0; k < t; k++) {
            bool begins = lengths[k] <= lengths[t] &&
                          memcmp(texts[k], texts[t], lengths[k] * sizeof texts[k][0]) == 0;
            expected = begins && lengths[k] > expected ? lengths[k] : expected;
        }
        assert_int_equal(begin(&b, texts[t], lengths[t]), expected);
        read_and_keep(&b, texts[t], lengths[t], false);
        assert_true(fn_prefix_cache_has(b.cache, texts[t], lengths[t]));
    }
    for (size_t t = 0; t < TEXTS; t += 7) {
        float *cold = stepwise_logits(b.engine, texts[t], lengths[t]);
        assert_int_equal(begin(&b, texts[t], lengths[t]), lengths[t]);
        assert_same_floats(logits_of(&b), cold + (lengths[t] - 1) * vocab, vocab, "text", t);
        free(cold);
    }
    free_bench(&b);
}

static void shared_pages_count_once(void **unused) {
    (void)unused;
    bench b = make_bench(model_dirs[0], MANY, NULL, 0);
    int32_t ids[CONTEXT];
    make_ids(b.engine, 6, ids, CONTEXT);
    read_and_keep(&b, ids, 130, false);
    uint64_t one = fn_state_pool_kept_bytes(b.engine->states);
    assert_int_equal(one, b.engine->layout.recurrent_bytes +
                              fn_state_paged_bytes(&b.engine->layout, 130));
    read_and_keep(&b, ids, 131, false);
    uint64_t two = fn_state_pool_kept_bytes(b.engine->states);
    /* Two full pages of every part are shared; the third one was copied before it was written, but only
     * where the new row went into it. */
    assert_true(two > one + b.engine->layout.recurrent_bytes);
    assert_true(two - one <= b.engine->layout.recurrent_bytes +
                                 fn_state_paged_bytes(&b.engine->layout, FN_PAGE_ROWS));
    fn_prefix_cache_destroy(b.cache);
    b.cache = NULL;
    assert_int_equal(fn_state_pool_kept_bytes(b.engine->states), 0);
    free_bench(&b);
}

static void the_bound_holds_and_the_least_recently_used_goes_first(void **unused) {
    (void)unused;
    bench b = make_bench(model_dirs[0], MANY, NULL, 0);
    int32_t ids[4][40];
    for (size_t i = 0; i < 4; i++) {
        make_ids(b.engine, 20 + i, ids[i], 40);
    }
    assert_int_equal(begin(&b, ids[0], 40), 0);
    read_and_keep(&b, ids[0], 40, false);
    uint64_t one = fn_prefix_cache_get_counts(b.cache).bytes;
    free_bench(&b);
    b = make_bench(model_dirs[0], 3 * one + one / 2, NULL, 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(begin(&b, ids[i], 40), 0);
        read_and_keep(&b, ids[i], 40, false);
    }
    assert_int_equal(begin(&b, ids[0], 40), 40); /* used: now the second is the oldest */
    assert_int_equal(begin(&b, ids[3], 40), 0);
    read_and_keep(&b, ids[3], 40, false);
    fn_prefix_cache_counts counts = fn_prefix_cache_get_counts(b.cache);
    assert_int_equal(counts.states, 3);
    assert_int_equal(counts.evictions, 1);
    assert_true(counts.bytes <= 3 * one + one / 2);
    assert_false(fn_prefix_cache_has(b.cache, ids[1], 40));
    assert_true(fn_prefix_cache_has(b.cache, ids[0], 40));
    /* One that is larger than all there is leaves nothing behind. */
    fn_prefix_cache *tiny = NULL;
    assert_int_equal(fn_prefix_cache_create(b.engine, 100, NULL, &tiny, NULL), FN_OK);
    assert_int_equal(fn_prefix_cache_add(tiny, ids[3], b.state, false, NULL), FN_OK);
    assert_false(fn_prefix_cache_has(tiny, ids[3], 40));
    fn_prefix_cache_destroy(tiny);
    free_bench(&b);
}

/* ---- on disk ---- */

static size_t count_files(const char *dir, const char *part) {
    size_t n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        n += strstr(e->d_name, part) != NULL;
    }
    closedir(d);
    return n;
}

static void first_file(const char *dir, char out[600]) {
    DIR *d = opendir(dir);
    out[0] = '\0';
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        if (strstr(e->d_name, ".state") != NULL) {
            (void)snprintf(out, 600, "%s/%s", dir, e->d_name);
        }
    }
    closedir(d);
}

static void what_was_written_is_found_by_the_next_process(void **unused) {
    (void)unused;
    char dir[200];
    for (size_t m = 0; m < n_model_dirs; m++) {
        temp_dir_make(dir, sizeof dir);
        bench b = make_bench(model_dirs[m], MANY, dir, MANY);
        size_t vocab = b.engine->shape.vocab;
        int32_t ids[150];
        make_ids(b.engine, 8, ids, 150);
        float *cold = stepwise_logits(b.engine, ids, 150);
        read_and_keep(&b, ids, 70, true);
        read_and_keep(&b, ids, 80, false); /* inside a prompt: in memory only */
        read_and_keep(&b, ids, 140, true);
        free_bench(&b);
        assert_int_equal(count_files(dir, ".state"), 2);
        b = make_bench(model_dirs[m], MANY, dir, MANY);
        assert_int_equal(fn_prefix_cache_get_counts(b.cache).disk_states, 2);
        for (size_t left = 0; left < 4; left++) {
            assert_int_equal(begin(&b, ids, 140 + left), 140);
            read_to(&b, ids, 140 + left);
            assert_same_floats(logits_of(&b), cold + (139 + left) * vocab, vocab, "restart", left);
        }
        assert_int_equal(begin(&b, ids, 100), 70);
        read_to(&b, ids, 100);
        assert_same_floats(logits_of(&b), cold + 99 * vocab, vocab, "restart", 100);
        assert_int_equal(fn_prefix_cache_get_counts(b.cache).disk_hits, 2);
        free(cold);
        free_bench(&b);
        temp_dir_remove(dir);
    }
}

/* Each byte counts: a flipped bit anywhere, or a missing end, is a miss, and the file goes. */
static void damaged_files_are_misses(void **unused) {
    (void)unused;
    char dir[200];
    char path[600];
    int32_t ids[40];
    for (size_t damage = 0; damage < 12; damage++) {
        temp_dir_make(dir, sizeof dir);
        bench b = make_bench(model_dirs[0], MANY, dir, MANY);
        make_ids(b.engine, 9, ids, 40);
        read_and_keep(&b, ids, 40, true);
        free_bench(&b);
        first_file(dir, path);
        struct stat info;
        assert_int_equal(stat(path, &info), 0);
        if (damage == 0) {
            assert_int_equal(truncate(path, info.st_size - 1), 0);
        } else if (damage == 1) {
            assert_int_equal(truncate(path, 0), 0);
        } else {
            FILE *f = fopen(path, "r+b");
            assert_non_null(f);
            long at = (long)(fn_hash_mix(damage) % (uint64_t)info.st_size);
            (void)fseek(f, at, SEEK_SET);
            int byte = fgetc(f);
            (void)fseek(f, at, SEEK_SET);
            (void)fputc(byte ^ (1 << damage % 8), f);
            (void)fclose(f);
        }
        b = make_bench(model_dirs[0], MANY, dir, MANY);
        assert_int_equal(begin(&b, ids, 40), 0);
        assert_int_equal(count_files(dir, ".state"), 0);
        read_and_keep(&b, ids, 40, true); /* and it is written anew */
        free_bench(&b);
        assert_int_equal(count_files(dir, ".state"), 1);
        temp_dir_remove(dir);
    }
}

static void files_of_other_engines_are_left_alone(void **unused) {
    (void)unused;
    char dir[200];
    int32_t ids[40];
    temp_dir_make(dir, sizeof dir);
    bench b = make_bench("tests/data/mini-bf16/checkpoint", MANY, dir, MANY);
    for (int32_t i = 0; i < 40; i++) {
        ids[i] = i; /* ids of both */
    }
    read_and_keep(&b, ids, 40, true);
    free_bench(&b);
    b = make_bench("tests/data/mini-f32/checkpoint", MANY, dir, MANY);
    assert_int_equal(begin(&b, ids, 40), 0);
    assert_int_equal(count_files(dir, ".state"), 1);
    read_and_keep(&b, ids, 40, true);
    free_bench(&b);
    assert_int_equal(count_files(dir, ".state"), 2);
    temp_dir_remove(dir);
}

static void the_folder_is_bounded_too(void **unused) {
    (void)unused;
    char dir[200];
    char path[600];
    struct stat info;
    int32_t ids[40];
    temp_dir_make(dir, sizeof dir);
    bench b = make_bench(model_dirs[0], MANY, dir, MANY);
    make_ids(b.engine, 30, ids, 40);
    read_and_keep(&b, ids, 40, true);
    free_bench(&b);
    first_file(dir, path);
    assert_int_equal(stat(path, &info), 0);
    uint64_t limit = (uint64_t)info.st_size * 5 / 2;
    b = make_bench(model_dirs[0], MANY, dir, limit);
    for (size_t i = 0; i < 5; i++) {
        make_ids(b.engine, 31 + i, ids, 40);
        assert_int_equal(begin(&b, ids, 40), 0);
        read_and_keep(&b, ids, 40, true);
    }
    free_bench(&b);
    b = make_bench(model_dirs[0], MANY, dir, limit);
    assert_true(fn_prefix_cache_get_counts(b.cache).disk_bytes <= limit);
    assert_int_equal(count_files(dir, ".state"), 2);
    free_bench(&b);
    temp_dir_remove(dir);
}

static void unusable_folders_are_refused(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[0], 1, 32, CONTEXT);
    fn_cache_files *files = NULL;
    fn_error err = {0};
    check_error(fn_cache_files_open(engine, "tests/no/such/folder", 1, &files, &err), &err, FN_E_IO,
                "tests/no/such/folder");
    err = (fn_error){0};
    check_error(fn_cache_files_open(engine, "tests/suite.sh", 1, &files, &err), &err, FN_E_IO,
                "tests/suite.sh", "not a folder");
    fn_engine_close(engine);
}

/* Killed at any moment while it writes, a process leaves files that are whole, and no others. */
static void killed_writers_leave_nothing_bad(void **unused) {
    (void)unused;
    char dir[200];
    temp_dir_make(dir, sizeof dir);
    fn_engine *engine = open_model(model_dirs[0], 1, 32, CONTEXT);
    size_t vocab = engine->shape.vocab;
    int32_t ids[CONTEXT];
    make_ids(engine, 12, ids, CONTEXT);
    float *cold = stepwise_logits(engine, ids, CONTEXT);
    fn_engine_close(engine);
    size_t hits = 0;
    for (long round = 0; round < 12; round++) {
        int ready[2];
        assert_int_equal(pipe(ready), 0);
        pid_t child = fork();
        if (child == 0) {
            bench b = make_bench(model_dirs[0], MANY, dir, MANY);
            for (size_t n = 60 + (size_t)round; n < CONTEXT; n += 7) {
                read_and_keep(&b, ids, n, true);
                (void)!write(ready[1], "x", 1);
            }
            (void)pause();
            _exit(0);
        }
        char byte;
        assert_int_equal(read(ready[0], &byte, 1), 1);
        (void)nanosleep(&(struct timespec){.tv_nsec = 500000L * round}, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        close(ready[0]);
        close(ready[1]);
        bench b = make_bench(model_dirs[0], MANY, dir, MANY);
        assert_int_equal(count_files(dir, ".partial-"), 0);
        hits += begin(&b, ids, CONTEXT) > 0;
        read_to(&b, ids, CONTEXT);
        assert_same_floats(logits_of(&b), cold + (CONTEXT - 1) * vocab, vocab, "killed",
                           (size_t)round);
        free_bench(&b);
    }
    assert_true(hits > 0);
    free(cold);
    temp_dir_remove(dir);
}

/* ---- failing memory ---- */

static void without_memory_nothing_is_lost_but_the_new_state(void **unused) {
    (void)unused;
    char dir[200];
    temp_dir_make(dir, sizeof dir);
    bench b = make_bench(model_dirs[0], MANY, dir, MANY);
    size_t vocab = b.engine->shape.vocab;
    int32_t ids[60];
    make_ids(b.engine, 13, ids, 60);
    float *cold = stepwise_logits(b.engine, ids, 60);
    read_and_keep(&b, ids, 20, false);
    read_to(&b, ids, 40);
    bool failed = true;
    for (long n = 0; failed; n++) {
        fn_alloc_fail_at(n);
        failed = fn_prefix_cache_add(b.cache, ids, b.state, false, NULL) != FN_OK;
        fn_alloc_fail_at(-1);
        assert_int_equal(fn_prefix_cache_has(b.cache, ids, 40), !failed);
        assert_true(fn_prefix_cache_has(b.cache, ids, 20));
    }
    assert_int_equal(begin(&b, ids, 60), 40);
    read_to(&b, ids, 60);
    assert_same_floats(logits_of(&b), cold + 59 * vocab, vocab, "after failures", 0);
    fn_prefix_cache *other = NULL;
    failed = true;
    for (long n = 0; failed; n++) {
        fn_cache_files *files = NULL;
        fn_alloc_fail_at(n);
        fn_status status = fn_cache_files_open(b.engine, dir, MANY, &files, NULL);
        status =
            status == FN_OK ? fn_prefix_cache_create(b.engine, MANY, files, &other, NULL) : status;
        fn_alloc_fail_at(-1);
        failed = status != FN_OK;
    }
    fn_prefix_cache_destroy(other);
    free(cold);
    free_bench(&b);
    temp_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hits_leaving_few_ids_have_the_bits_of_a_cold_run),
        cmocka_unit_test(random_texts_find_their_longest_kept_beginning),
        cmocka_unit_test(shared_pages_count_once),
        cmocka_unit_test(the_bound_holds_and_the_least_recently_used_goes_first),
        cmocka_unit_test(what_was_written_is_found_by_the_next_process),
        cmocka_unit_test(damaged_files_are_misses),
        cmocka_unit_test(files_of_other_engines_are_left_alone),
        cmocka_unit_test(the_folder_is_bounded_too),
        cmocka_unit_test(unusable_folders_are_refused),
        cmocka_unit_test(killed_writers_leave_nothing_bad),
        cmocka_unit_test(without_memory_nothing_is_lost_but_the_new_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
