#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/json_slices.h"
#include "cli/model.h"
#include "cli/report.h"

static void add_ids(cli_buffer *out, const fn_ids *ids) {
    cli_buffer_puts(out, "[");
    for (size_t i = 0; i < ids->count; i++) {
        cli_buffer_printf(out, i > 0 ? ", %d" : "%d", (int)ids->items[i]);
    }
    cli_buffer_puts(out, "]");
}

static void add_string(cli_buffer *out, const char *text, size_t n) {
    json_t *string = json_stringn(text, n);
    char *dumped = string != NULL ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    cli_buffer_puts(out, dumped != NULL ? dumped : "null");
    free(dumped);
    json_decref(string);
}

static fn_status encode(const cli_options *options, const fn_text *text, const char *bytes,
                        size_t n, fn_ids *out, fn_error *err) {
    return fn_text_encode(text, bytes, n, !cli_flag(options, CLI_OPT_NO_SPECIAL), out, err);
}

/* ---- JSON in, JSON out ------------------------------------------------------------------ */

static fn_status text_to_json(const cli_options *options, const fn_text *text, const json_t *item,
                              size_t index, cli_buffer *out, fn_error *err) {
    if (!json_is_string(item)) {
        return cli_fail(err, FN_E_USAGE, "element %zu is not a string", index);
    }
    fn_ids ids = {0};
    fn_status status =
        encode(options, text, json_string_value(item), json_string_length(item), &ids, err);
    if (status == FN_OK) {
        add_ids(out, &ids);
    }
    fn_ids_free(&ids);
    return status;
}

static fn_status texts_to_json(const cli_options *options, const fn_text *text,
                               const cli_buffer *input, cli_buffer *out, fn_error *err) {
    json_error_t at;
    json_t *root = json_loadb(cli_buffer_text(input), input->n, JSON_ALLOW_NUL, &at);
    if (root == NULL || !json_is_array(root)) {
        json_decref(root);
        return cli_fail(err, FN_E_USAGE, "the input is no JSON array of strings%s%s",
                        root == NULL ? ": " : "", root == NULL ? at.text : "");
    }
    fn_status status = FN_OK;
    cli_buffer_puts(out, "[");
    for (size_t i = 0; i < json_array_size(root) && status == FN_OK; i++) {
        cli_buffer_puts(out, i > 0 ? ",\n " : "");
        status = text_to_json(options, text, json_array_get(root, i), i, out, err);
    }
    cli_buffer_puts(out, "]\n");
    json_decref(root);
    return status;
}

/* An error of one conversation is its answer; the others go on. */
static void chat_to_json(const cli_options *options, const fn_text *text, const char *request,
                         size_t request_n, cli_buffer *out) {
    bool has_ids = fn_text_has_tokenizer(text);
    fn_ids ids = {0};
    fn_error wrong = {0};
    char *prompt = NULL;
    size_t n = 0;
    fn_status status =
        fn_text_render(text, request, request_n, cli_flag(options, CLI_OPT_SAFE_CONTENT), &prompt,
                       &n, has_ids ? &ids : NULL, &wrong);
    if (status != FN_OK) {
        cli_buffer_puts(out, "{\"error\": ");
        add_string(out, wrong.text, strlen(wrong.text));
    } else {
        cli_buffer_puts(out, "{\"prompt\": ");
        add_string(out, prompt, n);
        cli_buffer_puts(out, ", \"ids\": ");
        if (has_ids) {
            add_ids(out, &ids);
        } else {
            cli_buffer_puts(out, "null");
        }
    }
    cli_buffer_puts(out, "}");
    fn_string_free(prompt);
    fn_ids_free(&ids);
}

static fn_status chats_to_json(const cli_options *options, const fn_text *text,
                               const cli_buffer *input, cli_buffer *out, fn_error *err) {
    cli_json_slices slices = cli_json_slices_begin(cli_buffer_text(input), input->n);
    const char *request = NULL;
    size_t n = 0;
    cli_buffer_puts(out, "[");
    for (size_t i = 0; cli_json_slices_next(&slices, &request, &n); i++) {
        cli_buffer_puts(out, i > 0 ? ",\n " : "");
        chat_to_json(options, text, request, n, out);
    }
    cli_buffer_puts(out, "]\n");
    return !slices.failed
               ? FN_OK
               : cli_fail(err, FN_E_USAGE, "the input is no JSON array of conversations");
}

static fn_status tokenize_json(const cli_options *options, const fn_text *text, fn_error *err) {
    cli_buffer input = {0};
    cli_buffer out = {0};
    fn_status status = cli_input_read(options, &input, err);
    if (status == FN_OK) {
        status = cli_flag(options, CLI_OPT_CHAT_FORM)
                     ? chats_to_json(options, text, &input, &out, err)
                     : texts_to_json(options, text, &input, &out, err);
    }
    if (status == FN_OK) {
        (void)fwrite(cli_buffer_text(&out), 1, out.n, stdout);
    }
    cli_buffer_free(&out);
    cli_buffer_free(&input);
    return status;
}

