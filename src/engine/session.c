#include <string.h>

#include "base/mem.h"
#include "engine/engine.h"

static fn_status make_session(fn_engine *e, fn_session **out, fn_error *err) {
    *out = NULL;
    fn_session *s = fn_alloc_zero(1, sizeof *s);
    if (s == NULL) {
        return fn_fail_nomem(err, "a session", sizeof *s);
    }
    s->engine = e;
    s->ids = fn_alloc(e->context, sizeof *s->ids);
    s->rows = fn_alloc_aligned((e->draft.most + 1) * e->shape.vocab, sizeof *s->rows);
    s->logits = s->rows;
    fn_status status = s->ids != NULL && s->rows != NULL
                           ? fn_state_create(e->states, e->context, &s->state, err)
                           : fn_fail_nomem(err, "a session", e->context * sizeof *s->ids);
    status = status == FN_OK ? fn_session_make_drafter(s, err) : status;
    if (status != FN_OK) {
        fn_session_destroy(s);
        return status;
    }
    *out = s;
    return FN_OK;
}

fn_status fn_session_create(fn_engine *engine, fn_session **out, fn_error *err) {
    return make_session(engine, out, err);
}

static void drop_marks(fn_session *s, size_t first) {
    for (size_t i = first; i < s->n_marks; i++) {
        fn_state_destroy(s->marks[i].state);
    }
    s->n_marks = s->n_marks < first ? s->n_marks : first;
}

void fn_session_destroy(fn_session *s) {
    if (s != NULL) {
        drop_marks(s, 0);
        fn_state_destroy(s->state);
        fn_free(s->ids);
        fn_drafter_destroy(s->drafter);
        fn_free(s->rows);
        fn_free(s);
    }
}

fn_status fn_session_fork(fn_session *session, fn_session **out, fn_error *err) {
    fn_status status = make_session(session->engine, out, err);
    if (status == FN_OK) {
        status = fn_state_assign((*out)->state, session->state, err);
        memcpy((*out)->ids, session->ids, fn_session_length(session) * sizeof *session->ids);
        if (status != FN_OK) {
            fn_session_destroy(*out);
            *out = NULL;
        }
    }
    return status;
}

size_t fn_session_length(const fn_session *s) {
    return fn_state_length(s->state);
}

const int32_t *fn_session_ids(const fn_session *s, size_t *n) {
    *n = fn_session_length(s);
    return s->ids;
}

/* ---- reading ---- */

static fn_status check_ids(const fn_session *s, const int32_t *ids, size_t n, size_t length,
                           fn_error *err) {
    size_t context = s->engine->context;
    if (n > context || length > context - n) {
        return fn_fail(
            err, FN_E_RANGE,
            "context limit: %zu tokens are there and %zu should follow, but the limit is %zu",
            length, n, context);
    }
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || (size_t)ids[i] >= s->engine->shape.vocab) {
            return fn_fail(err, FN_E_RANGE, "token id at index %zu: found %d, expected 0 to %zu", i,
                           (int)ids[i], s->engine->shape.vocab - 1);
        }
    }
    return FN_OK;
}

typedef struct watch {
    fn_engine *engine;
    size_t done, n;
} watch;

static bool go_on(void *ud) {
    const watch *w = ud;
    return w->engine->progress(w->engine->progress_ud, "prompt", w->done, w->n);
}

fn_status fn_session_read(fn_session *s, const int32_t *ids, size_t n, bool tell_progress,
                          fn_error *err) {
    fn_engine *e = s->engine;
    bool told = tell_progress && e->progress != NULL;
    for (size_t done = 0; done < n;) {
        if (told && !e->progress(e->progress_ud, "prompt", done, n)) {
            return fn_fail(err, FN_E_CANCELLED, "reading the prompt was cancelled");
        }
        size_t length = fn_session_length(s);
        watch w = {e, done, n};
        pthread_mutex_lock(&e->mutex);
        size_t rows = fn_forward_max_rows(e->forward);
        rows = rows < e->chunk ? rows : e->chunk;
        fn_segment segment = {
            .state = s->state, .ids = ids + done, .n = n - done < rows ? n - done : rows};
        fn_forward_watch(e->forward, told ? go_on : NULL, &w);
        fn_status status = fn_forward_run(e->forward, &segment, 1, NULL, NULL, err);
        fn_forward_watch(e->forward, NULL, NULL);
        pthread_mutex_unlock(&e->mutex);
        if (status != FN_OK) {
            return status;
        }
        memcpy(s->ids + length, segment.ids, segment.n * sizeof *s->ids);
        s->logits_ready = false;
        done += segment.n;
    }
    if (told) {
        (void)e->progress(e->progress_ud, "prompt", n, n);
    }
    return FN_OK;
}

