/* bench: how fast the model runs on this machine, beside what the machine could do at most at that moment. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "cli/bench_drafts.h"
#include "cli/buffer.h"
#include "cli/commands.h"
#include "cli/drafting.h"
#include "cli/ids_file.h"
#include "cli/model.h"
#include "cli/profile.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "cli/statistics.h"
#include "flashnext_tools.h"

#define MAX_LIST 256
#define MAX_NUMBER 100000000
#define MAX_ROUNDS 1000
#define MOST_SEQUENCES 256
/* A share beyond this says that the limit was measured while something else ran: the round does not count. */
#define MOST_SHARE 1.03
#define WARM_UP_TOKENS 8

typedef struct bench {
    const cli_options *options;
    cli_model model;
    size_t prompts[MAX_LIST], answers[MAX_LIST], depths[MAX_LIST], batches[MAX_LIST];
    size_t n_prompts, n_answers, n_depths, n_batches;
    size_t rounds;
    const char *format; /* md, json, jsonl or csv */
    int32_t *ids;       /* [most_ids], random */
    size_t most_ids;
    float *logits; /* [largest batch, vocab] */
    json_t *results;
    cli_bench_drafts drafts;
    json_t *drafting; /* their results */
} bench;

/* One kind of run: a prompt read, or tokens made one after the other by several sequences. */
typedef struct test {
    bool prompt;
    size_t depth, n, batch;
    size_t kept, discarded;
    double rate[MAX_ROUNDS], share[MAX_ROUNDS], first[MAX_ROUNDS];
    fn_limits limits; /* the largest that a kept round saw */
    fn_profile profile;
} test;

/* ---- options ---------------------------------------------------------------------------- */

static fn_status read_list(const bench *b, cli_option_id id, const char *otherwise, size_t least,
                           size_t *list, size_t *n, fn_error *err) {
    const char *text = cli_text(b->options, id);
    const char *at = text != NULL ? text : otherwise;
    for (*n = 0; *at != 0; (*n)++) {
        char *end = NULL;
        unsigned long long value = strtoull(at, &end, 10);
        bool number = *at >= '0' && *at <= '9' && value <= MAX_NUMBER && value >= least;
        if (!number || (*end != 0 && (*end != ',' || end[1] == 0)) || *n == MAX_LIST) {
            return cli_fail(err, FN_E_USAGE,
                            "bench: --%s: found '%s', expected up to %d numbers from %zu to %d, "
                            "with commas between them",
                            cli_option_table[id].name, text, MAX_LIST, least, MAX_NUMBER);
        }
        list[*n] = (size_t)value;
        at = *end == ',' ? end + 1 : end;
    }
    return FN_OK;
}

static size_t largest(const size_t *list, size_t n) {
    size_t most = 0;
    for (size_t i = 0; i < n; i++) {
        most = list[i] > most ? list[i] : most;
    }
    return most;
}

/* An empty list, or zeros alone, say that there is nothing of that kind to measure. */
static fn_status check_lists(const bench *b, fn_error *err) {
    if (largest(b->prompts, b->n_prompts) == 0 && largest(b->answers, b->n_answers) == 0) {
        return cli_fail(err, FN_E_USAGE,
                        "bench: nothing to measure: expected a number above 0 in --n-prompt or "
                        "--n-gen");
    }
    if (b->n_depths == 0 || b->n_batches == 0) {
        return cli_fail(err, FN_E_USAGE, "bench: --%s: expected at least one number",
                        cli_option_table[b->n_depths == 0 ? CLI_OPT_DEPTH : CLI_OPT_BATCH].name);
    }
    return FN_OK;
}

