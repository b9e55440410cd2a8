#include "cli/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/input.h"
#include "cli/paths.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "cli/terminal.h"

/* ---- one answer ------------------------------------------------------------------------- */

static fn_status render(const cli_chat_state *chat, fn_ids *ids, bool *in_thought, fn_error *err) {
    static const char opener[] = "<think>\n";
    const size_t n_opener = sizeof opener - 1;
    char *request = cli_conversation_request(&chat->talk, cli_text(chat->options, CLI_OPT_THINK));
    char *prompt = NULL;
    size_t n = 0;
    fn_status status =
        fn_text_render(chat->model.text, request, strlen(request),
                       cli_flag(chat->options, CLI_OPT_SAFE_CONTENT), &prompt, &n, ids, err);
    *in_thought =
        status == FN_OK && n >= n_opener && memcmp(prompt + n - n_opener, opener, n_opener) == 0;
    fn_string_free(prompt);
    free(request);
    return status;
}

static fn_status read_prompt(cli_chat_state *chat, const fn_ids *ids, fn_error *err) {
    cli_timings *timings = &chat->timings;
    *timings = (cli_timings){0};
    double started = cli_now();
    fn_status status =
        fn_session_sync(chat->session, ids->items, ids->count, &timings->cache_n, err);
    cli_progress_clear(&chat->model.progress);
    timings->prompt_seconds = cli_now() - started;
    timings->prompt_n = ids->count - timings->cache_n;
    return status;
}

static fn_status generate(cli_chat_state *chat, bool in_thought, fn_error *err) {
    cli_sampling sampling;
    fn_status status =
        cli_sampling_make(chat->options, chat->model.text, chat->model.info.vocab, &sampling, err);
    if (status != FN_OK) {
        return status;
    }
    if (sampling.random_seed) {
        sampling.sampling.seed = chat->seed_base;
    }
    sampling.sampling.seed += chat->n_regenerated;
    chat->seed = sampling.sampling.seed;
    chat->seed_is_random = sampling.random_seed;

    const cli_value *stop = &chat->options->values[CLI_OPT_STOP];
    fn_generation generation = fn_generation_default(chat->model.text);
    generation.sampling = sampling.sampling;
    generation.max_tokens = cli_count(chat->options, CLI_OPT_NEW_TOKENS, FN_UNLIMITED);
    generation.starts_in_thought = in_thought;
    generation.stop = (const char *const *)stop->list;
    generation.n_stop = stop->n_list;
    generation.on_event = cli_answer_event;
    generation.ud = &chat->answer;
    fn_generated generated = {0};
    status = fn_session_generate(chat->session, &generation, &generated, err);
    cli_answer_end(&chat->answer);
    cli_sampling_free(&sampling);
    chat->finish = generated.finish;
    chat->timings.predicted_n = generated.n_ids;
    chat->timings.thinking_n = generated.n_thinking_ids;
    chat->timings.first_seconds = generated.first_seconds;
    chat->timings.predicted_seconds = generated.seconds;
    chat->timings.drafting = generated.drafting;
    return status;
}

fn_status cli_chat_answer(cli_chat_state *chat, fn_error *err) {
    fn_ids ids = {0};
    bool in_thought = false;
    cli_answer *answer = &chat->answer;
    cli_answer_reset(answer);
    answer->show_thought = !cli_flag(chat->options, CLI_OPT_HIDE_THINKING);
    if (chat->interactive) {
        /* What is typed meanwhile would stand in the middle of the answer. */
        cli_signals_hide_typing();
    }
    fn_status status = render(chat, &ids, &in_thought, err);
    if (status == FN_OK) {
        status = read_prompt(chat, &ids, err);
    }
    if (status == FN_OK) {
        status = generate(chat, in_thought, err);
    }
    cli_signals_show_typing();
    fn_ids_free(&ids);
    bool empty = answer->thought.n == 0 && answer->answer.n == 0;
    if (status == FN_OK && chat->finish == FN_FINISH_CANCELLED && empty) {
        status = FN_E_CANCELLED;
    }
    if (status == FN_OK) {
        cli_conversation_add_assistant(&chat->talk, &answer->thought, &answer->answer);
    }
    return status;
}

