#include "cli/drafting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report.h"

fn_status cli_draft_shares(const cli_options *options, double *held, size_t *n, fn_error *err) {
    const char *text = cli_text(options, CLI_OPT_DRAFT_SIM);
    const char *at = text;
    double most = 1.0;
    *n = 0;
    if (text != NULL && cli_is_set(options, CLI_OPT_DRAFT_TOKENS)) {
        return cli_fail(
            err, FN_E_USAGE,
            "bench: --draft-sim and --draft-tokens exclude each other: a share for each");
    }
    while (at != NULL && *at != 0) {
        char *end = NULL;
        double share = strtod(at, &end);
        bool number = (*at >= '0' && *at <= '9') || *at == '.';
        if (!number || !(share >= 0.0 && share <= most) || *n == FN_MAX_DRAFTS ||
            (*end != 0 && (*end != ',' || end[1] == 0))) {
            return cli_fail(err, FN_E_USAGE,
                            "bench: --draft-sim '%s': expected up to %d shares from 1 down to 0, "
                            "with commas between them",
                            text, FN_MAX_DRAFTS);
        }
        held[(*n)++] = share;
        most = share;
        at = *end == ',' ? end + 1 : end;
    }
    return text == NULL || *n > 0
               ? FN_OK
               : cli_fail(err, FN_E_USAGE, "bench: --draft-sim: expected a share, found nothing");
}

bool cli_drafting_wanted(const cli_options *options) {
    return cli_is_set(options, CLI_OPT_DRAFT) || cli_is_set(options, CLI_OPT_DRAFT_MODEL) ||
           cli_is_set(options, CLI_OPT_DRAFT_SIM);
}

/* As many drafts as there are shares, in every pass. */
static void simulate(const cli_options *options, fn_engine_options *engine) {
    double held[FN_MAX_DRAFTS];
    size_t n = 0;
    if (cli_draft_shares(options, held, &n, NULL) == FN_OK && n > 0) {
        engine->draft_tokens = n;
        engine->draft_fixed = true;
    }
}

void cli_drafting_options(const cli_options *options, fn_engine_options *engine) {
    static const char *const words[] = {[FN_DRAFT_AUTO] = "auto",
                                        [FN_DRAFT_OFF] = "off",
                                        [FN_DRAFT_MTP] = "mtp",
                                        [FN_DRAFT_MODEL] = "model",
                                        [FN_DRAFT_LOOKUP] = "lookup"};
    const char *draft = cli_text(options, CLI_OPT_DRAFT);
    for (size_t i = 0; draft != NULL && i < sizeof words / sizeof words[0]; i++) {
        engine->draft = strcmp(draft, words[i]) == 0 ? (fn_drafter_choice)i : engine->draft;
    }
    bool speed_alone = options->command == CLI_BENCH && !cli_drafting_wanted(options);
    if (speed_alone || !cli_option_applies(CLI_OPT_DRAFT, options->command)) {
        engine->draft = FN_DRAFT_OFF; /* scores and traces draft nothing */
    }
    engine->draft_model_dir = cli_text(options, CLI_OPT_DRAFT_MODEL);
    engine->draft_tokens = cli_count(options, CLI_OPT_DRAFT_TOKENS, 0);
    engine->draft_fixed = cli_flag(options, CLI_OPT_DRAFT_FIXED);
    engine->draft_least = (float)cli_number(options, CLI_OPT_DRAFT_LEAST, -1.0);
    engine->draft_vocab = cli_count(options, CLI_OPT_DRAFT_VOCAB, 0);
    engine->no_mtp = cli_flag(options, CLI_OPT_NO_MTP);
    simulate(options, engine);
}

static double share(size_t part, size_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0.0;
}

double cli_drafting_speed(const cli_timings *t) {
    double plain = (double)t->predicted_n * t->drafting.plain_seconds;
    return t->predicted_seconds > 0.0 ? plain / t->predicted_seconds : 0.0;
}

void cli_drafting_show(const cli_timings *t) {
    const fn_drafting *d = &t->drafting;
    if (d->drafted == 0) {
        return;
    }
    fprintf(stderr, "drafts (%s): %zu of %zu accepted (%.0f%%), at each place", d->drafter,
            d->accepted, d->drafted, 100.0 * share(d->accepted, d->drafted));
    for (size_t i = 0; i < FN_MAX_DRAFTS && d->drafted_at[i] > 0; i++) {
        fprintf(stderr, " %.0f%%", 100.0 * share(d->accepted_at[i], d->drafted_at[i]));
    }
    fprintf(stderr, "; %.2f tokens a pass", share(t->predicted_n, d->passes));
    if (cli_drafting_speed(t) > 0.0) {
        fprintf(stderr, ", %.2f times plain speed", cli_drafting_speed(t));
    }
    fputc('\n', stderr);
}

static json_t *real_or_null(double value) {
    return value > 0.0 ? json_real(value) : json_null();
}

json_t *cli_drafting_json(const cli_timings *t) {
    const fn_drafting *d = &t->drafting;
    json_t *places = json_array();
    for (size_t i = 0; i < FN_MAX_DRAFTS && d->drafted_at[i] > 0; i++) {
        (void)json_array_append_new(places,
                                    json_pack("{s:I, s:I}", "drafted", (json_int_t)d->drafted_at[i],
                                              "accepted", (json_int_t)d->accepted_at[i]));
    }
    return json_pack("{s:s, s:I, s:I, s:o, s:I, s:o, s:o}", "drafter",
                     d->drafter != NULL ? d->drafter : "none", "drafted", (json_int_t)d->drafted,
                     "accepted", (json_int_t)d->accepted, "positions", places, "passes",
                     (json_int_t)d->passes, "tokens_per_pass",
                     real_or_null(share(t->predicted_n, d->passes)), "speed",
                     real_or_null(cli_drafting_speed(t)));
}
