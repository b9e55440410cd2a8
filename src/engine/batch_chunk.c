/* The chunk of prompts that the lane reads: who is in it, how large it is, and what becomes of it. */
#include <string.h>

#include "engine/scheduler.h"

/* Every prompt in a chunk costs a reading of its recurrent state, however few its ids are: a share is this large. */
#define LEAST_SHARE 64

bool fn_batch_reads_prompt(const fn_sequence *q) {
    return q->request != NULL && q->phase == FN_SEQUENCE_PROMPT && !q->in_chunk && q->rows == 0 &&
           !atomic_load(&q->request->cancelled);
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

/* What a prompt gets of what is left: as many prompts share it as find enough. */
static size_t share_of(size_t left, size_t n_prompts) {
    size_t most = left / LEAST_SHARE;
    size_t among = n_prompts < most ? n_prompts : most;
    return among > 1 ? (left + among - 1) / among : left;
}

/* Shares out room among the prompts; what one leaves, the next takes. Whoever finds too little is first in the next
 * chunk. */
static size_t choose_members(fn_scheduler *s, size_t n_prompts, size_t room) {
    size_t taken = 0;
    size_t next = s->turn + 1;
    for (size_t i = 0; i < s->max_running && n_prompts > 0; i++) {
        fn_sequence *q = &s->sequences[(s->turn + i) % s->max_running];
        if (!fn_batch_reads_prompt(q)) {
            continue;
        }
        size_t left = room - taken;
        size_t cut = fn_sequence_until_cut(s, q);
        if (left < LEAST_SHARE && left < cut && taken > 0) {
            next = s->turn + i;
            break;
        }
        size_t share = share_of(left, n_prompts);
        size_t n = share < cut ? share : cut;
        fn_batch_add(q, n, s->chunk_wants + taken, &s->chunk_segments[s->n_chunk]);
        s->chunk[s->n_chunk++] = q;
        taken += n;
        n_prompts--;
    }
    s->turn = next < s->max_running ? next : next - s->max_running;
    return taken;
}

static size_t count_prompts(const fn_scheduler *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->max_running; i++) {
        n += fn_batch_reads_prompt(&s->sequences[i]);
    }
    return n;
}

static bool goes_on(void *ud) {
    const fn_scheduler *s = ud;
    bool wanted = false;
    for (size_t i = 0; i < s->n_chunk && !wanted; i++) {
        wanted = !atomic_load(&s->chunk[i]->request->cancelled);
    }
    return wanted && !atomic_load(&s->stop);
}

void fn_batch_chunk_begin(fn_scheduler *s, size_t answers) {
    size_t prompts = count_prompts(s);
    if (s->n_chunk > 0 || prompts == 0 || (answers > 0 && !fn_pace_knows(&s->pace))) {
        return;
    }
    size_t room = fn_pace_rows(&s->pace, answers > 0, s->engine->chunk);
    s->chunk_rows = choose_members(s, prompts, room);
    if (s->n_chunk == 0) { /* who was counted has left since */
        return;
    }
    for (size_t i = 0; i < s->n_chunk; i++) {
        s->chunk[i]->in_chunk = true;
    }
    fn_prompt_lane_start(s->lane, &(fn_prompt_chunk){.segments = s->chunk_segments,
                                                     .n = s->n_chunk,
                                                     .rows = s->chunk_rows,
                                                     .logits = s->chunk_logits,
                                                     .go_on = goes_on,
                                                     .ud = s});
}

static void forget(fn_scheduler *s) {
    fn_prompt_lane_free(s->lane);
    for (size_t i = 0; i < s->n_chunk; i++) {
        s->chunk[i]->in_chunk = false;
    }
    s->n_chunk = 0;
}

bool fn_batch_chunk_end(fn_scheduler *s) {
    if (s->n_chunk == 0 || !fn_prompt_lane_done(s->lane)) {
        return false;
    }
    fn_error error = {0};
    double seconds = 0;
    fn_status status = fn_prompt_lane_outcome(s->lane, &seconds, &error);
    memcpy(s->in_batch, s->chunk, s->n_chunk * sizeof *s->in_batch);
    s->n_batch = s->n_chunk;
    s->forward_seconds = seconds;
    if (status == FN_OK) {
        fn_pace_learn_chunk(&s->pace, s->chunk_rows, seconds);
        fn_batch_read_out(s, s->engine->forward, s->chunk_logits);
        s->forwards++;
        s->rows += s->chunk_rows;
        s->prompt_ids += s->chunk_rows;
    }
    forget(s);
    fn_batch_take_outcomes(s, status, &error);
    return true;
}

void fn_batch_chunk_drop(fn_scheduler *s) {
    if (s->n_chunk > 0) {
        fn_prompt_lane_wait(s->lane);
        forget(s);
    }
}
