#include "drafting/drafter.h"

#include <math.h>

fn_status fn_drafters_propose(fn_draft_request *requests, size_t n, float *logits, fn_error *err) {
    for (size_t i = 0; i < n; i++) {
        FN_ASSERT(requests[i].n >= 2 && requests[i].wanted >= 1);
        FN_ASSERT(requests[i].drafter->kind == requests[0].drafter->kind);
        requests[i].made = 0;
        requests[i].together = 1.0F;
    }
    return n > 0 ? requests[0].drafter->kind->propose(requests, n, logits, err) : FN_OK;
}

void fn_drafter_destroy(fn_drafter *drafter) {
    if (drafter != NULL) {
        drafter->kind->destroy(drafter);
    }
}

/* Softmax probability of id. */
static float probability(const float *logits, size_t vocab, int32_t id) {
    float best = -INFINITY;
    float sum = 0;
    for (size_t i = 0; i < vocab; i++) {
        best = logits[i] > best ? logits[i] : best;
    }
    for (size_t i = 0; i < vocab; i++) {
        float below = logits[i] - best;
        sum += below > -20.0F ? expf(below) : 0.0F; /* the rest adds nothing that matters */
    }
    return expf(logits[id] - best) / sum;
}

fn_status fn_draft_take(fn_draft_request *r, const float *logits, size_t vocab, bool *more,
                        fn_error *err) {
    int32_t id = -1;
    *more = false;
    fn_status status = r->pick(r->ud, logits, r->n + r->made, &id, err);
    if (status != FN_OK) {
        return status;
    }
    if (r->least > 0.0F) {
        r->together *= probability(logits, vocab, id);
    }
    if (r->together >= r->least) {
        r->out[r->made++] = id;
        *more = r->made < r->wanted;
    }
    return FN_OK;
}
