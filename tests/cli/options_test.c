/* Options: every way to write one, who wins, and what is said about a wrong one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/option_values.h"
#include "cli/options.h"

#define MOST_WORDS 12

static cli_options parsed;
static fn_error error;

/* Parses words until NULL. */
static fn_status parse(cli_command command, ...) {
    const char *words[MOST_WORDS];
    int n = 0;
    va_list args;
    va_start(args, command);
    for (const char *word = va_arg(args, const char *); word != NULL;
         word = va_arg(args, const char *)) {
        words[n++] = word;
    }
    va_end(args);
    cli_options_free(&parsed);
    error = (fn_error){0};
    return cli_options_parse(command, n, words, &parsed, &error);
}

/* An option in the environment that one on the command line excludes. */
static const struct {
    cli_command command;
    cli_option_id other;
    const char *variable, *value, *words[2];
} excluded[] = {
    {CLI_CHAT, CLI_OPT_DRAFT_MODEL, "FLASHNEXT_DRAFT_MODEL", "small", {"--draft", "off"}},
    {CLI_RUN, CLI_OPT_DRAFT_MODEL, "FLASHNEXT_DRAFT_MODEL", "small", {"--draft", "mtp"}},
    {CLI_SERVE, CLI_OPT_DRAFT, "FLASHNEXT_DRAFT", "lookup", {"--draft-model", "small"}},
    {CLI_SERVE, CLI_OPT_NO_MTP, "FLASHNEXT_NO_MTP", "1", {"--draft", "mtp"}},
    {CLI_SERVE, CLI_OPT_DRAFT, "FLASHNEXT_DRAFT", "mtp", {"--no-mtp", NULL}},
    {CLI_BENCH, CLI_OPT_DRAFT, "FLASHNEXT_DRAFT", "mtp", {"--batch", "2"}},
    {CLI_BENCH, CLI_OPT_BATCH, "FLASHNEXT_BATCH", "2", {"--draft-sim", "0.5"}},
    {CLI_BENCH, CLI_OPT_DEPTH, "FLASHNEXT_N_DEPTH", "8", {"--ids-file", "ids"}},
    {CLI_RUN, CLI_OPT_IDS_FILE, "FLASHNEXT_IDS_FILE", "ids", {"--prompt", "text"}},
    {CLI_RUN, CLI_OPT_PROMPT, "FLASHNEXT_PROMPT", "text", {"--file", "file"}},
    {CLI_CHAT, CLI_OPT_SYSTEM, "FLASHNEXT_SYSTEM", "text", {"--system-file", "file"}},
    {CLI_RUN, CLI_OPT_NGRAM_RAM, "FLASHNEXT_NGRAM_RAM", "1", {"--ngram-mmap", NULL}},
    {CLI_PLAN, CLI_OPT_MODEL_DIR, "FLASHNEXT_MODEL_DIR", "model", {"--config", "file"}},
    {CLI_SERVE, CLI_OPT_CACHE_DIR, "FLASHNEXT_CACHE_DIR", "dir", {"--cache-size", "0"}},
    {CLI_SERVE, CLI_OPT_CACHE_SIZE, "FLASHNEXT_CACHE_SIZE", "0", {"--cache-dir", "dir"}},
};

/* The same pairs where both may be had. */
static const struct {
    cli_command command;
    cli_option_id other;
    const char *variable, *value, *words[2];
} allowed[] = {
    {CLI_CHAT, CLI_OPT_DRAFT_MODEL, "FLASHNEXT_DRAFT_MODEL", "small", {"--draft", "model"}},
    {CLI_CHAT, CLI_OPT_DRAFT_MODEL, "FLASHNEXT_DRAFT_MODEL", "small", {"--draft", "auto"}},
    {CLI_SERVE, CLI_OPT_NO_MTP, "FLASHNEXT_NO_MTP", "1", {"--draft", "off"}},
    {CLI_RUN, CLI_OPT_NGRAM_RAM, "FLASHNEXT_NGRAM_RAM", "1", {"--ngram-mmap=off", NULL}},
    {CLI_SERVE, CLI_OPT_CACHE_DIR, "FLASHNEXT_CACHE_DIR", "dir", {"--cache-size", "1MiB"}},
};

