#include "base/clock.h"
#include "engine/engine.h"
#include "engine/stepper.h"

static fn_status generate(fn_session *session, fn_stepper *stepper, fn_generated *out,
                          fn_error *err) {
    double begin = fn_clock_seconds();
    int32_t id = -1;
    const float *logits = NULL;
    fn_draft_run run = {.session = session, .stepper = stepper};
    fn_status status = FN_OK;
    run.counts.drafter = fn_draft_name(&session->engine->draft);
    if (fn_stepper_more(stepper)) {
        status = fn_session_logits(session, &logits, err);
        status = status == FN_OK
                     ? fn_stepper_choose(stepper, logits, fn_session_length(session), &id, err)
                     : status;
    }
    double first = fn_clock_seconds() - begin;
    while (status == FN_OK && fn_stepper_more(stepper)) {
        status = fn_draft_pass(&run, &id, err);
    }
    status = status == FN_OK ? fn_stepper_finish(stepper, err) : status;
    *out = fn_stepper_result(stepper);
    out->first_seconds = out->n_ids > 0 ? first : 0;
    out->drafting = run.counts;
    status = status == FN_OK ? fn_session_mark(session, err) : status;
    out->seconds = fn_clock_seconds() - begin;
    return status;
}

fn_status fn_session_generate(fn_session *session, const fn_generation *generation,
                              fn_generated *out, fn_error *err) {
    fn_generated ignored;
    fn_stepper *stepper = NULL;
    const fn_engine *e = session->engine;
    fn_stepper_options options = {
        .text = e->text, .vocab = e->shape.vocab, .generation = generation};
    out = out != NULL ? out : &ignored;
    *out = (fn_generated){.end_id = -1, .drafting.drafter = "none"};
    options.prompt = fn_session_ids(session, &options.n_prompt);
    options.room = e->context - options.n_prompt;
    if (options.n_prompt == 0) {
        return fn_fail(err, FN_E_USAGE, "the prompt is empty: at least one token is needed");
    }
    fn_status status = fn_stepper_create(&options, &stepper, err);
    status = status == FN_OK ? generate(session, stepper, out, err) : status;
    fn_stepper_destroy(stepper);
    return status;
}
