#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/json_get.h"
#include "cli/model.h"
#include "cli/paths.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "flashnext_tools.h"

static void print_files(const json_t *root) {
    const json_t *files = cli_json_at(root, "files");
    char bytes[32];
    for (size_t i = 0; i < json_array_size(files); i++) {
        const json_t *file = json_array_get(files, i);
        printf("  %12s  %s, %llu tensors\n",
               cli_bytes(cli_json_whole(file, "bytes"), bytes, sizeof bytes),
               cli_json_text(file, "name"), (unsigned long long)cli_json_whole(file, "tensors"));
    }
}

static void print_sizes(const char *out, const json_t *root, bool dry_run) {
    uint64_t whole = cli_json_whole(root, "bytes");
    uint64_t missing = cli_json_whole(root, "missing_bytes");
    char bytes[32];
    if (dry_run) {
        print_files(root);
    }
    printf("%s: %s in %zu files", out, cli_bytes(whole, bytes, sizeof bytes),
           json_array_size(cli_json_at(root, "files")));
    printf(", from %s", cli_bytes(cli_json_whole(root, "source_bytes"), bytes, sizeof bytes));
    if (missing < whole) {
        printf("; %s of them %s, by their files' sizes and headers (inspect --check reads them)",
               cli_bytes(whole - missing, bytes, sizeof bytes),
               dry_run ? "are there" : "were there");
    }
    puts(dry_run ? "; nothing was written" : "");
}

static int say_stopped(const char *out, int code) {
    cli_complain("stopped; the same command goes on from what is whole in %s", out);
    return code;
}

int cli_quantize(const cli_options *options) {
    fn_error err = {0};
    char *dir = NULL;
    char *json = NULL;
    cli_progress progress;
    fn_quantize_options quantize = fn_quantize_options_default();
    quantize.out_dir = cli_text(options, CLI_OPT_OUT);
    if (quantize.out_dir == NULL || quantize.out_dir[0] == 0) {
        cli_complain("quantize: --out DIR is needed");
        return CLI_EXIT_USAGE;
    }
    cli_signals_catch();
    cli_progress_init(&progress, options);
    fn_status status = cli_model_dir(options, &dir, &err);
    quantize.model_dir = dir;
    quantize.expert_bits = cli_bits(options, CLI_OPT_EXPERT_BITS);
    quantize.dense_bits = cli_bits(options, CLI_OPT_DENSE_BITS);
    quantize.group_size = (size_t)cli_bits(options, CLI_OPT_GROUP_SIZE);
    quantize.threads = cli_count(options, CLI_OPT_THREADS, 0);
    quantize.dry_run = cli_flag(options, CLI_OPT_DRY_RUN);
    quantize.progress = cli_progress_step;
    quantize.progress_ud = &progress;
    if (cli_is_set(options, CLI_OPT_NGRAM)) {
        quantize.ngram = cli_text(options, CLI_OPT_NGRAM);
    }
    if (status == FN_OK && !cli_path_exists(dir)) {
        status = cli_fail(&err, FN_E_MODEL, "%s: no such directory", dir);
    }
    status = status == FN_OK ? fn_quantize(&quantize, &json, &err) : status;
    cli_progress_clear(&progress);
    int code = cli_report(status, &err);
    if (status == FN_E_CANCELLED) {
        code = say_stopped(quantize.out_dir, code);
    } else if (status == FN_OK && cli_flag(options, CLI_OPT_JSON)) {
        puts(json);
    } else if (status == FN_OK) {
        json_error_t at;
        json_t *root = json_loads(json, 0, &at);
        print_sizes(quantize.out_dir, root, quantize.dry_run);
        json_decref(root);
    }
    fn_string_free(json);
    free(dir);
    return code;
}
