#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/buffer.h"
#include "cli/commands.h"
#include "cli/drafting.h"
#include "cli/ids_file.h"
#include "cli/input.h"
#include "cli/logprobs.h"
#include "cli/model.h"
#include "cli/report.h"
#include "cli/sampling.h"
#include "cli/signals.h"

/* One completion from prompt to output. */
typedef struct run_job {
    const cli_options *options;
    const fn_engine *engine;
    const fn_text *text;
    cli_progress *progress;
    fn_ids prompt;
    bool json;
    cli_buffer answer;   /* with --json */
    char last;           /* byte that was printed last */
    json_t *logprobs;    /* with --json and --logprobs; else NULL */
    FILE *logprobs_file; /* or NULL */
    cli_sampling sampling;
    cli_timings timings;
    fn_generated generated;
} run_job;

static void take_logprobs(run_job *job, const fn_event *event) {
    json_t *entry = cli_logprobs_json(job->text, event);
    if (job->logprobs_file != NULL) {
        (void)json_dumpf(entry, job->logprobs_file, JSON_COMPACT);
        fputc('\n', job->logprobs_file);
    }
    if (job->logprobs != NULL) {
        (void)json_array_append(job->logprobs, entry);
    }
    json_decref(entry);
}

static bool on_event(void *ud, const fn_event *event) {
    run_job *job = ud;
    if (event->kind == FN_EVENT_TOKEN) {
        if (cli_is_set(job->options, CLI_OPT_LOGPROBS)) {
            take_logprobs(job, event);
        }
    } else if (job->json) {
        cli_buffer_add(&job->answer, event->text, event->n);
    } else if (event->n > 0) {
        cli_progress_clear(job->progress);
        (void)fwrite(event->text, 1, event->n, stdout);
        (void)fflush(stdout);
        job->last = event->text[event->n - 1];
    }
    return !cli_stop_asked();
}

/* The prompt's ids, from the file or by encoding text. */
static fn_status encode_prompt(run_job *job, const cli_buffer *text, const cli_id_rows *rows,
                               size_t vocab, fn_error *err) {
    if (rows->ids == NULL) {
        fn_status status =
            fn_text_encode(job->text, cli_buffer_text(text), text->n, true, &job->prompt, err);
        if (status == FN_OK && job->prompt.count == 0) {
            status = cli_fail(err, FN_E_USAGE, "the prompt is empty");
        }
        return status;
    }
    if (rows->rows != 1) {
        return cli_fail(err, FN_E_USAGE, "--ids-file: expected one row of ids, found %zu",
                        rows->rows);
    }
    return cli_id_rows_check(rows, cli_text(job->options, CLI_OPT_IDS_FILE), vocab, err);
}

static fn_status generate(run_job *job, fn_session *session, const cli_id_rows *rows,
                          fn_error *err) {
    const int32_t *ids = rows->ids != NULL ? rows->ids : job->prompt.items;
    size_t n = rows->ids != NULL ? rows->length : job->prompt.count;
    double started = cli_now();
    fn_status status = fn_session_sync(session, ids, n, &job->timings.cache_n, err);
    cli_progress_clear(job->progress);
    if (status != FN_OK) {
        return status;
    }
    job->timings.prompt_seconds = cli_now() - started;
    job->timings.prompt_n = n - job->timings.cache_n;

    const cli_value *stop = &job->options->values[CLI_OPT_STOP];
    fn_generation generation = fn_generation_default(job->text);
    generation.sampling = job->sampling.sampling;
    generation.max_tokens = cli_count(job->options, CLI_OPT_NEW_TOKENS, FN_UNLIMITED);
    generation.min_tokens = cli_count(job->options, CLI_OPT_MIN_TOKENS, 0);
    generation.ignore_end = cli_flag(job->options, CLI_OPT_IGNORE_EOS);
    generation.stop = (const char *const *)stop->list;
    generation.n_stop = stop->n_list;
    generation.n_logprobs = cli_count(job->options, CLI_OPT_LOGPROBS, 0);
    generation.on_event = on_event;
    generation.ud = job;
    status = fn_session_generate(session, &generation, &job->generated, err);
    job->timings.predicted_n = job->generated.n_ids;
    job->timings.first_seconds = job->generated.first_seconds;
    job->timings.predicted_seconds = job->generated.seconds;
    job->timings.drafting = job->generated.drafting;
    return status;
}

