/* sampling/logprobs.h - log-probabilities of the model's own distribution, before any filter.
 *
 * Path:    forward's logits [V] -> [this] -> FN_EVENT_TOKEN.
 * Exact:   natural logarithms; the sum of exponentials runs in double, in ascending id.
 * Threads: stateless. Memory:  the caller's arrays only. */
#ifndef FN_SAMPLING_LOGPROBS_H
#define FN_SAMPLING_LOGPROBS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* *logprob of id, and the n_top best into top [n_top], best first (ties: lower id). Where fewer
 * than n_top have a probability above 0 the rest get id -1 and -inf. If some logits are +inf they
 * share all probability. Fails with FN_E_NUMERIC if a logit is NaN or all are -inf, FN_E_RANGE if
 * id is outside of the vocabulary. */
FN_NODISCARD fn_status fn_logprobs(const float *logits, size_t vocab, int32_t id, float *logprob,
                                   fn_token_logprob *top, size_t n_top, fn_error *err);

#endif
