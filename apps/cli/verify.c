#include "cli/verify.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/buffer.h"
#include "cli/commands.h"
#include "cli/ids_file.h"
#include "cli/json_get.h"
#include "cli/model.h"
#include "cli/paths.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "cli/terminal.h"

/* Ids of a golden file. */
typedef struct golden_ids {
    int32_t *ids;    /* [rows, length] */
    double *as_read; /* the same */
    size_t rows, length;
} golden_ids;

typedef struct verify_job {
    const cli_options *options;
    fn_tensor_file *golden;
    golden_ids ids, prompt, answer; /* prompt and answer: of the greedy continuation, or empty */
    golden_ids draft_position,
        draft_tokens; /* [1], [1 + drafts] of the MTP head's chain, or empty */
    size_t *split;    /* [n_split] or NULL */
    size_t n_split;
    char traced_path[4096];
    cli_verdict verdict;
} verify_job;

/* Reads integers [n] or [rows, n]; nothing if there is no such tensor. */
static fn_status read_ids(const fn_tensor_file *file, const char *name, golden_ids *out,
                          fn_error *err) {
    fn_tensor_view view;
    if (!fn_tensor_file_find(file, name, &view)) {
        return FN_OK;
    }
    if (view.n_dims < 1 || view.n_dims > 2 || (view.dtype[0] != 'I' && view.dtype[0] != 'U')) {
        return cli_fail(err, FN_E_FAILED, "golden tensor %s: expected ids [T] or [B,T]", name);
    }
    out->rows = view.n_dims == 2 ? (size_t)view.dims[0] : 1;
    out->length = (size_t)view.dims[view.n_dims - 1];
    size_t n = out->rows * out->length;
    out->as_read = cli_alloc(n * sizeof *out->as_read);
    out->ids = cli_alloc(n * sizeof *out->ids);
    fn_status status = fn_tensor_file_read(file, name, out->as_read, err);
    for (size_t i = 0; i < n && status == FN_OK; i++) {
        if (!(out->as_read[i] >= 0.0) || out->as_read[i] > (double)INT32_MAX) {
            return cli_fail(err, FN_E_FAILED, "golden tensor %s: element %zu is not a token id",
                            name, i);
        }
        out->ids[i] = (int32_t)out->as_read[i];
    }
    return status;
}

static void free_ids(golden_ids *ids) {
    free(ids->ids);
    free(ids->as_read);
}

/* From case.json, unless both --atol and --rtol are given. */
static fn_status read_bounds(const cli_options *options, const char *golden, cli_bounds *out,
                             fn_error *err) {
    out->scale = cli_number(options, CLI_OPT_SCALE, 1.0);
    out->absolute = cli_number(options, CLI_OPT_ATOL, 0.0);
    out->relative = cli_number(options, CLI_OPT_RTOL, 0.0);
    bool both = cli_is_set(options, CLI_OPT_ATOL) && cli_is_set(options, CLI_OPT_RTOL);
    if (both && !cli_is_set(options, CLI_OPT_CASE)) {
        return FN_OK;
    }
    const char *named = cli_text(options, CLI_OPT_CASE);
    char *path = named != NULL ? cli_strdup(named) : cli_path_beside(golden, "case.json");
    json_error_t at;
    json_t *root = json_load_file(path, 0, &at);
    fn_status status = FN_OK;
    if (root == NULL) {
        status = cli_fail(err, FN_E_USAGE, "%s: %s; give --case FILE, or --atol A and --rtol R",
                          path, at.text);
    } else if (!json_is_number(cli_json_at(root, "tolerances.float_absolute")) ||
               !json_is_number(cli_json_at(root, "tolerances.float_relative"))) {
        status =
            cli_fail(err, FN_E_FAILED,
                     "%s: expected numbers tolerances.float_absolute and .float_relative", path);
    } else {
        out->absolute =
            cli_number(options, CLI_OPT_ATOL, cli_json_number(root, "tolerances.float_absolute"));
        out->relative =
            cli_number(options, CLI_OPT_RTOL, cli_json_number(root, "tolerances.float_relative"));
    }
    json_decref(root);
    free(path);
    return status;
}

/* Everything that can be wrong without a model. */
static fn_status read_golden(verify_job *job, fn_error *err) {
    const char *path = cli_text(job->options, CLI_OPT_GOLDEN);
    fn_status status = fn_tensor_file_open(path, &job->golden, err);
    if (status == FN_OK) {
        status = read_bounds(job->options, path, &job->verdict.bounds, err);
    }
    if (status == FN_OK) {
        status = read_ids(job->golden, "ids", &job->ids, err);
    }
    if (status == FN_OK && job->ids.length == 0) {
        status = cli_fail(err, FN_E_FAILED, "%s: there are no `ids` [B,T]", path);
    }
    if (status == FN_OK) {
        status = read_ids(job->golden, "greedy_prompt", &job->prompt, err);
    }
    if (status == FN_OK) {
        status = read_ids(job->golden, "greedy_ids", &job->answer, err);
    }
    if (status == FN_OK) {
        status = read_ids(job->golden, "draft_position", &job->draft_position, err);
    }
    if (status == FN_OK) {
        status = read_ids(job->golden, "draft_tokens", &job->draft_tokens, err);
    }
    const char *split = cli_text(job->options, CLI_OPT_SPLIT);
    if (status == FN_OK && split != NULL) {
        status = cli_split_read(split, job->ids.length, &job->split, &job->n_split, err);
    }
    return status;
}

