#include "cli/answer.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/signals.h"

/* Prints what is new in text, but white space only when something follows it; nothing before the
 * first other character. */
static void show(const cli_buffer *text, size_t *shown, FILE *out) {
    const char *begin = cli_buffer_text(text) + *shown;
    size_t n = text->n - *shown;
    if (*shown == 0) {
        const char *first = begin;
        size_t stripped = cli_strip(&first, n);
        if (stripped == 0) {
            return;
        }
        *shown = (size_t)(first - begin);
        begin = first;
        n = stripped;
    } else {
        const char *ignored = begin;
        size_t stripped = cli_strip(&ignored, n);
        n = stripped > 0 ? (size_t)(ignored - begin) + stripped : 0;
    }
    (void)fwrite(begin, 1, n, out);
    (void)fflush(out);
    *shown += n;
}

static void open_thought(cli_answer *answer) {
    answer->thought_open = true;
    if (answer->dim) {
        fputs("\033[2m", stderr);
    } else if (isatty(STDERR_FILENO)) {
        fputs("<think>\n", stderr);
    }
}

static void close_thought(cli_answer *answer) {
    if (!answer->thought_open) {
        return;
    }
    answer->thought_open = false;
    if (answer->dim) {
        fputs("\033[0m\n\n", stderr);
    } else {
        fputs(isatty(STDERR_FILENO) ? "\n</think>\n\n" : "\n", stderr);
    }
    (void)fflush(stderr);
}

bool cli_answer_event(void *ud, const fn_event *event) {
    cli_answer *answer = ud;
    if (event->kind != FN_EVENT_TOKEN && event->n > 0) {
        cli_progress_clear(answer->progress);
    }
    if (event->kind == FN_EVENT_THINKING && event->n > 0) {
        cli_buffer_add(&answer->thought, event->text, event->n);
        const char *begin = cli_buffer_text(&answer->thought);
        if (answer->show_thought && cli_strip(&begin, answer->thought.n) > 0) {
            if (!answer->thought_open) {
                open_thought(answer);
            }
            show(&answer->thought, &answer->thought_shown, stderr);
        }
    } else if (event->kind == FN_EVENT_ANSWER && event->n > 0) {
        cli_buffer_add(&answer->answer, event->text, event->n);
        close_thought(answer);
        show(&answer->answer, &answer->answer_shown, stdout);
    }
    return !cli_stop_asked();
}

void cli_answer_end(cli_answer *answer) {
    close_thought(answer);
    if (answer->answer_shown > 0) {
        fputc('\n', stdout);
        (void)fflush(stdout);
    }
}

void cli_answer_reset(cli_answer *answer) {
    cli_buffer_clear(&answer->thought);
    cli_buffer_clear(&answer->answer);
    answer->thought_shown = 0;
    answer->answer_shown = 0;
    answer->thought_open = false;
}

void cli_answer_free(cli_answer *answer) {
    cli_buffer_free(&answer->thought);
    cli_buffer_free(&answer->answer);
}
