/* One forward over everything that runs: the answers' rows and as much of the prompts as the pace allows,
 * then a choice for each row that wants one. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/scheduler.h"
#include "sampling/logprobs.h"

/* ---- what goes in ---- */

typedef struct load {
    size_t answers, prompts; /* sequences */
    size_t riding;           /* prompts that are read as a whole, and ... */
    size_t ids, drafted;     /* ... their ids; the answers' guesses */
} load;

static bool answers(const fn_sequence *q) {
    return q->request != NULL &&
           (q->phase == FN_SEQUENCE_ANSWER || q->phase == FN_SEQUENCE_CLOSING);
}

static load take_stock(fn_scheduler *s) {
    load l = {0};
    for (size_t i = 0; i < s->max_running; i++) {
        fn_sequence *q = &s->sequences[i];
        if (!q->in_chunk) {
            q->rows = 0;
            q->drafted = 0;
            q->wants = false;
        }
        l.prompts += q->in_chunk || fn_batch_reads_prompt(q);
        l.answers += answers(q);
    }
    return l;
}

static size_t add(fn_scheduler *s, fn_sequence *q, size_t n, size_t row) {
    fn_batch_add(q, n, s->wants + row, &s->segments[s->n_batch]);
    s->in_batch[s->n_batch++] = q;
    return q->rows;
}

/* A short prompt need not wait until the chunk is read: it goes along as the answers do, and the chunk waits. Not
 * twice running. */
static void add_riding(fn_scheduler *s, load *l, size_t row) {
    bool may = s->n_chunk > 0 && !s->rode && l->prompts > s->n_chunk;
    size_t room = fn_forward_room(s->engine->forward) - row;
    room = may ? fn_pace_ride(&s->pace, row, room) : 0;
    for (size_t i = 0; i < s->max_running && room > 0; i++) {
        fn_sequence *q = &s->sequences[i];
        size_t n = fn_batch_reads_prompt(q) ? fn_sequence_until_cut(s, q) : 0;
        if (n > 0 && n <= room) {
            row += add(s, q, n, row);
            room -= n;
            l->riding++;
            l->ids += n;
        }
    }
    s->rode = l->riding > 0;
}

/* Under the engine's mutex: guessing computes. */
static fn_status plan(fn_scheduler *s, load *l, fn_error *err) {
    size_t row = 0;
    fn_batch_guess(s, l->answers, l->prompts > 0);
    for (size_t i = 0; i < s->max_running; i++) {
        fn_sequence *q = &s->sequences[i];
        if (answers(q)) {
            row += add(s, q, 1, row);
            l->drafted += q->drafted;
        }
    }
    add_riding(s, l, row);
    fn_status status = fn_batch_chunk_begin(s, l->answers, row, err);
    fn_pace_join(&s->pace, row, s->chunk_rows);
    return status;
}

/* ---- choosing ---- */

/* Rows are independent: each thread takes some. */
static void choose_share(void *ctx, size_t thread, size_t n_threads) {
    fn_scheduler *s = ctx;
    size_t begin = 0;
    size_t end = 0;
    fn_share(s->n_batch, thread, n_threads, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        fn_sequence *q = s->in_batch[i];
        q->status = FN_OK;
        if (q->wants) {
            q->error = (fn_error){0};
            q->status = fn_stepper_choose(q->stepper, q->logits, q->n_ids, &q->next, &q->error);
        }
    }
}

static void choose(fn_scheduler *s) {
    if (s->n_batch > 1) {
        fn_pool_run(s->engine->pool, choose_share, s);
    } else {
        choose_share(s, 0, 1);
    }
}

/* ---- log-probabilities of the prompt ---- */

typedef struct prompt_rows {
    fn_scheduler *s;
    fn_sequence *q;
    size_t at, n; /* rows [at, at + n) of its prompt, whose logits are there */
} prompt_rows;

static void score_share(void *ctx, size_t thread, size_t n_threads) {
    const prompt_rows *p = ctx;
    const fn_request_options *o = &p->q->request->options;
    size_t vocab = p->s->engine->shape.vocab;
    size_t n_top = o->generation.n_logprobs;
    size_t begin = 0;
    size_t end = 0;
    fn_share(p->n, thread, n_threads, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        const float *logits = p->s->logits + (p->s->logits_used + i) * vocab;
        fn_status status = fn_logprobs(logits, vocab, o->ids[p->at + i + 1], &p->s->logprob[i],
                                       p->s->top + i * n_top, n_top, NULL);
        p->s->logprob_status[i] = status;
    }
}

