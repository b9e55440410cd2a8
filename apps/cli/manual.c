#include <stdio.h>
#include <string.h>

#include "cli/help.h"
#include "cli/report.h"

/* Text for roff: a dash stays a dash, a line cannot begin with a request. */
static void put_roff(const char *text) {
    if (*text == '.' || *text == '\'') {
        fputs("\\&", stdout);
    }
    for (; *text != 0; text++) {
        switch (*text) {
        case '-':
            fputs("\\-", stdout);
            break;
        case '\\':
            fputs("\\e", stdout);
            break;
        default:
            putchar(*text);
        }
    }
}

static void put_option(const cli_option *option) {
    fputs(".TP\n\\fB", stdout);
    if (option->letter != 0) {
        printf("\\-%c\\fR, \\fB", option->letter);
    }
    fputs("\\-\\-", stdout);
    put_roff(option->name);
    fputs("\\fR", stdout);
    if (option->value[0] != 0) {
        fputs(" \\fI", stdout);
        put_roff(option->value);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    put_roff(option->text);
    if (option->aliases[0] != 0) {
        fputs(".\nAlso: ", stdout);
        put_roff(option->aliases);
    }
    fputs(".\n", stdout);
}

static void put_command(cli_command command) {
    const cli_command_info *info = &cli_command_table[command];
    printf(".SS \"%s %s\"\n", info->name, info->operands);
    put_roff(info->line);
    fputs(".\n", stdout);
    if (info->more[0] != 0) {
        put_roff(info->more);
        putchar('\n');
    }
    for (int i = 0; i < CLI_N_OPTIONS; i++) {
        if (cli_option_applies((cli_option_id)i, command)) {
            put_option(&cli_option_table[i]);
        }
    }
}

static void put_ends(void) {
    fputs(".SH ENVIRONMENT\n.TP\n.B FLASHNEXT_*\nEvery long option, in capitals and with _ for "
          "\\-: FLASHNEXT_NEW_TOKENS is \\-\\-new\\-tokens.\nThe command line wins over the "
          "environment, the environment over the settings file.\n"
          ".TP\n.B FLASHNEXT_HOME\nWhere the program's directory models/demo is.\n"
          ".TP\n.B NO_COLOR\nNo colours.\n"
          ".SH FILES\n.TP\n.I $XDG_CONFIG_HOME/flashnext/config.ini\nSettings: lines \\(lqkey = "
          "value\\(rq with long options as keys, for all commands or, after a line "
          "\\(lq[chat]\\(rq, for one.\n"
          ".TP\n.I $XDG_STATE_HOME/flashnext/history\nWhat was typed in chats.\n"
          ".SH EXIT STATUS\n",
          stdout);
#define CLI_EXIT_ROW(name, code, text) printf(".TP\n.B %d\n%s.\n", code, text);
    CLI_EXIT_MAP(CLI_EXIT_ROW)
#undef CLI_EXIT_ROW
}

int cli_man(const cli_options *options) {
    (void)options;
    printf(".TH FLASHNEXT 1 \"\" \"flashnext %s\" \"User Commands\"\n", fn_version());
    fputs(".SH NAME\nflashnext \\- run Qwen3.8\\-Flash\\-Next models on CPUs\n"
          ".SH SYNOPSIS\n.B flashnext\n.I COMMAND\n[options]\n"
          ".SH DESCRIPTION\nRuns checkpoints of the qwen4_exp architecture from their published "
          "files.\nThe answer goes to standard output; progress, thoughts and figures go to "
          "standard error.\n.SH COMMANDS\n",
          stdout);
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        put_command((cli_command)i);
    }
    put_ends();
    return CLI_EXIT_OK;
}
