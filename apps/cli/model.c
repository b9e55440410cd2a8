#include "cli/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/drafting.h"
#include "cli/paths.h"
#include "cli/report.h"
#include "cli/signals.h"

fn_status cli_model_dir(const cli_options *options, char **out, fn_error *err) {
    const char *given = cli_text(options, CLI_OPT_MODEL_DIR);
    *out = NULL;
    if (given != NULL && given[0] == 0) {
        return cli_fail(err, FN_E_USAGE, "--model-dir: expected a directory, found nothing");
    }
    *out = given != NULL ? cli_strdup(given) : cli_path_demo();
    if (*out != NULL) {
        return FN_OK;
    }
    const char *home = getenv("FLASHNEXT_HOME");
    return cli_fail(err, FN_E_MODEL,
                    "no model: %s%smodels/demo does not exist; give --model-dir DIR",
                    home != NULL ? home : "", home != NULL ? "/models/demo or " : "");
}

const char *cli_bytes(uint64_t bytes, char *out, size_t size) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024.0 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024.0;
        unit++;
    }
    (void)snprintf(out, size, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
    return out;
}

static void describe(const cli_model *model) {
    const fn_engine_info *info = &model->info;
    char weights[32];
    char mapped[32];
    char state[32];
    fprintf(stderr,
            "%s: %zu layers, vocabulary %zu, %s of weights loaded and %s mapped in %.2f s\n"
            "%s kernels, %zu threads, %s precision, %s, context %zu of %zu tokens (%s of state), "
            "%zu prompt tokens at a time\n",
            model->dir, info->layers, info->vocab, cli_bytes(info->weight_bytes, weights, 32),
            cli_bytes(info->mapped_bytes, mapped, 32), info->load_seconds, info->isa, info->threads,
            info->precision, info->mtp ? "with MTP head" : "no MTP head", info->context,
            info->max_context, cli_bytes(info->state_bytes, state, 32), info->chunk);
}

int cli_bits(const cli_options *options, cli_option_id id) {
    const char *text = cli_text(options, id);
    return text != NULL ? (int)strtol(text, NULL, 10) : 0;
}

fn_status cli_ngram_place(const cli_options *options, fn_ngram_place *out, fn_error *err) {
    bool disk = cli_flag(options, CLI_OPT_NGRAM_MMAP);
    bool ram = cli_flag(options, CLI_OPT_NGRAM_RAM);
    *out = disk ? FN_NGRAM_DISK : ram ? FN_NGRAM_RAM : FN_NGRAM_AUTO;
    return disk && ram
               ? cli_fail(err, FN_E_USAGE, "--ngram-mmap and --ngram-ram exclude each other")
               : FN_OK;
}

void cli_ngram_show(const fn_engine *engine) {
    fn_ngram_info info;
    char bytes[32];
    char cached[32];
    fn_engine_ngram_info(engine, &info);
    if (info.bytes == 0) {
        return;
    }
    fprintf(stderr, "n-gram table: %s %s", cli_bytes(info.bytes, bytes, sizeof bytes),
            info.in_ram ? "in memory" : "on disk");
    if (info.cache_known) {
        fprintf(stderr, ", %s of it in the page cache",
                cli_bytes(info.cached_bytes, cached, sizeof cached));
    }
    fputc('\n', stderr);
}

static fn_precision precision_asked(const cli_options *options, fn_precision otherwise) {
    const char *word = cli_text(options, CLI_OPT_PRECISION);
    if (word == NULL) {
        return otherwise;
    }
    return strcmp(word, "exact") == 0 ? FN_PRECISION_EXACT : FN_PRECISION_FAST;
}

static fn_status open_with(const cli_options *options, const fn_engine_options *special,
                           cli_model *out, fn_error *err) {
    *out = (cli_model){0};
    fn_status status = cli_model_dir(options, &out->dir, err);
    if (status != FN_OK) {
        return status;
    }
    cli_progress_init(&out->progress, options);
    fn_engine_options engine = *special;
    engine.model_dir = out->dir;
    engine.tokenizer_path = cli_text(options, CLI_OPT_TOKENIZER);
    engine.template_path = cli_text(options, CLI_OPT_TEMPLATE);
    engine.precision = precision_asked(options, special->precision);
    engine.isa = cli_text(options, CLI_OPT_ISA);
    engine.threads = cli_count(options, CLI_OPT_THREADS, 0);
    if (engine.context == 0) {
        engine.context = cli_count(options, CLI_OPT_CONTEXT, 0);
    }
    engine.chunk = cli_count(options, CLI_OPT_CHUNK, 0);
    engine.expert_bits = cli_bits(options, CLI_OPT_EXPERT_BITS);
    engine.dense_bits = cli_bits(options, CLI_OPT_DENSE_BITS);
    engine.group_size = (size_t)cli_bits(options, CLI_OPT_GROUP_SIZE);
    status = cli_ngram_place(options, &engine.ngram, err);
    if (status != FN_OK) {
        return status;
    }
    cli_drafting_options(options, &engine);
    engine.map_prepared = true;
    engine.mem_limit = cli_whole(options, CLI_OPT_MEM_LIMIT, 0);
    engine.progress = cli_progress_step;
    engine.progress_ud = &out->progress;
    cli_progress_advise(&out->progress, options, out->dir);
    status = fn_engine_open(&engine, &out->engine, err);
    cli_progress_clear(&out->progress);
    cli_progress_free(&out->progress);
    if (status != FN_OK) {
        return status;
    }
    cli_signals_guard(out->engine);
    out->text = fn_engine_text(out->engine);
    fn_engine_get_info(out->engine, &out->info);
    if (cli_flag(options, CLI_OPT_VERBOSE)) {
        describe(out);
        cli_ngram_show(out->engine);
    }
    return FN_OK;
}

fn_status cli_model_open(const cli_options *options, fn_precision precision, size_t context,
                         cli_model *out, fn_error *err) {
    fn_engine_options special = fn_engine_options_default();
    special.precision = precision;
    special.context = context;
    return open_with(options, &special, out, err);
}

fn_status cli_model_open_for(const cli_options *options, size_t sequences,
                             const fn_scheduler_options *scheduler, cli_model *out, fn_error *err) {
    fn_engine_options special = fn_engine_options_default();
    special.sessions = sequences;
    special.answers = scheduler->max_running;
    special.reserve_bytes = scheduler->cache_bytes;
    return open_with(options, &special, out, err);
}

void cli_model_close(cli_model *model) {
    if (model->engine != NULL) {
        cli_signals_guard(NULL);
        fn_engine_close(model->engine);
    }
    free(model->dir);
    *model = (cli_model){0};
}

fn_status cli_text_open(const cli_options *options, bool need_tokenizer, fn_text **out,
                        fn_error *err) {
    fn_text_options text = {
        .tokenizer_path = cli_text(options, CLI_OPT_TOKENIZER),
        .template_path = cli_text(options, CLI_OPT_TEMPLATE),
        .need_tokenizer = need_tokenizer,
    };
    char *dir = NULL;
    bool files_suffice = text.tokenizer_path != NULL || text.template_path != NULL;
    if (cli_is_set(options, CLI_OPT_MODEL_DIR) || !files_suffice) {
        fn_status status = cli_model_dir(options, &dir, err);
        if (status != FN_OK) {
            return status;
        }
    }
    text.model_dir = dir;
    fn_status status = fn_text_open(&text, out, err);
    free(dir);
    return status;
}