static int clean(void **state) {
    (void)state;
    assert_int_equal(setenv("XDG_CONFIG_HOME", "/nonexistent", 1), 0);
    (void)unsetenv("FLASHNEXT_TEMP");
    (void)unsetenv("FLASHNEXT_NEW_TOKENS");
    (void)unsetenv("FLASHNEXT_CONFIG");
    (void)unsetenv("FLASHNEXT_IGNORE_EOS");
    (void)unsetenv("FLASHNEXT_STOP");
    for (size_t i = 0; i < sizeof excluded / sizeof excluded[0]; i++) {
        (void)unsetenv(excluded[i].variable);
    }
    return 0;
}

static int release(void **state) {
    (void)state;
    cli_options_free(&parsed);
    return 0;
}

/* A settings file for one test; its path is lent until the next call. */
static const char *settings(const char *text) {
    static char path[] = "/tmp/flashnext-options-test-XXXXXX";
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
    return path;
}

static void said(const char *words) {
    if (strstr(error.text, words) == NULL) {
        fail_msg("expected '%s' in '%s'", words, error.text);
    }
}

static void every_spelling_of_a_value(void **state) {
    (void)state;
    static const char *const spellings[][3] = {
        {"-n", "7", NULL},           {"-n7", NULL, NULL},
        {"--new-tokens", "7", NULL}, {"--new-tokens=7", NULL, NULL},
        {"--predict", "7", NULL},    {"--n-predict=7", NULL, NULL},
        {"--max-tokens", "7", NULL},
    };
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        const char *const *s = spellings[i];
        assert_int_equal(parse(CLI_RUN, s[0], s[1], NULL), FN_OK);
        assert_int_equal(cli_count(&parsed, CLI_OPT_NEW_TOKENS, 0), 7);
    }
}

static void spellings_of_llama_cpp(void **state) {
    (void)state;
    assert_int_equal(parse(CLI_CHAT, "--model", "d", "-sys", "be brief", "--temperature", "0.5",
                           "--repetition-penalty", "1.1", "--ctx-size", "99", NULL),
                     FN_OK);
    assert_string_equal(cli_text(&parsed, CLI_OPT_MODEL_DIR), "d");
    assert_string_equal(cli_text(&parsed, CLI_OPT_SYSTEM), "be brief");
    assert_true(cli_number(&parsed, CLI_OPT_TEMP, 9.0) == 0.5);
    assert_true(cli_number(&parsed, CLI_OPT_REPEAT_PENALTY, 9.0) == 1.1);
    assert_int_equal(cli_count(&parsed, CLI_OPT_CONTEXT, 0), 99);
    assert_int_equal(parse(CLI_RUN, "-n", "-1", "-s", "-1", "-r", "a", "-r", "b", NULL), FN_OK);
    assert_int_equal(cli_count(&parsed, CLI_OPT_NEW_TOKENS, 0), 0); /* no limit */
    assert_int_equal(parsed.values[CLI_OPT_STOP].n_list, 2);
    assert_string_equal(parsed.values[CLI_OPT_STOP].list[1], "b");
}

static void letters_stand_together(void **state) {
    (void)state;
    assert_int_equal(parse(CLI_RUN, "-qvn3", NULL), FN_OK);
    assert_true(cli_flag(&parsed, CLI_OPT_QUIET) && cli_flag(&parsed, CLI_OPT_VERBOSE));
    assert_int_equal(cli_count(&parsed, CLI_OPT_NEW_TOKENS, 0), 3);
    assert_int_equal(parse(CLI_RUN, "-h", NULL), FN_OK);
    assert_int_equal(parsed.help, 1);
    assert_int_equal(parse(CLI_RUN, "--help", NULL), FN_OK);
    assert_int_equal(parsed.help, 2);
}

