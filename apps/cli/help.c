#include "cli/help.h"

#include <string.h>

#include "cli/report.h"

#define TEXT_COLUMN 30u
#define LAST_COLUMN 80u

/* Prints text with its lines broken at blanks, each but the first after `indent` blanks; column
 * is where the first begins. */
static void print_wrapped(FILE *out, const char *text, size_t indent, size_t column) {
    bool first = true;
    while (*text != 0) {
        size_t n = strcspn(text, " ");
        if (!first && column + 1 + n > LAST_COLUMN) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)n, text);
        column += n;
        text += n;
        text += strspn(text, " ");
        first = false;
    }
    fputc('\n', out);
}

void cli_help_spelling(cli_option_id id, char *out, size_t size) {
    const cli_option *option = &cli_option_table[id];
    char letter[8] = "    ";
    if (option->letter != 0) {
        (void)snprintf(letter, sizeof letter, "-%c, ", option->letter);
    }
    (void)snprintf(out, size, "%s--%s%s%s", letter, option->name, option->value[0] != 0 ? " " : "",
                   option->value);
}

static void print_option(cli_option_id id, bool full, FILE *out) {
    const cli_option *option = &cli_option_table[id];
    char spelling[160];
    cli_help_spelling(id, spelling, sizeof spelling);
    size_t n = strlen(spelling) + 2;
    fprintf(out, "  %s", spelling);
    if (n + 2 > TEXT_COLUMN) {
        fprintf(out, "\n%*s", (int)TEXT_COLUMN, "");
    } else {
        fprintf(out, "%*s", (int)(TEXT_COLUMN - n), "");
    }
    print_wrapped(out, option->text, TEXT_COLUMN, TEXT_COLUMN);
    if (full && option->aliases[0] != 0) {
        fprintf(out, "%*salso: %s\n", (int)TEXT_COLUMN, "", option->aliases);
    }
}

static void print_general(bool full, FILE *out) {
    fprintf(out, "  %-*s%s\n", (int)TEXT_COLUMN - 2, "-h", "the usual options");
    fprintf(out, "  %-*s%s\n", (int)TEXT_COLUMN - 2, "    --help", "all options");
    if (full) {
        fprintf(out, "  %-*s%s\n", (int)TEXT_COLUMN - 2, "    --version", "version, build and CPU");
    }
}

static void print_options(cli_command command, bool full, FILE *out) {
    const char *group = "";
    for (int i = 0; i < CLI_N_OPTIONS; i++) {
        const cli_option *option = &cli_option_table[i];
        bool shown = full || (option->traits & CLI_COMMON) != 0;
        if (!cli_option_applies((cli_option_id)i, command) || !shown) {
            continue;
        }
        if (strcmp(group, option->group) != 0) {
            group = option->group;
            fprintf(out, "\n%s:\n", group);
        }
        print_option((cli_option_id)i, full, out);
    }
}

void cli_help_program(FILE *out) {
    fprintf(out,
            "flashnext %s: run Qwen3.8-Flash-Next models on CPUs\n\n"
            "usage: flashnext COMMAND [options]\n\n",
            fn_version());
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        fprintf(out, "  %-12s%s\n", cli_command_table[i].name, cli_command_table[i].line);
    }
    fputs("\nflashnext COMMAND -h shows the usual options of a command, --help all of them.\n"
          "The first thing to try: flashnext chat\n",
          out);
}

static void print_exit_codes(FILE *out) {
    fputs("\nExit codes:\n", out);
#define CLI_EXIT_ROW(name, code, text) fprintf(out, "  %-6d%s\n", code, text);
    CLI_EXIT_MAP(CLI_EXIT_ROW)
#undef CLI_EXIT_ROW
}

void cli_help_command(cli_command command, bool full, FILE *out) {
    const cli_command_info *info = &cli_command_table[command];
    fprintf(out, "flashnext %s: %s\n\nusage: flashnext %s %s\n", info->name, info->line, info->name,
            info->operands);
    if (info->more[0] != 0 && (full || (CLI_WORKING >> command & 1u) == 0)) {
        fputc('\n', out);
        print_wrapped(out, info->more, 0, 0);
    }
    print_options(command, full, out);
    if ((CLI_WORKING >> command & 1u) == 0) {
        return;
    }
    bool begun = full && cli_option_applies(CLI_OPT_SETTINGS, command);
    fputs(begun ? "" : "\nGeneral:\n", out);
    print_general(full, out);
    if (!full) {
        return;
    }
    fputs("\nEvery long option has an environment variable (--new-tokens: FLASHNEXT_NEW_TOKENS) "
          "and is a"
          "\nkey of the settings file (new-tokens = 128, in [chat] or before any section). The "
          "command"
          "\nline wins over the environment, the environment over the file.\n",
          out);
    print_exit_codes(out);
}

int cli_help(const cli_options *options) {
    if (options->n_operands == 0) {
        cli_help_program(stdout);
        return CLI_EXIT_OK;
    }
    const char *name = options->operands[0];
    cli_command command = cli_command_find(name);
    if (command == CLI_N_COMMANDS) {
        const char *nearest = cli_command_nearest(name);
        cli_complain("help: no command is called '%s'%s%s%s", name,
                     nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "",
                     nearest != NULL ? "?" : "");
        return CLI_EXIT_USAGE;
    }
    cli_help_command(command, true, stdout);
    return CLI_EXIT_OK;
}
