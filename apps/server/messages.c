#include "server/messages.h"

#include <stdio.h>
#include <string.h>

#include "cli/buffer.h"
#include "server/fields.h"

typedef struct reader {
    srv_problem *problem;
    char at[48]; /* "messages[3]" */
    cli_buffer text, thought;
} reader;

static bool complain(reader *r, const char *field, const char *expected, const json_t *found) {
    return srv_refuse(r->problem, r->at, "%s%s: expected %s, found %s", r->at, field, expected,
                      srv_type_name(found));
}

static void add_text(cli_buffer *out, const json_t *text) {
    cli_buffer_add(out, json_string_value(text), json_string_length(text));
}

/* What the parts that are no text would need. */
static const char *capability_of(const char *type) {
    static const struct {
        const char *type, *name;
    } known[] = {{"image_url", "image input"},   {"image", "image input"},
                 {"input_image", "image input"}, {"video_url", "video input"},
                 {"video", "video input"},       {"input_audio", "audio input"},
                 {"audio_url", "audio input"},   {"file", "file input"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(type, known[i].type) == 0) {
            return known[i].name;
        }
    }
    return NULL;
}

static bool read_part(reader *r, const json_t *part, size_t index) {
    char where[80];
    (void)snprintf(where, sizeof where, "%s.content[%zu]", r->at, index);
    if (json_is_string(part)) {
        add_text(&r->text, part);
        return true;
    }
    const char *type = json_string_value(json_object_get(part, "type"));
    if (!json_is_object(part) || type == NULL) {
        return srv_refuse(r->problem, where, "%s: expected an object with a type, found %s", where,
                          srv_type_name(part));
    }
    if (capability_of(type) != NULL) {
        return srv_refuse_capability(r->problem, where, capability_of(type));
    }
    bool is_thought = strcmp(type, "thinking") == 0;
    bool is_refusal = strcmp(type, "refusal") == 0;
    bool is_text = strcmp(type, "text") == 0 || strcmp(type, "input_text") == 0 ||
                   strcmp(type, "output_text") == 0;
    if (!is_text && !is_thought && !is_refusal) {
        return srv_refuse(r->problem, where, "%s: there is no part of type '%s'", where, type);
    }
    const char *key = is_thought ? "thinking" : is_refusal ? "refusal" : "text";
    const json_t *text = json_object_get(part, key);
    if (!json_is_string(text)) {
        return srv_refuse(r->problem, where, "%s.%s: expected a string, found %s", where, key,
                          srv_type_name(text));
    }
    add_text(is_thought ? &r->thought : &r->text, text);
    return true;
}

static bool read_content(reader *r, const json_t *message) {
    const json_t *content = srv_field(message, "content");
    if (content == NULL) {
        return true;
    }
    if (json_is_string(content)) {
        add_text(&r->text, content);
        return true;
    }
    if (!json_is_array(content)) {
        return complain(r, ".content", "a string or an array of parts", content);
    }
    size_t i = 0;
    const json_t *part = NULL;
    json_array_foreach(content, i, part) {
        if (!read_part(r, part, i)) {
            return false;
        }
    }
    return true;
}

static bool read_thought(reader *r, const json_t *message) {
    static const char *const keys[] = {"reasoning_content", "reasoning"};
    for (size_t i = 0; i < 2 && r->thought.n == 0; i++) {
        const json_t *text = srv_field(message, keys[i]);
        if (text != NULL && !json_is_string(text)) {
            return complain(r, i == 0 ? ".reasoning_content" : ".reasoning", "a string", text);
        }
        if (text != NULL) {
            add_text(&r->thought, text);
        }
    }
    return true;
}

/* [{function: {name, arguments: text of JSON}}] with the arguments as an object. */
static bool read_calls(reader *r, const json_t *calls, json_t *out) {
    if (!json_is_array(calls)) {
        return complain(r, ".tool_calls", "an array", calls);
    }
    json_t *copy = json_deep_copy(calls);
    (void)json_object_set_new(out, "tool_calls", copy);
    size_t i = 0;
    const json_t *call = NULL;
    json_array_foreach(copy, i, call) {
        json_t *function = json_object_get(call, "function");
        const json_t *arguments = json_object_get(function, "arguments");
        if (!json_is_object(function) || !json_is_string(json_object_get(function, "name"))) {
            return complain(r, ".tool_calls", "functions with a name", call);
        }
        if (json_is_string(arguments)) {
            json_t *parsed = json_loadb(json_string_value(arguments), json_string_length(arguments),
                                        JSON_ALLOW_NUL, NULL);
            if (!json_is_object(parsed)) {
                json_decref(parsed);
                return srv_refuse(r->problem, r->at,
                                  "%s.tool_calls: the arguments are not the text of a JSON object",
                                  r->at);
            }
            (void)json_object_set_new(function, "arguments", parsed);
        }
    }
    return true;
}

