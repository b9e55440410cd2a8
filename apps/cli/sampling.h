/* cli/sampling.h - from options to how tokens are chosen.
 *
 * Path:     generation_config.json's defaults (from the library), options -> [this] -> fn_sampling
 * Memory:   fn_sampling.bias points into cli_sampling, until cli_sampling_free. */
#ifndef CLI_SAMPLING_H
#define CLI_SAMPLING_H

#include "cli/options.h"
#include "flashnext.h"

typedef struct cli_sampling {
    fn_sampling sampling;
    fn_logit_bias *bias; /* [sampling.n_bias] */
    bool random_seed;    /* drawn here: worth telling */
} cli_sampling;

/* What the options set replaces a default; without a seed a random one is drawn. vocab bounds
 * the ids of --logit-bias. Fails with FN_E_USAGE. */
fn_status cli_sampling_make(const cli_options *options, const fn_text *text, size_t vocab,
                            cli_sampling *out, fn_error *err);
void cli_sampling_free(cli_sampling *sampling);

/* Speed of one answer, and how it is shown. */
typedef struct cli_timings {
    size_t prompt_n, cache_n, predicted_n, thinking_n;
    double prompt_seconds, first_seconds, predicted_seconds;
    fn_drafting drafting;
} cli_timings;

/* One line on standard error; seed is NULL where nothing was random. */
void cli_timings_show(const cli_timings *timings, const uint64_t *seed);
/* The most memory this process has had, in a line of its own. */
void cli_memory_show(void);

#endif
