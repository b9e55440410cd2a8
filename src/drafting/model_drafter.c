/* Drafts of a second, smaller model. It keeps two states: one that has read true ids only, and one that goes on
 * from there through its own guesses and is thrown away. */
#include <string.h>

#include "base/mem.h"
#include "drafting/drafter.h"

typedef struct model_drafter {
    fn_drafter base;
    fn_forward *forward;
    fn_state *known, *guess;
    size_t context;
    int32_t *ids; /* [context]: what `known` has read */
} model_drafter;

/* Reads true ids [n] behind what agrees with them; logits of the last. A recurrence cannot be cut short: where the
 * sequence went another way, all of it is read again. */
static fn_status follow(model_drafter *d, const int32_t *ids, size_t n, float *logits,
                        fn_error *err) {
    size_t length = fn_state_length(d->known);
    size_t chunk = fn_forward_max_rows(d->forward);
    fn_status status = FN_OK;
    if (length >= n || memcmp(d->ids, ids, length * sizeof *ids) != 0) {
        status = fn_state_clear(d->known, err);
    }
    while (status == FN_OK && fn_state_length(d->known) < n) {
        length = fn_state_length(d->known);
        fn_segment segment = {
            .state = d->known, .ids = ids + length, .n = n - length < chunk ? n - length : chunk};
        status = fn_forward_run(d->forward, &segment, 1, NULL, NULL, err);
        if (status == FN_OK) {
            memcpy(d->ids + length, segment.ids, segment.n * sizeof *ids);
        }
    }
    if (status == FN_OK) {
        fn_forward_head(d->forward, d->known, logits);
    }
    return status;
}

/* One guess read by the state that is thrown away. */
static fn_status read_guess(model_drafter *d, bool first, int32_t id, float *logits,
                            fn_error *err) {
    static const uint8_t wants[1] = {1};
    fn_status status = first ? fn_state_assign(d->guess, d->known, err) : FN_OK;
    fn_segment segment = {.state = d->guess, .ids = &id, .n = 1, .wants = wants};
    return status == FN_OK ? fn_forward_run(d->forward, &segment, 1, logits, NULL, err) : status;
}

static fn_status propose_one(fn_draft_request *r, float *logits, fn_error *err) {
    model_drafter *d = (model_drafter *)r->drafter;
    size_t vocab = fn_forward_shape(d->forward)->vocab;
    if (r->n + r->wanted > d->context) {
        return FN_OK; /* the second model's context is shorter */
    }
    bool more = true;
    fn_status status = follow(d, r->ids, r->n, logits, err);
    while (status == FN_OK && more) {
        if (r->made > 0) {
            status = read_guess(d, r->made == 1, r->out[r->made - 1], logits, err);
        }
        status = status == FN_OK ? fn_draft_take(r, logits, vocab, &more, err) : status;
    }
    return status;
}

static fn_status propose(fn_draft_request *requests, size_t n, float *logits, fn_error *err) {
    fn_status status = FN_OK;
    for (size_t i = 0; i < n && status == FN_OK; i++) {
        status = propose_one(&requests[i], logits, err);
    }
    return status;
}

static void destroy(fn_drafter *drafter) {
    model_drafter *d = (model_drafter *)drafter;
    fn_state_destroy(d->known);
    fn_state_destroy(d->guess);
    fn_free(d->ids);
    fn_free(d);
}

fn_status fn_drafter_model(fn_forward *forward, fn_state_pool *pool, size_t context,
                           fn_drafter **out, fn_error *err) {
    static const fn_drafter_kind kind = {propose, destroy};
    *out = NULL;
    model_drafter *d = fn_alloc_zero(1, sizeof *d);
    if (d == NULL) {
        return fn_fail_nomem(err, "a drafter", sizeof *d);
    }
    *d = (model_drafter){.base.kind = &kind, .forward = forward, .context = context};
    d->ids = fn_alloc(context, sizeof *d->ids);
    fn_status status = d->ids != NULL ? fn_state_create(pool, context, &d->known, err)
                                      : fn_fail_nomem(err, "a drafter", context * sizeof *d->ids);
    status = status == FN_OK ? fn_state_create(pool, context, &d->guess, err) : status;
    if (status != FN_OK) {
        fn_drafter_destroy(&d->base);
        return status;
    }
    *out = &d->base;
    return FN_OK;
}

size_t fn_drafter_model_bytes(const fn_state_layout *layout, size_t context) {
    return 2 * (fn_state_recurrent_bytes(layout) + fn_state_paged_bytes(layout, context)) +
           context * sizeof(int32_t);
}
