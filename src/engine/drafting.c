#include "engine/drafting.h"

#include <string.h>

#include "base/clock.h"
#include "engine/engine.h"

#define DEFAULT_LEAST 0.3F
#define DEFAULT_VOCAB 32768

/* ---- setup ---- */

static fn_status check_options(const fn_engine_options *o, fn_error *err) {
    if (o->draft_tokens > FN_MAX_DRAFTS) {
        return fn_fail(err, FN_E_USAGE, "draft tokens: found %zu, expected at most %d",
                       o->draft_tokens, FN_MAX_DRAFTS);
    }
    if (o->draft == FN_DRAFT_MODEL && o->draft_model_dir == NULL) {
        return fn_fail(err, FN_E_USAGE, "drafting with a model: no draft model is given");
    }
    if (o->draft_model_dir != NULL && o->draft != FN_DRAFT_MODEL && o->draft != FN_DRAFT_AUTO) {
        return fn_fail(err, FN_E_USAGE,
                       "a draft model is given (%.300s), but something else is to draft",
                       o->draft_model_dir);
    }
    return FN_OK;
}

fn_status fn_draft_setup_open(const fn_engine_options *o, fn_draft_setup *out, fn_error *err) {
    *out = (fn_draft_setup){.kind = o->draft};
    fn_status status = check_options(o, err);
    if (status != FN_OK || o->draft_model_dir == NULL) {
        return status;
    }
    fn_engine_options small = fn_engine_options_default();
    small.model_dir = o->draft_model_dir;
    small.precision = o->precision;
    small.isa = o->isa;
    small.threads = o->threads;
    small.chunk = o->chunk;
    small.mem_limit = o->mem_limit;
    small.draft = FN_DRAFT_OFF;
    small.no_mtp = true;
    status = fn_engine_open(&small, &out->model, err);
    if (status != FN_OK) {
        fn_error_prefix(err, "draft model %.300s", o->draft_model_dir);
    }
    return status;
}

/* Ids must mean the same in both. */
static fn_status check_vocabulary(const fn_engine *small, const fn_engine_options *o,
                                  const fn_shape *shape, const fn_text *text, fn_error *err) {
    if (small->shape.vocab != shape->vocab) {
        return fn_fail(
            err, FN_E_USAGE,
            "draft model %.300s: found a vocabulary of %zu ids, expected the model's %zu",
            o->draft_model_dir, small->shape.vocab, shape->vocab);
    }
    for (size_t id = 0; id < shape->vocab; id++) {
        size_t n = 0;
        size_t n_small = 0;
        const char *bytes = fn_text_token(text, (int32_t)id, &n);
        const char *other = fn_text_token(small->text, (int32_t)id, &n_small);
        bool known = bytes != NULL && other != NULL;
        if (known && (n != n_small || memcmp(bytes, other, n) != 0)) {
            return fn_fail(err, FN_E_USAGE,
                           "draft model %.300s: id %zu is \"%.*s\" there and \"%.*s\" in the model",
                           o->draft_model_dir, id, (int)(n_small < 60 ? n_small : 60), other,
                           (int)(n < 60 ? n : 60), bytes);
        }
    }
    return FN_OK;
}

/* The first ids, which byte pairs merge earliest, and every special one, in whole tiles. */
static void make_shortlist(fn_draft_setup *setup, size_t wanted, const fn_shape *shape,
                           const fn_text *text) {
    fn_shortlist *list = &setup->shortlist;
    size_t first = fn_matrix_tiles(wanted);
    size_t all = fn_matrix_tiles(shape->vocab);
    *list = (fn_shortlist){.n_runs = 1, .runs = {{0, first < all ? first : all}}};
    setup->whole_vocab = first >= all;
    for (size_t tile = first; tile < all; tile++) {
        bool special = false;
        for (size_t i = tile * FN_TILE; i < (tile + 1) * FN_TILE; i++) {
            special = special || fn_text_is_special(text, (int32_t)i);
        }
        size_t last = list->n_runs - 1;
        if (special && list->runs[last].first_tile + list->runs[last].tiles == tile) {
            list->runs[last].tiles++;
        } else if (special && list->n_runs < FN_SHORTLIST_RUNS) {
            list->runs[list->n_runs].first_tile = tile;
            list->runs[list->n_runs++].tiles = 1;
        }
    }
}

