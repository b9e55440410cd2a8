#include "cli/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/buffer.h"
#include "cli/ini.h"
#include "cli/nearest.h"
#include "cli/option_values.h"
#include "cli/paths.h"
#include "cli/report.h"

const cli_option cli_option_table[] = {
#define CLI_OPTION_ROW(id, name, letter, kind, commands, aliases, value, low, high, traits, group, \
                       text)                                                                       \
    {name, letter, CLI_KIND_##kind, commands, aliases, value, low, high, traits, group, text},
    CLI_OPTION_MAP(CLI_OPTION_ROW)
#undef CLI_OPTION_ROW
};

const cli_command_info cli_command_table[] = {
#define CLI_COMMAND_ROW(id, name, operands, line, more) {name, operands, line, more},
    CLI_COMMAND_MAP(CLI_COMMAND_ROW)
#undef CLI_COMMAND_ROW
};

/* ---- names ------------------------------------------------------------------------------ */

bool cli_option_applies(cli_option_id id, cli_command command) {
    return (cli_option_table[id].commands >> command & 1u) != 0;
}

cli_command cli_command_find(const char *name) {
    int command = 0;
    while (command < CLI_N_COMMANDS && strcmp(cli_command_table[command].name, name) != 0) {
        command++;
    }
    return (cli_command)command;
}

const char *cli_command_nearest(const char *name) {
    cli_nearest nearest = cli_nearest_to(name);
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        cli_nearest_try(&nearest, cli_command_table[i].name);
    }
    return nearest.best;
}

void cli_option_environment(cli_option_id id, char *out, size_t size) {
    (void)snprintf(out, size, "FLASHNEXT_%s", cli_option_table[id].name);
    for (char *c = out; *c != 0; c++) {
        if (*c == '-') {
            *c = '_';
        }
        *c = cli_upper(*c);
    }
}

/* Is flag [n], with its dashes, among the aliases "--a -b"? */
static bool alias_has(const char *aliases, const char *flag, size_t n) {
    for (const char *at = aliases; *at != 0;) {
        size_t length = strcspn(at, " ");
        if (length == n && strncmp(at, flag, n) == 0) {
            return true;
        }
        at += length;
        at += *at == ' ';
    }
    return false;
}

/* The option of the command that flag [n] ("--temp", "-n", "-sys") names; CLI_N_OPTIONS: none. */
static cli_option_id find_flag(cli_command command, const char *flag, size_t n) {
    for (int i = 0; i < CLI_N_OPTIONS; i++) {
        const cli_option *option = &cli_option_table[i];
        if (!cli_option_applies((cli_option_id)i, command)) {
            continue;
        }
        bool is_long = n > 2 && strncmp(flag, "--", 2) == 0 && strlen(option->name) == n - 2 &&
                       strncmp(option->name, flag + 2, n - 2) == 0;
        bool is_letter = n == 2 && option->letter != 0 && flag[1] == option->letter;
        if (is_long || is_letter || alias_has(option->aliases, flag, n)) {
            return (cli_option_id)i;
        }
    }
    return CLI_N_OPTIONS;
}

static cli_option_id find_name(cli_command command, const char *name) {
    cli_buffer flag = {0};
    cli_buffer_printf(&flag, "--%s", name);
    cli_option_id id = find_flag(command, flag.data, flag.n);
    cli_buffer_free(&flag);
    return id;
}

/* The command that has this flag, when the present one has not. */
static cli_command owner_of(const char *flag, size_t n) {
    int command = 0;
    while (command < CLI_N_COMMANDS && find_flag((cli_command)command, flag, n) == CLI_N_OPTIONS) {
        command++;
    }
    return (cli_command)command;
}