fn_status fn_session_append(fn_session *s, const int32_t *ids, size_t n, fn_error *err) {
    fn_status status = check_ids(s, ids, n, fn_session_length(s), err);
    return status == FN_OK ? fn_session_read(s, ids, n, true, err) : status;
}

fn_status fn_session_mark(fn_session *s, fn_error *err) {
    fn_state *copy = NULL;
    if (s->n_marks > 0 && fn_state_length(s->marks[s->n_marks - 1].state) == fn_session_length(s)) {
        return FN_OK;
    }
    fn_status status = fn_state_clone(s->state, &copy, err);
    if (status != FN_OK) {
        return status;
    }
    if (s->n_marks == FN_SESSION_MARKS) {
        fn_state_destroy(s->marks[0].state);
        memmove(s->marks, s->marks + 1, (FN_SESSION_MARKS - 1) * sizeof *s->marks);
        s->n_marks--;
    }
    s->marks[s->n_marks++].state = copy;
    return FN_OK;
}

/* Goes back to the longest kept state of at most `common` ids; 0 when there is none. */
static fn_status go_back(fn_session *s, size_t common, fn_error *err) {
    size_t keep = s->n_marks;
    while (keep > 0 && fn_state_length(s->marks[keep - 1].state) > common) {
        keep--;
    }
    drop_marks(s, keep);
    s->logits_ready = false;
    return keep > 0 ? fn_state_assign(s->state, s->marks[keep - 1].state, err)
                    : fn_state_clear(s->state, err);
}

fn_status fn_session_sync(fn_session *s, const int32_t *ids, size_t n, size_t *reused,
                          fn_error *err) {
    if (reused != NULL) {
        *reused = 0;
    }
    if (n == 0) {
        return fn_fail(err, FN_E_USAGE, "the prompt is empty: at least one token is needed");
    }
    fn_status status = check_ids(s, ids, n, 0, err);
    if (status != FN_OK) {
        return status;
    }
    size_t length = fn_session_length(s);
    size_t common = 0;
    while (common < length && common < n && s->ids[common] == ids[common]) {
        common++;
    }
    if (common < length) {
        status = go_back(s, common, err);
    }
    size_t kept = fn_session_length(s);
    if (reused != NULL) {
        *reused = kept;
    }
    status = status == FN_OK ? fn_session_read(s, ids + kept, n - kept, true, err) : status;
    return status == FN_OK ? fn_session_mark(s, err) : status;
}

fn_status fn_session_logits(fn_session *s, const float **logits, fn_error *err) {
    *logits = NULL;
    if (fn_session_length(s) == 0) {
        return fn_fail(err, FN_E_USAGE, "no logits yet: the session has read nothing");
    }
    if (!s->logits_ready) {
        pthread_mutex_lock(&s->engine->mutex);
        s->logits = s->rows;
        fn_forward_head(s->engine->forward, s->state, s->logits);
        pthread_mutex_unlock(&s->engine->mutex);
        s->logits_ready = true;
    }
    *logits = s->logits;
    return FN_OK;
}

/* ---- snapshots ---- */

fn_status fn_session_snapshot(fn_session *s, fn_snapshot **out, fn_error *err) {
    size_t n = fn_session_length(s);
    *out = NULL;
    fn_snapshot *copy = fn_alloc_zero(1, sizeof *copy);
    int32_t *ids = fn_alloc(n, sizeof *ids);
    if (copy == NULL || ids == NULL) {
        fn_free(copy);
        fn_free(ids);
        return fn_fail_nomem(err, "a snapshot", n * sizeof *ids);
    }
    fn_status status = fn_state_clone(s->state, &copy->state, err);
    memcpy(ids, s->ids, n * sizeof *ids);
    copy->ids = ids;
    if (status != FN_OK) {
        fn_snapshot_free(copy);
        return status;
    }
    *out = copy;
    return FN_OK;
}

fn_status fn_session_restore(fn_session *s, const fn_snapshot *snapshot, fn_error *err) {
    fn_status status = fn_state_assign(s->state, snapshot->state, err);
    if (status == FN_OK) {
        memcpy(s->ids, snapshot->ids, fn_state_length(snapshot->state) * sizeof *s->ids);
        s->logits_ready = false;
        drop_marks(s, 0); /* they may belong to another text */
    }
    return status;
}

void fn_snapshot_free(fn_snapshot *snapshot) {
    if (snapshot != NULL) {
        fn_state_destroy(snapshot->state);
        fn_free(snapshot->ids);
        fn_free(snapshot);
    }
}

fn_status fn_session_truncate(fn_session *s, size_t n, fn_error *err) {
    return fn_state_truncate(s->state, n, err);
}
