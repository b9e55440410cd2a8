/* cli/drafting.h - options that say who drafts, and what drafting did.
 *
 * Path:     cli_options -> [this] -> fn_engine_options; fn_drafting -> [this] -> /stats, --json
 * Threads:  one at a time. */
#ifndef CLI_DRAFTING_H
#define CLI_DRAFTING_H

#include <jansson.h>

#include "cli/options.h"
#include "cli/sampling.h"

/* The shares of --draft-sim into held [FN_MAX_DRAFTS]; none: not given. Fails with FN_E_USAGE. */
fn_status cli_draft_shares(const cli_options *options, double *held, size_t *n, fn_error *err);
/* Does an option say who drafts? */
bool cli_drafting_wanted(const cli_options *options);

void cli_drafting_options(const cli_options *options, fn_engine_options *engine);

/* Times the answer's speed without drafting; 0 where that is not known. */
double cli_drafting_speed(const cli_timings *timings);
/* One line on standard error, if anything was drafted. */
void cli_drafting_show(const cli_timings *timings);
/* {"drafter", "drafted", "accepted", "positions": [{"drafted", "accepted"}], "passes", "tokens_per_pass",
 * "speed"}; numbers that are not known are null. */
json_t *cli_drafting_json(const cli_timings *timings);

#endif