static json_t *text_json(const cli_buffer *text) {
    return json_stringn(cli_buffer_text(text), text->n);
}

static const char *role_of(const json_t *message) {
    const char *role = json_string_value(json_object_get(message, "role"));
    return role != NULL ? role : "";
}

/* The content of the last system message gets this one's text behind it. */
static void join_system(json_t *last, const cli_buffer *text) {
    cli_buffer joined = {0};
    add_text(&joined, json_object_get(last, "content"));
    cli_buffer_puts(&joined, "\n\n");
    cli_buffer_add(&joined, cli_buffer_text(text), text->n);
    (void)json_object_set_new(last, "content", text_json(&joined));
    cli_buffer_free(&joined);
}

static void add_system(reader *r, json_t *out) {
    size_t n = json_array_size(out);
    json_t *last = json_array_get(out, n - 1);
    if (n == 1 && strcmp(role_of(last), "system") == 0) {
        join_system(last, &r->text);
        return;
    }
    cli_buffer text = {0};
    if (n > 0) {
        cli_buffer_puts(&text, "[system]\n");
    }
    cli_buffer_add(&text, cli_buffer_text(&r->text), r->text.n);
    (void)json_array_append_new(out, json_pack("{s:s, s:o}", "role", n > 0 ? "user" : "system",
                                               "content", text_json(&text)));
    cli_buffer_free(&text);
}

static bool add_message(reader *r, const char *role, const json_t *message, json_t *out) {
    json_t *copy = json_pack("{s:s, s:o}", "role", role, "content", text_json(&r->text));
    (void)json_array_append_new(out, copy);
    if (strcmp(role, "assistant") == 0) {
        const json_t *calls = srv_field(message, "tool_calls");
        if (r->thought.n > 0) {
            (void)json_object_set_new(copy, "reasoning_content", text_json(&r->thought));
        }
        return calls == NULL || json_array_size(calls) == 0 || read_calls(r, calls, copy);
    }
    return true;
}

static bool read_message(reader *r, const json_t *message, json_t *out) {
    if (!json_is_object(message)) {
        return complain(r, "", "an object", message);
    }
    const char *role = json_string_value(json_object_get(message, "role"));
    if (role == NULL) {
        return complain(r, ".role", "a string", json_object_get(message, "role"));
    }
    cli_buffer_clear(&r->text);
    cli_buffer_clear(&r->thought);
    if (!read_content(r, message) || !read_thought(r, message)) {
        return false;
    }
    if (strcmp(role, "system") == 0 || strcmp(role, "developer") == 0) {
        add_system(r, out);
        return true;
    }
    if (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0 && strcmp(role, "tool") != 0) {
        return srv_refuse(r->problem, r->at,
                          "%s.role: expected system, developer, user, assistant or tool, found "
                          "'%s'",
                          r->at, role);
    }
    return add_message(r, role, message, out);
}

bool srv_messages_read(const json_t *messages, json_t **out, srv_problem *problem) {
    *out = NULL;
    if (!json_is_array(messages)) {
        return srv_refuse(problem, "messages", "messages: expected an array, found %s",
                          srv_type_name(messages));
    }
    if (json_array_size(messages) == 0) {
        return srv_refuse(problem, "messages", "messages: expected at least one message");
    }
    reader r = {.problem = problem};
    json_t *result = json_array();
    bool good = true;
    size_t i = 0;
    const json_t *message = NULL;
    json_array_foreach(messages, i, message) {
        (void)snprintf(r.at, sizeof r.at, "messages[%zu]", i);
        good = good && read_message(&r, message, result);
    }
    cli_buffer_free(&r.text);
    cli_buffer_free(&r.thought);
    if (good) {
        *out = result;
    } else {
        json_decref(result);
    }
    return good;
}
