/* The choice of blocks: exactly as many as the budget holds, best first by score, ties to the lower block; against
 * a full sort. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "layers/layers.h"

#define RATIO 4

typedef struct scored {
    float score;
    int32_t block;
} scored;

static int by_score_then_block(const void *x, const void *y) {
    const scored *a = x;
    const scored *b = y;
    if (a->score != b->score) {
        return a->score > b->score ? -1 : 1;
    }
    return a->block < b->block ? -1 : 1;
}

static int ascending(const void *x, const void *y) {
    int32_t a = *(const int32_t *)x;
    int32_t b = *(const int32_t *)y;
    return (a > b) - (a < b);
}

/* What a sort keeps: tokens of the best blocks, then the open block's, ascending. */
static size_t by_sorting(const float *scores, size_t n, size_t chosen, size_t visible,
                         int32_t *keys) {
    scored *all = malloc(n * sizeof *all + 1);
    size_t count = 0;
    assert_non_null(all);
    for (size_t i = 0; i < n; i++) {
        all[i] = (scored){scores[i], (int32_t)i};
    }
    qsort(all, n, sizeof *all, by_score_then_block);
    for (size_t i = 0; i < n && i < chosen; i++) {
        for (int32_t t = 0; t < RATIO; t++) {
            keys[count++] = all[i].block * RATIO + t;
        }
    }
    qsort(keys, count, sizeof *keys, ascending);
    for (size_t at = n * RATIO; at < visible; at++) {
        keys[count++] = (int32_t)at;
    }
    free(all);
    return count;
}

static void check(const float *scores, size_t n, size_t chosen, size_t tail) {
    size_t visible = n * RATIO + tail;
    uint64_t *order = malloc(n * sizeof *order + 1);
    int32_t *got = malloc((visible + 1) * sizeof *got);
    int32_t *want = malloc((visible + 1) * sizeof *want);
    assert_true(order != NULL && got != NULL && want != NULL);
    size_t n_got = fn_indexer_choose(scores, n, chosen, RATIO, visible, order, got);
    size_t n_want = by_sorting(scores, n, chosen, visible, want);
    assert_int_equal(n_got, n_want);
    assert_memory_equal(got, want, n_want * sizeof *got);
    free(order);
    free(got);
    free(want);
}

/* levels: how many different scores there are; few make many ties. */
static void check_random(size_t n, size_t chosen, uint64_t seed, uint64_t levels) {
    float *scores = malloc(n * sizeof *scores + 1);
    assert_non_null(scores);
    for (size_t i = 0; i < n; i++) {
        scores[i] = (float)(fn_hash_mix(seed + i) % levels) / 7.0f;
    }
    check(scores, n, chosen, seed % RATIO);
    free(scores);
}

static void every_size_around_the_budget_equals_a_sort(void **unused) {
    static const size_t sizes[] = {1, 2, 511, 512, 513, 600, 4096, 4097, 65536};
    static const uint64_t levels[] = {1, 2, 3, 50, 1u << 20};
    (void)unused;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t l = 0; l < sizeof levels / sizeof levels[0]; l++) {
            check_random(sizes[i], 512, i * 31 + l, levels[l]);
        }
    }
    for (uint64_t seed = 0; seed < 3000; seed++) {
        check_random(1 + seed % 40, 1 + seed / 40 % 20, seed * 77, 1 + seed % 5);
    }
}

static void all_zero_scores_choose_the_lowest_blocks(void **unused) {
    float scores[9] = {0.0f, -0.0f, 0.0f, -0.0f, 0.0f, 0.0f, -0.0f, 0.0f, 0.0f};
    uint64_t order[9];
    int32_t keys[40];
    (void)unused;
    assert_int_equal(fn_indexer_choose(scores, 9, 2, RATIO, 38, order, keys), 10);
    for (int32_t i = 0; i < 8; i++) {
        assert_int_equal(keys[i], i);
    }
    assert_int_equal(keys[8], 36);
    assert_int_equal(keys[9], 37);
}

static void sorted_rising_and_falling_scores_do_not_trip_the_selection(void **unused) {
    float scores[2000];
    (void)unused;
    for (size_t i = 0; i < 2000; i++) {
        scores[i] = (float)i;
    }
    check(scores, 2000, 512, 1);
    for (size_t i = 0; i < 2000; i++) {
        scores[i] = (float)(2000 - i);
    }
    check(scores, 2000, 512, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_around_the_budget_equals_a_sort),
        cmocka_unit_test(all_zero_scores_choose_the_lowest_blocks),
        cmocka_unit_test(sorted_rising_and_falling_scores_do_not_trip_the_selection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
