/* What drafting is worth: the same text made plainly and with drafts, in one run. With simulated acceptance only the
 * verdict is made up: the engine's drafter guesses, each guess is then replaced by what the plain text says or by
 * something else, and the pass verifies, accepts and rolls back as always. */
#include "base/clock.h"
#include "engine/engine.h"
#include "flashnext_tools.h"

/* Steps of this part of a circle spread evenly, however many there are. */
#define GOLDEN 0.6180339887498949

/* Guesses for a session whose text is known. */
typedef struct simulated {
    fn_drafter base;
    fn_drafter *guesser;
    const int32_t *text; /* by position */
    const fn_draft_trial_options *options;
    size_t vocab;
    double turn; /* of this pass, in [0, 1) */
} simulated;

static fn_status propose(fn_draft_request *requests, size_t n, float *logits, fn_error *err) {
    simulated *d = (simulated *)requests->drafter;
    fn_draft_request guessed = *requests;
    int32_t *out = requests->out;
    FN_ASSERT(n == 1);
    guessed.drafter = d->guesser;
    fn_status status = fn_drafters_propose(&guessed, 1, logits, err);
    requests->made = status == FN_OK ? requests->wanted : 0;
    for (size_t i = 0; i < requests->made; i++) {
        int32_t next = d->text[requests->n + i];
        if (d->turn < d->options->held[i]) {
            out[i] = next;
        } else if (i >= guessed.made || out[i] == next) {
            out[i] = (int32_t)((size_t)(next + 1) % d->vocab);
        }
    }
    d->turn += GOLDEN;
    d->turn -= d->turn >= 1.0 ? 1.0 : 0.0;
    return status;
}

/* What is told of a text. */
typedef struct text_made {
    double *seconds;
    fn_drafting *counts;
    fn_profile *profile;
} text_made;

static fn_status check(const fn_session *s, const fn_draft_trial_options *o, fn_error *err) {
    const fn_engine *e = s->engine;
    size_t length = fn_session_length(s);
    size_t more = o->tokens + 2 * FN_MAX_DRAFTS;
    bool agree = e->draft.fixed && e->draft.most == o->n_held;
    if (e->draft.most == 0) {
        return fn_fail(err, FN_E_USAGE, "there is nothing that drafts: %s",
                       e->shape.n_mtp > 0 ? "drafting is off, or memory is short"
                                          : "no MTP head, and no other drafter is asked for");
    }
    if (o->held != NULL && !agree) {
        return fn_fail(err, FN_E_USAGE,
                       "%zu drafts in a pass are to be simulated, but the engine makes %s%zu",
                       o->n_held, e->draft.fixed ? "" : "up to ", e->draft.most);
    }
    if (length == 0 || more > e->context || length > e->context - more) {
        return fn_fail(err, FN_E_RANGE,
                       "%zu ids behind %zu others: expected at least one, and room for %zu more "
                       "in a context of %zu",
                       o->tokens, length, more, e->context);
    }
    return FN_OK;
}

/* At least so many ids behind what the session has. */
static fn_status make_ids(fn_session *s, fn_stepper *stepper, size_t tokens, text_made *made,
                          fn_error *err) {
    int32_t id = -1;
    const float *logits = NULL;
    fn_draft_run run = {.session = s, .stepper = stepper};
    run.counts.drafter = fn_draft_name(&s->engine->draft);
    fn_status status = fn_session_logits(s, &logits, err);
    double begin = fn_clock_seconds();
    status = status == FN_OK ? fn_stepper_choose(stepper, logits, fn_session_length(s), &id, err)
                             : status;
    while (status == FN_OK && run.counts.passes + run.counts.accepted < tokens) {
        status = fn_draft_pass(&run, &id, err);
    }
    *made->seconds = fn_clock_seconds() - begin;
    *made->counts = run.counts;
    return status;
}

/* The same, timed by class where asked. */
static fn_status make_text(fn_session *s, const fn_draft_trial_options *o, size_t tokens,
                           text_made *made, fn_error *err) {
    fn_engine *e = s->engine;
    fn_stepper *stepper = NULL;
    fn_generation generation = fn_generation_default(e->text);
    generation.sampling = o->sampling != NULL ? *o->sampling : generation.sampling;
    generation.ignore_end = true;
    fn_stepper_options options = {.text = e->text,
                                  .vocab = e->shape.vocab,
                                  .generation = &generation,
                                  .room = e->context - fn_session_length(s)};
    options.prompt = fn_session_ids(s, &options.n_prompt);
    fn_status status = fn_stepper_create(&options, &stepper, err);
    if (status == FN_OK && o->profile) {
        fn_profile_begin(e);
    }
    status = status == FN_OK ? make_ids(s, stepper, tokens, made, err) : status;
    if (o->profile) {
        fn_profile_end(e, made->profile);
    }
    fn_stepper_destroy(stepper);
    return status;
}

/* The drafted text, while the plain one says what holds. */
static fn_status make_drafted(fn_session *s, const int32_t *text, const fn_draft_trial_options *o,
                              fn_draft_trial *out, fn_error *err) {
    static const fn_drafter_kind kind = {propose, NULL};
    simulated d = {.base.kind = &kind,
                   .guesser = s->drafter,
                   .text = text,
                   .options = o,
                   .vocab = s->engine->shape.vocab,
                   .turn = o->turn};
    s->drafter = o->held != NULL ? &d.base : s->drafter;
    fn_status status =
        make_text(s, o, o->tokens, &(text_made){&out->seconds, &out->drafting, &out->profile}, err);
    s->drafter = d.guesser;
    out->turn = d.turn;
    for (size_t i = 0; status == FN_OK && i < fn_session_length(s); i++) {
        if (s->ids[i] != text[i]) {
            status = fn_fail(err, FN_E_FAILED, "id %zu is %d with drafts and %d without", i,
                             (int)s->ids[i], (int)text[i]);
        }
    }
    return status;
}

fn_status fn_draft_trial_run(fn_session *session, const fn_draft_trial_options *o,
                             fn_draft_trial *out, fn_error *err) {
    fn_session *plain = NULL;
    fn_session *drafted = NULL;
    *out = (fn_draft_trial){0};
    fn_status status = check(session, o, err);
    status = status == FN_OK ? fn_session_fork(session, &plain, err) : status;
    status = status == FN_OK ? fn_session_fork(session, &drafted, err) : status;
    if (status == FN_OK) {
        fn_drafter *unused = plain->drafter;
        plain->drafter = NULL;
        status =
            make_text(plain, o, o->tokens + 2 * FN_MAX_DRAFTS - 1,
                      &(text_made){&out->plain_seconds, &out->plain, &out->plain_profile}, err);
        plain->drafter = unused;
    }
    status = status == FN_OK ? make_drafted(drafted, plain->ids, o, out, err) : status;
    out->plain_tokens = out->plain.passes;
    out->tokens = out->drafting.passes + out->drafting.accepted;
    fn_session_destroy(plain);
    fn_session_destroy(drafted);
    return status;
}