static fn_status read_options(bench *b, fn_error *err) {
    const char *format = cli_text(b->options, CLI_OPT_OUTPUT_FORMAT);
    b->format = format != NULL ? format : "md";
    b->rounds = cli_count(b->options, CLI_OPT_ROUNDS, 5);
    b->drafts = (cli_bench_drafts){.wanted = cli_drafting_wanted(b->options),
                                   .profile = cli_flag(b->options, CLI_OPT_PROFILE)};
    fn_status status = cli_draft_shares(b->options, b->drafts.held, &b->drafts.n_held, err);
    if (status == FN_OK) {
        status = read_list(b, CLI_OPT_BENCH_PROMPT, b->drafts.wanted ? "0" : "512", 0, b->prompts,
                           &b->n_prompts, err);
    }
    if (status == FN_OK) {
        status = read_list(b, CLI_OPT_BENCH_NEW, "128", 0, b->answers, &b->n_answers, err);
    }
    if (status == FN_OK) {
        status = read_list(b, CLI_OPT_DEPTH, "0", 0, b->depths, &b->n_depths, err);
    }
    if (status == FN_OK) {
        status = read_list(b, CLI_OPT_BATCH, "1", 1, b->batches, &b->n_batches, err);
    }
    if (status == FN_OK && largest(b->batches, b->n_batches) > MOST_SEQUENCES) {
        status = cli_fail(err, FN_E_USAGE, "bench: --batch: found %zu, expected at most %d",
                          largest(b->batches, b->n_batches), MOST_SEQUENCES);
    }
    if (status == FN_OK && b->drafts.wanted && cli_is_set(b->options, CLI_OPT_BATCH)) {
        status = cli_fail(err, FN_E_USAGE, "bench: --batch and drafting exclude each other");
    }
    return status == FN_OK ? check_lists(b, err) : status;
}

/* The text of --ids-file instead of random ids, and its length as the only depth. */
static fn_status read_ids(bench *b, cli_id_rows *rows, fn_error *err) {
    const char *path = cli_text(b->options, CLI_OPT_IDS_FILE);
    *rows = (cli_id_rows){0};
    if (path == NULL) {
        return FN_OK;
    }
    if (cli_is_set(b->options, CLI_OPT_DEPTH)) {
        return cli_fail(err, FN_E_USAGE, "bench: --ids-file and --n-depth exclude each other");
    }
    fn_status status = cli_id_rows_read(path, rows, err);
    if (status == FN_OK && rows->rows != 1) {
        status =
            cli_fail(err, FN_E_USAGE, "%s: found %zu rows of ids, expected one", path, rows->rows);
    }
    b->depths[0] = rows->length;
    b->n_depths = 1;
    return status;
}

static fn_status open_model(bench *b, const cli_id_rows *rows, fn_error *err) {
    size_t most = largest(b->prompts, b->n_prompts);
    size_t answer = largest(b->answers, b->n_answers);
    most = most > answer ? most : answer;
    size_t context = largest(b->depths, b->n_depths) + most + (size_t)2 * FN_MAX_DRAFTS + 1;
    size_t batch = largest(b->batches, b->n_batches);
    size_t chunk = cli_count(b->options, CLI_OPT_CHUNK, batch);
    if (chunk < batch) {
        return cli_fail(err, FN_E_USAGE, "bench: --batch: found %zu, expected at most --chunk, %zu",
                        batch, chunk);
    }
    context = context > batch ? context : batch; /* a forward has no more rows */
    fn_status status = cli_model_open(b->options, FN_PRECISION_DEFAULT, context, &b->model, err);
    if (status == FN_OK && rows->ids != NULL) {
        status = cli_id_rows_check(rows, cli_text(b->options, CLI_OPT_IDS_FILE),
                                   b->model.info.vocab, err);
    }
    if (status != FN_OK) {
        return status;
    }
    b->most_ids = context;
    b->ids = cli_alloc(context * sizeof *b->ids);
    b->logits = cli_alloc(batch * b->model.info.vocab * sizeof *b->logits);
    b->results = json_array();
    b->drafting = json_array();
    uint64_t x = 88172645463325252u; /* xorshift: every run reads the same ids */
    for (size_t i = 0; i < context; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        b->ids[i] = i < rows->length ? rows->ids[i] : (int32_t)(x % b->model.info.vocab);
    }
    return FN_OK;
}