static json_t *new_ids_json(const run_job *job, const fn_session *session) {
    size_t n = 0;
    const int32_t *ids = fn_session_ids(session, &n);
    json_t *list = json_array();
    for (size_t i = n - job->generated.n_ids; i < n; i++) {
        (void)json_array_append_new(list, json_integer(ids[i]));
    }
    return list;
}

static json_t *timings_json(const cli_timings *t) {
    double prompt = t->prompt_seconds > 0.0 ? (double)t->prompt_n / t->prompt_seconds : 0.0;
    double predicted =
        t->predicted_seconds > 0.0 ? (double)t->predicted_n / t->predicted_seconds : 0.0;
    return json_pack("{s:I, s:I, s:f, s:f, s:I, s:f, s:f, s:f}", "cache_n", (json_int_t)t->cache_n,
                     "prompt_n", (json_int_t)t->prompt_n, "prompt_ms", t->prompt_seconds * 1e3,
                     "prompt_per_second", prompt, "predicted_n", (json_int_t)t->predicted_n,
                     "predicted_ms", t->predicted_seconds * 1e3, "predicted_per_second", predicted,
                     "first_ms", t->first_seconds * 1e3);
}

static json_t *ngram_json(const fn_engine *engine) {
    fn_ngram_info info;
    fn_engine_ngram_info(engine, &info);
    return json_pack("{s:I, s:b, s:o}", "bytes", (json_int_t)info.bytes, "in_ram", info.in_ram,
                     "cached_bytes",
                     info.cache_known ? json_integer((json_int_t)info.cached_bytes) : json_null());
}

static void print_json(const run_job *job, const fn_session *session) {
    static const char *const reasons[] = {"stop", "length", "cancelled"};
    bool has_text = fn_text_has_tokenizer(job->text);
    json_t *root = json_object();
    (void)json_object_set_new(root, "text",
                              has_text ? json_stringn(cli_buffer_text(&job->answer), job->answer.n)
                                       : json_null());
    (void)json_object_set_new(root, "ids", new_ids_json(job, session));
    (void)json_object_set_new(root, "finish_reason", json_string(reasons[job->generated.finish]));
    (void)json_object_set_new(root, "timings", timings_json(&job->timings));
    (void)json_object_set_new(root, "drafting", cli_drafting_json(&job->timings));
    (void)json_object_set_new(root, "ngram", ngram_json(job->engine));
    if (job->sampling.sampling.temperature > 0.0f) {
        /* jansson has no unsigned integers: a seed of 2^63 or more is written as a string. */
        uint64_t seed = job->sampling.sampling.seed;
        char digits[24];
        (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)seed);
        (void)json_object_set_new(
            root, "seed", seed <= INT64_MAX ? json_integer((json_int_t)seed) : json_string(digits));
    }
    if (job->logprobs != NULL) {
        (void)json_object_set(root, "logprobs", job->logprobs);
    }
    (void)json_dumpf(root, stdout, 0);
    putchar('\n');
    json_decref(root);
}

static void print_end(const run_job *job, const fn_session *session) {
    if (job->json) {
        print_json(job, session);
    } else if (!fn_text_has_tokenizer(job->text)) {
        json_t *ids = new_ids_json(job, session);
        (void)json_dumpf(ids, stdout, 0);
        putchar('\n');
        json_decref(ids);
    } else if (isatty(STDOUT_FILENO) && job->last != '\n') {
        putchar('\n'); /* in a pipe the text is byte for byte the model's */
    }
    (void)fflush(stdout);
    bool quiet = cli_flag(job->options, CLI_OPT_QUIET);
    if (cli_flag(job->options, CLI_OPT_STATS) || cli_flag(job->options, CLI_OPT_VERBOSE) ||
        (isatty(STDERR_FILENO) && !quiet)) {
        const uint64_t *seed = job->sampling.random_seed ? &job->sampling.sampling.seed : NULL;
        cli_timings_show(&job->timings, seed);
    }
    if (cli_flag(job->options, CLI_OPT_STATS)) {
        cli_ngram_show(job->engine);
        cli_memory_show();
    }
}

