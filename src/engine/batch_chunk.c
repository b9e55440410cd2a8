/* The chunk of prompts that is on its way through the layers: who is in it, how large it is, and what becomes of it. */
#include <string.h>

#include "engine/scheduler.h"

bool fn_batch_reads_prompt(const fn_sequence *q) {
    return q->request != NULL && q->phase == FN_SEQUENCE_PROMPT && !q->in_chunk;
}

size_t fn_batch_chunk_room(const fn_scheduler *s) {
    size_t spare = s->engine->chunk - s->max_running;
    size_t guesses = s->engine->draft.most > 0 ? FN_GUESS_ROWS : 0;
    guesses = guesses < spare / 2 ? guesses : spare / 2;
    return spare - guesses;
}

void fn_batch_add(fn_sequence *q, size_t n, uint8_t *wants, fn_segment *out) {
    size_t at = fn_state_length(q->state);
    bool ends_prompt = q->phase == FN_SEQUENCE_PROMPT && at + n == q->request->options.n_ids;
    q->rows = n + q->drafted;
    q->wants = fn_stepper_more(q->stepper) && (q->phase == FN_SEQUENCE_ANSWER || ends_prompt);
    memset(wants, 0, n - 1);
    memset(wants + n - 1, q->wants, 1 + q->drafted);
    *out = (fn_segment){.state = q->state,
                        .ids = q->ids + at,
                        .n = q->rows,
                        .wants = wants,
                        .keep_rows = q->drafted > 0};
}

/* Shares out room among the prompts, beginning with another one each time; what one leaves, the next takes. */
static size_t choose_members(fn_scheduler *s, size_t n_prompts, size_t room) {
    size_t taken = 0;
    for (size_t i = 0; i < s->max_running && room > taken; i++) {
        fn_sequence *q = &s->sequences[(s->turn + i) % s->max_running];
        if (!fn_batch_reads_prompt(q)) {
            continue;
        }
        size_t share = (room - taken + n_prompts - 1) / n_prompts;
        size_t cut = fn_sequence_until_cut(s, q);
        size_t n = share < cut ? share : cut;
        fn_batch_add(q, n, s->chunk_wants + taken, &s->chunk_segments[s->n_chunk]);
        s->chunk[s->n_chunk++] = q;
        taken += n;
        n_prompts--;
    }
    s->turn = s->turn + 1 < s->max_running ? s->turn + 1 : 0;
    return taken;
}

static size_t count_prompts(const fn_scheduler *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->max_running; i++) {
        n += fn_batch_reads_prompt(&s->sequences[i]);
    }
    return n;
}

fn_status fn_batch_chunk_begin(fn_scheduler *s, size_t answers, size_t rows, fn_error *err) {
    size_t prompts = count_prompts(s);
    if (s->n_chunk > 0 || prompts == 0 || (answers > 0 && !fn_pace_knows(&s->pace, answers))) {
        return FN_OK;
    }
    size_t room = fn_pace_rows(&s->pace, rows, fn_batch_chunk_room(s));
    s->chunk_rows = choose_members(s, prompts, room);
    fn_status status = fn_forward_hold(s->engine->forward, s->chunk_segments, s->n_chunk, err);
    for (size_t i = 0; i < s->n_chunk; i++) {
        s->chunk[i]->in_chunk = true;
    }
    return status;
}

void fn_batch_chunk_forget(fn_scheduler *s) {
    for (size_t i = 0; i < s->n_chunk; i++) {
        s->chunk[i]->in_chunk = false;
    }
    s->n_chunk = 0;
}

bool fn_batch_chunk_wanted(const fn_scheduler *s) {
    for (size_t i = 0; i < s->n_chunk; i++) {
        if (!atomic_load(&s->chunk[i]->request->cancelled)) {
            return true;
        }
    }
    return false;
}

bool fn_batch_chunk_wants(const fn_scheduler *s) {
    for (size_t i = 0; i < s->n_chunk; i++) {
        if (s->chunk[i]->wants) {
            return true;
        }
    }
    return false;
}

void fn_batch_chunk_drop(fn_scheduler *s) {
    if (s->n_chunk > 0) {
        pthread_mutex_lock(&s->engine->mutex);
        fn_forward_drop(s->engine->forward);
        pthread_mutex_unlock(&s->engine->mutex);
        fn_batch_chunk_forget(s);
    }
}