static fn_status make_temporary(verify_job *job, fn_error *err) {
    const char *directory = getenv("TMPDIR");
    if (directory == NULL || directory[0] == 0) {
        directory = "/tmp";
    }
    (void)snprintf(job->traced_path, sizeof job->traced_path, "%s/flashnext-verify-XXXXXX",
                   directory);
    int fd = mkstemp(job->traced_path);
    if (fd < 0) {
        (void)cli_fail(err, FN_E_FAILED, "%s: %s", job->traced_path, strerror(errno));
        job->traced_path[0] = 0;
        return FN_E_FAILED;
    }
    (void)close(fd);
    cli_signals_end_removing(job->traced_path);
    return FN_OK;
}

static size_t drafts_of(const verify_job *job) {
    bool chained = job->draft_position.length == 1 && job->draft_tokens.length > 1;
    return chained ? job->draft_tokens.length - 1 : 0;
}

static fn_status compare_trace(verify_job *job, cli_model *model, fn_error *err) {
    fn_status status = make_temporary(job, err);
    if (status != FN_OK) {
        return status;
    }
    fn_trace_options trace = {
        .ids = job->ids.ids,
        .rows = job->ids.rows,
        .length = job->ids.length,
        .split = job->split,
        .n_split = job->n_split,
        .together = cli_flag(job->options, CLI_OPT_TOGETHER),
        .trace = true,
    };
    if (drafts_of(job) > 0 && model->info.mtp) {
        trace.drafts = drafts_of(job);
        trace.draft_position = (size_t)job->draft_position.ids[0];
    }
    fn_tensor_file *traced = NULL;
    status = fn_trace_run(model->engine, &trace, job->traced_path, err);
    cli_progress_clear(&model->progress);
    if (status == FN_E_NUMERIC) { /* the comparison shows where it begins */
        *err = (fn_error){0};
        status = FN_OK;
    }
    if (status == FN_OK) {
        status = fn_tensor_file_open(job->traced_path, &traced, err);
    }
    if (status == FN_OK) {
        status = cli_verify_compare(job->golden, traced, &job->verdict, err);
    }
    if (status == FN_OK && job->verdict.n_compared == 0) {
        status = cli_fail(err, FN_E_FAILED, "%s: has no value that can be compared",
                          cli_text(job->options, CLI_OPT_GOLDEN));
    }
    if (traced != NULL) {
        fn_tensor_file_close(traced);
    }
    return status;
}

static fn_status compare_greedy(verify_job *job, cli_model *model, fn_error *err) {
    if (job->prompt.length == 0 || job->answer.length == 0) {
        return FN_OK;
    }
    fn_session *session = NULL;
    fn_generated generated = {0};
    fn_status status = fn_session_create(model->engine, &session, err);
    if (status == FN_OK) {
        status = fn_session_sync(session, job->prompt.ids, job->prompt.length, NULL, err);
    }
    if (status == FN_OK) {
        fn_generation generation = fn_generation_default(model->text);
        generation.sampling = (fn_sampling){.top_p = 1.0f, .repetition_penalty = 1.0f};
        generation.max_tokens = job->answer.length;
        generation.ignore_end = true;
        status = fn_session_generate(session, &generation, &generated, err);
    }
    if (status == FN_OK) {
        size_t n = 0;
        const int32_t *ids = fn_session_ids(session, &n);
        cli_verify_compare_ids(&job->verdict, "greedy_ids", job->answer.as_read,
                               ids + n - generated.n_ids, job->answer.length, generated.n_ids);
    }
    if (session != NULL) {
        fn_session_destroy(session);
    }
    return status;
}

static int report(verify_job *job, const char *model_dir) {
    cli_layers layers;
    cli_layers_read(model_dir, &layers);
    cli_verify_sort(&job->verdict);
    cli_difference first = cli_verify_first(&job->verdict, &layers);
    if (cli_flag(job->options, CLI_OPT_JSON)) {
        cli_verify_print_json(&job->verdict, &first);
    } else {
        cli_verify_print(&job->verdict, &first, cli_terminal_colors(job->options, STDOUT_FILENO));
    }
    cli_layers_free(&layers);
    return first.tensor == NULL ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}

static int verify(verify_job *job) {
    fn_error err = {0};
    size_t greedy = job->prompt.length + job->answer.length;
    size_t context = job->ids.length + drafts_of(job);
    context = context > greedy ? context : greedy;
    cli_model model;
    fn_status status = cli_model_open(job->options, FN_PRECISION_EXACT, context, &model, &err);
    int code = CLI_EXIT_OK;
    if (status != FN_OK) {
        code = cli_report_model(status, &err);
    } else {
        status = compare_trace(job, &model, &err);
        status = status == FN_OK ? compare_greedy(job, &model, &err) : status;
        code = status == FN_OK ? report(job, model.dir) : cli_report(status, &err);
    }
    if (job->traced_path[0] != 0) {
        (void)unlink(job->traced_path);
    }
    cli_model_close(&model);
    return code;
}

int cli_verify(const cli_options *options) {
    if (cli_text(options, CLI_OPT_MODEL_DIR) == NULL || cli_text(options, CLI_OPT_GOLDEN) == NULL) {
        cli_complain("verify: --model-dir and --golden are needed");
        return CLI_EXIT_USAGE;
    }
    cli_signals_end_removing(NULL);
    fn_error err = {0};
    verify_job job = {.options = options};
    fn_status status = read_golden(&job, &err);
    int code = status == FN_OK ? verify(&job) : cli_report(status, &err);
    if (job.golden != NULL) {
        fn_tensor_file_close(job.golden);
    }
    free_ids(&job.ids);
    free_ids(&job.prompt);
    free_ids(&job.answer);
    free_ids(&job.draft_position);
    free_ids(&job.draft_tokens);
    free(job.split);
    cli_verdict_free(&job.verdict);
    return code;
}
