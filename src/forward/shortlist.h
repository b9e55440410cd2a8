/* forward/shortlist.h - the ids that a draft may be: whole tiles of the LM head, so that a draft need not read
 * all of it. Verification always does. */
#ifndef FN_FORWARD_SHORTLIST_H
#define FN_FORWARD_SHORTLIST_H

#include <stddef.h>

#define FN_SHORTLIST_RUNS 16

typedef struct fn_shortlist {
    size_t n_runs;
    struct {
        size_t first_tile, tiles;
    } runs[FN_SHORTLIST_RUNS]; /* ascending, apart */
} fn_shortlist;

#endif
