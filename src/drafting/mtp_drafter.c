/* Drafts of the model's own MTP head: a chain that starts at the sequence's last streams. */
#include "base/mem.h"
#include "drafting/drafter.h"

typedef struct mtp_drafter {
    fn_drafter base;
    fn_forward *forward;
    const fn_shortlist *shortlist;
    fn_mtp_chain chain;
} mtp_drafter;

/* Requests that still go on, and where their chains stand: one step of the head is for all of them. */
typedef struct going {
    size_t n;
    fn_draft_request *requests[FN_STEP_SEGMENTS];
    fn_mtp_chain *chains[FN_STEP_SEGMENTS];
    int32_t ids[FN_STEP_SEGMENTS];
} going;

static mtp_drafter *of(const fn_draft_request *request) {
    return (mtp_drafter *)request->drafter;
}

static fn_status start(going *g, fn_draft_request *requests, size_t n, fn_error *err) {
    FN_ASSERT(n <= FN_STEP_SEGMENTS);
    fn_status status = FN_OK;
    for (g->n = 0; g->n < n && status == FN_OK; g->n++) {
        fn_draft_request *r = &requests[g->n];
        g->requests[g->n] = r;
        g->chains[g->n] = &of(r)->chain;
        g->ids[g->n] = r->ids[r->n - 1];
        status = fn_forward_start_chain(of(r)->forward, &of(r)->chain, r->state, r->wanted, err);
    }
    return status;
}

/* One guess more for everyone, of whom some go no further. */
static fn_status step(going *g, float *logits, fn_error *err) {
    const mtp_drafter *d = of(g->requests[0]);
    size_t vocab = fn_forward_shape(d->forward)->vocab;
    size_t left = 0;
    fn_status status = FN_OK;
    fn_forward_draft(d->forward, g->chains, g->n, g->ids, d->shortlist, logits);
    for (size_t i = 0; i < g->n && status == FN_OK; i++) {
        fn_draft_request *r = g->requests[i];
        bool more = false;
        status = fn_draft_take(r, logits + i * vocab, vocab, &more, err);
        if (more) {
            g->requests[left] = r;
            g->chains[left] = g->chains[i];
            g->ids[left++] = r->out[r->made - 1];
        }
    }
    g->n = left;
    return status;
}

static fn_status propose(fn_draft_request *requests, size_t n, float *logits, fn_error *err) {
    going g;
    fn_status status = start(&g, requests, n, err);
    while (status == FN_OK && g.n > 0) {
        status = step(&g, logits, err);
    }
    return status;
}

static void destroy(fn_drafter *drafter) {
    mtp_drafter *d = (mtp_drafter *)drafter;
    fn_mtp_chain_deinit(&d->chain);
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
    fn_status status = fn_mtp_chain_init(&d->chain, shape, err);
    if (status != FN_OK) {
        fn_drafter_destroy(&d->base);
        return status;
    }
    *out = &d->base;
    return FN_OK;
}

size_t fn_drafter_mtp_bytes(const fn_shape *shape) {
    return fn_mtp_chain_bytes(shape);
}