static void score_prompt(fn_scheduler *s, fn_sequence *q, size_t first_row, size_t at) {
    fn_request *r = q->request;
    size_t n_top = r->options.generation.n_logprobs;
    size_t left = q->rows - (at + q->rows == r->options.n_ids); /* the last row's is the answer */
    for (size_t done = 0; done < left;) {
        size_t n = left - done < s->max_running ? left - done : s->max_running;
        float *logits = s->logits + s->logits_used * s->engine->shape.vocab;
        prompt_rows rows = {.s = s, .q = q, .at = at + done, .n = n};
        fn_forward_logits(s->engine->forward, first_row + done, n, logits);
        fn_pool_run(s->engine->pool, score_share, &rows);
        for (size_t i = 0; i < n; i++) {
            if (s->logprob_status[i] != FN_OK) {
                q->status = fn_fail(&q->error, s->logprob_status[i],
                                    "the logits after prompt id %zu are not finite", at + done + i);
                return;
            }
            fn_request_tell_prompt_id(r, at + done + i + 1, s->logprob[i], s->top + i * n_top,
                                      n_top);
        }
        done += n;
    }
}

static void score_prompts(fn_scheduler *s) {
    size_t row = 0;
    for (size_t i = 0; i < s->n_batch; i++) {
        fn_sequence *q = s->in_batch[i];
        if (q->request != NULL && q->phase == FN_SEQUENCE_PROMPT && q->answer == 0 &&
            q->request->options.prompt_logprobs) {
            score_prompt(s, q, row, fn_state_length(q->state) - q->rows);
        }
        row += q->rows;
    }
}

/* ---- running ---- */

/* A forward goes on while somebody still wants something of it; what closes an answer is wanted by whoever asks on. */
static bool go_on(void *ud) {
    fn_scheduler *s = ud;
    fn_pace_mark(&s->pace, fn_clock_seconds());
    bool wanted = fn_batch_chunk_wanted(s);
    for (size_t i = 0; i < s->n_batch && !wanted; i++) {
        const fn_sequence *q = s->in_batch[i];
        wanted = q->phase == FN_SEQUENCE_CLOSING || !atomic_load(&q->request->cancelled);
    }
    return wanted && !atomic_load(&s->stop);
}

static bool is_news(fn_scheduler *s) {
    pthread_mutex_lock(&s->mutex);
    bool news = s->news != s->seen;
    pthread_mutex_unlock(&s->mutex);
    return news;
}

/* Beside answers the pace decides; a chunk alone stops between two parts for whoever comes. */
static bool take(void *ud, size_t part) {
    fn_scheduler *s = ud;
    bool first = s->pace.taken == 0;
    bool goes = !s->rode && fn_pace_take(&s->pace, part, fn_clock_seconds());
    return goes && (first || s->answers > 0 || !is_news(s));
}

static void assign_logits(fn_scheduler *s) {
    size_t vocab = s->engine->shape.vocab;
    const float *logits = s->logits;
    for (size_t i = 0; i < s->n_batch; i++) {
        s->in_batch[i]->logits = logits;
        logits += s->in_batch[i]->wants ? (1 + s->in_batch[i]->drafted) * vocab : 0;
    }
    s->logits_used = (size_t)(logits - s->logits) / vocab;
}

/* Whose prompts it was of get what they wanted, behind those of the forward. */
static void add_chunk(fn_scheduler *s) {
    for (size_t i = 0; i < s->n_chunk; i++) {
        s->in_batch[s->n_batch++] = s->chunk[i];
    }
    fn_batch_chunk_forget(s);
}

static fn_status run(fn_scheduler *s, fn_error *err) {
    fn_engine *e = s->engine;
    fn_carry carry = {take, s};
    double begin = fn_clock_seconds();
    fn_forward_watch(e->forward, go_on, s);
    fn_status status =
        fn_forward_run_beside(e->forward, s->segments, s->n_batch, &carry, s->logits, err);
    fn_forward_watch(e->forward, NULL, NULL);
    if (!fn_forward_holds(e->forward)) {
        add_chunk(s);
    }
    s->forward_seconds = fn_clock_seconds() - begin;
    if (status == FN_OK) {
        assign_logits(s);
        choose(s);
        score_prompts(s);
    }
    return status;
}

/* A prompt that was kept whole: its first choice needs no forward. */
static void choose_from_kept(fn_scheduler *s, fn_sequence *q) {
    fn_engine *e = s->engine;
    q->rows = 0;
    q->wanted = 0;
    q->drafted = 0;
    q->wants = fn_stepper_more(q->stepper);
    q->logits = s->logits;
    s->in_batch[0] = q;
    s->n_batch = 1;
    if (q->wants) {
        pthread_mutex_lock(&e->mutex);
        fn_forward_head(e->forward, q->state, s->logits);
        pthread_mutex_unlock(&e->mutex);
    }
    choose_share(s, 0, 1);
    fn_sequence_prompt_read(s, q);
    fn_sequence_accept(s, q);
}

