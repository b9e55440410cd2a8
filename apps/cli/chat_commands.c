#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/chat.h"
#include "cli/nearest.h"
#include "cli/option_values.h"
#include "cli/paths.h"
#include "cli/report.h"

/* A command: its names, what may follow, what it does. run returns true to leave the chat; rest
 * is what stands behind the name, without blanks around it. */
typedef struct chat_command {
    const char *names, *operand, *text;
    bool (*run)(cli_chat_state *chat, const char *rest);
} chat_command;

static bool run_help(cli_chat_state *chat, const char *rest);

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Answers of commands go where the figures go: standard output has answers of the model only. */
static void say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

static bool run_clear(cli_chat_state *chat, const char *rest) {
    (void)rest;
    cli_conversation_clear(&chat->talk);
    say("the conversation is empty");
    return false;
}

static bool run_regen(cli_chat_state *chat, const char *rest) {
    (void)rest;
    if (strcmp(cli_conversation_last_role(&chat->talk), "assistant") != 0) {
        say("there is no answer yet");
        return false;
    }
    json_t *messages = chat->talk.messages;
    json_t *old = json_incref(json_array_get(messages, json_array_size(messages) - 1));
    cli_conversation_drop_last(&chat->talk);
    chat->n_regenerated++;
    fn_error err = {0};
    fn_status status = cli_chat_answer(chat, &err);
    if (status == FN_OK) {
        cli_chat_show_timings(chat);
    } else {
        (void)json_array_append(messages, old);
        (void)cli_report(status, &err);
        say("the old answer stays");
    }
    json_decref(old);
    return false;
}

static bool run_system(cli_chat_state *chat, const char *rest) {
    if (rest[0] != 0) {
        bool none = strcmp(rest, "off") == 0;
        cli_conversation_set_system(&chat->talk, none ? NULL : rest);
    }
    const char *system = cli_conversation_system(&chat->talk);
    say("system message: %s", system != NULL ? system : "none");
    return false;
}

static bool run_think(cli_chat_state *chat, const char *rest) {
    if (rest[0] != 0) {
        fn_error err = {0};
        if (cli_options_set(chat->options, "think", rest, CLI_SOURCE_LIVE, &err) != FN_OK) {
            say("%s", err.text);
            return false;
        }
    }
    const char *think = cli_text(chat->options, CLI_OPT_THINK);
    say("thinking: %s", think != NULL ? think : "as the template says");
    return false;
}

/* ---- /set ------------------------------------------------------------------------------- */

static bool is_live(int id) {
    return (cli_option_table[id].traits & CLI_LIVE) != 0 &&
           cli_option_applies((cli_option_id)id, CLI_CHAT);
}

static void show_setting(const cli_chat_state *chat, int id) {
    const cli_option *option = &cli_option_table[id];
    const cli_value *value = &chat->options->values[id];
    fprintf(stderr, "  %-18s ", option->name);
    if (value->source == CLI_SOURCE_NONE) {
        fputs("default", stderr);
    } else if (option->kind == CLI_KIND_FLAG) {
        fputs(value->number > 0.0 ? "on" : "off", stderr);
    } else if (option->kind == CLI_KIND_LIST) {
        for (size_t i = 0; i < value->n_list; i++) {
            fprintf(stderr, "%s'%s'", i > 0 ? ", " : "", value->list[i]);
        }
    } else {
        fputs(value->text, stderr);
    }
    fputc('\n', stderr);
}

static void show_settings(const cli_chat_state *chat) {
    for (int id = 0; id < CLI_N_OPTIONS; id++) {
        if (is_live(id)) {
            show_setting(chat, id);
        }
    }
}

/* The live option of that name or alias (without dashes), CLI_N_OPTIONS if there is none. */
static int find_live(const char *name, const char **nearest) {
    cli_nearest near = cli_nearest_to(name);
    for (int id = 0; id < CLI_N_OPTIONS; id++) {
        if (!is_live(id)) {
            continue;
        }
        cli_nearest_try(&near, cli_option_table[id].name);
        if (strcmp(cli_option_table[id].name, name) == 0) {
            return id;
        }
    }
    *nearest = near.best;
    return CLI_N_OPTIONS;
}