/* ---- runs ------------------------------------------------------------------------------- */

/* Of one forward: the whole prompt, or a token of each sequence. */
static void work_of(const bench *b, const test *t, fn_work *out) {
    fn_work_of(b->model.engine, t->prompt ? t->n : t->batch, t->depth, t->prompt ? 1 : t->batch,
               t->prompt ? 1 : t->batch, out);
}

/* The share of what the machine can do at most: of the multiplications of the kind that most are of, for a
 * prompt; of reading, for single tokens. */
static double share_of(const bench *b, const test *t, double seconds, const fn_limits *limits) {
    fn_work work;
    work_of(b, t, &work);
    if (!t->prompt) {
        double bytes = (work.weight_bytes + work.state_bytes) * (double)t->n;
        return bytes / seconds / limits->read;
    }
    double all = work.int8_operations + work.bf16_operations + work.f32_operations;
    double peak = work.int8_operations > all / 2   ? limits->int8
                  : work.bf16_operations > all / 2 ? limits->bf16
                                                   : limits->f32;
    return all / seconds / peak;
}

static fn_status read_prompt(const bench *b, fn_session *session, const test *t, double *seconds,
                             double *first, fn_error *err) {
    const float *logits = NULL;
    double begin = cli_now();
    fn_status status = fn_session_append(session, b->ids + t->depth, t->n, err);
    *seconds = cli_now() - begin;
    if (status == FN_OK) {
        status = fn_session_logits(session, &logits, err);
    }
    *first = cli_now() - begin;
    return status;
}

static fn_status make_tokens(bench *b, fn_session *const *sessions, const test *t, double *seconds,
                             double *first, fn_error *err) {
    int32_t ids[MOST_SEQUENCES];
    size_t n_ids = b->most_ids > 0 ? b->most_ids : 1; /* the analyzer cannot know: never 0 */
    double begin = cli_now();
    fn_status status = FN_OK;
    for (size_t i = 0; i < t->n && status == FN_OK; i++) {
        for (size_t k = 0; k < t->batch; k++) {
            ids[k] = b->ids[(i * 31 + k * 7919) % n_ids];
        }
        status = fn_sessions_step(sessions, ids, t->batch, b->logits, err);
        *first = i == 0 ? cli_now() - begin : *first;
    }
    *seconds = cli_now() - begin;
    return status;
}

static void keep_limits(fn_limits *most, const fn_limits *more) {
    most->read = fmax(most->read, more->read);
    most->int8 = fmax(most->int8, more->int8);
    most->bf16 = fmax(most->bf16, more->bf16);
    most->f32 = fmax(most->f32, more->f32);
}

/* One round from the depth that `base` has; the limits before and after it. */
static fn_status run_round(bench *b, fn_session *base, test *t, bool counts, fn_error *err) {
    fn_session *sessions[MOST_SEQUENCES] = {NULL};
    fn_limits limits;
    fn_limits after;
    double seconds = 0.0;
    double first = 0.0;
    fn_status status = FN_OK;
    for (size_t k = 0; k < t->batch && status == FN_OK; k++) {
        status = fn_session_fork(base, &sessions[k], err);
    }
    fn_limits_measure(b->model.engine, &limits);
    if (status == FN_OK) {
        status = t->prompt ? read_prompt(b, sessions[0], t, &seconds, &first, err)
                           : make_tokens(b, sessions, t, &seconds, &first, err);
    }
    fn_limits_measure(b->model.engine, &after);
    keep_limits(&limits, &after);
    for (size_t k = 0; k < t->batch; k++) {
        fn_session_destroy(sessions[k]);
    }
    if (status != FN_OK || !counts) {
        return status;
    }
    double share = share_of(b, t, seconds, &limits);
    if (share > MOST_SHARE) {
        t->discarded++;
        return FN_OK;
    }
    t->rate[t->kept] = (double)(t->n * t->batch) / seconds;
    t->share[t->kept] = share;
    t->first[t->kept++] = first;
    keep_limits(&t->limits, &limits);
    return FN_OK;
}

