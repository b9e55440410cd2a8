#include <stdio.h>
#include <string.h>

#include "cli/help.h"
#include "cli/report.h"

static bool takes_path(const cli_option *option) {
    return strcmp(option->value, "FILE") == 0 || strcmp(option->value, "DIR") == 0;
}

/* "a|b|c" with other characters between. */
static void put_choices(const char *choices, char between) {
    for (; *choices != 0; choices++) {
        putchar(*choices == '|' ? between : *choices);
    }
}

/* Text inside single quotes: quotes leave, and come back escaped; brackets and colons too for
 * zsh. */
static void put_quoted(const char *text, bool zsh) {
    for (; *text != 0; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
        } else if (zsh && strchr("[]:\\", *text) != NULL) {
            printf("\\%c", *text);
        } else {
            putchar(*text);
        }
    }
}

static void put_command_names(void) {
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        printf("%s%s", i > 0 ? " " : "", cli_command_table[i].name);
    }
}

/* ---- bash ------------------------------------------------------------------------------- */

static void bash_flags(cli_command command) {
    for (int i = 0; i < CLI_N_OPTIONS; i++) {
        if (cli_option_applies((cli_option_id)i, command)) {
            printf("--%s ", cli_option_table[i].name);
        }
    }
    fputs("--help", stdout);
}

/* Values that follow a flag; the same flag means the same in every command. */
static void bash_values(void) {
    fputs("    case \"$before\" in\n", stdout);
    for (int i = 0; i < CLI_N_OPTIONS; i++) {
        const cli_option *option = &cli_option_table[i];
        bool choice = option->kind == CLI_KIND_CHOICE;
        if (option->value[0] == 0) {
            continue;
        }
        printf("    --%s", option->name);
        if (option->letter != 0) {
            printf("|-%c", option->letter);
        }
        fputs(")\n        ", stdout);
        if (choice) {
            fputs("COMPREPLY=($(compgen -W '", stdout);
            put_choices(option->value, ' ');
            fputs("' -- \"$word\"))\n", stdout);
        } else if (takes_path(option)) {
            printf("COMPREPLY=($(compgen -%c -- \"$word\"))\n",
                   strcmp(option->value, "DIR") == 0 ? 'd' : 'f');
        } else {
            fputs("COMPREPLY=()\n", stdout);
        }
        fputs("        return ;;\n", stdout);
    }
    fputs("    esac\n", stdout);
}

static void put_bash(void) {
    fputs("_flashnext()\n{\n"
          "    local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W '",
          stdout);
    put_command_names();
    fputs("' -- \"$word\"))\n        return\n    fi\n", stdout);
    bash_values();
    fputs("    case \"${COMP_WORDS[1]}\" in\n", stdout);
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        printf("    %s) COMPREPLY=($(compgen -W '", cli_command_table[i].name);
        if (i == CLI_HELP) {
            put_command_names();
        } else if (i == CLI_COMPLETION) {
            put_choices(cli_command_table[i].operands, ' ');
        } else {
            bash_flags((cli_command)i);
        }
        fputs("' -- \"$word\")) ;;\n", stdout);
    }
    fputs("    esac\n}\ncomplete -o filenames -F _flashnext flashnext\n", stdout);
}

/* ---- zsh -------------------------------------------------------------------------------- */

static void zsh_option(const cli_option *option) {
    fputs("            '", stdout);
    if (option->kind == CLI_KIND_LIST) {
        putchar('*');
    }
    printf("--%s[", option->name);
    put_quoted(option->text, true);
    putchar(']');
    if (option->kind == CLI_KIND_CHOICE) {
        fputs(":value:(", stdout);
        put_choices(option->value, ' ');
        putchar(')');
    } else if (option->value[0] != 0) {
        fputs(":value:", stdout);
        fputs(!takes_path(option)                 ? " "
              : strcmp(option->value, "DIR") == 0 ? "_files -/"
                                                  : "_files",
              stdout);
    }
    fputs("' \\\n", stdout);
}

static void put_zsh(void) {
    fputs("#compdef flashnext\n\nlocal -a commands\ncommands=(\n", stdout);
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        printf("    '%s:", cli_command_table[i].name);
        put_quoted(cli_command_table[i].line, true);
        fputs("'\n", stdout);
    }
    fputs(")\nif (( CURRENT == 2 )); then\n    _describe command commands\n    return\nfi\n"
          "local command=$words[2]\nshift words\n(( CURRENT-- ))\ncase $command in\n",
          stdout);
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        printf("    %s)\n        _arguments \\\n", cli_command_table[i].name);
        for (int j = 0; j < CLI_N_OPTIONS; j++) {
            if (cli_option_applies((cli_option_id)j, (cli_command)i)) {
                zsh_option(&cli_option_table[j]);
            }
        }
        if (i == CLI_HELP || i == CLI_COMPLETION) {
            fputs("            '1:which:(", stdout);
            if (i == CLI_HELP) {
                put_command_names();
            } else {
                put_choices(cli_command_table[i].operands, ' ');
            }
            fputs(")' \\\n", stdout);
        }
        fputs("            '--help[explain all options]' ;;\n", stdout);
    }
    fputs("esac\n", stdout);
}

/* ---- fish ------------------------------------------------------------------------------- */

static void fish_option(cli_command command, const cli_option *option) {
    printf("complete -c flashnext -n '__fish_seen_subcommand_from %s' -l %s",
           cli_command_table[command].name, option->name);
    if (option->letter != 0) {
        printf(" -s %c", option->letter);
    }
    if (option->kind == CLI_KIND_CHOICE) {
        fputs(" -xa '", stdout);
        put_choices(option->value, ' ');
        putchar('\'');
    } else if (option->value[0] != 0) {
        fputs(takes_path(option) ? " -rF" : " -x", stdout);
    }
    fputs(" -d '", stdout);
    for (const char *c = option->text; *c != 0; c++) {
        printf(*c == '\'' || *c == '\\' ? "\\%c" : "%c", *c);
    }
    fputs("'\n", stdout);
}

static void put_fish(void) {
    fputs("complete -c flashnext -f\n", stdout);
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        printf("complete -c flashnext -n __fish_use_subcommand -a %s -d '%s'\n",
               cli_command_table[i].name, cli_command_table[i].line);
    }
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        for (int j = 0; j < CLI_N_OPTIONS; j++) {
            if (cli_option_applies((cli_option_id)j, (cli_command)i)) {
                fish_option((cli_command)i, &cli_option_table[j]);
            }
        }
    }
    fputs("complete -c flashnext -n '__fish_seen_subcommand_from completion' -a '", stdout);
    put_choices(cli_command_table[CLI_COMPLETION].operands, ' ');
    fputs("'\ncomplete -c flashnext -n '__fish_seen_subcommand_from help' -a '", stdout);
    put_command_names();
    fputs("'\n", stdout);
}

int cli_completion(const cli_options *options) {
    const char *shell = options->n_operands == 1 ? options->operands[0] : "";
    if (strcmp(shell, "bash") == 0) {
        put_bash();
    } else if (strcmp(shell, "zsh") == 0) {
        put_zsh();
    } else if (strcmp(shell, "fish") == 0) {
        put_fish();
    } else {
        cli_complain("completion: expected bash, zsh or fish");
        return CLI_EXIT_USAGE;
    }
    return CLI_EXIT_OK;
}