static void command_line_over_environment_over_file(void **state) {
    (void)state;
    const char *path =
        settings("# mine\ntemp = 0.1\nnew-tokens = 10\ngolden = not for run\n"
                 "[chat]\ntemp = 0.9\n[run]\nignore-eos = on\nstop = \"a \\\"b\\n\"\n");
    char *config = strdup(path);
    assert_int_equal(parse(CLI_RUN, "--config", config, NULL), FN_OK);
    assert_true(cli_number(&parsed, CLI_OPT_TEMP, 9.0) == 0.1);
    assert_true(cli_flag(&parsed, CLI_OPT_IGNORE_EOS));
    assert_string_equal(parsed.values[CLI_OPT_STOP].list[0], "a \"b\n");

    assert_int_equal(setenv("FLASHNEXT_TEMP", "0.2", 1), 0);
    assert_int_equal(setenv("FLASHNEXT_IGNORE_EOS", "0", 1), 0);
    assert_int_equal(setenv("FLASHNEXT_STOP", "env", 1), 0);
    assert_int_equal(setenv("FLASHNEXT_CONFIG", config, 1), 0);
    assert_int_equal(parse(CLI_RUN, NULL), FN_OK);
    assert_true(cli_number(&parsed, CLI_OPT_TEMP, 9.0) == 0.2);
    assert_int_equal(cli_count(&parsed, CLI_OPT_NEW_TOKENS, 0), 10);
    assert_false(cli_flag(&parsed, CLI_OPT_IGNORE_EOS));
    assert_int_equal(parsed.values[CLI_OPT_STOP].n_list, 1);

    assert_int_equal(parse(CLI_RUN, "--temp", "0.3", "--stop", "x", NULL), FN_OK);
    assert_true(cli_number(&parsed, CLI_OPT_TEMP, 9.0) == 0.3);
    assert_string_equal(parsed.values[CLI_OPT_STOP].list[0], "x");

    /* For plan --config is a model's file; its settings come from the environment's. */
    assert_int_equal(parse(CLI_PLAN, "--config", "model.json", NULL), FN_OK);
    assert_string_equal(cli_text(&parsed, CLI_OPT_MODEL_CONFIG), "model.json");
    (void)unlink(config);
    free(config);
}

static void wrong_settings_are_named_with_their_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } files[] = {
        {"temp = hot\n", ":1: temp: expected a number, found 'hot'"},
        {"\ntmep = 1\n", ":2: run: unknown option --tmep; did you mean --temp?"},
        {"[rnu]\n", ""}, /* no key follows: nothing is asked of it */
        {"[rnu]\ntemp = 1\n", ":2: no command is called 'rnu'"},
        {"[run]\ngolden = x\n", ":2: run: no option --golden; it belongs to 'verify'"},
        {"temp\n", ":1: expected key = value"},
        {"[run\n", ":1: the closing ] is missing"},
        {"stop = \"x\n", ":1: the closing quote is missing"},
        {"config = x\n", ":1: "},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        const char *path = settings(files[i].text);
        fn_status status = parse(CLI_RUN, "--config", path, NULL);
        assert_int_equal(status, files[i].words[0] != 0 ? FN_E_USAGE : FN_OK);
        said(files[i].words);
        (void)unlink(path);
    }
    assert_int_equal(parse(CLI_RUN, "--config", "/nonexistent/x.ini", NULL), FN_E_IO);
}

