/* One forward over everything that runs: the answers' rows and as much of the prompts as the pace allows,
 * then a choice for each row that wants one. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/scheduler.h"
#include "sampling/logprobs.h"

/* ---- what goes in ---- */

static void add(fn_scheduler *s, fn_sequence *q, size_t n, size_t first_row) {
    size_t at = fn_state_length(q->state);
    bool ends_prompt = q->phase == FN_SEQUENCE_PROMPT && at + n == q->request->options.n_ids;
    q->rows = n + q->drafted;
    q->wants = fn_stepper_more(q->stepper) && (q->phase == FN_SEQUENCE_ANSWER || ends_prompt);
    memset(s->wants + first_row + n - 1, q->wants, 1 + q->drafted);
    s->segments[s->n_batch] = (fn_segment){.state = q->state,
                                           .ids = q->ids + at,
                                           .n = q->rows,
                                           .wants = s->wants + first_row,
                                           .keep_rows = q->drafted > 0};
    s->in_batch[s->n_batch++] = q;
}

static bool reads_prompt(const fn_sequence *q) {
    return q->request != NULL && q->phase == FN_SEQUENCE_PROMPT;
}

static bool answers(const fn_sequence *q) {
    return q->request != NULL &&
           (q->phase == FN_SEQUENCE_ANSWER || q->phase == FN_SEQUENCE_CLOSING);
}

/* Shares out room among the prompts, beginning with another one each time; what one leaves, the next takes. */
static size_t add_prompts(fn_scheduler *s, size_t room, size_t n_prompts, size_t first_row) {
    size_t taken = 0;
    for (size_t i = 0; i < s->max_running && room > taken; i++) {
        fn_sequence *q = &s->sequences[(s->turn + i) % s->max_running];
        if (!reads_prompt(q)) {
            continue;
        }
        size_t share = (room - taken + n_prompts - 1) / n_prompts;
        size_t cut = fn_sequence_until_cut(s, q);
        size_t n = share < cut ? share : cut;
        add(s, q, n, first_row + taken);
        taken += n;
        n_prompts--;
    }
    s->turn = (s->turn + 1) % s->max_running;
    return taken;
}

typedef struct load {
    size_t answers, prompts; /* sequences */
    size_t prompt_ids, drafted;
} load;

static load take_stock(fn_scheduler *s) {
    load l = {0};
    for (size_t i = 0; i < s->max_running; i++) {
        fn_sequence *q = &s->sequences[i];
        q->rows = 0;
        q->drafted = 0;
        q->wants = false;
        l.prompts += reads_prompt(q);
        l.answers += answers(q);
    }
    return l;
}

/* Under the engine's mutex: guessing computes. */
static load plan(fn_scheduler *s) {
    load l = take_stock(s);
    size_t row = 0;
    s->n_batch = 0;
    s->answers = l.answers;
    memset(s->wants, 0, s->engine->chunk);
    fn_batch_guess(s, l.answers, l.prompts > 0);
    for (size_t i = 0; i < s->max_running; i++) {
        fn_sequence *q = &s->sequences[i];
        if (answers(q)) {
            add(s, q, 1, row);
            row += q->rows;
            l.drafted += q->drafted;
        }
    }
    if (l.prompts > 0) {
        size_t room = fn_pace_chunk(&s->pace, l.answers, s->engine->chunk - row);
        l.prompt_ids = add_prompts(s, room, l.prompts, row);
    }
    return l;
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
        if (reads_prompt(q) && q->answer == 0 && q->request->options.prompt_logprobs) {
            score_prompt(s, q, row, fn_state_length(q->state) - q->rows);
        }
        row += q->rows;
    }
}

/* ---- running ---- */

/* A forward goes on while somebody still wants something of it. */
static bool go_on(void *ud) {
    const fn_scheduler *s = ud;
    bool wanted = false;
    for (size_t i = 0; i < s->n_batch && !wanted; i++) {
        wanted = !atomic_load(&s->in_batch[i]->request->cancelled);
    }
    return wanted && !atomic_load(&s->stop);
}

static fn_status run(fn_scheduler *s, fn_error *err) {
    fn_engine *e = s->engine;
    double begin = fn_clock_seconds();
    fn_forward_watch(e->forward, go_on, s);
    fn_status status = fn_forward_run(e->forward, s->segments, s->n_batch, s->logits, NULL, err);
    fn_forward_watch(e->forward, NULL, NULL);
    const float *logits = s->logits;
    for (size_t i = 0; i < s->n_batch; i++) {
        s->in_batch[i]->logits = logits;
        logits += s->in_batch[i]->wants ? (1 + s->in_batch[i]->drafted) * e->shape.vocab : 0;
    }
    s->logits_used = (size_t)(logits - s->logits) / e->shape.vocab;
    s->forward_seconds = fn_clock_seconds() - begin;
    if (status == FN_OK) {
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
        if (reads_prompt(q) && fn_state_length(q->state) == q->request->options.n_ids) {
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

bool fn_batch_run(fn_scheduler *s) {
    bool chosen = choose_from_all_kept(s);
    fn_error error = {0};
    fn_status status = FN_OK;
    pthread_mutex_lock(&s->engine->mutex);
    double begin = fn_clock_seconds();
    load l = plan(s);
    if (s->n_batch > 0) {
        status = run(s, &error);
    }
    pthread_mutex_unlock(&s->engine->mutex);
    if (s->n_batch == 0 || status == FN_E_CANCELLED) {
        return chosen || s->n_batch > 0; /* who cancelled leaves next */
    }
    size_t held = s->drafting.accepted;
    for (size_t i = 0; i < s->n_batch; i++) {
        if (status == FN_OK) {
            take_outcome(s, s->in_batch[i]);
        } else {
            fn_sequence_end(s, s->in_batch[i], &error);
        }
    }
    double seconds = fn_clock_seconds() - begin;
    if (status == FN_OK) {
        size_t rows = l.answers + l.drafted;
        fn_pace_learn(&s->pace, rows, l.prompt_ids, seconds - s->guess_seconds);
    }
    if (l.prompts == 0) {
        count_gain(s, &l, s->drafting.accepted - held, seconds);
    }
    s->forwards++;
    s->rows += l.answers + l.drafted + l.prompt_ids;
    s->prompt_ids += l.prompt_ids;
    s->busy_seconds += seconds;
    return true;
}
