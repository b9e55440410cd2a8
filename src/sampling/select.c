#include "sampling/select.h"

#include <math.h>
#include <stdbool.h>

static bool better(fn_token_logprob a, fn_token_logprob b) {
    return a.logprob > b.logprob || (a.logprob == b.logprob && a.id < b.id);
}

/* Lets heap[at] sink in heap [n]; with `worst` the worst is on top, without it the best. */
static void sink(fn_token_logprob *heap, size_t n, size_t at, bool worst) {
    fn_token_logprob moving = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= n) {
            break;
        }
        if (child + 1 < n && better(heap[child + 1], heap[child]) != worst) {
            child += 1;
        }
        if (better(heap[child], moving) == worst) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

static void make_heap(fn_token_logprob *heap, size_t n, bool worst) {
    for (size_t i = n / 2; i-- > 0;) {
        sink(heap, n, i, worst);
    }
}

size_t fn_select_top(const float *scores, size_t n, size_t k, fn_token_logprob *out) {
    size_t kept = 0;
    size_t i = 0;
    if (k == 0) {
        return 0;
    }
    for (; i < n && kept < k; i++) {
        if (scores[i] > -INFINITY) {
            out[kept++] = (fn_token_logprob){.id = (int32_t)i, .logprob = scores[i]};
        }
    }
    make_heap(out, kept, true);
    for (; i < n; i++) {
        /* Ids ascend, so a tie with the worst kept is no improvement. */
        if (kept > 0 && scores[i] > out[0].logprob) {
            out[0] = (fn_token_logprob){.id = (int32_t)i, .logprob = scores[i]};
            sink(out, kept, 0, true);
        }
    }
    for (size_t left = kept; left > 1; left--) {
        fn_token_logprob worst = out[0];
        out[0] = out[left - 1];
        out[left - 1] = worst;
        sink(out, left - 1, 0, true);
    }
    return kept;
}

size_t fn_select_heap(const float *scores, size_t n, fn_token_logprob *heap) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (scores[i] > -INFINITY) {
            heap[kept++] = (fn_token_logprob){.id = (int32_t)i, .logprob = scores[i]};
        }
    }
    make_heap(heap, kept, false);
    return kept;
}

void fn_select_pop(fn_token_logprob *heap, size_t n) {
    fn_token_logprob best = heap[0];
    heap[0] = heap[n - 1];
    heap[n - 1] = best;
    if (n > 1) {
        sink(heap, n - 1, 0, false);
    }
}
