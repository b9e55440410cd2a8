/* The best k of n scores against a plain sort. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "sampling/select.h"

static int by_score_then_id(const void *a, const void *b) {
    const fn_token_logprob *x = a;
    const fn_token_logprob *y = b;
    if (x->logprob != y->logprob) {
        return x->logprob > y->logprob ? -1 : 1;
    }
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Few different values, so that ties are everywhere; some -inf. */
static void fill(float *scores, fn_token_logprob *sorted, size_t n, size_t *finite, int levels) {
    uint32_t x = 12345;
    *finite = 0;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        scores[i] = (x >> 8) % 16 == 0 ? -INFINITY : (float)((int)(x >> 12) % levels);
        if (scores[i] > -INFINITY) {
            sorted[*finite] = (fn_token_logprob){.id = (int32_t)i, .logprob = scores[i]};
            *finite += 1;
        }
    }
    qsort(sorted, *finite, sizeof *sorted, by_score_then_id);
}

static void check(size_t n, size_t k, int levels) {
    float *scores = fn_alloc(n, sizeof *scores);
    fn_token_logprob *sorted = fn_alloc(n, sizeof *sorted);
    fn_token_logprob *out = fn_alloc(n < k ? n : k, sizeof *out);
    fn_token_logprob *heap = fn_alloc(n, sizeof *heap);
    size_t finite = 0;
    fill(scores, sorted, n, &finite, levels);
    size_t kept = fn_select_top(scores, n, k, out);
    assert_int_equal(kept, k < finite ? k : finite);
    for (size_t i = 0; i < kept; i++) {
        assert_int_equal(out[i].id, sorted[i].id);
        assert_true(out[i].logprob == sorted[i].logprob);
    }
    assert_int_equal(fn_select_heap(scores, n, heap), finite);
    for (size_t i = 0; i < kept; i++) {
        fn_select_pop(heap, finite - i);
        assert_int_equal(heap[finite - 1 - i].id, sorted[i].id);
    }
    fn_free(scores);
    fn_free(sorted);
    fn_free(out);
    fn_free(heap);
}

static void the_best_k_equal_those_of_a_sort(void **state) {
    (void)state;
    const size_t sizes[] = {1, 2, 511, 512, 513, 4096, 4097, 65536};
    const size_t ks[] = {0, 1, 2, 20, 512, 4096, 70000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t j = 0; j < sizeof ks / sizeof ks[0]; j++) {
            check(sizes[i], ks[j], 7);
            check(sizes[i], ks[j], 1000000);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_k_equal_those_of_a_sort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