static void wrong_options_name_the_nearest(void **state) {
    (void)state;
    assert_int_equal(parse(CLI_RUN, "--tmp", "1", NULL), FN_E_USAGE);
    said("unknown option --tmp; did you mean --temp?");
    assert_int_equal(parse(CLI_CHAT, "--new-token=3", NULL), FN_E_USAGE);
    said("did you mean --new-tokens?");
    assert_int_equal(parse(CLI_LOGITS, "--temp", "1", NULL), FN_E_USAGE);
    said("no option --temp; it belongs to 'chat'");
    assert_int_equal(parse(CLI_RUN, "--kv-bits", "16", NULL), FN_E_USAGE);
    said("it belongs to 'plan'");
    assert_int_equal(parse(CLI_RUN, "--zzzzzzzzzz", NULL), FN_E_USAGE);
    said("unknown option --zzzzzzzzzz; see flashnext run --help");
    assert_int_equal(parse(CLI_RUN, "-z", NULL), FN_E_USAGE);
    said("unknown option -z");
    assert_int_equal(parse(CLI_RUN, "what", NULL), FN_E_USAGE);
    said("unexpected argument 'what'");
    assert_int_equal(parse(CLI_RUN, "-n", NULL), FN_E_USAGE);
    said("-n needs a value (N)");
    assert_string_equal(cli_command_nearest("tokenise"), "tokenize");
    assert_null(cli_command_nearest("frobnicate"));
}

static void wrong_values_are_refused(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"--temp", "nan"},       {"--temp", "1e999"},
        {"--temp", "0x10"},      {"--temp", ""},
        {"--temp", "-0.1"},      {"--temp", "1 "},
        {"--top-p", "1.01"},     {"--top-k", "1.5"},
        {"--new-tokens", "-2"},  {"--seed", "-2"},
        {"--seed", "1.0"},       {"--isa", "avx"},
        {"--isa", ""},           {"--isa", "ref|avx2"},
        {"--threads", "0"},      {"--mem-limit", "64XB"},
        {"--mem-limit", "0"},    {"--mem-limit", "-1"},
        {"--mem-limit", "0x10"}, {"--mem-limit", "1e9"},
        {"--mem-limit", "1..2"}, {"--mem-limit", "1GiBB"},
        {"--mem-limit", "GiB"},  {"--mem-limit", "5 GiB"},
        {"--json=maybe", NULL},  {"--seed", "18446744073709551616"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (parse(CLI_RUN, wrong[i][0], wrong[i][1], NULL) != FN_E_USAGE) {
            fail_msg("%s %s was taken", wrong[i][0], wrong[i][1]);
        }
        said("expected");
    }
}

static void sizes_and_seeds(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } sizes[] = {
        {"4096", 4096},           {"64GiB", 68719476736u},
        {"64G", 68719476736u},    {"64GB", 64000000000u},
        {"1.5MiB", 1572864},      {"10k", 10240},
        {"2TiB", 2199023255552u}, {"7B", 7},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_int_equal(parse(CLI_RUN, "--mem-limit", sizes[i].text, NULL), FN_OK);
        assert_int_equal(cli_whole(&parsed, CLI_OPT_MEM_LIMIT, 0), sizes[i].bytes);
    }
    assert_int_equal(parse(CLI_RUN, "-s", "18446744073709551615", NULL), FN_OK);
    assert_int_equal(cli_whole(&parsed, CLI_OPT_SEED, 0), UINT64_MAX);
}

static void settings_change_while_chatting(void **state) {
    (void)state;
    assert_int_equal(parse(CLI_CHAT, "--stop", "a", NULL), FN_OK);
    assert_int_equal(cli_options_set(&parsed, "temp", "0.7", CLI_SOURCE_LIVE, NULL), FN_OK);
    assert_true(cli_number(&parsed, CLI_OPT_TEMP, 0.0) == 0.7);
    assert_int_equal(cli_options_set(&parsed, "temp", "x", CLI_SOURCE_LIVE, NULL), FN_E_USAGE);
    assert_true(cli_number(&parsed, CLI_OPT_TEMP, 0.0) == 0.7);
    assert_int_equal(cli_options_set(&parsed, "stop", "b", CLI_SOURCE_LIVE, NULL), FN_OK);
    assert_int_equal(cli_options_set(&parsed, "stop", "c", CLI_SOURCE_LIVE, NULL), FN_OK);
    assert_int_equal(parsed.values[CLI_OPT_STOP].n_list, 2); /* b, c: the flag's is replaced */
    cli_options_unset(&parsed, CLI_OPT_TEMP);
    assert_false(cli_is_set(&parsed, CLI_OPT_TEMP));
}