/* What only the model can judge: ids of --logit-bias. */
static bool sampling_is_good(const cli_chat_state *chat, fn_error *err) {
    cli_sampling sampling = {0};
    fn_status status =
        cli_sampling_make(chat->options, chat->model.text, chat->model.info.vocab, &sampling, err);
    cli_sampling_free(&sampling);
    return status == FN_OK;
}

static bool run_set(cli_chat_state *chat, const char *rest) {
    size_t n = strcspn(rest, " \t");
    if (n == 0) {
        show_settings(chat);
        return false;
    }
    cli_buffer name = {0};
    cli_buffer_add(&name, rest, n);
    const char *value = rest + n;
    value += strspn(value, " \t");
    const char *nearest = NULL;
    int id = find_live(name.data, &nearest);
    fn_error err = {0};
    if (id == CLI_N_OPTIONS) {
        say("nothing here is called '%s'%s%s%s", name.data,
            nearest != NULL ? "; did you mean " : "; /set shows what there is",
            nearest != NULL ? nearest : "", nearest != NULL ? "?" : "");
        cli_buffer_free(&name);
        return false;
    }
    bool ask = value[0] == 0 && cli_option_table[id].kind != CLI_KIND_FLAG;
    if (strcmp(value, "default") == 0) {
        cli_options_unset(chat->options, (cli_option_id)id);
    } else if (!ask && cli_options_set(chat->options, name.data, value[0] != 0 ? value : NULL,
                                       CLI_SOURCE_LIVE, &err) != FN_OK) {
        say("%s", err.text);
        id = CLI_N_OPTIONS;
    } else if (!ask && !sampling_is_good(chat, &err)) {
        say("%s", err.text);
        cli_options_unset(chat->options, (cli_option_id)id);
    }
    if (id != CLI_N_OPTIONS) {
        show_setting(chat, id);
    }
    cli_buffer_free(&name);
    return false;
}

/* ---- /save and /load -------------------------------------------------------------------- */

static bool ends_with_json(const char *path) {
    size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".json") == 0;
}

/* "F" has the state, "F.json" the conversation; a name that ends in .json is the conversation
 * alone. */
static char *conversation_path(const char *path) {
    cli_buffer name = {0};
    cli_buffer_printf(&name, ends_with_json(path) ? "%s" : "%s.json", path);
    return name.data;
}

static bool run_save(cli_chat_state *chat, const char *rest) {
    if (rest[0] == 0) {
        say("/save FILE: which file?");
        return false;
    }
    fn_error err = {0};
    char *state_path = cli_path_expand(rest);
    char *path = conversation_path(state_path);
    fn_status status = FN_OK;
    if (!ends_with_json(rest)) { /* first: where this fails nothing is left behind */
        status = fn_session_save(chat->session, state_path, &err);
    }
    if (status == FN_OK) {
        status = cli_conversation_save(&chat->talk, path, &err);
    }
    if (status != FN_OK) {
        (void)cli_report(status, &err);
    } else if (ends_with_json(rest)) {
        say("saved the conversation in %s", path);
    } else {
        say("saved the state in %s, the conversation in %s", state_path, path);
    }
    free(path);
    free(state_path);
    return false;
}

static bool run_load(cli_chat_state *chat, const char *rest) {
    if (rest[0] == 0) {
        say("/load FILE: which file?");
        return false;
    }
    fn_error err = {0};
    char *state_path = cli_path_expand(rest);
    char *path = conversation_path(state_path);
    cli_conversation talk = {0};
    fn_session *session = NULL;
    fn_status status = cli_conversation_load(path, &talk, &err);
    if (status == FN_OK && !ends_with_json(rest)) {
        status = fn_session_load(chat->model.engine, state_path, &session, &err);
    }
    if (status != FN_OK) {
        (void)cli_report(status, &err);
        say("nothing was loaded%s%s%s", talk.messages != NULL ? "; /load " : "",
            talk.messages != NULL ? path : "",
            talk.messages != NULL ? " takes the conversation alone" : "");
        cli_conversation_free(&talk);
    } else {
        if (session != NULL) {
            fn_session_destroy(chat->session);
            chat->session = session;
        }
        cli_conversation_free(&chat->talk);
        chat->talk = talk;
        say("loaded %zu messages%s", cli_conversation_turns(&chat->talk),
            session != NULL ? " and the state" : "");
    }
    free(path);
    free(state_path);
    return false;
}

