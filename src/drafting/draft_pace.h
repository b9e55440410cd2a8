/* drafting/draft_pace.h - how many ids to guess before the next forward: as many as pay.
 *
 * Path:    seconds and hits of past passes -> [this] -> the length of the next draft.
 *          The tokens that a pass of k drafts gives, 1 + h1 + h1 h2 + ..., are weighed against its seconds; h_i
 *          is the measured share of hits of draft i where those before it hit. Where no length beats plain
 *          decoding nothing is drafted, and rarer and rarer passes look whether that has changed.
 * Threads: one at a time. Memory:  a plain value. */
#ifndef FN_DRAFTING_DRAFT_PACE_H
#define FN_DRAFTING_DRAFT_PACE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct fn_draft_pace {
    size_t most; /* at most FN_MAX_DRAFTS */
    bool fixed;  /* always `most` */
    double
        verify[FN_MAX_DRAFTS + 1]; /* seconds of a forward with i drafts, averaged; 0: never run */
    double draft;                  /* seconds of guessing one id */
    double hit[FN_MAX_DRAFTS];     /* share of hits of draft i where those before it hit */
    size_t idle, patience;         /* passes without drafts in a row, and after how many to try */
} fn_draft_pace;

void fn_draft_pace_init(fn_draft_pace *pace, size_t most, bool fixed);
/* Drafts of the next pass. */
size_t fn_draft_pace_choose(fn_draft_pace *pace);
/* What came of it: drafts made and how many of them held, seconds of making and of verifying. */
void fn_draft_pace_note(fn_draft_pace *pace, size_t drafted, size_t held, double drafting,
                        double verifying);
/* Seconds of a forward with so many drafts, as measured or put on a line through what was; 0: unknown. */
double fn_draft_pace_seconds(const fn_draft_pace *pace, size_t drafts);

#endif