fn_status fn_draft_setup_settle(fn_draft_setup *setup, const fn_engine_options *o,
                                const fn_shape *shape, fn_error *err) {
    fn_drafter_choice own = shape->n_mtp > 0 ? FN_DRAFT_MTP : FN_DRAFT_OFF;
    if (o->draft == FN_DRAFT_MTP && shape->n_mtp == 0) {
        return fn_fail(err, FN_E_USAGE, "drafting with the MTP head: %.300s has none%s",
                       o->model_dir, o->no_mtp ? " (it is left out)" : "");
    }
    if (o->draft == FN_DRAFT_AUTO) {
        setup->kind = setup->model != NULL ? FN_DRAFT_MODEL : own;
    }
    setup->fixed = o->draft_fixed;
    setup->least = o->draft_fixed ? 0 : o->draft_least < 0 ? DEFAULT_LEAST : o->draft_least;
    setup->most = o->draft_tokens > 0 ? o->draft_tokens : FN_DRAFTS_DEFAULT;
    setup->most = setup->kind == FN_DRAFT_OFF ? 0 : setup->most;
    return FN_OK;
}

fn_status fn_draft_setup_read_text(fn_draft_setup *setup, const fn_engine_options *o,
                                   const fn_shape *shape, const fn_text *text, fn_error *err) {
    make_shortlist(setup, o->draft_vocab > 0 ? o->draft_vocab : DEFAULT_VOCAB, shape, text);
    return setup->model != NULL ? check_vocabulary(setup->model, o, shape, text, err) : FN_OK;
}

void fn_draft_setup_close(fn_draft_setup *setup) {
    fn_engine_close(setup->model);
    setup->model = NULL;
}

const char *fn_draft_name(const fn_draft_setup *setup) {
    static const char *const names[] = {[FN_DRAFT_AUTO] = "none",
                                        [FN_DRAFT_OFF] = "none",
                                        [FN_DRAFT_MTP] = "mtp",
                                        [FN_DRAFT_MODEL] = "model",
                                        [FN_DRAFT_LOOKUP] = "lookup"};
    return setup->most > 0 ? names[setup->kind] : names[FN_DRAFT_OFF];
}

uint64_t fn_draft_limit(const fn_draft_setup *setup, uint64_t mem_limit, size_t sessions,
                        size_t context) {
    const fn_engine *small = setup->model;
    if (small == NULL || mem_limit == 0) {
        return mem_limit; /* memory that is available now: the draft model has taken its weights */
    }
    context = small->context < context ? small->context : context;
    uint64_t used = small->weights->arena_bytes +
                    fn_forward_bytes(&small->shape, small->chunk, small->context,
                                     fn_pool_threads(small->pool)) +
                    sessions * fn_drafter_model_bytes(&small->layout, context);
    return mem_limit > used ? mem_limit - used : 1;
}

/* ---- a session's ---- */

uint64_t fn_draft_bytes(const fn_shape *shape, const fn_state_layout *layout, size_t most) {
    uint64_t row = layout->recurrent_bytes + shape->vocab * sizeof(float);
    return most > 0 ? most * row + fn_drafter_mtp_bytes(shape) : 0;
}

static fn_status make_drafter(const fn_draft_setup *setup, fn_forward *forward, size_t context,
                              fn_drafter **out, fn_error *err) {
    const fn_engine *small = setup->model;
    switch (setup->kind) {
    case FN_DRAFT_MTP:
        return fn_drafter_mtp(forward, setup->whole_vocab ? NULL : &setup->shortlist, out, err);
    case FN_DRAFT_MODEL:
        context = small->context < context ? small->context : context;
        return fn_drafter_model(small->forward, small->states, context, out, err);
    case FN_DRAFT_LOOKUP:
        return fn_drafter_lookup(out, err);
    case FN_DRAFT_OFF:
    case FN_DRAFT_AUTO:
        break;
    }
    return FN_OK;
}

fn_status fn_draft_make(const fn_engine *e, fn_forward *forward, fn_state *state, size_t most,
                        size_t context, fn_drafter **out, fn_error *err) {
    *out = NULL;
    if (most == 0) {
        return FN_OK;
    }
    fn_status status = fn_state_reserve_kept(state, most + 1, err);
    return status == FN_OK ? make_drafter(&e->draft, forward, context, out, err) : status;
}

fn_status fn_session_make_drafter(fn_session *session, fn_error *err) {
    const fn_engine *e = session->engine;
    fn_draft_pace_init(&session->pace, e->draft.most, e->draft.fixed);
    return fn_draft_make(e, e->forward, session->state, e->draft.most, e->context,
                         &session->drafter, err);
}

fn_status fn_draft_propose(const fn_engine *e, fn_draft_request *requests, size_t n, float *logits,
                           fn_error *err) {
    fn_engine *small = e->draft.model;
    if (small != NULL) {
        pthread_mutex_lock(&small->mutex);
    }
    fn_status status = fn_drafters_propose(requests, n, logits, err);
    if (small != NULL) {
        pthread_mutex_unlock(&small->mutex);
    }
    return status;
}

