#include "cli/conversation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/report.h"

#define FORMAT_NAME "flashnext-conversation"
#define FORMAT_VERSION 1

static const char *role_of(const json_t *message) {
    const char *role = json_string_value(json_object_get(message, "role"));
    return role != NULL ? role : "";
}

static json_t *new_message(const char *role, const char *text, size_t n) {
    const char *begin = text;
    n = cli_strip(&begin, n);
    return json_pack("{s:s, s:s%}", "role", role, "content", begin, n);
}

static fn_status read_kwargs(const cli_options *options, json_t **out, fn_error *err) {
    const char *text = cli_text(options, CLI_OPT_TEMPLATE_KWARGS);
    json_error_t at;
    *out = text != NULL ? json_loads(text, 0, &at) : json_object();
    if (*out == NULL) {
        return cli_fail(err, FN_E_USAGE, "--chat-template-kwargs: %s", at.text);
    }
    if (!json_is_object(*out)) {
        return cli_fail(err, FN_E_USAGE, "--chat-template-kwargs: expected a JSON object");
    }
    return json_object_get(*out, "messages") == NULL
               ? FN_OK
               : cli_fail(err, FN_E_USAGE,
                          "--chat-template-kwargs: \"messages\" is the conversation, no variable");
}

fn_status cli_conversation_init(cli_conversation *talk, const cli_options *options, fn_error *err) {
    *talk = (cli_conversation){.messages = json_array()};
    fn_status status = read_kwargs(options, &talk->kwargs, err);
    const char *system = cli_text(options, CLI_OPT_SYSTEM);
    const char *path = cli_text(options, CLI_OPT_SYSTEM_FILE);
    if (status == FN_OK && system != NULL && path != NULL) {
        return cli_fail(err, FN_E_USAGE, "--system and --system-file exclude each other");
    }
    if (status == FN_OK && path != NULL) {
        cli_buffer text = {0};
        status = cli_read_text(&text, path, err);
        cli_conversation_set_system(talk, cli_buffer_text(&text));
        cli_buffer_free(&text);
    } else if (status == FN_OK && system != NULL) {
        cli_conversation_set_system(talk, system);
    }
    return status;
}

void cli_conversation_free(cli_conversation *talk) {
    json_decref(talk->messages);
    json_decref(talk->kwargs);
    *talk = (cli_conversation){0};
}

const char *cli_conversation_system(const cli_conversation *talk) {
    const json_t *first = json_array_get(talk->messages, 0);
    bool is_system = strcmp(role_of(first), "system") == 0;
    return is_system ? json_string_value(json_object_get(first, "content")) : NULL;
}

void cli_conversation_set_system(cli_conversation *talk, const char *text) {
    if (cli_conversation_system(talk) != NULL) {
        (void)json_array_remove(talk->messages, 0);
    }
    if (text != NULL && text[strspn(text, " \t\r\n")] != 0) {
        (void)json_array_insert_new(talk->messages, 0, new_message("system", text, strlen(text)));
    }
}

size_t cli_conversation_turns(const cli_conversation *talk) {
    size_t n = json_array_size(talk->messages);
    return cli_conversation_system(talk) != NULL ? n - 1 : n;
}

void cli_conversation_clear(cli_conversation *talk) {
    while (cli_conversation_turns(talk) > 0) {
        cli_conversation_drop_last(talk);
    }
}

void cli_conversation_add_user(cli_conversation *talk, const char *text, size_t n) {
    (void)json_array_append_new(talk->messages, new_message("user", text, n));
}

void cli_conversation_add_assistant(cli_conversation *talk, const cli_buffer *thought,
                                    const cli_buffer *answer) {
    json_t *message = new_message("assistant", cli_buffer_text(answer), answer->n);
    const char *begin = cli_buffer_text(thought);
    size_t n = cli_strip(&begin, thought->n);
    (void)json_object_set_new(message, "reasoning_content", json_stringn(begin, n));
    (void)json_array_append_new(talk->messages, message);
}