void cli_chat_show_timings(const cli_chat_state *chat) {
    bool quiet = cli_flag(chat->options, CLI_OPT_QUIET);
    bool wanted = cli_flag(chat->options, CLI_OPT_STATS) ||
                  cli_flag(chat->options, CLI_OPT_VERBOSE) || (isatty(STDERR_FILENO) && !quiet);
    if (!wanted) {
        return;
    }
    bool dim = chat->answer.dim;
    fputs(dim ? "\033[2m" : "", stderr);
    cli_timings_show(&chat->timings, chat->seed_is_random ? &chat->seed : NULL);
    if (cli_flag(chat->options, CLI_OPT_STATS)) {
        cli_ngram_show(chat->model.engine);
        cli_memory_show();
    }
    fputs(dim ? "\033[0m" : "", stderr);
}

int cli_chat_turn(cli_chat_state *chat, const char *text, size_t n) {
    fn_error err = {0};
    cli_conversation_add_user(&chat->talk, text, n);
    fn_status status = cli_chat_answer(chat, &err);
    if (status != FN_OK) {
        cli_conversation_drop_last(&chat->talk);
        if (status == FN_E_CANCELLED && chat->interactive) {
            fputs("(stopped)\n", stderr);
        }
        return cli_report(status, &err);
    }
    if (chat->finish == FN_FINISH_LENGTH && isatty(STDERR_FILENO)) {
        fprintf(stderr, "(stopped after %zu tokens)\n", chat->timings.predicted_n);
    }
    cli_chat_show_timings(chat);
    return chat->finish == FN_FINISH_CANCELLED ? cli_signal_exit_code() : CLI_EXIT_OK;
}

/* ---- with a person ---------------------------------------------------------------------- */

static void greet(const cli_chat_state *chat) {
    if (!cli_flag(chat->options, CLI_OPT_QUIET)) {
        fprintf(stderr, "flashnext %s, %s. /help lists commands, Ctrl-D leaves.\n", fn_version(),
                chat->model.dir);
    }
}

/* True: leave. */
static bool take_message(cli_chat_state *chat, const cli_buffer *message) {
    const char *text = cli_buffer_text(message);
    size_t n = cli_strip(&text, message->n);
    if (n == 0) {
        return false;
    }
    if (text[0] == '/' && text[1] != '/') {
        return cli_chat_command(chat, text);
    }
    bool escaped = text[0] == '/'; /* "//" at the beginning is a slash that was meant */
    chat->n_regenerated = 0;
    (void)cli_chat_turn(chat, escaped ? text + 1 : text, escaped ? n - 1 : n);
    return false;
}

static int converse(cli_chat_state *chat) {
    cli_terminal *terminal = cli_terminal_open(cli_terminal_colors(chat->options, STDOUT_FILENO));
    if (terminal == NULL) {
        cli_complain("the terminal cannot be used");
        return CLI_EXIT_FAILED;
    }
    greet(chat);
    int code = CLI_EXIT_OK;
    cli_buffer message = {0};
    for (bool leave = false; !leave;) {
        cli_buffer_clear(&message);
        cli_interrupt_clear();
        switch (cli_terminal_read(terminal, &message)) {
        case CLI_LINE_READ:
            leave = take_message(chat, &message);
            break;
        case CLI_LINE_DISCARDED:
            break;
        case CLI_LINE_INTERRUPT:
            code = CLI_EXIT_INTERRUPTED;
            leave = true;
            break;
        case CLI_LINE_END:
        case CLI_LINE_TERMINATE:
            leave = true;
            break;
        }
        leave = leave || cli_terminated();
    }
    cli_buffer_free(&message);
    cli_terminal_close(terminal);
    return cli_terminated() ? CLI_EXIT_TERMINATED : code;
}

