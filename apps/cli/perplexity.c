#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/ids_file.h"
#include "cli/input.h"
#include "cli/model.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "flashnext_tools.h"

/* The ids of --ids-file, or of the text. */
static fn_status read_ids(const cli_options *options, const cli_model *model, fn_ids *ids,
                          fn_error *err) {
    const char *path = cli_text(options, CLI_OPT_IDS_FILE);
    if (path == NULL) {
        cli_buffer input = {0};
        fn_status status = cli_input_read(options, &input, err);
        if (status == FN_OK) {
            status = fn_text_encode(model->text, cli_buffer_text(&input), input.n, true, ids, err);
        }
        cli_buffer_free(&input);
        return status;
    }
    cli_id_rows rows;
    fn_status status = cli_id_rows_read(path, &rows, err);
    if (status == FN_OK && rows.rows != 1) {
        status =
            cli_fail(err, FN_E_USAGE, "%s: found %zu rows of ids, expected one", path, rows.rows);
    }
    if (status == FN_OK) {
        status = cli_id_rows_check(&rows, path, model->info.vocab, err);
    }
    if (status == FN_OK) {
        *ids = (fn_ids){.items = cli_alloc(rows.length * sizeof *ids->items)};
        for (size_t i = 0; i < rows.length; i++) {
            ids->items[ids->count++] = rows.ids[i];
        }
    }
    cli_id_rows_free(&rows);
    return status;
}

static void print_json(const fn_perplexity *p, bool compared, double seconds) {
    json_t *root =
        json_pack("{s:I, s:f, s:f, s:f, s:f}", "positions", (json_int_t)p->positions, "nll", p->nll,
                  "nll_error", p->nll_error, "perplexity", exp(p->nll), "seconds", seconds);
    if (compared) {
        json_t *more =
            json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "kl", p->kl, "kl_max", p->kl_max,
                      "same_top", p->same_top, "reference_nll", p->reference_nll, "logit_error",
                      p->logit_error, "logit_error_max", p->logit_error_max);
        json_object_update(root, more);
        json_decref(more);
    }
    json_dumpf(root, stdout, JSON_REAL_PRECISION(12));
    putchar('\n');
    json_decref(root);
}

static void print_text(const fn_perplexity *p, bool compared) {
    printf("predictions      %zu\n", p->positions);
    printf("mean NLL         %.6f +- %.6f\n", p->nll, p->nll_error);
    printf("perplexity       %.4f\n", exp(p->nll));
    if (compared) {
        printf("reference NLL    %.6f\n", p->reference_nll);
        printf("KL divergence    %.8f (largest %.6f)\n", p->kl, p->kl_max);
        printf("same best token  %.3f %%\n", 100.0 * p->same_top);
        printf("logit error      %.6f (largest %.6f)\n", p->logit_error, p->logit_error_max);
    }
}

static int score(const cli_options *options, cli_model *model, const fn_ids *ids) {
    fn_error err = {0};
    fn_perplexity result;
    fn_perplexity_options settings = {.ids = ids->items,
                                      .n = ids->count,
                                      .window = cli_count(options, CLI_OPT_WINDOW, 0),
                                      .by_document = cli_flag(options, CLI_OPT_BY_DOCUMENT),
                                      .save_path = cli_text(options, CLI_OPT_SAVE_REFERENCE),
                                      .reference_path = cli_text(options, CLI_OPT_REFERENCE)};
    double begin = cli_now();
    fn_status status = fn_perplexity_run(model->engine, &settings, &result, &err);
    cli_progress_clear(&model->progress);
    if (status == FN_OK && cli_flag(options, CLI_OPT_JSON)) {
        print_json(&result, settings.reference_path != NULL, cli_now() - begin);
    } else if (status == FN_OK) {
        print_text(&result, settings.reference_path != NULL);
    }
    return cli_report(status, &err);
}

int cli_perplexity(const cli_options *options) {
    fn_error err = {0};
    fn_ids ids = {0};
    cli_model model = {0};
    if (cli_text(options, CLI_OPT_IDS_FILE) == NULL && !cli_input_given(options)) {
        cli_complain(
            "perplexity: a text (--file, --prompt, standard input) or --ids-file is needed");
        return CLI_EXIT_USAGE;
    }
    cli_signals_catch(); /* a run that is stopped takes its unfinished file away */
    size_t window = cli_count(options, CLI_OPT_WINDOW, 0);
    fn_status status = cli_model_open(options, FN_PRECISION_DEFAULT, window, &model, &err);
    if (status != FN_OK) {
        return cli_report_model(status, &err);
    }
    status = read_ids(options, &model, &ids, &err);
    int code = status == FN_OK ? score(options, &model, &ids) : cli_report(status, &err);
    if (cli_text(options, CLI_OPT_IDS_FILE) != NULL) {
        free(ids.items);
    } else {
        fn_ids_free(&ids);
    }
    cli_model_close(&model);
    return code;
}
