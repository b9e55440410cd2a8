/* cli/options.h - what the user asked for: command line over environment over settings file.
 *
 * Path:     option_table.h, argv, FLASHNEXT_*, config.ini -> [this] -> every command
 * Threads:  one at a time.
 * Memory:   cli_options owns copies of all texts until cli_options_free. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/option_table.h"
#include "flashnext.h"

typedef enum cli_command {
#define CLI_COMMAND_ENUM(id, name, operands, line, more) CLI_##id,
    CLI_COMMAND_MAP(CLI_COMMAND_ENUM)
#undef CLI_COMMAND_ENUM
        CLI_N_COMMANDS
} cli_command;

typedef enum cli_option_id {
#define CLI_OPTION_ENUM(id, name, letter, kind, commands, aliases, value, low, high, traits,       \
                        group, text)                                                               \
    CLI_OPT_##id,
    CLI_OPTION_MAP(CLI_OPTION_ENUM)
#undef CLI_OPTION_ENUM
        CLI_N_OPTIONS
} cli_option_id;

typedef enum cli_kind {
    CLI_KIND_FLAG, /* no value; --flag=off and FLASHNEXT_FLAG=0 are understood */
    CLI_KIND_TEXT,
    CLI_KIND_CHOICE, /* one of "a|b|c" */
    CLI_KIND_COUNT,  /* integer in [low, high] */
    CLI_KIND_NUMBER, /* finite, in [low, high] */
    CLI_KIND_SEED,   /* 0 .. 2^64-1, or -1 */
    CLI_KIND_SIZE,   /* bytes: 1000, 512MiB, 64G */
    CLI_KIND_LIST    /* texts, one each time it is given */
} cli_kind;

/* Traits of an option. */
enum {
    CLI_COMMON = 1,         /* in the short help */
    CLI_LIVE = 2,           /* can be changed while chatting, by /set */
    CLI_NOT_IN_FILE = 4,    /* not a key of the settings file */
    CLI_FILE_ONLY_FLAG = 8, /* on the command line only */
};

typedef struct cli_option {
    const char *name;
    char letter;
    cli_kind kind;
    uint32_t commands;
    const char *aliases, *value;
    double low, high;
    uint32_t traits;
    const char *group, *text;
} cli_option;

typedef struct cli_command_info {
    const char *name, *operands, *line, *more;
} cli_command_info;

/* The tables as arrays [CLI_N_OPTIONS] and [CLI_N_COMMANDS]. */
extern const cli_option cli_option_table[];
extern const cli_command_info cli_command_table[];

/* Later ones win. */
typedef enum cli_source {
    CLI_SOURCE_NONE,
    CLI_SOURCE_FILE,
    CLI_SOURCE_ENVIRONMENT,
    CLI_SOURCE_FLAG,
    CLI_SOURCE_LIVE
} cli_source;

typedef struct cli_value {
    cli_source source;
    char *text;  /* as written; NULL for flags and lists */
    char **list; /* [n_list] */
    size_t n_list;
    double number;  /* COUNT, NUMBER; FLAG: 0 or 1 */
    uint64_t whole; /* SEED, SIZE */
} cli_value;

typedef struct cli_options {
    cli_command command;
    cli_value values[CLI_N_OPTIONS];
    char **operands; /* [n_operands] words that are not options */
    size_t n_operands;
    int help; /* 0; 1: -h; 2: --help */
    bool version;
} cli_options;

/* Reads arguments argv [argc] (those after the command), then the environment, then the settings
 * file, each only where nothing above it spoke, or spoke of another option that excludes it. Fails
 * with FN_E_USAGE, FN_E_IO (a settings file named by the user cannot be read). Free out in either
 * case. */
fn_status cli_options_parse(cli_command command, int argc, const char *const *argv,
                            cli_options *out, fn_error *err);
void cli_options_free(cli_options *options);

/* Sets one option by its long flag or an alias, as /set and the settings file do. NULL for text:
 * a flag without a value. Fails with FN_E_USAGE. */
fn_status cli_options_set(cli_options *options, const char *name, const char *text,
                          cli_source source, fn_error *err);
/* Back to "not given". */
void cli_options_unset(cli_options *options, cli_option_id id);

bool cli_is_set(const cli_options *options, cli_option_id id);
bool cli_flag(const cli_options *options, cli_option_id id);
const char *cli_text(const cli_options *options, cli_option_id id); /* NULL: not given */
double cli_number(const cli_options *options, cli_option_id id, double otherwise);
size_t cli_count(const cli_options *options, cli_option_id id, size_t otherwise);
uint64_t cli_whole(const cli_options *options, cli_option_id id, uint64_t otherwise);

/* Does the option belong to the command? */
bool cli_option_applies(cli_option_id id, cli_command command);
/* The command of that name; CLI_N_COMMANDS if there is none. */
cli_command cli_command_find(const char *name);
/* The nearest known command to a wrong one, NULL if none is near. */
const char *cli_command_nearest(const char *name);
/* "FLASHNEXT_MODEL_DIR" into out [size]. */
void cli_option_environment(cli_option_id id, char *out, size_t size);

#endif
