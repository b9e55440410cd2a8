#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "dialogue/events.h"
#include "engine/engine.h"
#include "sampling/logprobs.h"
#include "sampling/sampler.h"

#define MAX_LOGPROBS 1000

typedef struct run {
    fn_session *session;
    const fn_generation *settings;
    fn_sampler *sampler;
    fn_dialogue *dialogue;
    fn_token_logprob *top; /* [n_logprobs] */
    const int32_t *end_ids;
    size_t n_end_ids;
    fn_generated *out;
} run;

fn_generation fn_generation_default(const fn_text *text) {
    return (fn_generation){.sampling = fn_text_default_sampling(text), .max_tokens = FN_UNLIMITED, .thinking_budget = FN_UNLIMITED};
}

static fn_status start(run *r, fn_error *err) {
    const fn_generation *g = r->settings;
    const fn_engine *e = r->session->engine;
    size_t n = 0;
    const int32_t *ids = fn_session_ids(r->session, &n);
    if (n == 0) {
        return fn_fail(err, FN_E_USAGE, "the prompt is empty: at least one token is needed");
    }
    if (g->n_logprobs > MAX_LOGPROBS || g->n_logprobs > e->shape.vocab) {
        return fn_fail(err, FN_E_USAGE, "logprobs: found %zu, expected at most %d", g->n_logprobs,
                       MAX_LOGPROBS);
    }
    r->end_ids = fn_text_end_ids(e->text, &r->n_end_ids);
    r->top = fn_alloc_zero(g->n_logprobs, sizeof *r->top);
    if (r->top == NULL) {
        return fn_fail_nomem(err, "log-probabilities", g->n_logprobs * sizeof *r->top);
    }
    fn_status status = fn_sampler_create(&g->sampling, e->shape.vocab, &r->sampler, err);
    if (status == FN_OK) {
        fn_sampler_see_prompt(r->sampler, ids, n);
        fn_dialogue_options options = {.tokenizer = e->text->tokenizer,
                                       .starts_in_thought = g->starts_in_thought,
                                       .stop = g->stop,
                                       .n_stop = g->n_stop,
                                       .on_event = g->on_event,
                                       .ud = g->ud};
        status = fn_dialogue_create(&options, &r->dialogue, err);
    }
    return status;
}

static bool is_end(const run *r, int32_t id) {
    for (size_t i = 0; i < r->n_end_ids && !r->settings->ignore_end; i++) {
        if (r->end_ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* The next id, with its log-probabilities where asked. */
static fn_status choose(run *r, int32_t *id, fn_event *event, fn_error *err) {
    const fn_generation *g = r->settings;
    const float *logits = NULL;
    bool ends_banned = r->out->n_ids < g->min_tokens && !g->ignore_end;
    fn_status status = fn_session_logits(r->session, &logits, err);
    if (status == FN_OK) {
        status = fn_sampler_choose(r->sampler, logits, fn_session_length(r->session), r->end_ids,
                                   ends_banned ? r->n_end_ids : 0, id, err);
    }
    if (status == FN_OK && g->n_logprobs > 0) {
        status = fn_logprobs(logits, r->session->engine->shape.vocab, *id, &event->logprob, r->top,
                             g->n_logprobs, err);
    }
    event->kind = FN_EVENT_TOKEN;
    event->id = *id;
    event->top = r->top;
    event->n_top = g->n_logprobs;
    return status;
}

/* One id: chosen, told, read. *more is false when generation ends here. */
static fn_status step(run *r, bool *more, fn_error *err) {
    const fn_generation *g = r->settings;
    fn_event event = {0};
    int32_t id = -1;
    fn_dialogue_state state = FN_DIALOGUE_OPEN;
    fn_status status = choose(r, &id, &event, err);
    if (status != FN_OK) {
        return status;
    }
    fn_sampler_accept(r->sampler, id);
    status = fn_session_read(r->session, &id, 1, false, err);
    if (status != FN_OK) {
        return status;
    }
    r->out->n_ids++;
    bool cancelled = g->on_event != NULL && !g->on_event(g->ud, &event);
    if (is_end(r, id)) {
        r->out->end_id = id;
        r->out->finish = FN_FINISH_STOP;
        *more = false;
    } else {
        status = fn_dialogue_feed(r->dialogue, id, &state, err);
    }
    if (state != FN_DIALOGUE_OPEN) {
        r->out->finish = state == FN_DIALOGUE_STOPPED ? FN_FINISH_STOP : FN_FINISH_CANCELLED;
        *more = false;
    }
    if (cancelled) {
        r->out->finish = FN_FINISH_CANCELLED;
        *more = false;
    }
    return status;
}

static fn_status loop(run *r, double begin, fn_error *err) {
    fn_status status = FN_OK;
    bool more = true;
    r->out->finish = FN_FINISH_LENGTH;
    while (more && status == FN_OK && r->out->n_ids < r->settings->max_tokens &&
           fn_session_length(r->session) < r->session->engine->context) {
        status = step(r, &more, err);
        if (r->out->n_ids == 1) {
            r->out->first_seconds = fn_clock_seconds() - begin;
        }
    }
    if (status == FN_OK) {
        status = fn_dialogue_finish(r->dialogue, err);
        r->out->n_thinking_ids = fn_dialogue_thinking_ids(r->dialogue);
    }
    return status;
}

fn_status fn_session_generate(fn_session *session, const fn_generation *generation,
                              fn_generated *out, fn_error *err) {
    fn_generated ignored;
    double begin = fn_clock_seconds();
    out = out != NULL ? out : &ignored;
    *out = (fn_generated){.end_id = -1};
    run r = {.session = session, .settings = generation, .out = out};
    fn_status status = start(&r, err);
    status = status == FN_OK ? loop(&r, begin, err) : status;
    status = status == FN_OK ? fn_session_mark(session, err) : status;
    out->seconds = fn_clock_seconds() - begin;
    fn_dialogue_destroy(r.dialogue);
    fn_sampler_destroy(r.sampler);
    fn_free(r.top);
    return status;
}