/* ---- one text, for people --------------------------------------------------------------- */

/* The request of one user's message, with --system and --chat-template-kwargs. */
static fn_status one_message(const cli_options *options, const cli_buffer *input, char **request,
                             fn_error *err) {
    const char *system = cli_text(options, CLI_OPT_SYSTEM);
    const char *kwargs_text = cli_text(options, CLI_OPT_TEMPLATE_KWARGS);
    json_error_t at;
    json_t *kwargs = kwargs_text != NULL ? json_loads(kwargs_text, 0, &at) : json_object();
    if (!json_is_object(kwargs)) {
        json_decref(kwargs);
        return cli_fail(err, FN_E_USAGE, "--chat-template-kwargs: expected a JSON object");
    }
    json_t *messages = json_array();
    if (system != NULL) {
        (void)json_array_append_new(messages,
                                    json_pack("{s:s, s:s}", "role", "system", "content", system));
    }
    (void)json_array_append_new(messages, json_pack("{s:s, s:s%}", "role", "user", "content",
                                                    cli_buffer_text(input), input->n));
    json_t *root = json_pack("{s:o, s:o}", "messages", messages, "kwargs", kwargs);
    *request = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return FN_OK;
}

/* "  9707  'Hello'", with bytes that are no text as \xNN. */
static void print_token(const fn_text *text, int32_t id) {
    size_t n = 0;
    const char *bytes = fn_text_token(text, id, &n);
    printf("%8d  '", (int)id);
    for (size_t at = 0; bytes != NULL && at < n;) {
        size_t valid = cli_utf8_valid(bytes + at, n - at);
        for (size_t i = 0; i < valid; i++) {
            unsigned char c = (unsigned char)bytes[at + i];
            if (c == '\n') {
                fputs("\\n", stdout);
            } else if (c < 0x20 || c == 0x7F) {
                printf("\\x%02X", c);
            } else {
                putchar(c);
            }
        }
        at += valid;
        if (at < n) {
            printf("\\x%02X", (unsigned char)bytes[at++]);
        }
    }
    printf("'%s\n", fn_text_is_special(text, id) ? "  special" : "");
}

static void print_ids(const cli_options *options, const fn_text *text, const fn_ids *ids) {
    if (cli_flag(options, CLI_OPT_IDS)) {
        cli_buffer out = {0};
        add_ids(&out, ids);
        puts(cli_buffer_text(&out));
        cli_buffer_free(&out);
        return;
    }
    for (size_t i = 0; i < ids->count; i++) {
        print_token(text, ids->items[i]);
    }
    printf("%zu tokens\n", ids->count);
}

static fn_status render(const cli_options *options, const fn_text *text, const cli_buffer *input,
                        fn_ids *ids, fn_error *err) {
    char *request = NULL;
    fn_status status = one_message(options, input, &request, err);
    if (status != FN_OK) {
        return status;
    }
    char *prompt = NULL;
    size_t n = 0;
    bool has_ids = fn_text_has_tokenizer(text);
    status = fn_text_render(text, request, strlen(request), cli_flag(options, CLI_OPT_SAFE_CONTENT),
                            &prompt, &n, has_ids ? ids : NULL, err);
    free(request);
    if (status == FN_OK && !cli_flag(options, CLI_OPT_IDS)) {
        (void)fwrite(prompt, 1, n, stdout);
        fputs(n > 0 && prompt[n - 1] == '\n' ? "" : "\n", stdout);
    }
    fn_string_free(prompt);
    return status;
}

static fn_status tokenize_text(const cli_options *options, const fn_text *text, fn_error *err) {
    bool chat = cli_flag(options, CLI_OPT_CHAT_FORM);
    cli_buffer input = {0};
    fn_ids ids = {0};
    fn_status status = cli_input_read(options, &input, err);
    if (status == FN_OK) {
        status = chat ? render(options, text, &input, &ids, err)
                      : encode(options, text, cli_buffer_text(&input), input.n, &ids, err);
    }
    if (status == FN_OK && fn_text_has_tokenizer(text)) {
        print_ids(options, text, &ids);
    }
    fn_ids_free(&ids);
    cli_buffer_free(&input);
    return status;
}

int cli_tokenize(const cli_options *options) {
    fn_error err = {0};
    fn_text *text = NULL;
    bool chat = cli_flag(options, CLI_OPT_CHAT_FORM);
    fn_status status = cli_text_open(options, !chat, &text, &err);
    if (status != FN_OK) {
        return cli_report_model(status, &err);
    }
    status = cli_flag(options, CLI_OPT_JSON) ? tokenize_json(options, text, &err)
                                             : tokenize_text(options, text, &err);
    fn_text_close(text);
    return cli_report(status, &err);
}
