#include "cli/bench_drafts.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/buffer.h"
#include "cli/profile.h"
#include "cli/statistics.h"

/* As the published model samples: random weights would fall into a loop of few ids and few experts without noise. */
static const fn_sampling simulated_sampling = {
    .temperature = 1, .top_k = 20, .top_p = 0.95F, .repetition_penalty = 1, .seed = 1};

/* One number of each round. */
typedef struct rounds {
    size_t n;
    double *plain, *drafted; /* tokens a second */
    double *speed;           /* the one over the other */
    double *guess, *pass, *row,
        *one; /* seconds: drafts of a pass, its forward, a plain forward; the ratio */
    fn_drafting sum;
    fn_profile plain_profile, profile;
    size_t tokens;
} rounds;

static double per(double sum, size_t n) {
    return n > 0 ? sum / (double)n : 0.0;
}

static void keep(rounds *r, const fn_draft_trial *t) {
    size_t i = r->n++;
    r->plain[i] = (double)t->plain_tokens / t->plain_seconds;
    r->drafted[i] = (double)t->tokens / t->seconds;
    r->speed[i] = r->drafted[i] / r->plain[i];
    r->guess[i] = per(t->drafting.guess_seconds, t->drafting.passes);
    r->pass[i] = per(t->drafting.forward_seconds, t->drafting.passes);
    r->one[i] = per(t->plain.forward_seconds, t->plain.passes);
    r->row[i] = r->pass[i] / r->one[i];
    r->tokens += t->tokens;
    r->sum.drafter = t->drafting.drafter;
    r->sum.passes += t->drafting.passes;
    r->sum.drafted += t->drafting.drafted;
    r->sum.accepted += t->drafting.accepted;
    for (size_t k = 0; k < FN_PROFILE_CLASSES; k++) {
        r->plain_profile.seconds[k] += t->plain_profile.seconds[k];
        r->profile.seconds[k] += t->profile.seconds[k];
    }
    for (size_t k = 0; k < FN_MAX_DRAFTS; k++) {
        r->sum.drafted_at[k] += t->drafting.drafted_at[k];
        r->sum.accepted_at[k] += t->drafting.accepted_at[k];
    }
}

static json_t *shares_json(const rounds *r) {
    json_t *shares = json_array();
    for (size_t k = 0; k < FN_MAX_DRAFTS && r->sum.drafted_at[k] > 0; k++) {
        double share = per((double)r->sum.accepted_at[k], r->sum.drafted_at[k]);
        (void)json_array_append_new(shares, json_real(share));
    }
    return shares;
}

static json_t *result_json(const cli_bench_drafts *drafts, const rounds *r, size_t depth,
                           size_t tokens) {
    json_t *object = json_pack(
        "{s:s, s:b, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:o, s:I, s:f, s:f, s:f, s:f, "
        "s:f}",
        "drafter", r->sum.drafter, "simulated", drafts->n_held > 0, "depth", (json_int_t)depth,
        "tokens", (json_int_t)tokens, "rounds", (json_int_t)r->n, "plain_tokens_per_second",
        cli_mean(r->plain, r->n), "tokens_per_second", cli_mean(r->drafted, r->n), "speed",
        cli_mean(r->speed, r->n), "deviation", cli_deviation(r->speed, r->n), "drafted",
        (json_int_t)r->sum.drafted, "accepted", (json_int_t)r->sum.accepted, "accepted_shares",
        shares_json(r), "passes", (json_int_t)r->sum.passes, "tokens_per_pass",
        per((double)r->tokens, r->sum.passes), "guess_seconds", cli_mean(r->guess, r->n),
        "verify_seconds", cli_mean(r->pass, r->n), "row_seconds", cli_mean(r->one, r->n),
        "verify_over_row", cli_mean(r->row, r->n));
    if (drafts->profile) {
        (void)json_object_set_new(object, "plain_profile_seconds",
                                  cli_profile_json(&r->plain_profile));
        (void)json_object_set_new(object, "profile_seconds", cli_profile_json(&r->profile));
    }
    return object;
}

