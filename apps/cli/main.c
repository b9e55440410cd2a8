/* flashnext - the program: finds the command, reads its options, runs it. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/signals.h"

static int dispatch(cli_options *options) {
    switch (options->command) {
    case CLI_CHAT:
        return cli_chat(options);
    case CLI_RUN:
        return cli_run(options);
    case CLI_SERVE:
        return cli_serve(options);
    case CLI_TOKENIZE:
        return cli_tokenize(options);
    case CLI_INSPECT:
        return cli_inspect(options);
    case CLI_PLAN:
        return cli_plan(options);
    case CLI_LOGITS:
        return cli_logits(options);
    case CLI_VERIFY:
        return cli_verify(options);
    case CLI_PERPLEXITY:
        return cli_perplexity(options);
    case CLI_BENCH:
        return cli_bench(options);
    case CLI_QUANTIZE:
        return cli_quantize(options);
    case CLI_HELP:
        return cli_help(options);
    case CLI_VERSION:
        return cli_version(options);
    case CLI_COMPLETION:
        return cli_completion(options);
    case CLI_MAN:
        return cli_man(options);
    case CLI_N_COMMANDS:
        break;
    }
    return CLI_EXIT_USAGE;
}

static int unknown_command(const char *name) {
    const char *nearest = cli_command_nearest(name);
    if (nearest != NULL) {
        cli_complain("unknown command '%s'; did you mean %s?", name, nearest);
    } else {
        cli_complain("unknown command '%s'; see flashnext help", name);
    }
    return CLI_EXIT_USAGE;
}

static int run_command(cli_command command, int argc, const char *const *argv) {
    cli_options options;
    fn_error err = {0};
    int code = CLI_EXIT_OK;
    fn_status status = cli_options_parse(command, argc, argv, &options, &err);
    if (status != FN_OK) {
        code = cli_report(status, &err);
    } else if (options.help > 0) {
        cli_help_command(command, options.help > 1, stdout);
    } else if (options.version) {
        code = cli_version(&options);
    } else {
        code = dispatch(&options);
    }
    cli_options_free(&options);
    return cli_finish(code);
}

int main(int argc, char **words) {
    const char *const *argv = (const char *const *)words;
    if (argc < 2) {
        cli_help_program(stderr);
        return CLI_EXIT_USAGE;
    }
    cli_signals_ignore_size_limit();
    const char *name = argv[1];
    if (strcmp(name, "-h") == 0 || strcmp(name, "--help") == 0) {
        cli_help_program(stdout);
        return cli_finish(CLI_EXIT_OK);
    }
    if (strcmp(name, "--version") == 0) {
        return run_command(CLI_VERSION, 0, argv + argc);
    }
    cli_command command = cli_command_find(name);
    if (command == CLI_N_COMMANDS) {
        return unknown_command(name);
    }
    return run_command(command, argc - 2, argv + 2);
}
