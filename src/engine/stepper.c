#include "engine/stepper.h"

#include <string.h>

#include "base/mem.h"
#include "dialogue/events.h"
#include "engine/text.h"
#include "sampling/logprobs.h"
#include "sampling/sampler.h"

#define MAX_LOGPROBS 1000
/* How a thought that has used up its budget ends: as the chat template writes it. */
#define FORCED_END "\n</think>\n\n"

struct fn_stepper {
    const fn_generation *settings;
    size_t answer, vocab, limit;
    fn_sampler *sampler;
    fn_dialogue *dialogue;
    fn_token_logprob *top; /* [n_logprobs] */
    const int32_t *end_ids;
    size_t n_end_ids;
    fn_ids forced; /* ids of FORCED_END */
    size_t n_forced;
    size_t n_supposed; /* ids before the next guess that are not accepted */
    int32_t id;        /* chosen last */
    float logprob;
    bool more;
    fn_generated out;
};

fn_generation fn_generation_default(const fn_text *text) {
    return (fn_generation){.sampling = fn_text_default_sampling(text),
                           .max_tokens = FN_UNLIMITED,
                           .thinking_budget = FN_UNLIMITED};
}

/* ---- life ---- */

static bool relay(void *ud, const fn_event *event) {
    const fn_stepper *s = ud;
    fn_event told = *event;
    told.answer = s->answer;
    return s->settings->on_event == NULL || s->settings->on_event(s->settings->ud, &told);
}

static fn_status make_dialogue(const fn_generation *g, const fn_text *text, void *ud,
                               fn_dialogue **out, fn_error *err) {
    fn_dialogue_options options = {.tokenizer = text->tokenizer,
                                   .starts_in_thought = g->starts_in_thought,
                                   .stop = g->stop,
                                   .n_stop = g->n_stop,
                                   .on_event = relay,
                                   .ud = ud};
    return fn_dialogue_create(&options, out, err);
}

static fn_status check_logprobs(const fn_generation *g, size_t vocab, fn_error *err) {
    return g->n_logprobs <= MAX_LOGPROBS && g->n_logprobs <= vocab
               ? FN_OK
               : fn_fail(err, FN_E_USAGE, "logprobs: found %zu, expected at most %d", g->n_logprobs,
                         MAX_LOGPROBS);
}

fn_status fn_generation_check(const fn_generation *g, const fn_text *text, size_t vocab,
                              fn_error *err) {
    fn_dialogue *dialogue = NULL;
    fn_status status = check_logprobs(g, vocab, err);
    status = status == FN_OK ? fn_sampling_check(&g->sampling, vocab, err) : status;
    status = status == FN_OK ? make_dialogue(g, text, NULL, &dialogue, err) : status;
    fn_dialogue_destroy(dialogue);
    return status;
}

static fn_status make_forced(fn_stepper *s, const fn_text *text, fn_error *err) {
    const fn_generation *g = s->settings;
    if (text->tokenizer == NULL || !g->starts_in_thought || g->thinking_budget == FN_UNLIMITED) {
        return FN_OK;
    }
    return fn_text_encode(text, FORCED_END, strlen(FORCED_END), true, &s->forced, err);
}

fn_status fn_stepper_create(const fn_stepper_options *options, fn_stepper **out, fn_error *err) {
    const fn_generation *g = options->generation;
    *out = NULL;
    fn_status status = check_logprobs(g, options->vocab, err);
    if (status != FN_OK) {
        return status;
    }
    fn_stepper *s = fn_alloc_zero(1, sizeof *s);
    if (s == NULL) {
        return fn_fail_nomem(err, "an answer", sizeof *s);
    }
    s->settings = g;
    s->answer = options->answer;
    s->vocab = options->vocab;
    s->limit = g->max_tokens < options->room ? g->max_tokens : options->room;
    s->more = s->limit > 0;
    s->id = -1;
    s->out = (fn_generated){.finish = FN_FINISH_LENGTH, .end_id = -1};
    s->end_ids = fn_text_end_ids(options->text, &s->n_end_ids);
    s->top = fn_alloc_zero(g->n_logprobs, sizeof *s->top);
    if (s->top == NULL) {
        status = fn_fail_nomem(err, "log-probabilities", g->n_logprobs * sizeof *s->top);
    }
    fn_sampling sampling = g->sampling;
    sampling.seed += options->answer;
    status = status == FN_OK ? fn_sampler_create(&sampling, s->vocab, &s->sampler, err) : status;
    status = status == FN_OK ? make_dialogue(g, options->text, s, &s->dialogue, err) : status;
    status = status == FN_OK ? make_forced(s, options->text, err) : status;
    if (status != FN_OK) {
        fn_stepper_destroy(s);
        return status;
    }
    fn_sampler_see_prompt(s->sampler, options->prompt, options->n_prompt);
    *out = s;
    return FN_OK;
}

