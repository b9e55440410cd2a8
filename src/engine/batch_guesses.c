/* Guesses behind the ids that were chosen last: how many of them pay for all answers together, and making them. */
#include "base/clock.h"
#include "engine/scheduler.h"

/* Guesses of each answer while it is not known what a further row costs. */
#define FIRST_TRY 3

/* ---- how many ---- */

/* More rows and guesses, one after the other, the likeliest first. */
typedef struct growth {
    fn_scheduler *s;
    size_t answers, n;
    fn_sequence *order[FN_GUESS_ROWS]; /* [n]: whose guess it was */
    size_t at[FN_MAX_DRAFTS];          /* sequences that have a first, second, ... guess */
    double tokens, rows, guess_seconds;
} growth;

static size_t limit_of(const fn_sequence *q) {
    if (q->request == NULL || q->phase != FN_SEQUENCE_ANSWER || q->drafter == NULL) {
        return 0;
    }
    size_t left = fn_stepper_left(q->stepper);
    size_t most = left > 0 ? left - 1 : 0; /* the next choice is not a guess */
    return most < q->most_drafts ? most : q->most_drafts;
}

static double next_chance(const fn_sequence *q) {
    return q->chance * q->odds.made[q->wanted] * q->odds.held[q->wanted];
}

static fn_sequence *likeliest(const fn_scheduler *s) {
    fn_sequence *best = NULL;
    for (size_t i = 0; i < s->max_running; i++) {
        fn_sequence *q = &s->sequences[i];
        if (q->wanted < limit_of(q) && (best == NULL || next_chance(q) > next_chance(best))) {
            best = q;
        }
    }
    return best;
}

static void grow(growth *g, fn_sequence *q) {
    const fn_row_times *times = &g->s->guess_times;
    size_t *chains = &g->at[q->wanted];
    g->guess_seconds -= *chains > 0 ? fn_row_times_near(times, *chains) : 0;
    g->guess_seconds += fn_row_times_near(times, ++*chains);
    q->chance = next_chance(q);
    q->reach *= q->odds.made[q->wanted];
    g->rows += q->reach;
    g->tokens += q->chance;
    q->wanted++;
    g->order[g->n++] = q;
}

/* Seconds beyond those of the forward without guesses. */
static double extra_seconds(const growth *g) {
    const fn_row_times *alone = &g->s->pace.alone;
    size_t whole = (size_t)g->rows;
    double low = fn_row_times_near(alone, g->answers + whole);
    double high = fn_row_times_near(alone, g->answers + whole + 1);
    double rows = low + (g->rows - (double)whole) * (high - low);
    return rows - fn_row_times_of(alone, g->answers) + g->guess_seconds;
}

/* As many as give the most ids a second, of a forward that takes `seconds` without them. */
static void choose_by_cost(fn_scheduler *s, size_t answers, double seconds, size_t room) {
    growth g = {.s = s, .answers = answers, .tokens = (double)answers};
    double best = g.tokens / seconds;
    size_t pays = 0;
    for (fn_sequence *q = likeliest(s); q != NULL && g.n < room; q = likeliest(s)) {
        grow(&g, q);
        double rate = g.tokens / (seconds + extra_seconds(&g));
        pays = rate > best ? g.n : pays;
        best = rate > best ? rate : best;
    }
    while (g.n > pays) {
        g.order[--g.n]->wanted--;
    }
}

/* So many for each answer, as long as there is room. */
static void give_each(fn_scheduler *s, size_t n, size_t room) {
    for (size_t round = 0; round < n; round++) {
        for (size_t i = 0; i < s->max_running; i++) {
            fn_sequence *q = &s->sequences[i];
            if (room > 0 && q->wanted == round && q->wanted < limit_of(q)) {
                q->wanted++;
                room--;
            }
        }
    }
}

static size_t total(const fn_scheduler *s) {
    size_t sum = 0;
    for (size_t i = 0; i < s->max_running; i++) {
        sum += s->sequences[i].wanted;
    }
    return sum;
}

void fn_batch_choose(fn_scheduler *s, size_t answers, bool prompts, size_t room) {
    const fn_row_times *alone = &s->pace.alone;
    double seconds = fn_row_times_of(alone, answers);
    for (size_t i = 0; i < s->max_running; i++) {
        s->sequences[i].wanted = 0;
        s->sequences[i].reach = 1.0;
        s->sequences[i].chance = 1.0;
    }
    if (s->engine->draft.fixed) {
        give_each(s, s->engine->draft.most, room);
    } else if (seconds > 0 && (fn_row_times_beyond(alone, answers) || s->guess_tried)) {
        choose_by_cost(s, answers, seconds, room);
        if (!prompts && fn_draft_patience_choose(&s->patience, total(s)) > total(s)) {
            give_each(s, 1, room);
        }
    } else if (seconds > 0 && !prompts) {
        give_each(s, FIRST_TRY, room);
        s->guess_tried = true;
    }
}

/* ---- making them ---- */

/* A guess that fails is none. */
static void make(fn_scheduler *s) {
    size_t n = 0;
    size_t steps = 0;
    for (size_t i = 0; i < s->max_running; i++) {
        fn_sequence *q = &s->sequences[i];
        if (q->wanted > 0) {
            fn_draft_request *r = &s->requests[n++];
            *r = (fn_draft_request){.drafter = q->drafter,
                                    .state = q->state,
                                    .ids = q->ids,
                                    .n = q->n_ids,
                                    .wanted = q->wanted,
                                    .least = s->engine->draft.least,
                                    .pick = fn_draft_guess,
                                    .ud = q->stepper,
                                    .out = q->ids + q->n_ids};
        }
    }
    double begin = fn_clock_seconds();
    bool made = fn_draft_propose(s->engine, s->requests, n, s->logits, NULL) == FN_OK;
    s->guess_seconds = fn_clock_seconds() - begin;
    n = 0;
    for (size_t i = 0; i < s->max_running; i++) {
        fn_sequence *q = &s->sequences[i];
        if (q->wanted > 0) {
            const fn_draft_request *r = &s->requests[n++];
            size_t computed = r->made + (r->made < r->wanted);
            steps = computed > steps ? computed : steps;
            q->drafted = made ? r->made : 0;
            fn_stepper_forget(q->stepper);
        }
    }
    if (steps > 0) {
        fn_row_times_learn(&s->guess_times, n, s->guess_seconds / (double)steps);
    }
}

void fn_batch_guess(fn_scheduler *s, size_t answers, bool prompts) {
    s->guess_seconds = 0;
    fn_batch_choose(s, answers, prompts, FN_GUESS_ROWS);
    if (total(s) > 0) {
        make(s);
    }
}
