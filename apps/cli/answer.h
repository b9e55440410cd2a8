/* cli/answer.h - shows an answer while it comes, and keeps it.
 *
 * The answer goes to standard output, the thought to standard error (dimmed where there are
 * colours); white space at the ends of either is left out.
 *
 * Path:     events of fn_session_generate -> [this] -> screen; afterwards -> conversation.c
 * Threads:  one at a time. */
#ifndef CLI_ANSWER_H
#define CLI_ANSWER_H

#include "cli/buffer.h"
#include "cli/progress.h"
#include "flashnext.h"

typedef struct cli_answer {
    cli_progress *progress; /* its bar leaves before text comes */
    bool show_thought,
        dim;           /* dim: with colours; else the thought stands between tags on a terminal */
    bool thought_open; /* something of it is on the screen, and it may go on */
    cli_buffer thought, answer;
    size_t thought_shown, answer_shown; /* bytes */
} cli_answer;

/* on_event of fn_generation; ud is the cli_answer. False after Ctrl-C or SIGTERM. */
bool cli_answer_event(void *ud, const fn_event *event);
/* The last newline. */
void cli_answer_end(cli_answer *answer);
/* Ready for the next one. */
void cli_answer_reset(cli_answer *answer);
void cli_answer_free(cli_answer *answer);

#endif
