#include "drafting/draft_odds.h"

#include <stdbool.h>

/* Weights of the newest outcome: a drafter that is never sure is known sooner than one that is wrong. */
#define NEWEST_MADE 0.25
#define NEWEST_HELD 0.125
/* Before anything was seen, an honest guess for a head that was trained for this. */
#define FIRST_HELD 0.7

void fn_draft_odds_init(fn_draft_odds *o) {
    for (size_t i = 0; i < FN_MAX_DRAFTS; i++) {
        o->made[i] = 1.0;
        o->held[i] = FIRST_HELD;
    }
}

static void follow(double *share, bool happened, double weight) {
    *share += weight * ((happened ? 1.0 : 0.0) - *share);
}

void fn_draft_odds_note(fn_draft_odds *o, const fn_draft_outcome *pass) {
    for (size_t i = 0; i < pass->wanted && i <= pass->made; i++) {
        follow(&o->made[i], i < pass->made, NEWEST_MADE);
    }
    for (size_t i = 0; i < pass->made && i <= pass->held; i++) {
        follow(&o->held[i], i < pass->held, NEWEST_HELD);
    }
}

fn_draft_prospect fn_draft_odds_of(const fn_draft_odds *o, size_t wanted) {
    fn_draft_prospect p = {.tokens = 1.0};
    double made = 1.0;
    double held = 1.0;
    for (size_t i = 0; i < wanted; i++) {
        p.guesses += made;
        made *= o->made[i];
        held *= o->made[i] * o->held[i];
        p.rows += made;
        p.tokens += held;
    }
    return p;
}
