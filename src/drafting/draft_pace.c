#include "drafting/draft_pace.h"

/* Weight of the newest measurement. */
#define NEWEST 0.125
/* Before anything was measured, an honest guess for a head that was trained for this. */
#define FIRST_HIT 0.7
#define FIRST_TRY 3 /* drafts of the first pass that has any */
#define SHORTEST_PATIENCE 16
#define LONGEST_PATIENCE 512

void fn_draft_pace_init(fn_draft_pace *p, size_t most, bool fixed) {
    *p = (fn_draft_pace){.most = most < FN_MAX_DRAFTS ? most : FN_MAX_DRAFTS,
                         .fixed = fixed,
                         .patience = SHORTEST_PATIENCE};
    for (size_t i = 0; i < FN_MAX_DRAFTS; i++) {
        p->hit[i] = FIRST_HIT;
    }
}

static size_t longest_measured(const fn_draft_pace *p) {
    size_t i = FN_MAX_DRAFTS;
    while (i > 0 && p->verify[i] <= 0) {
        i--;
    }
    return i;
}

double fn_draft_pace_seconds(const fn_draft_pace *p, size_t drafts) {
    size_t far = longest_measured(p);
    if (p->verify[drafts] > 0 || p->verify[0] <= 0 || far == 0) {
        return p->verify[drafts];
    }
    double slope = (p->verify[far] - p->verify[0]) / (double)far;
    return p->verify[0] + (slope > 0 ? slope : 0) * (double)drafts;
}

/* Tokens a second of passes with k drafts, by what is known. */
static double worth(const fn_draft_pace *p, size_t k) {
    double tokens = 1;
    double all = 1;
    for (size_t i = 0; i < k; i++) {
        all *= p->hit[i];
        tokens += all;
    }
    double seconds = fn_draft_pace_seconds(p, k) + (double)k * p->draft;
    return seconds > 0 ? tokens / seconds : 0;
}

size_t fn_draft_pace_choose(fn_draft_pace *p) {
    size_t best = 0;
    if (p->fixed || p->most == 0) {
        return p->most;
    }
    if (p->verify[0] <= 0) {
        return 0; /* what plain decoding costs */
    }
    if (longest_measured(p) == 0) {
        return p->most < FIRST_TRY ? p->most : FIRST_TRY;
    }
    for (size_t k = 1; k <= p->most; k++) {
        best = worth(p, k) > worth(p, best) ? k : best;
    }
    if (best > 0) {
        p->idle = 0;
        p->patience = SHORTEST_PATIENCE;
        return best;
    }
    p->idle++;
    if (p->idle < p->patience) {
        return 0;
    }
    p->idle = 0;
    p->patience = p->patience < LONGEST_PATIENCE ? 2 * p->patience : p->patience;
    return 1;
}

static void average(double *mean, double newest) {
    *mean = *mean > 0 ? *mean + NEWEST * (newest - *mean) : newest;
}

void fn_draft_pace_note(fn_draft_pace *p, size_t drafted, size_t held, double drafting,
                        double verifying) {
    average(&p->verify[drafted], verifying);
    if (drafted > 0) {
        average(&p->draft, drafting / (double)drafted);
    }
    for (size_t i = 0; i < drafted && i <= held; i++) {
        p->hit[i] += NEWEST * ((i < held ? 1.0 : 0.0) - p->hit[i]);
    }
}
