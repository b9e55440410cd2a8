/* One answer from its start to its end: where it keeps states, what it does with a chosen id. */
#include <string.h>

#include "base/mem.h"
#include "engine/scheduler.h"

/* A state this close behind a kept one is not kept itself. */
#define KEEP_GAP 16

static size_t room_of(const fn_request *r) {
    return r->options.n_ids + r->limit;
}

uint64_t fn_sequence_bytes(const fn_engine *e, const fn_request *r, size_t drafts) {
    size_t tokens = room_of(r);
    uint64_t shared = r->options.n_answers > 1 ? e->layout.recurrent_bytes : 0;
    return fn_state_recurrent_bytes(&e->layout) + fn_state_paged_bytes(&e->layout, tokens) +
           tokens * sizeof(int32_t) + fn_stepper_bytes(e->shape.vocab) +
           e->shape.vocab * sizeof(float) + shared + fn_draft_bytes(&e->shape, &e->layout, drafts);
}

size_t fn_sequence_drafts(const fn_engine *e, const fn_request *r, uint64_t bytes) {
    size_t drafts = e->draft.most;
    while (drafts > 0 && fn_sequence_bytes(e, r, drafts) > bytes) {
        drafts--;
    }
    return drafts;
}

/* ---- start ---- */

static fn_status make_parts(const fn_scheduler *s, fn_sequence *q, fn_error *err) {
    const fn_engine *e = s->engine;
    const fn_request *r = q->request;
    fn_stepper_options options = {.text = e->text,
                                  .vocab = e->shape.vocab,
                                  .generation = &r->options.generation,
                                  .answer = q->answer,
                                  .room = r->limit,
                                  .prompt = r->options.ids,
                                  .n_prompt = r->options.n_ids};
    q->ids = fn_alloc(room_of(r), sizeof *q->ids);
    if (q->ids == NULL) {
        return fn_fail_nomem(err, "a request's ids", room_of(r) * sizeof *q->ids);
    }
    memcpy(q->ids, r->options.ids, r->options.n_ids * sizeof *q->ids);
    q->n_ids = r->options.n_ids;
    fn_status status = fn_state_create(e->states, room_of(r), &q->state, err);
    q->odds = s->odds;
    q->drafting.drafter = fn_draft_name(&e->draft);
    if (status == FN_OK && q->most_drafts > 0) {
        status =
            fn_draft_make(e, s->forward, q->state, q->most_drafts, room_of(r), &q->drafter, err);
    }
    return status == FN_OK ? fn_stepper_create(&options, &q->stepper, err) : status;
}

static void free_parts(fn_sequence *q) {
    fn_drafter_destroy(q->drafter);
    fn_state_destroy(q->state);
    fn_stepper_destroy(q->stepper);
    fn_free(q->ids);
    *q = (fn_sequence){0};
}

/* What is known of the prompt already: all of it from the first answer, or what the cache has. Nothing
 * happens while that is being fetched. */
static fn_status take_beginning(fn_scheduler *s, fn_sequence *q, fn_error *err) {
    const fn_request_options *o = &q->request->options;
    const fn_state *known = q->request->prompt_state;
    if (known == NULL && s->cache != NULL && !o->no_cache && !o->prompt_logprobs) {
        known = fn_prefix_cache_find(s->cache, o->ids, o->n_ids, &q->wait);
    }
    if (q->wait.waiting) {
        return FN_OK;
    }
    fn_status status = known != NULL ? fn_state_assign(q->state, known, err) : FN_OK;
    q->kept = fn_state_length(q->state);
    while (q->next_mark < o->n_marks && o->marks[q->next_mark] <= q->kept) {
        q->next_mark++;
    }
    return status;
}

/* Its beginning is there: the prompt is read from there on. */
static void begin(fn_sequence *q) {
    fn_request *r = q->request;
    q->phase = FN_SEQUENCE_PROMPT;
    if (q->answer == 0) {
        r->result.n_cached = q->kept;
        fn_request_tell_prompt(r, q->kept, q->kept);
        if (r->options.prompt_logprobs) {
            fn_request_tell_prompt_id(r, 0, 0, NULL, 0);
        }
    }
}