/* "unknown option --tmp; did you mean --temp?" */
static fn_status unknown_flag(cli_command command, const char *flag, size_t n, fn_error *err) {
    cli_buffer name = {0};
    cli_buffer_add(&name, flag, n);
    const char *mine = cli_command_table[command].name;
    cli_command owner = owner_of(flag, n);
    if (owner != CLI_N_COMMANDS) {
        (void)cli_fail(err, FN_E_USAGE, "%s: no option %s; it belongs to '%s'", mine, name.data,
                       cli_command_table[owner].name);
        cli_buffer_free(&name);
        return FN_E_USAGE;
    }
    cli_nearest nearest = cli_nearest_to(name.data + strspn(name.data, "-"));
    cli_buffer aliases = {0}; /* as separate words, each with a 0 behind it */
    for (int i = 0; i < CLI_N_OPTIONS; i++) {
        if (cli_option_applies((cli_option_id)i, command)) {
            cli_nearest_try(&nearest, cli_option_table[i].name);
            cli_buffer_printf(&aliases, "%s ", cli_option_table[i].aliases);
        }
    }
    cli_buffer_puts(&aliases, "help version");
    char *rest = NULL;
    for (char *word = strtok_r(aliases.data, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        cli_nearest_try(&nearest, word + strspn(word, "-"));
    }
    if (nearest.best != NULL) {
        (void)cli_fail(err, FN_E_USAGE, "%s: unknown option %s; did you mean --%s?", mine,
                       name.data, nearest.best);
    } else {
        (void)cli_fail(err, FN_E_USAGE, "%s: unknown option %s; see flashnext %s --help", mine,
                       name.data, mine);
    }
    cli_buffer_free(&aliases);
    cli_buffer_free(&name);
    return FN_E_USAGE;
}

/* ---- the command line ------------------------------------------------------------------- */

typedef struct arg_reader {
    const char *const *argv; /* [argc] */
    int argc, at;
    cli_options *out;
} arg_reader;

/* Stores the option; inline_value is what stood behind "=", or the letters behind a short flag. */
static fn_status take_value(arg_reader *r, cli_option_id id, const char *shown,
                            const char *inline_value, fn_error *err) {
    const cli_option *option = &cli_option_table[id];
    const char *text = inline_value;
    if (option->kind != CLI_KIND_FLAG && text == NULL) {
        if (r->at + 1 >= r->argc) {
            return cli_fail(err, FN_E_USAGE, "%s needs a value (%s)", shown, option->value);
        }
        text = r->argv[++r->at];
    }
    return cli_value_store(&r->out->values[id], option, shown, text, CLI_SOURCE_FLAG, err);
}

/* -n 5, -n5, -qv (flags together); a whole word such as -sys was looked for before. */
static fn_status read_letters(arg_reader *r, const char *word, fn_error *err) {
    for (const char *c = word + 1; *c != 0; c++) {
        char flag[3] = {'-', *c, 0};
        if (*c == 'h') {
            r->out->help = 1;
            continue;
        }
        cli_option_id id = find_flag(r->out->command, flag, 2);
        if (id == CLI_N_OPTIONS) {
            bool first = c == word + 1;
            return unknown_flag(r->out->command, first ? word : flag, first ? strlen(word) : 2,
                                err);
        }
        if (cli_option_table[id].kind != CLI_KIND_FLAG) {
            return take_value(r, id, flag, c[1] != 0 ? c + 1 : NULL, err);
        }
        fn_status status = take_value(r, id, flag, NULL, err);
        if (status != FN_OK) {
            return status;
        }
    }
    return FN_OK;
}

static fn_status read_flag(arg_reader *r, const char *word, fn_error *err) {
    if (strcmp(word, "--help") == 0) {
        r->out->help = 2;
        return FN_OK;
    }
    if (strcmp(word, "--version") == 0) {
        r->out->version = true;
        return FN_OK;
    }
    const char *equals = strchr(word, '=');
    size_t n = equals != NULL ? (size_t)(equals - word) : strlen(word);
    cli_option_id id = find_flag(r->out->command, word, n);
    if (id == CLI_N_OPTIONS) {
        return word[1] == '-' ? unknown_flag(r->out->command, word, n, err)
                              : read_letters(r, word, err);
    }
    cli_buffer shown = {0};
    cli_buffer_add(&shown, word, n);
    fn_status status = take_value(r, id, shown.data, equals != NULL ? equals + 1 : NULL, err);
    cli_buffer_free(&shown);
    return status;
}

static fn_status read_arguments(cli_options *out, int argc, const char *const *argv,
                                fn_error *err) {
    arg_reader reader = {.argv = argv, .argc = argc, .out = out};
    out->operands = cli_alloc(((size_t)argc + 1) * sizeof *out->operands);
    bool only_operands = false;
    fn_status status = FN_OK;
    for (; reader.at < argc && status == FN_OK; reader.at++) {
        const char *word = argv[reader.at];
        if (!only_operands && strcmp(word, "--") == 0) {
            only_operands = true;
        } else if (!only_operands && word[0] == '-' && word[1] != 0) {
            status = read_flag(&reader, word, err);
        } else {
            out->operands[out->n_operands++] = cli_strdup(word);
        }
    }
    return status;
}

/* ---- environment and settings file ------------------------------------------------------ */

static fn_status read_environment(cli_options *out, fn_error *err) {
    for (int i = 0; i < CLI_N_OPTIONS; i++) {
        const cli_option *option = &cli_option_table[i];
        char name[96];
        cli_option_environment((cli_option_id)i, name, sizeof name);
        const char *text = getenv(name);
        bool wanted = cli_option_applies((cli_option_id)i, out->command) &&
                      (option->traits & CLI_FILE_ONLY_FLAG) == 0;
        if (text == NULL || !wanted || out->values[i].source > CLI_SOURCE_ENVIRONMENT) {
            continue;
        }
        fn_status status =
            cli_value_store(&out->values[i], option, name, text, CLI_SOURCE_ENVIRONMENT, err);
        if (status != FN_OK) {
            return status;
        }
    }
    return FN_OK;
}

typedef struct settings_file {
    cli_options *out;
    const char *path;
} settings_file;

static bool settable_in_file(cli_option_id id) {
    return (cli_option_table[id].traits & (CLI_NOT_IN_FILE | CLI_FILE_ONLY_FLAG)) == 0;
}

/* Does any command know this key? */
static bool known_anywhere(const char *key) {
    for (int command = 0; command < CLI_N_COMMANDS; command++) {
        cli_option_id id = find_name((cli_command)command, key);
        if (id != CLI_N_OPTIONS && settable_in_file(id)) {
            return true;
        }
    }
    return false;
}

/* Keys before the first section are for every command that knows them, the others for one. */
static fn_status read_setting(void *ud, const char *section, const char *key, const char *text,
                              size_t line, fn_error *err) {
    const settings_file *file = ud;
    cli_options *out = file->out;
    bool everywhere = section[0] == 0;
    cli_command command = everywhere ? out->command : cli_command_find(section);
    if (command == CLI_N_COMMANDS) {
        return cli_fail(err, FN_E_USAGE, "%s:%zu: no command is called '%s'", file->path, line,
                        section);
    }
    cli_option_id id = find_name(command, key);
    if (id == CLI_N_OPTIONS || !settable_in_file(id)) {
        if (everywhere && known_anywhere(key)) {
            return FN_OK;
        }
        fn_error inner = {0};
        cli_buffer flag = {0};
        cli_buffer_printf(&flag, "--%s", key);
        (void)unknown_flag(command, flag.data, flag.n, &inner);
        cli_buffer_free(&flag);
        return cli_fail(err, FN_E_USAGE, "%s:%zu: %.900s", file->path, line, inner.text);
    }
    if (command != out->command || out->values[id].source > CLI_SOURCE_FILE) {
        return FN_OK;
    }
    cli_buffer shown = {0};
    cli_buffer_printf(&shown, "%s:%zu: %s", file->path, line, key);
    fn_status status = cli_value_store(&out->values[id], &cli_option_table[id], shown.data, text,
                                       CLI_SOURCE_FILE, err);
    cli_buffer_free(&shown);
    return status;
}

static fn_status read_settings(cli_options *out, fn_error *err) {
    const char *named = cli_text(out, CLI_OPT_SETTINGS);
    if (named == NULL && out->command == CLI_PLAN) {
        named = getenv("FLASHNEXT_CONFIG"); /* --config means a model's file there */
    }
    char *path = named != NULL ? cli_strdup(named) : cli_path_settings();
    if (path == NULL) {
        return FN_OK;
    }
    cli_buffer text = {0};
    fn_status status = FN_OK;
    if (named != NULL || access(path, F_OK) == 0) {
        status = cli_read_text(&text, path, err);
    }
    if (status == FN_OK) {
        settings_file file = {.out = out, .path = path};
        status = cli_ini_read(cli_buffer_text(&text), text.n, path, read_setting, &file, err);
    }
    cli_buffer_free(&text);
    free(path);
    return status;
}

/* ---- options that exclude each other ---------------------------------------------------- */

/* Two that cannot be had together: when a is given as anything but one of `harmless` (NULL: given
 * at all, a flag: on; for a size only 0 excludes anything). */
typedef struct exclusion {
    cli_option_id a, b;
    const char *harmless;
} exclusion;

static const exclusion exclusions[] = {
    {CLI_OPT_PROMPT, CLI_OPT_FILE, NULL},
    {CLI_OPT_IDS_FILE, CLI_OPT_PROMPT, NULL},
    {CLI_OPT_IDS_FILE, CLI_OPT_FILE, NULL},
    {CLI_OPT_IDS_FILE, CLI_OPT_DEPTH, NULL},
    {CLI_OPT_SYSTEM, CLI_OPT_SYSTEM_FILE, NULL},
    {CLI_OPT_NGRAM_MMAP, CLI_OPT_NGRAM_RAM, NULL},
    {CLI_OPT_MODEL_CONFIG, CLI_OPT_MODEL_DIR, NULL},
    {CLI_OPT_DRAFT, CLI_OPT_DRAFT_MODEL, "auto|model"},
    {CLI_OPT_DRAFT, CLI_OPT_NO_MTP, "auto|off|model|lookup"},
    {CLI_OPT_BATCH, CLI_OPT_DRAFT, NULL},
    {CLI_OPT_BATCH, CLI_OPT_DRAFT_MODEL, NULL},
    {CLI_OPT_BATCH, CLI_OPT_DRAFT_SIM, NULL},
    {CLI_OPT_DRAFT_TOKENS, CLI_OPT_DRAFT_SIM, NULL},
    {CLI_OPT_CACHE_SIZE, CLI_OPT_CACHE_DIR, NULL},
};

static bool is_wanted(const cli_options *o, cli_option_id id) {
    return cli_is_set(o, id) && (cli_option_table[id].kind != CLI_KIND_FLAG || cli_flag(o, id));
}

static bool excludes(const cli_options *o, const exclusion *e) {
    if (!is_wanted(o, e->a) || !is_wanted(o, e->b)) {
        return false;
    }
    return cli_option_table[e->a].kind == CLI_KIND_SIZE
               ? o->values[e->a].whole == 0
               : e->harmless == NULL || !cli_choice_has(e->harmless, o->values[e->a].text);
}

/* The one from the lower source counts as not given; two from one are left for the command to refuse. */
static void settle_exclusions(cli_options *o) {
    for (size_t i = 0; i < sizeof exclusions / sizeof exclusions[0]; i++) {
        const exclusion *e = &exclusions[i];
        cli_source a = o->values[e->a].source;
        cli_source b = o->values[e->b].source;
        if (a != b && excludes(o, e)) {
            cli_options_unset(o, a < b ? e->a : e->b);
        }
    }
}

/* ---- the whole -------------------------------------------------------------------------- */

fn_status cli_options_parse(cli_command command, int argc, const char *const *argv,
                            cli_options *out, fn_error *err) {
    *out = (cli_options){.command = command};
    fn_status status = read_arguments(out, argc, argv, err);
    bool works = (CLI_WORKING >> command & 1u) != 0 && out->help == 0 && !out->version;
    if (status == FN_OK && works) {
        status = read_environment(out, err);
    }
    if (status == FN_OK && works) {
        status = read_settings(out, err);
        settle_exclusions(out);
    }
    size_t allowed = command == CLI_HELP || command == CLI_COMPLETION ? 1 : 0;
    if (status == FN_OK && out->help == 0 && !out->version && out->n_operands > allowed) {
        status = cli_fail(err, FN_E_USAGE, "%s: unexpected argument '%s'",
                          cli_command_table[command].name, out->operands[allowed]);
    }
    return status;
}

void cli_options_free(cli_options *options) {
    for (int i = 0; i < CLI_N_OPTIONS; i++) {
        cli_value_clear(&options->values[i]);
    }
    for (size_t i = 0; i < options->n_operands; i++) {
        free(options->operands[i]);
    }
    free(options->operands);
    *options = (cli_options){0};
}

fn_status cli_options_set(cli_options *options, const char *name, const char *text,
                          cli_source source, fn_error *err) {
    cli_option_id id = find_name(options->command, name);
    if (id == CLI_N_OPTIONS) {
        cli_buffer flag = {0};
        cli_buffer_printf(&flag, "--%s", name);
        (void)unknown_flag(options->command, flag.data, flag.n, err);
        cli_buffer_free(&flag);
        return FN_E_USAGE;
    }
    return cli_value_store(&options->values[id], &cli_option_table[id], name, text, source, err);
}

void cli_options_unset(cli_options *options, cli_option_id id) {
    cli_value_clear(&options->values[id]);
}

bool cli_is_set(const cli_options *options, cli_option_id id) {
    return options->values[id].source != CLI_SOURCE_NONE;
}

bool cli_flag(const cli_options *options, cli_option_id id) {
    return options->values[id].number > 0.0;
}

const char *cli_text(const cli_options *options, cli_option_id id) {
    return options->values[id].text;
}

double cli_number(const cli_options *options, cli_option_id id, double otherwise) {
    return cli_is_set(options, id) ? options->values[id].number : otherwise;
}

size_t cli_count(const cli_options *options, cli_option_id id, size_t otherwise) {
    double number = cli_number(options, id, -1.0);
    return number >= 0.0 ? (size_t)number : otherwise;
}

uint64_t cli_whole(const cli_options *options, cli_option_id id, uint64_t otherwise) {
    return cli_is_set(options, id) ? options->values[id].whole : otherwise;
}
