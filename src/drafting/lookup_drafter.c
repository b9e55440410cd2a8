/* Drafts from the text itself: what followed the longest earlier stretch that equals the last ids. Costs no
 * forward, and pays where an answer repeats its prompt: code, quotations, tables. */
#include <string.h>

#include "base/mem.h"
#include "drafting/drafter.h"

/* A stretch of fewer ids says too little; of more than that, no more. */
#define SHORTEST 2
#define LONGEST 16

/* Ids before `end` that equal the last ids of the sequence, at most LONGEST. */
static size_t match(const int32_t *ids, size_t n, size_t end) {
    size_t length = 0;
    while (length < end && length < LONGEST && ids[end - 1 - length] == ids[n - 1 - length]) {
        length++;
    }
    return length;
}

static void look_up(fn_draft_request *request) {
    size_t best = SHORTEST - 1;
    size_t from = 0;
    for (size_t end = request->n - 1; end > 0 && best < LONGEST; end--) { /* the latest of equals */
        size_t length = match(request->ids, request->n, end);
        if (length > best) {
            best = length;
            from = end;
        }
    }
    if (from > 0) {
        size_t there = request->n - from;
        request->made = there < request->wanted ? there : request->wanted;
        memcpy(request->out, request->ids + from, request->made * sizeof *request->out);
    }
}

static fn_status propose(fn_draft_request *requests, size_t n, float *logits, fn_error *err) {
    (void)logits;
    (void)err;
    for (size_t i = 0; i < n; i++) {
        look_up(&requests[i]);
    }
    return FN_OK;
}

static void destroy(fn_drafter *drafter) {
    fn_free(drafter);
}

fn_status fn_drafter_lookup(fn_drafter **out, fn_error *err) {
    static const fn_drafter_kind kind = {propose, destroy};
    *out = fn_alloc_zero(1, sizeof **out);
    if (*out == NULL) {
        return fn_fail_nomem(err, "a drafter", sizeof **out);
    }
    (*out)->kind = &kind;
    return FN_OK;
}
