/* cli/bench_drafts.h - bench: the same text made plainly and with drafts, in turns.
 *
 * Path:     bench.c -> [this: rounds of fn_draft_trial_run] -> results in JSON -> a table, csv or json */
#ifndef CLI_BENCH_DRAFTS_H
#define CLI_BENCH_DRAFTS_H

#include <jansson.h>

#include "flashnext_tools.h"

typedef struct cli_bench_drafts {
    bool wanted, profile;
    double held
        [FN_MAX_DRAFTS]; /* [n_held] shares of passes in which a draft is made to hold; 0: it is as it is */
    size_t n_held;
} cli_bench_drafts;

/* n rounds of so many tokens behind the session, which stands for `depth`, after one that warms up; *result is the
 * caller's. */
fn_status cli_bench_drafts_run(const cli_bench_drafts *drafts, fn_session *base, size_t depth,
                               size_t tokens, size_t n, json_t **result, fn_error *err);
void cli_bench_drafts_print(const json_t *results, bool csv, bool behind_others);

#endif