void fn_stepper_destroy(fn_stepper *s) {
    if (s != NULL) {
        fn_dialogue_destroy(s->dialogue);
        fn_sampler_destroy(s->sampler);
        fn_ids_free(&s->forced);
        fn_free(s->top);
        fn_free(s);
    }
}

size_t fn_stepper_bytes(size_t vocab) {
    return vocab * 17 + (64 << 10);
}

/* ---- steps ---- */

bool fn_stepper_more(const fn_stepper *s) {
    return s->more;
}

size_t fn_stepper_left(const fn_stepper *s) {
    return s->limit - s->out.n_ids;
}

/* With `more` ids behind those of the answer. */
static bool ends_banned(const fn_stepper *s, size_t more) {
    return s->out.n_ids + more < s->settings->min_tokens && !s->settings->ignore_end;
}

void fn_stepper_suppose(fn_stepper *s, int32_t id) {
    fn_sampler_suppose(s->sampler, id);
    s->n_supposed++;
}

fn_status fn_stepper_guess(fn_stepper *s, const float *logits, size_t position, int32_t *id,
                           fn_error *err) {
    fn_status status = fn_sampler_choose(s->sampler, logits, position, s->end_ids,
                                         ends_banned(s, s->n_supposed) ? s->n_end_ids : 0, id, err);
    if (status == FN_OK) {
        fn_stepper_suppose(s, *id);
    }
    return status;
}

void fn_stepper_forget(fn_stepper *s) {
    fn_sampler_forget(s->sampler);
    s->n_supposed = 0;
}

/* The next of the ids that close the thought, or -1. Once begun, all of them come. */
static int32_t forced_id(const fn_stepper *s) {
    if (s->n_forced == s->forced.count) {
        return -1;
    }
    bool spent = fn_dialogue_in_thought(s->dialogue) &&
                 fn_dialogue_thinking_ids(s->dialogue) >= s->settings->thinking_budget;
    return spent || s->n_forced > 0 ? s->forced.items[s->n_forced] : -1;
}

fn_status fn_stepper_choose(fn_stepper *s, const float *logits, size_t position, int32_t *id,
                            fn_error *err) {
    const fn_generation *g = s->settings;
    fn_status status = FN_OK;
    s->id = forced_id(s);
    if (s->id < 0) {
        status = fn_sampler_choose(s->sampler, logits, position, s->end_ids,
                                   ends_banned(s, 0) ? s->n_end_ids : 0, &s->id, err);
    }
    if (status == FN_OK && g->n_logprobs > 0) {
        status = fn_logprobs(logits, s->vocab, s->id, &s->logprob, s->top, g->n_logprobs, err);
    }
    *id = s->id;
    return status;
}

/* A model whose thought was cut off may go on with it and close it itself: no text of the answer. */
static bool closes_again(const fn_stepper *s) {
    return s->forced.count > 0 && s->n_forced == s->forced.count &&
           s->id == fn_dialogue_closer(s->dialogue);
}

static bool is_end(const fn_stepper *s, int32_t id) {
    for (size_t i = 0; i < s->n_end_ids && !s->settings->ignore_end; i++) {
        if (s->end_ids[i] == id) {
            return true;
        }
    }
    return false;
}

static void end(fn_stepper *s, fn_finish finish) {
    s->out.finish = finish;
    s->more = false;
}

fn_status fn_stepper_accept(fn_stepper *s, fn_error *err) {
    fn_event event = {.kind = FN_EVENT_TOKEN,
                      .id = s->id,
                      .logprob = s->logprob,
                      .top = s->top,
                      .n_top = s->settings->n_logprobs};
    fn_dialogue_state state = FN_DIALOGUE_OPEN;
    fn_status status = FN_OK;
    bool again = closes_again(s);
    s->n_forced += forced_id(s) >= 0;
    fn_sampler_accept(s->sampler, s->id);
    s->out.n_ids++;
    s->more = s->out.n_ids < s->limit;
    bool cancelled = !relay(s, &event);
    if (is_end(s, s->id)) {
        s->out.end_id = s->id;
        end(s, FN_FINISH_STOP);
    } else if (!again) {
        status = fn_dialogue_feed(s->dialogue, s->id, &state, err);
    }
    if (state != FN_DIALOGUE_OPEN) {
        end(s, state == FN_DIALOGUE_STOPPED ? FN_FINISH_STOP : FN_FINISH_CANCELLED);
    }
    if (cancelled) {
        end(s, FN_FINISH_CANCELLED);
    }
    return status;
}

fn_status fn_stepper_finish(fn_stepper *s, fn_error *err) {
    return fn_dialogue_finish(s->dialogue, err);
}

fn_generated fn_stepper_result(const fn_stepper *s) {
    fn_generated out = s->out;
    out.n_thinking_ids = fn_dialogue_thinking_ids(s->dialogue);
    return out;
}
