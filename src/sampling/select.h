/* sampling/select.h - the best few of many scores, without sorting them all.
 *
 * Order:   better = higher score, then lower id. A candidate is a fn_token_logprob whose `logprob`
 *          holds the score. Scores must not be NaN.
 * Threads: stateless. Memory:  the caller's arrays only. */
#ifndef FN_SAMPLING_SELECT_H
#define FN_SAMPLING_SELECT_H

#include <stddef.h>

#include "flashnext.h"

/* The k best of scores [n] into out [min(k, n)], best first; returns how many. Scores of -inf are
 * never chosen. */
size_t fn_select_top(const float *scores, size_t n, size_t k, fn_token_logprob *out);

/* All scores above -inf as a heap with the best in heap[0]; returns how many. */
size_t fn_select_heap(const float *scores, size_t n, fn_token_logprob *heap);

/* Moves the best of heap [n], n >= 1, to heap[n - 1]; heap [n - 1] is a heap again. */
void fn_select_pop(fn_token_logprob *heap, size_t n);

#endif
