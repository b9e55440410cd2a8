#include "sampling/logprobs.h"

#include <math.h>

#include "sampling/portable_math.h"
#include "sampling/select.h"

/* log-probability of x = x - max - log_sum; where max is +inf: -log_sum for +inf, -inf for the
 * others. */
typedef struct normaliser {
    float max;
    double log_sum;
} normaliser;

static float logprob_of(const normaliser *z, float x) {
    if (isinf(z->max)) {
        return x == z->max ? (float)-z->log_sum : -INFINITY;
    }
    return (float)(((double)x - (double)z->max) - z->log_sum);
}

static fn_status normalise(const float *logits, size_t vocab, normaliser *z, fn_error *err) {
    float max = -INFINITY;
    double sum = 0;
    for (size_t i = 0; i < vocab; i++) {
        if (isnan(logits[i])) {
            return fn_fail(err, FN_E_NUMERIC, "logit of id %zu is not a number", i);
        }
        max = logits[i] > max ? logits[i] : max;
    }
    if (max == -INFINITY) {
        return fn_fail(err, FN_E_NUMERIC, "no logit is above -inf");
    }
    for (size_t i = 0; i < vocab; i++) {
        if (isinf(max)) {
            sum += logits[i] == max ? 1.0 : 0.0;
        } else {
            sum += fn_portable_exp((double)logits[i] - (double)max);
        }
    }
    z->max = max;
    z->log_sum = fn_portable_log(sum);
    return FN_OK;
}

fn_status fn_logprobs(const float *logits, size_t vocab, int32_t id, float *logprob,
                      fn_token_logprob *top, size_t n_top, fn_error *err) {
    normaliser z = {0};
    *logprob = 0;
    if (id < 0 || (size_t)id >= vocab) {
        return fn_fail(err, FN_E_RANGE, "id %d is outside of the vocabulary of %zu", id, vocab);
    }
    fn_status status = normalise(logits, vocab, &z, err);
    if (status != FN_OK) {
        return status;
    }
    *logprob = logprob_of(&z, logits[id]);
    size_t found = fn_select_top(logits, vocab, n_top, top);
    for (size_t i = 0; i < n_top; i++) {
        if (i < found) {
            top[i].logprob = logprob_of(&z, top[i].logprob);
        }
        if (i >= found || top[i].logprob == -INFINITY) {
            top[i] = (fn_token_logprob){.id = -1, .logprob = -INFINITY};
        }
    }
    return FN_OK;
}