const char *cli_conversation_last_role(const cli_conversation *talk) {
    size_t n = json_array_size(talk->messages);
    return n > 0 ? role_of(json_array_get(talk->messages, n - 1)) : "";
}

void cli_conversation_drop_last(cli_conversation *talk) {
    size_t n = json_array_size(talk->messages);
    if (n > 0) {
        (void)json_array_remove(talk->messages, n - 1);
    }
}

char *cli_conversation_request(const cli_conversation *talk, const char *think) {
    json_t *kwargs = json_copy(talk->kwargs);
    if (think != NULL) {
        bool off = strcmp(think, "off") == 0;
        (void)json_object_set_new(kwargs, "enable_thinking", json_boolean(!off));
        if (!off && strcmp(think, "on") != 0) {
            (void)json_object_set_new(kwargs, "reasoning_effort", json_string(think));
        }
    }
    json_t *request = json_pack("{s:O, s:o, s:b}", "messages", talk->messages, "kwargs", kwargs,
                                "add_generation_prompt", 1);
    char *text = json_dumps(request, JSON_COMPACT);
    json_decref(request);
    return text;
}

/* Renaming would put a file in the place of a device, a pipe or a link. */
static bool may_be_replaced(const char *path) {
    struct stat info;
    return lstat(path, &info) != 0 || (S_ISREG(info.st_mode) && access(path, W_OK) == 0);
}

fn_status cli_conversation_save(const cli_conversation *talk, const char *path, fn_error *err) {
    if (!may_be_replaced(path)) {
        return cli_fail(err, FN_E_IO, "%s: not a regular file that may be written", path);
    }
    cli_buffer part = {0};
    cli_buffer_printf(&part, "%s.part", path);
    json_t *root = json_pack("{s:s, s:i, s:O, s:O}", "format", FORMAT_NAME, "version",
                             FORMAT_VERSION, "messages", talk->messages, "kwargs", talk->kwargs);
    fn_status status = FN_OK;
    errno = 0;
    if (json_dump_file(root, part.data, JSON_INDENT(1)) != 0 || rename(part.data, path) != 0) {
        status = cli_fail(err, FN_E_IO, "%s: %s", path,
                          errno != 0 ? strerror(errno) : "could not be written");
        (void)remove(part.data);
    }
    json_decref(root);
    cli_buffer_free(&part);
    return status;
}

static bool is_role(const char *role) {
    return strcmp(role, "system") == 0 || strcmp(role, "user") == 0 ||
           strcmp(role, "assistant") == 0;
}

/* Roles and texts; anything else would fail in the template much later. */
static bool messages_are_good(const json_t *messages) {
    size_t i = 0;
    const json_t *message = NULL;
    json_array_foreach(messages, i, message) {
        if (!is_role(role_of(message)) || !json_is_string(json_object_get(message, "content"))) {
            return false;
        }
    }
    return json_is_array(messages);
}

fn_status cli_conversation_load(const char *path, cli_conversation *out, fn_error *err) {
    json_error_t at;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &at);
    if (root == NULL) {
        return at.line < 0 ? cli_fail(err, FN_E_IO, "%s: %s", path, strerror(errno))
                           : cli_fail(err, FN_E_FAILED, "%s:%d: %s", path, at.line, at.text);
    }
    const char *format = json_string_value(json_object_get(root, "format"));
    json_int_t version = json_integer_value(json_object_get(root, "version"));
    json_t *messages = json_object_get(root, "messages");
    json_t *kwargs = json_object_get(root, "kwargs");
    fn_status status = FN_OK;
    if (format == NULL || strcmp(format, FORMAT_NAME) != 0 || version != FORMAT_VERSION ||
        !messages_are_good(messages) || !json_is_object(kwargs) ||
        json_object_get(kwargs, "messages") != NULL) {
        status = cli_fail(err, FN_E_FAILED, "%s: is no conversation saved by /save", path);
    } else {
        *out = (cli_conversation){.messages = json_incref(messages), .kwargs = json_incref(kwargs)};
    }
    json_decref(root);
    return status;
}
