/* drafting/draft_odds.h - how likely a sequence's guesses are made and hold, from what came of earlier ones.
 *
 * Path:    outcomes of passes -> [this] -> what the next pass may give, for whoever knows what it costs.
 * Threads: one at a time. Memory:  a plain value. */
#ifndef FN_DRAFTING_DRAFT_ODDS_H
#define FN_DRAFTING_DRAFT_ODDS_H

#include <stddef.h>

#include "base/status.h"

/* One pass of one sequence. */
typedef struct fn_draft_outcome {
    size_t wanted; /* guesses that were asked for; */
    size_t
        made; /* the drafter may have made fewer, because it was not sure, or had nothing to say */
    size_t held; /* of these */
    double guess_seconds, forward_seconds;
} fn_draft_outcome;

/* Of guess i, where all guesses before it were made and held. */
typedef struct fn_draft_odds {
    double made[FN_MAX_DRAFTS];
    double held[FN_MAX_DRAFTS];
} fn_draft_odds;

/* What a pass with so many guesses asked for gives, on average. */
typedef struct fn_draft_prospect {
    double tokens; /* ids, the one without guesses among them */
    double
        guesses; /* that are computed: those that are made, and the one where the drafter gives up */
    double rows; /* guesses that are verified */
} fn_draft_prospect;

void fn_draft_odds_init(fn_draft_odds *odds);
void fn_draft_odds_note(fn_draft_odds *odds, const fn_draft_outcome *pass);
fn_draft_prospect fn_draft_odds_of(const fn_draft_odds *odds, size_t wanted);

#endif