static fn_status open_logprobs(run_job *job, fn_error *err) {
    const char *path = cli_text(job->options, CLI_OPT_LOGPROBS_OUT);
    if (cli_is_set(job->options, CLI_OPT_LOGPROBS) && job->json) {
        job->logprobs = json_array();
    }
    if (path != NULL) {
        job->logprobs_file = fopen(path, "w");
        if (job->logprobs_file == NULL) {
            return cli_fail(err, FN_E_FAILED, "%s: %s", path, strerror(errno));
        }
    }
    return FN_OK;
}

static fn_status close_logprobs(run_job *job, fn_error *err) {
    json_decref(job->logprobs);
    bool failed = job->logprobs_file != NULL && ferror(job->logprobs_file) != 0;
    if (job->logprobs_file != NULL && (fclose(job->logprobs_file) != 0 || failed)) {
        return cli_fail(err, FN_E_FAILED, "%s: could not be written",
                        cli_text(job->options, CLI_OPT_LOGPROBS_OUT));
    }
    return FN_OK;
}

/* Everything that needs the loaded model. */
static int complete(run_job *job, cli_model *model, const cli_buffer *text,
                    const cli_id_rows *rows) {
    fn_error err = {0};
    fn_session *session = NULL;
    job->engine = model->engine;
    job->text = model->text;
    job->progress = &model->progress;
    fn_status status =
        cli_sampling_make(job->options, job->text, model->info.vocab, &job->sampling, &err);
    if (status == FN_OK) {
        status = encode_prompt(job, text, rows, model->info.vocab, &err);
    }
    if (status == FN_OK) {
        status = open_logprobs(job, &err);
    }
    if (status == FN_OK) {
        status = fn_session_create(model->engine, &session, &err);
    }
    if (status == FN_OK) {
        status = generate(job, session, rows, &err);
    }
    if (status == FN_OK) {
        print_end(job, session);
    }
    fn_status closed = close_logprobs(job, &err);
    int code = cli_report(status != FN_OK ? status : closed, &err);
    if (session != NULL) {
        fn_session_destroy(session);
    }
    fn_ids_free(&job->prompt);
    cli_sampling_free(&job->sampling);
    return code == CLI_EXIT_OK && cli_stop_asked() ? cli_signal_exit_code() : code;
}

/* What can be wrong without a model. */
static fn_status read_input(const cli_options *options, cli_buffer *text, cli_id_rows *rows,
                            fn_error *err) {
    if (cli_is_set(options, CLI_OPT_LOGPROBS) && !cli_flag(options, CLI_OPT_JSON) &&
        !cli_is_set(options, CLI_OPT_LOGPROBS_OUT)) {
        return cli_fail(err, FN_E_USAGE, "--logprobs needs --json or --logprobs-out FILE");
    }
    if (cli_is_set(options, CLI_OPT_LOGPROBS_OUT) && !cli_is_set(options, CLI_OPT_LOGPROBS)) {
        return cli_fail(err, FN_E_USAGE, "--logprobs-out needs --logprobs K");
    }
    const char *ids_file = cli_text(options, CLI_OPT_IDS_FILE);
    if (ids_file == NULL) {
        fn_status status = cli_input_read(options, text, err);
        if (status == FN_OK && text->n == 0) {
            status = cli_fail(err, FN_E_USAGE, "the prompt is empty");
        }
        return status;
    }
    if (cli_is_set(options, CLI_OPT_PROMPT) || cli_is_set(options, CLI_OPT_FILE)) {
        return cli_fail(err, FN_E_USAGE, "--ids-file, --prompt and --file exclude each other");
    }
    return cli_id_rows_read(ids_file, rows, err);
}

int cli_run(const cli_options *options) {
    cli_signals_catch();
    fn_error err = {0};
    run_job job = {.options = options, .json = cli_flag(options, CLI_OPT_JSON)};
    cli_buffer text = {0};
    cli_id_rows rows = {0};
    fn_status status = read_input(options, &text, &rows, &err);
    int code = cli_report(status, &err);
    if (status == FN_OK) {
        cli_model model;
        status = cli_model_open(options, FN_PRECISION_DEFAULT, 0, &model, &err);
        code =
            status == FN_OK ? complete(&job, &model, &text, &rows) : cli_report_model(status, &err);
        cli_model_close(&model);
    }
    cli_buffer_free(&job.answer);
    cli_buffer_free(&text);
    cli_id_rows_free(&rows);
    return code;
}
