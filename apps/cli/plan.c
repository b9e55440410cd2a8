#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/json_get.h"
#include "cli/model.h"
#include "cli/report.h"
#include "flashnext_tools.h"

#define GIB (1024.0 * 1024.0 * 1024.0)

static double gib(const json_t *root, const char *path) {
    return cli_json_number(root, path) / GIB;
}

/* ---- the published estimate ------------------------------------------------------------- */

static void print_textbook(const json_t *root) {
    const json_t *book = cli_json_at(root, "textbook");
    char bytes[32];
    puts("Textbook estimate (no scales, n-gram projections, indexer, MTP head or vision)");
    printf("  %-22s %10.2f GiB at 16 bits, %.2f at 8, %.2f at 4\n", "routed experts",
           gib(book, "bytes.experts_16bit"), gib(book, "bytes.experts_8bit"),
           gib(book, "bytes.experts_4bit"));
    printf("  %-22s %10.2f GiB\n", "dense weights", gib(book, "bytes.dense_16bit"));
    printf("  %-22s %10.2f GiB\n", "n-gram tables", gib(book, "bytes.ngram_16bit"));
    const json_t *kv = cli_json_at(book, "kv_16bit");
    for (size_t i = 0; i < json_array_size(kv); i++) {
        const json_t *row = json_array_get(kv, i);
        printf("  KV, %7llu tokens %13.2f GiB\n", (unsigned long long)cli_json_whole(row, "tokens"),
               gib(row, "bytes"));
    }
    printf("  %-22s %14s\n", "recurrent state",
           cli_bytes(cli_json_whole(book, "bytes.recurrent"), bytes, sizeof bytes));
    printf("  %-22s %10.2f B (%.2f B in experts; dense with the head %.2f B)\n",
           "active parameters", cli_json_number(book, "params.active") * 1e-9,
           cli_json_number(book, "params.active_experts") * 1e-9,
           cli_json_number(book, "params.active_dense_with_head") * 1e-9);
    printf("  %-22s %10.1f GB with a BF16 trunk and 4-bit experts, %.1f GB with an INT8 trunk\n",
           "read per token", cli_json_number(book, "read_per_token.bf16_trunk_int4_experts") * 1e-9,
           cli_json_number(book, "read_per_token.int8_trunk_int4_experts") * 1e-9);
}

/* ---- what this engine does -------------------------------------------------------------- */

/* Right-aligned bytes, "-" for none. */
static void print_cell(uint64_t bytes) {
    char text[32];
    printf(" %12s", bytes > 0 ? cli_bytes(bytes, text, sizeof text) : "-");
}

/* reads: what the class reads with its scales; they have a row of their own in the other columns
 * only. */
static void print_class(const char *name, const json_t *line) {
    uint64_t params = cli_json_whole(line, "params");
    printf("  %-16s %16llu", name, (unsigned long long)params);
    print_cell(cli_json_whole(line, "stored"));
    print_cell(cli_json_whole(line, "weights"));
    print_cell(cli_json_whole(line, "mapped"));
    print_cell(cli_json_whole(line, "read"));
    putchar('\n');
}

static void print_named(const char *name, uint64_t bytes) {
    printf("  %-67s", name);
    print_cell(bytes);
    putchar('\n');
}

static void print_classes(const json_t *exact) {
    printf("  %-16s %16s %12s %12s %12s %12s\n", "class", "numbers", "in files", "in memory",
           "left on disk", "read a token");
    const json_t *classes = cli_json_at(exact, "classes");
    for (size_t i = 0; i < json_array_size(classes); i++) {
        const json_t *line = json_array_get(classes, i);
        if (cli_json_whole(line, "params") > 0) {
            print_class(cli_json_text(line, "name"), line);
        }
    }
    print_class("total", cli_json_at(exact, "total"));
    printf("  %-16s %16s %12s", "scales beside it", "", "");
    print_cell(cli_json_whole(exact, "total.scales"));
    printf(" %12s %12s\n", "", "(included)");
}

static void print_memory(const json_t *root) {
    const json_t *exact = cli_json_at(root, "exact");
    char name[96];
    printf("\nMemory\n");
    print_named("weights", cli_json_whole(exact, "total.weights"));
    print_named("scales", cli_json_whole(exact, "total.scales"));
    print_named("state of one sequence", cli_json_whole(exact, "state_per_sequence"));
    const json_t *state = cli_json_at(exact, "state");
    for (size_t i = 0; i < json_array_size(state); i++) {
        const json_t *part = json_array_get(state, i);
        (void)snprintf(name, sizeof name, "  %s", cli_json_text(part, "name"));
        print_named(name, cli_json_whole(part, "bytes"));
    }
    uint64_t sequences = cli_json_whole(root, "settings.sequences");
    (void)snprintf(name, sizeof name, "states: %llu sequence%s of %llu tokens",
                   (unsigned long long)sequences, sequences == 1 ? "" : "s",
                   (unsigned long long)cli_json_whole(root, "settings.context"));
    print_named(name, sequences * cli_json_whole(exact, "state_per_sequence"));
    (void)snprintf(name, sizeof name, "scratch for %llu rows",
                   (unsigned long long)cli_json_whole(root, "settings.chunk"));
    print_named(name, cli_json_whole(exact, "scratch"));
    print_named("needed in memory", cli_json_whole(exact, "resident"));
    print_named("needed on disk", cli_json_whole(exact, "total.stored"));
    print_named("this machine has", cli_json_whole(root, "machine.total"));
    print_named("of it available", cli_json_whole(root, "machine.available"));
    print_named("limit", cli_json_whole(root, "limit"));
}

