/* cli/progress.h - one line on standard error while something long goes on.
 *
 * Path:     the engine's progress callback -> [this] -> stderr, if that is a terminal
 * Threads:  one at a time. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "cli/options.h"

typedef struct cli_progress {
    bool enabled;
    bool visible;      /* a bar is on the screen */
    const char *stage; /* of the bar; lent by the engine */
    double started, drawn;
    char *
        advice; /* how to quantise once and for all, said when quantising begins; NULL: nothing is said */
} cli_progress;

void cli_progress_init(cli_progress *progress, const cli_options *options);
/* An fn_progress: ud is the cli_progress. False (stop) after Ctrl-C or SIGTERM. */
bool cli_progress_step(void *ud, const char *stage, uint64_t done, uint64_t total);
/* Has quantising announced: how long it takes at the rate that is seen, and the command that spares it. */
void cli_progress_advise(cli_progress *progress, const cli_options *options, const char *model_dir);
void cli_progress_free(cli_progress *progress);
/* Takes the bar off the screen; before anything else is printed. */
void cli_progress_clear(cli_progress *progress);

/* Seconds of a clock that only goes forward. */
double cli_now(void);

#endif
