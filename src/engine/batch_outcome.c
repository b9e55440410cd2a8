/* What comes of a forward that was read: a choice for each row that wants one, log-probabilities of prompts, and for each
 * sequence what its phase makes of them. */
#include "engine/scheduler.h"
#include "sampling/logprobs.h"

/* Rows are independent: each thread takes some. */
static void choose_share(void *ctx, const fn_turn *turn) {
    fn_scheduler *s = ctx;
    size_t begin = 0;
    size_t end = 0;
    fn_turn_share(turn, s->n_batch, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        fn_sequence *q = s->in_batch[i];
        q->status = FN_OK;
        if (q->wants) {
            q->error = (fn_error){0};
            q->status = fn_stepper_choose(q->stepper, q->logits, q->n_ids, &q->next, &q->error);
        }
    }
}

void fn_batch_choose_ids(fn_scheduler *s) {
    if (s->n_batch > 1) {
        fn_pool_run(s->pool, choose_share, s);
    } else {
        choose_share(s, &(fn_turn){.shares = 1});
    }
}

/* ---- log-probabilities of the prompt ---- */

typedef struct prompt_rows {
    fn_scheduler *s;
    fn_sequence *q;
    size_t at, n; /* rows [at, at + n) of its prompt, whose logits are there */
} prompt_rows;

static void score_share(void *ctx, const fn_turn *turn) {
    const prompt_rows *p = ctx;
    const fn_request_options *o = &p->q->request->options;
    size_t vocab = p->s->engine->shape.vocab;
    size_t n_top = o->generation.n_logprobs;
    size_t begin = 0;
    size_t end = 0;
    fn_turn_share(turn, p->n, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        const float *logits = p->s->score_logits + i * vocab;
        fn_status status = fn_logprobs(logits, vocab, o->ids[p->at + i + 1], &p->s->logprob[i],
                                       p->s->top + i * n_top, n_top, NULL);
        p->s->logprob_status[i] = status;
    }
}

static void score_prompt(fn_scheduler *s, fn_forward *forward, fn_sequence *q, size_t first_row) {
    fn_request *r = q->request;
    size_t at = fn_state_length(q->state) - q->rows;
    size_t n_top = r->options.generation.n_logprobs;
    size_t left = q->rows - (at + q->rows == r->options.n_ids); /* the last row's is the answer */
    for (size_t done = 0; done < left;) {
        size_t n = left - done < s->max_running ? left - done : s->max_running;
        prompt_rows rows = {.s = s, .q = q, .at = at + done, .n = n};
        fn_forward_logits(forward, first_row + done, n, s->score_logits);
        fn_pool_run(s->pool, score_share, &rows);
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

static void score_prompts(fn_scheduler *s, fn_forward *forward) {
    size_t row = 0;
    for (size_t i = 0; i < s->n_batch; i++) {
        fn_sequence *q = s->in_batch[i];
        if (q->request != NULL && q->phase == FN_SEQUENCE_PROMPT && q->answer == 0 &&
            q->request->options.prompt_logprobs) {
            score_prompt(s, forward, q, row);
        }
        row += q->rows;
    }
}

/* ---- outcomes ---- */

void fn_batch_read_out(fn_scheduler *s, fn_forward *forward, const float *logits) {
    for (size_t i = 0; i < s->n_batch; i++) {
        fn_sequence *q = s->in_batch[i];
        q->logits = logits;
        logits += q->wants ? (1 + q->drafted) * s->engine->shape.vocab : 0;
    }
    fn_batch_choose_ids(s);
    score_prompts(s, forward);
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

void fn_batch_take_outcomes(fn_scheduler *s, fn_status status, const fn_error *error) {
    for (size_t i = 0; i < s->n_batch && status != FN_E_CANCELLED; i++) {
        if (status == FN_OK) {
            take_outcome(s, s->in_batch[i]);
        } else {
            fn_sequence_end(s, s->in_batch[i], error);
        }
    }
}