/* ---- the rest --------------------------------------------------------------------------- */

static bool run_stats(cli_chat_state *chat, const char *rest) {
    (void)rest;
    const fn_engine_info *info = &chat->model.info;
    char weights[32];
    char state[32];
    say("%s: %s kernels, %zu threads, %s precision, %s of weights, loaded in %.2f s",
        chat->model.dir, info->isa, info->threads, info->precision,
        cli_bytes(info->weight_bytes, weights, sizeof weights), info->load_seconds);
    say("context: %zu of %zu tokens (%s when full), %zu messages", fn_session_length(chat->session),
        info->context, cli_bytes(info->state_bytes, state, sizeof state),
        cli_conversation_turns(&chat->talk));
    if (chat->timings.predicted_n > 0) {
        cli_timings_show(&chat->timings, chat->seed_is_random ? &chat->seed : NULL);
    }
    cli_ngram_show(chat->model.engine);
    cli_memory_show();
    return false;
}

static bool run_exit(cli_chat_state *chat, const char *rest) {
    (void)chat;
    (void)rest;
    return true;
}

static const chat_command commands[] = {
    {"/help /?", "", "this list", run_help},
    {"/clear", "", "forget the conversation, keep the system message", run_clear},
    {"/regen", "", "answer the last question again, with another seed", run_regen},
    {"/system", "[TEXT|off]", "show, set or remove the system message", run_system},
    {"/think", "[on|off|low|medium|xhigh]", "show or set how the model thinks", run_think},
    {"/set", "[KEY [VALUE|default]]", "show or change a setting", run_set},
    {"/save", "FILE", "save state and conversation (FILE.json: conversation alone)", run_save},
    {"/load", "FILE", "load them again", run_load},
    {"/stats", "", "speed, memory and context", run_stats},
    {"/exit /bye /quit", "", "leave (also Ctrl-D)", run_exit},
};
static const size_t n_commands = sizeof commands / sizeof commands[0];

static bool run_help(cli_chat_state *chat, const char *rest) {
    (void)chat;
    (void)rest;
    for (size_t i = 0; i < n_commands; i++) {
        char left[64];
        (void)snprintf(left, sizeof left, "%s %s", commands[i].names, commands[i].operand);
        say("  %-34s %s", left, commands[i].text);
    }
    say("\nThree quotes (\"\"\") begin and end a message of several lines; so does a \\ at the end "
        "of "
        "a line.\nA message that begins with / is written //. Ctrl-C stops an answer.");
    return false;
}

/* Is word [n] one of the names "/a /b"? */
static bool has_name(const char *names, const char *word, size_t n) {
    for (const char *at = names; *at != 0;) {
        size_t length = strcspn(at, " ");
        if (length == n && strncmp(at, word, n) == 0) {
            return true;
        }
        at += length;
        at += *at == ' ';
    }
    return false;
}

static void unknown(const char *line, size_t n) {
    cli_buffer word = {0};
    cli_buffer_add(&word, line, n);
    cli_nearest nearest = cli_nearest_to(word.data);
    cli_buffer names[sizeof commands / sizeof commands[0]] = {0};
    for (size_t i = 0; i < n_commands; i++) {
        cli_buffer_add(&names[i], commands[i].names, strcspn(commands[i].names, " "));
        cli_nearest_try(&nearest, names[i].data);
    }
    say("no command is called %s%s%s%s", word.data,
        nearest.best != NULL ? "; did you mean " : "; /help lists them",
        nearest.best != NULL ? nearest.best : "", nearest.best != NULL ? "?" : "");
    for (size_t i = 0; i < n_commands; i++) {
        cli_buffer_free(&names[i]);
    }
    cli_buffer_free(&word);
}

bool cli_chat_command(cli_chat_state *chat, const char *line) {
    size_t n = strcspn(line, " \t\n");
    const char *rest = line + n;
    size_t n_rest = cli_strip(&rest, strlen(rest));
    cli_buffer operand = {0};
    cli_buffer_add(&operand, rest, n_rest);
    bool leave = false;
    bool found = false;
    for (size_t i = 0; i < n_commands && !found; i++) {
        found = has_name(commands[i].names, line, n);
        leave = found && commands[i].run(chat, operand.data);
    }
    if (!found) {
        unknown(line, n);
    }
    cli_buffer_free(&operand);
    return leave;
}
