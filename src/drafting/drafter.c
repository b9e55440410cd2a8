#include "drafting/drafter.h"

#include <math.h>

fn_status fn_drafter_propose(fn_drafter *drafter, const fn_draft_request *request, int32_t *out,
                             size_t *n, fn_error *err) {
    FN_ASSERT(request->n >= 2 && request->wanted >= 1);
    *n = 0;
    return drafter->kind->propose(drafter, request, out, n, err);
}

void fn_drafter_destroy(fn_drafter *drafter) {
    if (drafter != NULL) {
        drafter->kind->destroy(drafter);
    }
}

fn_status fn_draft_pick(const fn_draft_request *request, const float *logits, size_t vocab,
                        size_t position, int32_t *id, float *probability, fn_error *err) {
    fn_status status = request->pick(request->ud, logits, position, id, err);
    *probability = 1.0F;
    if (status != FN_OK || request->least <= 0.0F) {
        return status;
    }
    float best = -INFINITY;
    float sum = 0;
    for (size_t i = 0; i < vocab; i++) {
        best = logits[i] > best ? logits[i] : best;
    }
    for (size_t i = 0; i < vocab; i++) {
        float below = logits[i] - best;
        sum += below > -20.0F ? expf(below) : 0.0F; /* the rest adds nothing that matters */
    }
    *probability = expf(logits[*id] - best) / sum;
    return FN_OK;
}
