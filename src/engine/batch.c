/* One forward over the answers that run, and short prompts; beside it the lane reads the others. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/scheduler.h"
#include "sampling/logprobs.h"

/* ---- what goes in ---- */

typedef struct load {
    size_t answers, prompts; /* sequences */
    size_t ids, drafted;     /* of prompts that ride; the answers' guesses */
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

/* A short prompt need not wait for a chunk's end. */
static void add_riding(fn_scheduler *s, load *l, size_t row) {
    size_t room = fn_pace_ride(&s->pace, row, s->n_chunk > 0, FN_RIDING_ROWS);
    for (size_t i = 0; i < s->max_running && room > 0; i++) {
        fn_sequence *q = &s->sequences[i];
        size_t n = fn_batch_reads_prompt(q) ? fn_sequence_until_cut(s, q) : 0;
        if (n > 0 && n <= room) {
            row += add(s, q, n, row);
            room -= n;
            l->ids += n;
        }
    }
}

static void plan(fn_scheduler *s, load *l) {
    size_t row = 0;
    s->n_batch = 0;
    fn_batch_guess(s, l->answers, l->prompts > 0);
    for (size_t i = 0; i < s->max_running; i++) {
        fn_sequence *q = &s->sequences[i];
        if (answers(q)) {
            row += add(s, q, 1, row);
            l->drafted += q->drafted;
        }
    }
    add_riding(s, l, row);
}

/* ---- running ---- */

/* A forward goes on while somebody still wants something of it; what closes an answer is wanted by whoever asks on. */
static bool go_on(void *ud) {
    const fn_scheduler *s = ud;
    bool wanted = false;
    for (size_t i = 0; i < s->n_batch && !wanted; i++) {
        const fn_sequence *q = s->in_batch[i];
        wanted = q->phase == FN_SEQUENCE_CLOSING || !atomic_load(&q->request->cancelled);
    }
    return wanted && !atomic_load(&s->stop);
}

/* The answers' forward is to have so many threads, and what the lane reads has the rest. */
static void divide(fn_scheduler *s, size_t threads) {
    if (s->n_chunk > 0) {
        fn_prompt_lane_limit(s->lane, fn_pool_threads(s->pool) - threads);
    }
    fn_pool_limit(s->pool, threads);
}

/* Beside a chunk the answers' forward has a part of the threads; all of them once, if it is not known what it takes so. */
static bool shares(const fn_scheduler *s, const load *l) {
    return s->n_chunk > 0 && (l->answers == 0 || fn_pace_knows(&s->pace));
}

static void divide_for(fn_scheduler *s, const load *l) {
    divide(s, shares(s, l) ? s->threads_beside : fn_pool_threads(s->pool));
}

/* Until the answers' next forward the lane has all threads. */
static void leave_all(fn_scheduler *s) {
    if (s->n_chunk > 0) {
        fn_prompt_lane_limit(s->lane, fn_pool_threads(s->pool));
    }
}

static fn_status run(fn_scheduler *s, fn_error *err) {
    double begin = fn_clock_seconds();
    fn_forward_watch(s->forward, go_on, s);
    fn_status status = fn_forward_run(s->forward, s->segments, s->n_batch, s->logits, NULL, err);
    fn_forward_watch(s->forward, NULL, NULL);
    s->forward_seconds = fn_clock_seconds() - begin;
    if (status == FN_OK) {
        fn_batch_read_out(s, s->forward, s->logits);
    }
    return status;
}

/* A prompt that was kept whole: its first choice needs no forward. */
static void choose_from_kept(fn_scheduler *s, fn_sequence *q) {
    q->rows = 0;
    q->wanted = 0;
    q->drafted = 0;
    q->wants = fn_stepper_more(q->stepper);
    q->logits = s->logits;
    s->in_batch[0] = q;
    s->n_batch = 1;
    if (q->wants) {
        fn_forward_head(s->forward, q->state, s->logits);
    }
    fn_batch_choose_ids(s);
    fn_sequence_prompt_read(s, q);
    fn_sequence_accept(s, q);
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

static void count(fn_scheduler *s, const load *l, bool beside, size_t held, double seconds) {
    size_t rows = l->answers + l->drafted;
    double computed = seconds - s->guess_seconds;
    if (l->answers > 0) {
        fn_pace_learn(&s->pace, rows + l->ids, l->ids, beside, computed);
    }
    if (l->prompts == 0) {
        count_gain(s, l, held, seconds);
    }
    s->forwards++;
    s->rows += rows + l->ids;
    s->prompt_ids += l->ids;
}

static void run_step(fn_scheduler *s, load *l) {
    fn_error error = {0};
    double begin = fn_clock_seconds();
    divide_for(s, l);
    plan(s, l);
    fn_batch_chunk_begin(s, l->answers);
    if (s->n_batch == 0) {
        leave_all(s);
        return;
    }
    divide_for(s, l);
    bool beside = shares(s, l);
    s->answers = l->answers;
    fn_status status = run(s, &error);
    double seconds = fn_clock_seconds() - begin;
    size_t held = s->drafting.accepted;
    fn_batch_take_outcomes(s, status, &error);
    if (status == FN_OK) {
        count(s, l, beside, s->drafting.accepted - held, seconds);
    }
    leave_all(s);
    s->next_step = begin + fn_pace_period(&s->pace, l->answers + l->drafted);
}

bool fn_batch_run(fn_scheduler *s) {
    double begin = fn_clock_seconds();
    s->busy_seconds += s->reads ? begin - s->left : 0;
    bool chosen = choose_from_all_kept(s);
    bool ended = fn_batch_chunk_end(s);
    load l = take_stock(s);
    bool due = s->n_chunk == 0 || l.answers == 0 || begin >= s->next_step;
    s->n_batch = 0;
    if (due) {
        run_step(s, &l);
    }
    bool ran = chosen || ended || s->n_batch > 0;
    s->waits = l.answers > 0;
    s->reads = s->n_chunk > 0;
    s->left = fn_clock_seconds();
    s->busy_seconds += ran || s->reads ? s->left - begin : 0;
    return ran;
}