fn_status fn_sequence_start(fn_scheduler *s, fn_request *r, fn_error *err) {
    fn_sequence *q = s->sequences;
    while (q->request != NULL) {
        q++;
    }
    size_t drafts = fn_sequence_drafts(s->engine, r, s->state_limit - s->reserved_bytes);
    *q = (fn_sequence){.request = r,
                       .answer = r->n_started,
                       .most_drafts = drafts,
                       .bytes = fn_sequence_bytes(s->engine, r, drafts)};
    fn_status status = make_parts(s, q, err);
    status = status == FN_OK ? take_beginning(s, q, err) : status;
    if (status != FN_OK) {
        free_parts(q);
        return status;
    }
    r->n_sequences++;
    r->n_open++;
    s->n_running++;
    s->reserved_bytes += q->bytes;
    if (r->n_started++ == 0) {
        r->result.n_prompt = r->options.n_ids;
        r->result.started = fn_request_seconds(r);
    }
    if (!q->wait.waiting) {
        begin(q);
    }
    return FN_OK;
}

void fn_sequence_try_begin(fn_scheduler *s, fn_sequence *q) {
    if (take_beginning(s, q, &q->error) != FN_OK) {
        fn_sequence_end(s, q, &q->error);
    } else if (!q->wait.waiting) {
        begin(q);
    }
}

/* ---- the prompt ---- */

static bool caches(const fn_scheduler *s, const fn_sequence *q) {
    return s->cache != NULL && !q->request->options.no_cache;
}

size_t fn_sequence_until_cut(const fn_scheduler *s, const fn_sequence *q) {
    const fn_request_options *o = &q->request->options;
    size_t at = fn_state_length(q->state);
    size_t cut = o->n_ids;
    if (q->next_mark < o->n_marks) {
        cut = o->marks[q->next_mark];
    }
    if (caches(s, q) && cut - q->kept > s->cache_spacing) {
        size_t next = q->kept + s->cache_spacing;
        cut = next > at ? next : cut;
    }
    return cut - at;
}

static void keep(fn_scheduler *s, fn_sequence *q, bool lasting) {
    /* Without memory for it the state is not kept, and the answer is the same. */
    if (caches(s, q) && fn_prefix_cache_add(s->cache, q->ids, q->state, lasting, NULL) == FN_OK) {
        q->kept = fn_state_length(q->state);
    }
}

/* Where nothing that is kept is near. */
static void keep_if_far(fn_scheduler *s, fn_sequence *q, bool lasting) {
    size_t at = fn_state_length(q->state);
    if (at > 0 && (q->kept == 0 || at - q->kept >= KEEP_GAP)) {
        keep(s, q, lasting);
    }
}

/* The prompt is read: its state for further answers, and for whoever asks the same again. */
static void prompt_is_read(fn_scheduler *s, fn_sequence *q) {
    fn_request *r = q->request;
    if (q->answer > 0) {
        return;
    }
    keep_if_far(s, q, true);
    r->result.prompt = fn_request_seconds(r);
    if (r->options.n_answers > 1 && q->status == FN_OK) {
        q->status = fn_state_clone(q->state, &r->prompt_state, &q->error);
    }
}

void fn_sequence_prompt_read(fn_scheduler *s, fn_sequence *q) {
    fn_request *r = q->request;
    const fn_request_options *o = &r->options;
    size_t at = fn_state_length(q->state);
    if (q->next_mark < o->n_marks && o->marks[q->next_mark] == at) {
        q->next_mark++;
        keep(s, q, true);
    } else if (caches(s, q) && at - q->kept >= s->cache_spacing) {
        keep(s, q, false);
    }
    if (q->rows > 0) {
        fn_request_tell_prompt(r, at, r->result.n_cached);
    }
    if (at == o->n_ids) {
        prompt_is_read(s, q);
    }
}

/* ---- the answer ---- */

