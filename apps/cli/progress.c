#include "cli/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/buffer.h"
#include "cli/signals.h"

#define BAR_WIDTH 24
#define FIRST_AFTER_SECONDS 0.3 /* what is quicker needs no bar */
#define AGAIN_AFTER_SECONDS 0.1

double cli_now(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void cli_progress_init(cli_progress *progress, const cli_options *options) {
    bool wanted = !cli_flag(options, CLI_OPT_NO_PROGRESS) && !cli_flag(options, CLI_OPT_QUIET);
    *progress = (cli_progress){.enabled = wanted && isatty(STDERR_FILENO)};
}

void cli_progress_clear(cli_progress *progress) {
    if (progress->visible) {
        fputs("\r\033[K", stderr);
        (void)fflush(stderr);
        progress->visible = false;
    }
    progress->stage = NULL;
}

static void draw(const char *stage, uint64_t done, uint64_t total, double seconds) {
    double share = (double)done / (double)total;
    int filled = (int)(share * BAR_WIDTH);
    char bar[BAR_WIDTH + 1];
    memset(bar, ' ', BAR_WIDTH);
    memset(bar, '=', (size_t)filled);
    bar[filled] = '>'; /* done < total, so filled < BAR_WIDTH */
    bar[BAR_WIDTH] = 0;
    double rate = (double)done / seconds;
    double left = rate > 0.0 ? (double)(total - done) / rate : 0.0;
    fprintf(stderr, "\r\033[K%s [%s] %3.0f%%", stage, bar, share * 100.0);
    if (strcmp(stage, "prompt") != 0) {
        fprintf(stderr, "  %.2f of %.2f GB  %.2f GB/s", (double)done * 1e-9, (double)total * 1e-9,
                rate * 1e-9);
    } else {
        fprintf(stderr, "  %llu of %llu tokens  %.1f/s", (unsigned long long)done,
                (unsigned long long)total, rate);
    }
    fprintf(stderr, "  %d:%02d left", (int)left / 60, (int)left % 60);
    (void)fflush(stderr);
}

void cli_progress_advise(cli_progress *progress, const cli_options *options, const char *dir) {
    static const cli_option_id ids[] = {CLI_OPT_EXPERT_BITS, CLI_OPT_DENSE_BITS,
                                        CLI_OPT_GROUP_SIZE};
    static const char *const flags[] = {"--expert-bits", "--dense-bits", "--group-size"};
    if (cli_flag(options, CLI_OPT_QUIET)) {
        return;
    }
    cli_buffer text = {0};
    cli_buffer_printf(&text, "flashnext quantize --model-dir %s", dir);
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        if (cli_is_set(options, ids[i])) {
            cli_buffer_printf(&text, " %s %s", flags[i], cli_text(options, ids[i]));
        }
    }
    cli_buffer_printf(&text, " --out NEWDIR");
    progress->advice = cli_strdup(cli_buffer_text(&text));
    cli_buffer_free(&text);
}

void cli_progress_free(cli_progress *progress) {
    free(progress->advice);
    progress->advice = NULL;
}

/* Once the rate is known, or all is done. */
static void advise(cli_progress *progress, uint64_t done, uint64_t total, double seconds) {
    double whole = done > 0 ? seconds * (double)total / (double)done : 0.0;
    const char *stage = progress->stage;
    cli_progress_clear(progress);
    progress->stage = stage;
    fprintf(stderr, "quantising %.2f GB while loading takes about ", (double)total * 1e-9);
    if (whole < 60.0) {
        fprintf(stderr, "%.1f s", whole);
    } else {
        fprintf(stderr, "%d min %02d s", (int)whole / 60, (int)whole % 60);
    }
    fprintf(stderr, ", at every start; once and for all: %s\n", progress->advice);
    cli_progress_free(progress);
}

bool cli_progress_step(void *ud, const char *stage, uint64_t done, uint64_t total) {
    cli_progress *progress = ud;
    double now = cli_now();
    if (progress->stage == NULL || strcmp(progress->stage, stage) != 0) {
        cli_progress_clear(progress);
        progress->stage = stage;
        progress->started = now;
        progress->drawn = now + FIRST_AFTER_SECONDS - AGAIN_AFTER_SECONDS;
    }
    if (progress->advice != NULL && strcmp(stage, "quantising") == 0 &&
        (done >= total || now - progress->started >= FIRST_AFTER_SECONDS)) {
        advise(progress, done, total, now - progress->started);
    }
    if (done >= total) {
        cli_progress_clear(progress);
    } else if (progress->enabled && now - progress->drawn >= AGAIN_AFTER_SECONDS && done > 0) {
        draw(stage, done, total, now - progress->started);
        progress->drawn = now;
        progress->visible = true;
    }
    return !cli_stop_asked();
}