fn_status cli_bench_drafts_run(const cli_bench_drafts *drafts, fn_session *base, size_t depth,
                               size_t tokens, size_t n, json_t **result, fn_error *err) {
    bool simulated = drafts->n_held > 0;
    double *room = cli_alloc(7 * n * sizeof *room);
    rounds r = {.plain = room,
                .drafted = room + n,
                .speed = room + 2 * n,
                .guess = room + 3 * n,
                .pass = room + 4 * n,
                .row = room + 5 * n,
                .one = room + 6 * n};
    fn_draft_trial_options options = {.tokens = tokens,
                                      .sampling = simulated ? &simulated_sampling : NULL,
                                      .held = simulated ? drafts->held : NULL,
                                      .n_held = drafts->n_held,
                                      .profile = drafts->profile,
                                      .turn = 0.5};
    fn_status status = FN_OK;
    for (size_t i = 0; i <= n && status == FN_OK; i++) {
        fn_draft_trial trial;
        status = fn_draft_trial_run(base, &options, &trial, err);
        if (status == FN_OK && i > 0) {
            keep(&r, &trial);
            options.turn = trial.turn;
        }
    }
    if (status == FN_OK) {
        *result = result_json(drafts, &r, depth, tokens);
    }
    free(room);
    return status;
}

/* ---- output ----------------------------------------------------------------------------- */

static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static void print_shares(const json_t *r, const char *between) {
    const json_t *shares = json_object_get(r, "accepted_shares");
    for (size_t i = 0; i < json_array_size(shares); i++) {
        printf("%s%.0f", i > 0 ? between : "",
               100.0 * json_number_value(json_array_get(shares, i)));
    }
}

static void print_csv(const json_t *r) {
    printf("%s%s,%.0f,%.0f,%.3f,%.3f,%.3f,%.3f,%.3f,",
           json_string_value(json_object_get(r, "drafter")),
           json_is_true(json_object_get(r, "simulated")) ? " simulated" : "", number(r, "depth"),
           number(r, "tokens"), number(r, "plain_tokens_per_second"),
           number(r, "tokens_per_second"), number(r, "speed"), number(r, "deviation"),
           number(r, "tokens_per_pass"));
    print_shares(r, " ");
    printf(",%.3f,%.3f,%.3f,%.3f\n", 1e3 * number(r, "guess_seconds"),
           1e3 * number(r, "verify_seconds"), 1e3 * number(r, "row_seconds"),
           number(r, "verify_over_row"));
}

static void print_md(const json_t *r) {
    printf("| %s%s | %.0f | %.2f | %.2f | %.2f | %.2f | %.2f | ",
           json_string_value(json_object_get(r, "drafter")),
           json_is_true(json_object_get(r, "simulated")) ? ", simulated" : "", number(r, "depth"),
           number(r, "plain_tokens_per_second"), number(r, "tokens_per_second"), number(r, "speed"),
           number(r, "deviation"), number(r, "tokens_per_pass"));
    print_shares(r, ", ");
    printf(" %% | %.1f ms | %.1f ms | %.1f ms | %.2f |\n", 1e3 * number(r, "guess_seconds"),
           1e3 * number(r, "verify_seconds"), 1e3 * number(r, "row_seconds"),
           number(r, "verify_over_row"));
}

void cli_bench_drafts_print(const json_t *results, bool csv, bool behind_others) {
    size_t i = 0;
    const json_t *r = NULL;
    if (behind_others) {
        putchar('\n');
    }
    if (csv) {
        puts("drafter,depth,tokens,plain_tokens_per_second,tokens_per_second,speed,deviation,"
             "tokens_per_pass,accepted_percent,guess_ms,verify_ms,row_ms,verify_over_row");
    } else {
        puts("| drafter | depth | plain tokens/s | tokens/s | times plain | ± | tokens a pass | "
             "each guess accepted | guessing a pass | its forward | of one row | the one over the "
             "other |");
        puts("| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |");
    }
    json_array_foreach(results, i, r) {
        if (csv) {
            print_csv(r);
        } else {
            print_md(r);
        }
    }
    json_array_foreach(results, i, r) {
        if (!csv && json_object_get(r, "profile_seconds") != NULL) {
            printf("\ntime by class at depth %.0f, plain:\n", number(r, "depth"));
            cli_profile_print(json_object_get(r, "plain_profile_seconds"));
            puts("with drafts:");
            cli_profile_print(json_object_get(r, "profile_seconds"));
        }
    }
}