/* The answer is complete: told, and its state kept where the conversation may go on from it. */
static void complete(fn_scheduler *s, fn_sequence *q) {
    fn_request *r = q->request;
    if (fn_stepper_finish(q->stepper, &q->error) != FN_OK) {
        fn_sequence_end(s, q, &q->error);
        return;
    }
    fn_generated generated = fn_stepper_result(q->stepper);
    generated.drafting = q->drafting;
    generated.first_seconds = q->first;
    generated.seconds = fn_request_seconds(r);
    r->n_ended++;
    r->n_open--;
    r->result.n_thinking += generated.n_thinking_ids;
    q->told = true;
    s->ended[generated.finish]++;
    fn_request_tell_answer(r, q->answer, &generated);
    bool reads_last = q->n_ids > fn_state_length(q->state);
    if (caches(s, q) && reads_last && generated.finish != FN_FINISH_CANCELLED) {
        q->phase = FN_SEQUENCE_CLOSING;
    } else {
        fn_sequence_end(s, q, NULL);
    }
}

/* What the pass's guesses were worth, told and learnt. */
static void count_pass(fn_scheduler *s, fn_sequence *q, size_t held) {
    fn_draft_outcome pass = {.wanted = q->wanted,
                             .made = q->drafted,
                             .held = held,
                             .guess_seconds = s->guess_seconds,
                             .forward_seconds = s->forward_seconds};
    if (q->rows > 0) {
        fn_draft_count(&q->drafting, &pass);
        fn_draft_count(&s->drafting, &pass);
        fn_draft_odds_note(&q->odds, &pass);
        fn_draft_odds_note(&s->odds, &pass);
        q->drafting.plain_seconds = fn_row_times_of(&s->pace.alone, s->answers);
    }
    q->request->result.n_drafted += pass.made;
    q->request->result.n_accepted += held;
}

/* The id chosen from the first row; and as long as what is chosen is what was guessed, the next row's. */
static fn_status take_chosen(fn_scheduler *s, fn_sequence *q) {
    size_t held = 0;
    size_t drafted = q->drafted;
    fn_status status = FN_OK;
    for (bool more = true; more && status == FN_OK;) {
        bool hit = held < drafted && q->next == q->ids[q->n_ids];
        q->ids[q->n_ids++] = q->next;
        q->request->result.n_generated++;
        s->generated_ids++;
        status = fn_stepper_accept(q->stepper, &q->error);
        more = hit && fn_stepper_more(q->stepper);
        if (more && status == FN_OK) {
            held++;
            status = fn_stepper_choose(q->stepper, q->logits + held * s->engine->shape.vocab,
                                       q->n_ids, &q->next, &q->error);
        }
    }
    count_pass(s, q, held);
    q->drafted = 0;
    if (drafted > 0 && status == FN_OK) {
        status = fn_state_roll_back(q->state, held + 1, &q->error);
    }
    return status;
}

void fn_sequence_accept(fn_scheduler *s, fn_sequence *q) {
    if (q->status != FN_OK) {
        fn_sequence_end(s, q, &q->error);
        return;
    }
    if (q->wants) {
        double now = fn_request_seconds(q->request);
        q->first = q->first > 0 ? q->first : now;
        q->request->result.first = q->request->result.first > 0 ? q->request->result.first : now;
        q->phase = FN_SEQUENCE_ANSWER;
        if (take_chosen(s, q) != FN_OK) {
            fn_sequence_end(s, q, &q->error);
            return;
        }
    }
    if (!fn_stepper_more(q->stepper)) {
        complete(s, q);
    }
}

/* ---- end ---- */

void fn_sequence_end(fn_scheduler *s, fn_sequence *q, const fn_error *failure) {
    fn_request *r = q->request;
    if (failure != NULL && r->error.code == FN_OK) {
        r->error = *failure;
        atomic_store(&r->cancelled, true); /* its other answers end, too */
    }
    if (!q->told) {
        r->n_open--;
        r->result.n_thinking += fn_stepper_result(q->stepper).n_thinking_ids;
    }
    if (q->phase == FN_SEQUENCE_CLOSING) {
        keep(s, q, true);
    } else {
        keep_if_far(s, q, false);
    }
    s->reserved_bytes -= q->bytes;
    s->n_running--;
    r->n_sequences--;
    free_parts(q);
}