static void print_speed(const json_t *root) {
    const json_t *exact = cli_json_at(root, "exact");
    puts("\nA decode step at full context");
    print_named("reads of weights", cli_json_whole(exact, "read_per_token.weights"));
    print_named("reads of scales", cli_json_whole(exact, "read_per_token.scales"));
    print_named("reads of state", cli_json_whole(exact, "read_per_token.state"));
    printf("  multiplies by %.2f B numbers (%.2f B in experts); %.2f B dense with the head\n",
           cli_json_number(exact, "active.params") * 1e-9,
           cli_json_number(exact, "active.experts") * 1e-9,
           cli_json_number(exact, "active.dense_with_head") * 1e-9);
    double bandwidth = cli_json_number(root, "machine.read_bandwidth");
    if (bandwidth > 0.0) {
        printf("  this machine reads %.1f GB/s (measured now): at most %.3g tokens/s without "
               "drafting\n",
               bandwidth * 1e-9, cli_json_number(root, "decode_ceiling"));
    }
    if (cli_json_at(root, "drafts") != NULL) {
        printf("  drafting as on the released model: %.2f tokens a pass of %llu rows, which choose "
               "%.0f "
               "experts a\n  layer: %.2f times plain speed, by bytes read\n",
               cli_json_number(root, "drafts.tokens_per_pass"),
               (unsigned long long)cli_json_whole(root, "drafts.rows"),
               cli_json_number(root, "drafts.distinct_experts"),
               cli_json_number(root, "drafts.speed"));
    }
}

static bool fits(const json_t *root) {
    return json_is_true(cli_json_at(root, "fits"));
}

static void print_verdict(const json_t *root) {
    uint64_t largest = cli_json_whole(root, "largest_context");
    printf("\n%s", fits(root) ? "It fits" : "It does not fit");
    if (largest > 0) {
        printf("; the largest context that fits with these settings is %llu tokens.\n",
               (unsigned long long)largest);
    } else {
        puts(", whatever the context.");
    }
}

static void print_plan(const json_t *root) {
    print_textbook(root);
    const char *source = cli_json_text(root, "source.kind");
    printf("\nExact, from %s\n",
           strcmp(source, "config") == 0 ? "the config's shapes" : "the headers of the files");
    print_classes(cli_json_at(root, "exact"));
    print_memory(root);
    print_speed(root);
    print_verdict(root);
}

/* ---- the command ------------------------------------------------------------------------ */

static fn_status make_plan(const cli_options *options, char **json, fn_error *err) {
    fn_plan_options plan = fn_plan_options_default();
    char *dir = NULL;
    fn_status status = FN_OK;
    plan.config_path = cli_text(options, CLI_OPT_MODEL_CONFIG);
    if (plan.config_path != NULL && cli_is_set(options, CLI_OPT_MODEL_DIR)) {
        return cli_fail(err, FN_E_USAGE, "--config and --model-dir exclude each other");
    }
    if (plan.config_path == NULL) {
        status = cli_model_dir(options, &dir, err);
        plan.model_dir = dir;
    }
    plan.expert_bits = cli_bits(options, CLI_OPT_EXPERT_BITS);
    plan.dense_bits = cli_bits(options, CLI_OPT_DENSE_BITS);
    plan.ngram_bits = cli_bits(options, CLI_OPT_NGRAM_BITS);
    plan.kv_bits = cli_bits(options, CLI_OPT_KV_BITS);
    plan.group_size = (size_t)cli_bits(options, CLI_OPT_GROUP_SIZE);
    plan.context = cli_count(options, CLI_OPT_CONTEXT, plan.context);
    plan.sequences = cli_count(options, CLI_OPT_SEQUENCES, plan.sequences);
    plan.draft_tokens = cli_count(options, CLI_OPT_DRAFT_TOKENS, 0);
    plan.no_mtp = cli_flag(options, CLI_OPT_NO_MTP);
    plan.chunk = cli_count(options, CLI_OPT_CHUNK, plan.chunk);
    plan.mem_limit = cli_whole(options, CLI_OPT_MEM_LIMIT, 0);
    plan.measure = true;
    if (status == FN_OK) {
        status = cli_ngram_place(options, &plan.ngram, err);
    }
    if (status == FN_OK) {
        status = fn_plan(&plan, json, err);
    }
    free(dir);
    return status;
}

int cli_plan(const cli_options *options) {
    fn_error err = {0};
    char *json = NULL;
    fn_status status = make_plan(options, &json, &err);
    int code = cli_report_model(status, &err);
    if (status != FN_OK) {
        return code;
    }
    json_error_t at;
    json_t *root = json_loads(json, 0, &at);
    if (cli_flag(options, CLI_OPT_JSON)) {
        puts(json);
    } else {
        print_plan(root);
    }
    /* Without a limit this machine is what the plan is made on, not what it is made for. */
    if (cli_is_set(options, CLI_OPT_MEM_LIMIT) && !fits(root)) {
        code = CLI_EXIT_FIT;
    }
    json_decref(root);
    fn_string_free(json);
    return code;
}