static void take_outcome(fn_scheduler *s, fn_sequence *q) {
    switch (q->phase) {
    case FN_SEQUENCE_FETCH: /* is in no forward */
        break;
    case FN_SEQUENCE_PROMPT:
        fn_sequence_prompt_read(s, q);
        if (fn_state_length(q->state) == q->request->options.n_ids || q->status != FN_OK) {
            fn_sequence_accept(s, q);
        }
        break;
    case FN_SEQUENCE_ANSWER:
        fn_sequence_accept(s, q);
        break;
    case FN_SEQUENCE_CLOSING:
        fn_sequence_end(s, q, NULL);
        break;
    }
}

static bool choose_from_all_kept(fn_scheduler *s) {
    bool chosen = false;
    for (size_t i = 0; i < s->max_running; i++) {
        fn_sequence *q = &s->sequences[i];
        if (fn_batch_reads_prompt(q) && fn_state_length(q->state) == q->request->options.n_ids) {
            choose_from_kept(s, q);
            chosen = true;
        }
    }
    return chosen;
}

/* A forward without drafts is its own measure; one with drafts stands for as many as its rows that held. */
static void count_gain(fn_scheduler *s, const load *l, size_t held, double seconds) {
    double alone = fn_row_times_of(&s->pace.alone, l->answers);
    if (l->drafted == 0) {
        s->answer_seconds += seconds;
        s->plain_seconds += seconds - s->guess_seconds;
    } else if (alone > 0) {
        s->answer_seconds += seconds;
        s->plain_seconds += (double)(l->answers + held) / (double)l->answers * alone;
    }
}

static void take_outcomes(fn_scheduler *s, fn_status status, const fn_error *error) {
    for (size_t i = 0; i < s->n_batch; i++) {
        if (status == FN_OK) {
            take_outcome(s, s->in_batch[i]);
        } else {
            fn_sequence_end(s, s->in_batch[i], error);
        }
    }
}

/* read: ids of the chunk, if that was read. */
static void count(fn_scheduler *s, const load *l, size_t read, size_t held, double seconds) {
    size_t rows = l->answers + l->drafted;
    if (l->riding == 0) {
        fn_pace_end(&s->pace, rows, seconds - s->guess_seconds);
    }
    if (l->prompts == 0) {
        count_gain(s, l, held, seconds);
    }
    s->forwards++;
    s->rows += rows + l->ids + read;
    s->prompt_ids += l->ids + read;
}

/* Whether all went well: then the caller goes on. */
static bool finish(fn_scheduler *s, fn_status status, const fn_error *error) {
    if (status != FN_E_CANCELLED) { /* else who cancelled leaves next */
        take_outcomes(s, status, error);
    }
    return status == FN_OK;
}

/* What little is left of a chunk, before the forward of the answers (fn_pace_ends), if nobody waits for its logits. */
static bool read_rest(fn_scheduler *s, const load *l) {
    fn_engine *e = s->engine;
    fn_error error = {0};
    fn_status status = FN_OK;
    size_t rows = s->chunk_rows;
    if (s->n_chunk == 0 || l->answers == 0 || s->rode || fn_batch_chunk_wants(s)) {
        return true;
    }
    pthread_mutex_lock(&e->mutex);
    bool ends = fn_pace_ends(&s->pace, rows, fn_forward_held_part(e->forward));
    if (ends) {
        status = run(s, &error);
    }
    pthread_mutex_unlock(&e->mutex);
    if (!ends) {
        return true;
    }
    s->forwards++;
    s->rows += rows;
    s->prompt_ids += rows;
    return finish(s, status, &error);
}

bool fn_batch_run(fn_scheduler *s) {
    bool chosen = choose_from_all_kept(s);
    fn_error error = {0};
    double begin = fn_clock_seconds();
    load l = take_stock(s);
    s->n_batch = 0;
    s->answers = l.answers;
    fn_pace_begin(&s->pace, l.answers);
    if (!read_rest(s, &l)) {
        return true;
    }
    s->n_batch = 0;
    pthread_mutex_lock(&s->engine->mutex);
    fn_status status = plan(s, &l, &error);
    size_t chunk = s->n_chunk;
    if (status != FN_OK) { /* only the chunk's: the others have not run yet */
        s->n_batch = 0;
        add_chunk(s);
    } else if (s->n_batch > 0 || chunk > 0) {
        status = run(s, &error);
    }
    pthread_mutex_unlock(&s->engine->mutex);
    if (s->n_batch == 0 && chunk == 0) {
        return chosen;
    }
    double passed = fn_clock_seconds() - begin;
    size_t held = s->drafting.accepted;
    size_t read = chunk > 0 && s->n_chunk == 0 ? s->chunk_rows : 0;
    if (finish(s, status, &error)) {
        count(s, &l, read, s->drafting.accepted - held, passed);
    }
    s->busy_seconds += fn_clock_seconds() - begin;
    return true;
}