/* Of this process's memory, in pages of 2 MiB and more: 4 KiB pages cost a tenth or more of the bandwidth. */
static size_t huge_page_bytes(void) {
    char line[256];
    unsigned long long all = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        static const char *const names[] = {"AnonHugePages:", "FilePmdMapped:"};
        for (size_t i = 0; i < 2; i++) {
            size_t n = strlen(names[i]);
            all += strncmp(line, names[i], n) == 0 ? strtoull(line + n, NULL, 10) : 0;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return (size_t)all * 1024;
}

static json_t *result_json(const bench *b, const test *t) {
    char name[32];
    (void)snprintf(name, sizeof name, "%s%zu", t->prompt ? "pp" : "tg", t->n);
    json_t *object = json_pack(
        "{s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:{s:f, s:f, s:f, s:f}}", "test", name,
        "depth", (json_int_t)t->depth, "tokens", (json_int_t)t->n, "batch", (json_int_t)t->batch,
        "tokens_per_second", cli_mean(t->rate, t->kept), "deviation",
        cli_deviation(t->rate, t->kept), "share_of_limit", cli_mean(t->share, t->kept),
        "first_token_seconds", cli_mean(t->first, t->kept), "rounds", (json_int_t)t->kept,
        "discarded", (json_int_t)t->discarded, "limits", "read_bytes_per_second", t->limits.read,
        "int8_operations_per_second", t->limits.int8, "bf16_operations_per_second", t->limits.bf16,
        "f32_operations_per_second", t->limits.f32);
    json_t *samples = json_array();
    for (size_t i = 0; i < t->kept; i++) {
        (void)json_array_append_new(samples, json_real(t->rate[i]));
    }
    fn_work work;
    work_of(b, t, &work);
    (void)json_object_set_new(object, "samples", samples);
    (void)json_object_set_new(
        object, "work",
        json_pack("{s:f, s:f, s:f, s:f, s:f}", "weight_bytes", work.weight_bytes, "state_bytes",
                  work.state_bytes, "int8_operations", work.int8_operations, "bf16_operations",
                  work.bf16_operations, "f32_operations", work.f32_operations));
    if (cli_flag(b->options, CLI_OPT_PROFILE)) {
        (void)json_object_set_new(object, "profile_seconds", cli_profile_json(&t->profile));
    }
    return object;
}

/* ---- output of one run ------------------------------------------------------------------ */

/* Of the whole run, so far. */
static json_t *head_json(const bench *b) {
    struct rusage usage;
    fn_ngram_info ngram;
    const fn_engine_info *info = &b->model.info;
    (void)getrusage(RUSAGE_SELF, &usage);
    fn_engine_ngram_info(b->model.engine, &ngram);
    json_t *table =
        json_pack("{s:I, s:b, s:o}", "bytes", (json_int_t)ngram.bytes, "in_ram", ngram.in_ram,
                  "in_page_cache_bytes",
                  ngram.cache_known ? json_integer((json_int_t)ngram.cached_bytes) : json_null());
    return json_pack("{s:s, s:s, s:s, s:I, s:s, s:I, s:I, s:f, s:I, s:I, s:o}", "model",
                     b->model.dir, "version", fn_version(), "isa", info->isa, "threads",
                     (json_int_t)info->threads, "precision", info->precision, "chunk",
                     (json_int_t)info->chunk, "weight_bytes", (json_int_t)info->weight_bytes,
                     "load_seconds", info->load_seconds, "peak_rss_bytes",
                     (json_int_t)usage.ru_maxrss * 1024, "huge_page_bytes",
                     (json_int_t)huge_page_bytes(), "ngram_table", table);
}

static void print_line(const bench *b, json_t *result) {
    json_t *line = head_json(b);
    (void)json_object_update(line, result);
    json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    (void)fflush(stdout);
    json_decref(line);
}

/* A first round warms up (a few tokens are enough, where single ones are made); discarded ones are run again,
 * a few times. */
static fn_status run_test(bench *b, fn_session *base, bool prompt, size_t n, size_t batch,
                          fn_error *err) {
    test *t = cli_alloc(sizeof *t);
    *t = (test){.prompt = prompt, .depth = fn_session_length(base), .n = n, .batch = batch};
    t->n = !prompt && n > WARM_UP_TOKENS ? WARM_UP_TOKENS : n;
    fn_status status = run_round(b, base, t, false, err);
    t->n = n;
    fn_profile_begin(b->model.engine);
    while (status == FN_OK && t->kept < b->rounds && t->discarded <= 2 * b->rounds) {
        status = run_round(b, base, t, true, err);
    }
    fn_profile_end(b->model.engine, &t->profile);
    if (status == FN_OK) {
        json_t *result = result_json(b, t);
        if (strcmp(b->format, "jsonl") == 0) {
            print_line(b, result);
        }
        (void)json_array_append_new(b->results, result);
    }
    free(t);
    return status;
}

/* Behind one id at least: a draft needs something to start from. */
static fn_status run_drafts(bench *b, fn_session *base, size_t depth, size_t tokens,
                            fn_error *err) {
    json_t *result = NULL;
    fn_status status =
        fn_session_length(base) == 0 ? fn_session_append(base, b->ids, 1, err) : FN_OK;
    if (status == FN_OK) {
        status = cli_bench_drafts_run(&b->drafts, base, depth, tokens, b->rounds, &result, err);
    }
    if (status == FN_OK) {
        if (strcmp(b->format, "jsonl") == 0) {
            print_line(b, result);
        }
        (void)json_array_append_new(b->drafting, result);
    }
    return status;
}

static fn_status run_depth(bench *b, size_t depth, fn_error *err) {
    fn_session *base = NULL;
    fn_status status = fn_session_create(b->model.engine, &base, err);
    if (status == FN_OK && depth > 0) {
        status = fn_session_append(base, b->ids, depth, err);
    }
    for (size_t i = 0; i < b->n_prompts && status == FN_OK; i++) {
        status = b->prompts[i] > 0 ? run_test(b, base, true, b->prompts[i], 1, err) : FN_OK;
    }
    for (size_t i = 0; i < b->n_answers * b->n_batches && status == FN_OK; i++) {
        size_t n = b->answers[i / b->n_batches];
        if (n > 0 && b->drafts.wanted) {
            status = run_drafts(b, base, depth, n, err);
        } else if (n > 0) {
            status = run_test(b, base, false, n, b->batches[i % b->n_batches], err);
        }
    }
    fn_session_destroy(base);
    return status;
}

/* ---- output ----------------------------------------------------------------------------- */

static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static void print_csv(const json_t *r) {
    const json_t *limits = json_object_get(r, "limits");
    printf("%s,%.0f,%.0f,%.3f,%.3f,%.1f,%.2f,%.2f,%.1f,%.1f,%.0f\n",
           json_string_value(json_object_get(r, "test")), number(r, "depth"), number(r, "batch"),
           number(r, "tokens_per_second"), number(r, "deviation"),
           100.0 * number(r, "share_of_limit"), 1e3 * number(r, "first_token_seconds"),
           number(limits, "read_bytes_per_second") / 1e9,
           number(limits, "int8_operations_per_second") / 1e9,
           number(limits, "bf16_operations_per_second") / 1e9, number(r, "discarded"));
}

static void print_md(const json_t *r) {
    const json_t *limits = json_object_get(r, "limits");
    printf("| %s | %.0f | %.0f | %.2f | %.2f | %.0f %% | %.1f ms | %.1f | %.0f | %.0f | %.0f |\n",
           json_string_value(json_object_get(r, "test")), number(r, "depth"), number(r, "batch"),
           number(r, "tokens_per_second"), number(r, "deviation"),
           100.0 * number(r, "share_of_limit"), 1e3 * number(r, "first_token_seconds"),
           number(limits, "read_bytes_per_second") / 1e9,
           number(limits, "int8_operations_per_second") / 1e9,
           number(limits, "bf16_operations_per_second") / 1e9, number(r, "discarded"));
}

static void print_results_table(const bench *b, bool csv) {
    size_t i = 0;
    json_t *r = NULL;
    if (csv) {
        puts("test,depth,batch,tokens_per_second,deviation,share_percent,first_token_ms,read_gb_s,"
             "int8_gop_s,bf16_gop_s,discarded");
    } else {
        puts(
            "| test | depth | batch | tokens/s | ± | of the limit | first token | read GB/s | INT8 "
            "GOP/s | BF16 GOP/s | discarded |");
        puts("| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |");
    }
    json_array_foreach(b->results, i, r) {
        if (csv) {
            print_csv(r);
        } else {
            print_md(r);
        }
    }
    json_array_foreach(b->results, i, r) {
        if (!csv && cli_flag(b->options, CLI_OPT_PROFILE)) {
            printf("\n%s at depth %.0f, batch %.0f: time by class\n",
                   json_string_value(json_object_get(r, "test")), number(r, "depth"),
                   number(r, "batch"));
            cli_profile_print(json_object_get(r, "profile_seconds"));
        }
    }
}

static void print_tables(const bench *b, const json_t *whole, bool csv) {
    if (!csv) {
        printf("%s: %s, %.0f threads, %s; peak memory %.2f GB, %.2f GB of it in huge pages\n\n",
               b->model.dir, b->model.info.isa, number(whole, "threads"), b->model.info.precision,
               number(whole, "peak_rss_bytes") / 1e9, number(whole, "huge_page_bytes") / 1e9);
        cli_ngram_show(b->model.engine);
    }
    if (!b->drafts.wanted || json_array_size(b->results) > 0) {
        print_results_table(b, csv);
    }
    if (b->drafts.wanted) {
        cli_bench_drafts_print(b->drafting, csv, json_array_size(b->results) > 0);
    }
}

static void print_results(const bench *b) {
    json_t *whole = head_json(b);
    (void)json_object_set(whole, "results", b->results);
    (void)json_object_set(whole, "drafting", b->drafting);
    if (strcmp(b->format, "json") == 0) {
        json_dumpf(whole, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        putchar('\n');
    } else if (strcmp(b->format, "jsonl") != 0) {
        print_tables(b, whole, strcmp(b->format, "csv") == 0);
    }
    json_decref(whole);
}

static fn_status prepare(bench *b, fn_error *err) {
    cli_id_rows rows = {0};
    fn_status status = read_options(b, err);
    status = status == FN_OK ? read_ids(b, &rows, err) : status;
    status = status == FN_OK ? open_model(b, &rows, err) : status;
    cli_id_rows_free(&rows);
    return status;
}

int cli_bench(const cli_options *options) {
    fn_error err = {0};
    bench *b = cli_alloc(sizeof *b);
    *b = (bench){.options = options};
    cli_signals_catch();
    fn_status status = prepare(b, &err);
    int code = status == FN_OK ? CLI_EXIT_OK : cli_report_model(status, &err);
    for (size_t i = 0; i < b->n_depths && status == FN_OK; i++) {
        status = run_depth(b, b->depths[i], &err);
        code = status == FN_OK ? code : cli_report(status, &err);
    }
    cli_progress_clear(&b->model.progress);
    if (status == FN_OK) {
        print_results(b);
    }
    json_decref(b->results);
    json_decref(b->drafting);
    free(b->ids);
    free(b->logits);
    cli_model_close(&b->model);
    free(b);
    return code;
}