/* ---- from beginning to end -------------------------------------------------------------- */

static fn_status missing_template(const char *dir, fn_error *err) {
    return cli_fail(err, FN_E_MODEL,
                    "%s: there is no chat template (chat_template.jinja); give one with "
                    "--chat-template-file FILE, or use flashnext run",
                    dir);
}

/* Before a long load: can a template be there at all? */
static fn_status look_for_template(const cli_options *options, fn_error *err) {
    char *dir = NULL;
    fn_status status = cli_model_dir(options, &dir, err);
    char *model_config = status == FN_OK ? cli_path_join(dir, "config.json") : NULL;
    if (status == FN_OK && cli_path_exists(model_config) &&
        !cli_is_set(options, CLI_OPT_TEMPLATE)) {
        char *template = cli_path_join(dir, "chat_template.jinja");
        char *config = cli_path_join(dir, "tokenizer_config.json"); /* may have one inside */
        if (!cli_path_exists(template) && !cli_path_exists(config)) {
            status = missing_template(dir, err);
        }
        free(template);
        free(config);
    }
    free(model_config);
    free(dir);
    return status;
}

static fn_status open_chat(cli_chat_state *chat, fn_error *err) {
    fn_status status = look_for_template(chat->options, err);
    if (status == FN_OK) {
        status = cli_model_open(chat->options, FN_PRECISION_DEFAULT, 0, &chat->model, err);
    }
    if (status == FN_OK && !fn_text_has_template(chat->model.text)) {
        status = missing_template(chat->model.dir, err);
    }
    if (status == FN_OK && !fn_text_has_tokenizer(chat->model.text)) {
        status = cli_fail(err, FN_E_MODEL,
                          "%s: there is no tokenizer.json; give one with "
                          "--tokenizer FILE",
                          chat->model.dir);
    }
    cli_sampling sampling = {0};
    if (status == FN_OK) {
        status = cli_sampling_make(chat->options, chat->model.text, chat->model.info.vocab,
                                   &sampling, err);
        chat->seed_base = sampling.sampling.seed;
        cli_sampling_free(&sampling);
    }
    if (status == FN_OK) {
        status = fn_session_create(chat->model.engine, &chat->session, err);
    }
    chat->answer.progress = &chat->model.progress;
    chat->answer.dim = cli_terminal_colors(chat->options, STDERR_FILENO);
    return status;
}

static void close_chat(cli_chat_state *chat) {
    if (chat->session != NULL) {
        fn_session_destroy(chat->session);
    }
    cli_model_close(&chat->model);
    cli_conversation_free(&chat->talk);
    cli_answer_free(&chat->answer);
}

int cli_chat(cli_options *options) {
    cli_signals_catch();
    cli_terminal_use_utf8();
    fn_error err = {0};
    cli_chat_state chat = {.options = options, .interactive = !cli_input_given(options)};
    cli_buffer prompt = {0};
    fn_status status = FN_OK;
    if (!chat.interactive) {
        status = cli_input_read(options, &prompt, &err);
        const char *text = cli_buffer_text(&prompt);
        if (status == FN_OK && cli_strip(&text, prompt.n) == 0) {
            status = cli_fail(&err, FN_E_USAGE, "the prompt is empty");
        }
    }
    if (status == FN_OK) {
        status = cli_conversation_init(&chat.talk, options, &err);
    }
    int code = cli_report(status, &err);
    if (status == FN_OK) {
        status = open_chat(&chat, &err);
        if (status != FN_OK) {
            code = cli_report_model(status, &err);
        } else {
            code = chat.interactive ? converse(&chat) : cli_chat_turn(&chat, prompt.data, prompt.n);
        }
    }
    close_chat(&chat);
    cli_buffer_free(&prompt);
    return code;
}