/* The table itself: no spelling means two things in one command. */
static void no_spelling_is_used_twice(void **state) {
    (void)state;
    for (int command = 0; command < CLI_N_COMMANDS; command++) {
        char seen[CLI_N_OPTIONS * 4][48];
        size_t n = 0;
        for (int i = 0; i < CLI_N_OPTIONS; i++) {
            const cli_option *option = &cli_option_table[i];
            if (!cli_option_applies((cli_option_id)i, (cli_command)command)) {
                continue;
            }
            char words[256];
            (void)snprintf(words, sizeof words, "--%s -%c %s", option->name,
                           option->letter != 0 ? option->letter : '?', option->aliases);
            char *rest = NULL;
            for (char *word = strtok_r(words, " ", &rest); word != NULL;
                 word = strtok_r(NULL, " ", &rest)) {
                for (size_t j = 0; j < n; j++) {
                    assert_string_not_equal(seen[j], word);
                }
                if (strcmp(word, "-?") != 0) {
                    assert_string_not_equal(word, "-h");
                    (void)snprintf(seen[n++], sizeof seen[0], "%s", word);
                }
            }
        }
    }
}

static void the_command_line_wins_over_what_it_excludes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof excluded / sizeof excluded[0]; i++) {
        assert_int_equal(setenv(excluded[i].variable, excluded[i].value, 1), 0);
        assert_int_equal(parse(excluded[i].command, NULL), FN_OK);
        assert_true(cli_is_set(&parsed, excluded[i].other));
        assert_int_equal(
            parse(excluded[i].command, excluded[i].words[0], excluded[i].words[1], NULL), FN_OK);
        assert_false(cli_is_set(&parsed, excluded[i].other));
        assert_int_equal(unsetenv(excluded[i].variable), 0);
    }
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
        assert_int_equal(setenv(allowed[i].variable, allowed[i].value, 1), 0);
        assert_int_equal(parse(allowed[i].command, allowed[i].words[0], allowed[i].words[1], NULL),
                         FN_OK);
        assert_true(cli_is_set(&parsed, allowed[i].other));
        assert_int_equal(unsetenv(allowed[i].variable), 0);
    }
    /* The environment over the file as well; both from the command line are the command's to refuse. */
    assert_int_equal(setenv("FLASHNEXT_DRAFT", "off", 1), 0);
    assert_int_equal(parse(CLI_CHAT, "--config", settings("draft-model = small\n"), NULL), FN_OK);
    assert_false(cli_is_set(&parsed, CLI_OPT_DRAFT_MODEL));
    assert_int_equal(unsetenv("FLASHNEXT_DRAFT"), 0);
    assert_int_equal(parse(CLI_CHAT, "--draft", "off", "--draft-model", "small", NULL), FN_OK);
    assert_true(cli_is_set(&parsed, CLI_OPT_DRAFT) && cli_is_set(&parsed, CLI_OPT_DRAFT_MODEL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_spelling_of_a_value, clean, release),
        cmocka_unit_test_setup_teardown(spellings_of_llama_cpp, clean, release),
        cmocka_unit_test_setup_teardown(letters_stand_together, clean, release),
        cmocka_unit_test_setup_teardown(command_line_over_environment_over_file, clean, release),
        cmocka_unit_test_setup_teardown(the_command_line_wins_over_what_it_excludes, clean,
                                        release),
        cmocka_unit_test_setup_teardown(wrong_settings_are_named_with_their_line, clean, release),
        cmocka_unit_test_setup_teardown(wrong_options_name_the_nearest, clean, release),
        cmocka_unit_test_setup_teardown(wrong_values_are_refused, clean, release),
        cmocka_unit_test_setup_teardown(sizes_and_seeds, clean, release),
        cmocka_unit_test_setup_teardown(settings_change_while_chatting, clean, release),
        cmocka_unit_test_setup_teardown(no_spelling_is_used_twice, clean, release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
