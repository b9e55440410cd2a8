/* Drafts of the model's own MTP head: a chain that starts at the sequence's last streams. */
#include "base/mem.h"
#include "drafting/drafter.h"

typedef struct mtp_drafter {
    fn_drafter base;
    fn_forward *forward;
    const fn_shortlist *shortlist;
    fn_mtp_chain chain;
    float *logits; /* [V] */
} mtp_drafter;

static fn_status propose(fn_drafter *drafter, const fn_draft_request *request, int32_t *out,
                         size_t *n, fn_error *err) {
    mtp_drafter *d = (mtp_drafter *)drafter;
    fn_mtp_chain *chains[1] = {&d->chain};
    size_t vocab = fn_forward_shape(d->forward)->vocab;
    float together = 1.0F;
    int32_t id = request->ids[request->n - 1];
    fn_status status =
        fn_forward_start_chain(d->forward, &d->chain, request->state, request->wanted, err);
    while (status == FN_OK && *n < request->wanted) {
        float probability = 0;
        fn_forward_draft(d->forward, chains, 1, &id, d->shortlist, d->logits);
        status = fn_draft_pick(request, d->logits, vocab, request->n + *n, &id, &probability, err);
        together *= probability;
        if (status != FN_OK || together < request->least) {
            break;
        }
        out[(*n)++] = id;
    }
    return status;
}

static void destroy(fn_drafter *drafter) {
    mtp_drafter *d = (mtp_drafter *)drafter;
    fn_mtp_chain_deinit(&d->chain);
    fn_free(d->logits);
    fn_free(d);
}

fn_status fn_drafter_mtp(fn_forward *forward, const fn_shortlist *shortlist, fn_drafter **out,
                         fn_error *err) {
    static const fn_drafter_kind kind = {propose, destroy};
    const fn_shape *shape = fn_forward_shape(forward);
    *out = NULL;
    mtp_drafter *d = fn_alloc_zero(1, sizeof *d);
    if (d == NULL) {
        return fn_fail_nomem(err, "a drafter", sizeof *d);
    }
    *d = (mtp_drafter){.base.kind = &kind, .forward = forward, .shortlist = shortlist};
    d->logits = fn_alloc_aligned(shape->vocab, sizeof *d->logits);
    fn_status status = d->logits != NULL
                           ? fn_mtp_chain_init(&d->chain, shape, err)
                           : fn_fail_nomem(err, "a drafter", fn_drafter_mtp_bytes(shape));
    if (status != FN_OK) {
        fn_drafter_destroy(&d->base);
        return status;
    }
    *out = &d->base;
    return FN_OK;
}

size_t fn_drafter_mtp_bytes(const fn_shape *shape) {
    return shape->vocab * sizeof(float) + fn_mtp_chain_bytes(shape);
}
