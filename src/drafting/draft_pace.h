/* drafting/draft_pace.h - how many ids to guess before the next forward of one sequence: as many as pay.
 *
 * Path:    seconds and outcomes of past passes -> [this] -> guesses to ask for.
 *          What a pass of k guesses gives (drafting/draft_odds.h) is weighed against its seconds. Where no length
 *          beats plain decoding nothing is drafted, and rarer and rarer passes look whether that has changed.
 * Threads: one at a time. Memory:  a plain value. */
#ifndef FN_DRAFTING_DRAFT_PACE_H
#define FN_DRAFTING_DRAFT_PACE_H

#include <stdbool.h>

#include "drafting/draft_odds.h"

/* When to try again what did not pay: after so many passes, then after twice as many, ... */
typedef struct fn_draft_patience {
    size_t idle, patience;
} fn_draft_patience;

typedef struct fn_draft_pace {
    size_t most; /* at most FN_MAX_DRAFTS */
    bool fixed;  /* always `most` */
    fn_draft_odds odds;
    double
        verify[FN_MAX_DRAFTS + 1]; /* seconds of a forward with i drafts, averaged; 0: never run */
    double guess;                  /* seconds of computing one guess */
    fn_draft_patience patience;
} fn_draft_pace;

void fn_draft_pace_init(fn_draft_pace *pace, size_t most, bool fixed);
/* Drafts of the next pass. */
size_t fn_draft_pace_choose(fn_draft_pace *pace);
void fn_draft_pace_note(fn_draft_pace *pace, const fn_draft_outcome *pass);
/* Seconds of a forward with so many drafts, as measured or put on a line through what was; 0: unknown. */
double fn_draft_pace_seconds(const fn_draft_pace *pace, double drafts);

void fn_draft_patience_init(fn_draft_patience *p);
/* Guesses of a pass, given how many seem to pay: now and then 1 where that is 0. */
size_t fn_draft_patience_choose(fn_draft_patience *p, size_t pays);

#endif