/* ---- a pass ---- */

fn_status fn_draft_guess(void *ud, const float *logits, size_t position, int32_t *id,
                         fn_error *err) {
    return fn_stepper_guess(ud, logits, position, id, err);
}

/* Guesses behind the id at the session's end, which is the answer's already, into its ids. */
static fn_status guess(fn_draft_run *run, size_t *wanted, size_t *made, fn_error *err) {
    fn_session *s = run->session;
    const fn_engine *e = s->engine;
    size_t length = fn_session_length(s);
    size_t room = e->context - length - 1;
    size_t left = fn_stepper_more(run->stepper) ? fn_stepper_left(run->stepper) : 0;
    size_t rows = fn_forward_max_rows(e->forward) - 1;
    size_t n = s->drafter != NULL ? fn_draft_pace_choose(&s->pace) : 0;
    n = n < room ? n : room;
    n = n < left ? n : left;
    n = n < rows ? n : rows;
    *wanted = length > 0 ? n : 0;
    *made = 0;
    if (*wanted == 0) {
        return FN_OK;
    }
    fn_draft_request request = {.drafter = s->drafter,
                                .state = s->state,
                                .ids = s->ids,
                                .n = length + 1,
                                .wanted = *wanted,
                                .least = e->draft.least,
                                .pick = fn_draft_guess,
                                .ud = run->stepper,
                                .out = s->ids + length + 1};
    fn_status status = fn_draft_propose(e, &request, 1, s->rows, err);
    fn_stepper_forget(run->stepper);
    *made = request.made;
    return status;
}

static fn_status forward(fn_session *s, size_t n, fn_error *err) {
    static const uint8_t wants[FN_MAX_DRAFTS + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    fn_segment segment = {.state = s->state,
                          .ids = s->ids + fn_session_length(s),
                          .n = n,
                          .wants = wants,
                          .keep_rows = n > 1};
    return fn_forward_run(s->engine->forward, &segment, 1, s->rows, NULL, err);
}

/* Guess and forward, one after the other under the engine's mutex. */
static fn_status run_rows(fn_draft_run *run, fn_draft_outcome *pass, fn_error *err) {
    fn_session *s = run->session;
    pthread_mutex_lock(&s->engine->mutex);
    double begin = fn_clock_seconds();
    fn_status status = guess(run, &pass->wanted, &pass->made, err);
    double guessed = fn_clock_seconds();
    status = status == FN_OK ? forward(s, 1 + pass->made, err) : status;
    pthread_mutex_unlock(&s->engine->mutex);
    pass->guess_seconds = guessed - begin;
    pass->forward_seconds = fn_clock_seconds() - guessed;
    return status;
}

void fn_draft_count(fn_drafting *c, const fn_draft_outcome *pass) {
    c->passes++;
    c->drafted += pass->made;
    c->accepted += pass->held;
    for (size_t i = 0; i < pass->made; i++) {
        c->drafted_at[i]++;
        c->accepted_at[i] += i < pass->held;
    }
    c->guess_seconds += pass->guess_seconds;
    c->forward_seconds += pass->forward_seconds;
}

fn_status fn_draft_pass(fn_draft_run *run, int32_t *id, fn_error *err) {
    fn_session *s = run->session;
    size_t length = fn_session_length(s);
    fn_draft_outcome pass = {0};
    s->ids[length] = *id;
    s->logits_ready = false;
    fn_status status = fn_stepper_accept(run->stepper, err);
    status = status == FN_OK ? run_rows(run, &pass, err) : status;
    if (status != FN_OK) {
        return status;
    }
    while (status == FN_OK && fn_stepper_more(run->stepper)) {
        const float *logits = s->rows + pass.held * s->engine->shape.vocab;
        status = fn_stepper_choose(run->stepper, logits, length + pass.held + 1, id, err);
        if (status != FN_OK || pass.held == pass.made || *id != s->ids[length + pass.held + 1]) {
            break;
        }
        pass.held++;
        status = fn_stepper_accept(run->stepper, err);
    }
    fn_draft_count(&run->counts, &pass);
    fn_draft_pace_note(&s->pace, &pass);
    run->counts.plain_seconds = s->pace.verify[0];
    if (pass.made > 0) {
        fn_error ignored = {0};
        fn_status back = fn_state_roll_back(s->state, pass.held + 1, &ignored);
        status = status == FN_OK && back != FN_OK ? fn_fail(err, back, "%s", ignored.text) : status;
    }
    s->logits = s->rows + pass.held * s->engine->shape.vocab;
    s->logits_ready = true;
    return status;
}
