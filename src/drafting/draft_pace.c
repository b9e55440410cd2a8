#include "drafting/draft_pace.h"

/* Weight of the newest measurement. */
#define NEWEST 0.125
#define FIRST_TRY 3 /* drafts of the first pass that has any */
#define SHORTEST_PATIENCE 16
#define LONGEST_PATIENCE 512

void fn_draft_patience_init(fn_draft_patience *p) {
    *p = (fn_draft_patience){.patience = SHORTEST_PATIENCE};
}

size_t fn_draft_patience_choose(fn_draft_patience *p, size_t pays) {
    if (pays > 0) {
        fn_draft_patience_init(p);
        return pays;
    }
    p->idle++;
    if (p->idle < p->patience) {
        return 0;
    }
    p->idle = 0;
    p->patience = p->patience < LONGEST_PATIENCE ? 2 * p->patience : p->patience;
    return 1;
}

void fn_draft_pace_init(fn_draft_pace *p, size_t most, bool fixed) {
    *p = (fn_draft_pace){.most = most < FN_MAX_DRAFTS ? most : FN_MAX_DRAFTS, .fixed = fixed};
    fn_draft_odds_init(&p->odds);
    fn_draft_patience_init(&p->patience);
}

static size_t longest_measured(const fn_draft_pace *p) {
    size_t i = FN_MAX_DRAFTS;
    while (i > 0 && p->verify[i] <= 0) {
        i--;
    }
    return i;
}

double fn_draft_pace_seconds(const fn_draft_pace *p, double drafts) {
    size_t below = (size_t)drafts;
    size_t far = longest_measured(p);
    double part = drafts - (double)below;
    if (p->verify[0] <= 0) {
        return p->verify[below];
    }
    if (far == 0) {
        return p->verify[0];
    }
    if (part > 0) {
        double lower = fn_draft_pace_seconds(p, (double)below);
        return lower + part * (fn_draft_pace_seconds(p, (double)(below + 1)) - lower);
    }
    double slope = (p->verify[far] - p->verify[0]) / (double)far;
    return p->verify[below] > 0 ? p->verify[below]
                                : p->verify[0] + (slope > 0 ? slope : 0) * drafts;
}

/* Tokens a second of passes with k drafts, by what is known. */
static double worth(const fn_draft_pace *p, size_t k) {
    fn_draft_prospect pass = fn_draft_odds_of(&p->odds, k);
    double seconds = fn_draft_pace_seconds(p, pass.rows) + pass.guesses * p->guess;
    return seconds > 0 ? pass.tokens / seconds : 0;
}

size_t fn_draft_pace_choose(fn_draft_pace *p) {
    size_t best = 0;
    if (p->fixed || p->most == 0) {
        return p->most;
    }
    if (p->verify[0] <= 0) {
        return 0; /* what plain decoding costs */
    }
    if (p->guess <= 0 && longest_measured(p) == 0) {
        return p->most < FIRST_TRY ? p->most : FIRST_TRY;
    }
    for (size_t k = 1; k <= p->most; k++) {
        best = worth(p, k) > worth(p, best) ? k : best;
    }
    return fn_draft_patience_choose(&p->patience, best);
}

static void average(double *mean, double newest) {
    *mean = *mean > 0 ? *mean + NEWEST * (newest - *mean) : newest;
}

void fn_draft_pace_note(fn_draft_pace *p, const fn_draft_outcome *pass) {
    average(&p->verify[pass->made], pass->forward_seconds);
    if (pass->wanted > 0) {
        size_t computed = pass->made + (pass->made < pass->wanted);
        average(&p->guess, pass->guess_seconds / (double)computed);
    }
    fn_draft_odds_note(&p->odds, pass);
}
