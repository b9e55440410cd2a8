#include "engine/text.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "engine/generation_config.h"
#include "tokens/detokenize.h"

/* ---- tokenizer_config.json and the template ---- */

static fn_status note_special_tokens(fn_text *text, const json_t *config, fn_error *err) {
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    text->special_tokens = json_object();
    int failed = text->special_tokens == NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && config != NULL; i++) {
        json_t *value = json_object_get(config, names[i]);
        value = json_is_object(value) ? json_object_get(value, "content") : value;
        if (json_is_string(value)) {
            failed |= json_object_set(text->special_tokens, names[i], value);
        }
    }
    return failed ? fn_fail_nomem(err, "special tokens", 0) : FN_OK;
}

/* The template in tokenizer_config.json: a string, or a list of {name, template} with a "default". */
static const json_t *embedded_template(const json_t *config) {
    const json_t *value = json_object_get(config, "chat_template");
    for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++) {
        const json_t *entry = json_array_get(value, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (name != NULL && strcmp(name, "default") == 0) {
            return json_object_get(entry, "template");
        }
    }
    return json_is_string(value) ? value : NULL;
}

static fn_status compile_file(fn_text *text, const char *path, fn_error *err) {
    char *bytes = NULL;
    size_t n = 0;
    fn_status status = fn_file_read_all(path, FN_MAX_TEXT_FILE, &bytes, &n, err);
    if (status == FN_OK) {
        status = fn_chat_template_compile(bytes, n, path, &text->chat_template, err);
    }
    fn_free(bytes);
    return status;
}

static fn_status read_template(fn_text *text, const fn_text_options *options, fn_error *err) {
    json_t *config = NULL;
    char *path = NULL;
    fn_status status = fn_text_read_json(options->model_dir, "tokenizer_config.json", &config, err);
    status = status == FN_OK ? note_special_tokens(text, config, err) : status;
    if (status == FN_OK && options->template_path != NULL) {
        status = compile_file(text, options->template_path, err);
    } else if (status == FN_OK) {
        status = fn_text_find_file(options->model_dir, "chat_template.jinja", &path, err);
        const json_t *embedded = embedded_template(config);
        if (status == FN_OK && path != NULL) {
            status = compile_file(text, path, err);
        } else if (status == FN_OK && json_is_string(embedded)) {
            status =
                fn_chat_template_compile(json_string_value(embedded), json_string_length(embedded),
                                         "tokenizer_config.json", &text->chat_template, err);
        }
    }
    fn_free(path);
    json_decref(config);
    return status;
}

/* A kind of tokenizer that is not supported is a bad model file to whoever opens a model. */
static fn_status load_tokenizer(fn_text *text, const char *path, fn_error *err) {
    fn_status status = fn_tokenizer_load(path, &text->tokenizer, err);
    if (status == FN_E_UNSUPPORTED) {
        status = FN_E_MODEL;
        if (err != NULL) {
            err->code = status;
        }
    }
    return status;
}

static fn_status read_tokenizer(fn_text *text, const fn_text_options *options, fn_error *err) {
    char *path = NULL;
    fn_status status = FN_OK;
    if (options->tokenizer_path != NULL) {
        return load_tokenizer(text, options->tokenizer_path, err);
    }
    status = fn_text_find_file(options->model_dir, "tokenizer.json", &path, err);
    if (status == FN_OK && path != NULL) {
        status = load_tokenizer(text, path, err);
    } else if (status == FN_OK && options->need_tokenizer) {
        status = fn_fail(err, FN_E_MODEL, "%s: no tokenizer.json there, and no other was named",
                         options->model_dir != NULL ? options->model_dir : "(no model directory)");
    }
    fn_free(path);
    return status;
}

fn_status fn_text_open(const fn_text_options *options, fn_text **out, fn_error *err) {
    *out = NULL;
    fn_text *text = fn_alloc_zero(1, sizeof *text);
    if (text == NULL) {
        return fn_fail_nomem(err, "text files", sizeof *text);
    }
    fn_status status = read_tokenizer(text, options, err);
    status = status == FN_OK ? read_template(text, options, err) : status;
    status = status == FN_OK ? fn_generation_config_read(text, options->model_dir, err) : status;
    if (status != FN_OK) {
        fn_text_close(text);
        return status;
    }
    *out = text;
    return FN_OK;
}

void fn_text_close(fn_text *text) {
    if (text != NULL) {
        fn_tokenizer_free(text->tokenizer);
        fn_chat_template_free(text->chat_template);
        json_decref(text->special_tokens);
        fn_free(text);
    }
}

/* ---- tokens ---- */

bool fn_text_has_tokenizer(const fn_text *text) {
    return text->tokenizer != NULL;
}

bool fn_text_has_template(const fn_text *text) {
    return text->chat_template != NULL;
}

static fn_status need_tokenizer(const fn_text *text, fn_error *err) {
    return text->tokenizer != NULL
               ? FN_OK
               : fn_fail(err, FN_E_MODEL, "there is no tokenizer.json: text needs one, ids do not");
}

fn_status fn_text_encode(const fn_text *text, const char *bytes, size_t n, bool allow_added,
                         fn_ids *out, fn_error *err) {
    fn_status status = need_tokenizer(text, err);
    return status == FN_OK ? fn_tokenizer_encode(text->tokenizer, bytes, n, allow_added, out, err)
                           : status;
}

fn_status fn_text_decode(const fn_text *text, const int32_t *ids, size_t n, bool skip_special,
                         char **out, size_t *out_n, fn_error *err) {
    fn_text_buffer buffer = {0};
    *out = NULL;
    *out_n = 0;
    fn_status status = need_tokenizer(text, err);
    if (status == FN_OK) {
        status = fn_tokenizer_decode(text->tokenizer, ids, n, skip_special, &buffer, err);
    }
    if (status == FN_OK) {
        *out = fn_strndup(buffer.bytes != NULL ? buffer.bytes : "", buffer.count);
        *out_n = buffer.count;
        status = *out != NULL ? FN_OK : fn_fail_nomem(err, "decoded text", buffer.count);
    }
    fn_text_buffer_free(&buffer);
    return status;
}

void fn_string_free(char *string) {
    fn_free(string);
}

const char *fn_text_token(const fn_text *text, int32_t id, size_t *n) {
    *n = 0;
    return text->tokenizer != NULL ? fn_tokenizer_token(text->tokenizer, id, n) : NULL;
}

int32_t fn_text_token_id(const fn_text *text, const char *token, size_t n) {
    return text->tokenizer != NULL ? fn_tokenizer_id(text->tokenizer, token, n) : -1;
}

bool fn_text_is_special(const fn_text *text, int32_t id) {
    return text->tokenizer != NULL && fn_tokenizer_is_special(text->tokenizer, id);
}

fn_sampling fn_text_default_sampling(const fn_text *text) {
    return text->sampling;
}

const int32_t *fn_text_end_ids(const fn_text *text, size_t *n) {
    *n = text->n_end_ids;
    return text->end_ids;
}

/* ---- rendering ---- */

/* The bytes of a member's value at the top level of a JSON object, as they stand there: jansson would lose
 * integers beyond 64 bits. *n is 0 when the key is not there. The template's reader checks the JSON. */
static const char *member(const char *json, size_t n, const char *key, size_t *value_n) {
    size_t depth = 0;
    size_t key_n = strlen(key);
    *value_n = 0;
    for (size_t i = 0; i < n; i++) {
        if (json[i] == '"') {
            size_t start = ++i;
            while (i < n && json[i] != '"') {
                i += json[i] == '\\' ? 2 : 1;
            }
            bool is_key =
                depth == 1 && i < n && i - start == key_n && memcmp(json + start, key, key_n) == 0;
            size_t colon = i + 1;
            while (is_key && colon < n && strchr(" \t\r\n", json[colon]) != NULL &&
                   json[colon] != 0) {
                colon++;
            }
            if (is_key && colon < n && json[colon] == ':') {
                *value_n = n - colon - 1;
                return json + colon + 1;
            }
        } else if (json[i] == '{' || json[i] == '[') {
            depth++;
        } else if (json[i] == '}' || json[i] == ']') {
            depth--;
        }
    }
    return NULL;
}

/* Cuts a value that is followed by more text to its own length, brackets counted; 0 if it is no object. */
static size_t object_length(const char *json, size_t n) {
    size_t depth = 0;
    size_t i = 0;
    while (i < n && (json[i] == ' ' || json[i] == '\t' || json[i] == '\r' || json[i] == '\n')) {
        i++;
    }
    if (i == n || json[i] != '{') {
        return 0;
    }
    for (; i < n; i++) {
        if (json[i] == '"') {
            for (i++; i < n && json[i] != '"'; i++) {
                i += json[i] == '\\';
            }
        } else if (json[i] == '{' || json[i] == '[') {
            depth++;
        } else if ((json[i] == '}' || json[i] == ']') && --depth == 0) {
            return i + 1;
        }
    }
    return 0;
}

static fn_status render(const fn_text *text, const char *request, size_t n, fn_rendered *out,
                        fn_error *err) {
    static const char defaults[] =
        "{\"tools\": null, \"documents\": null, \"add_generation_prompt\": true}";
    size_t kwargs_n = 0;
    size_t messages_n = 0;
    const char *kwargs = member(request, n, "kwargs", &kwargs_n);
    kwargs_n = kwargs != NULL ? object_length(kwargs, kwargs_n) : 0;
    size_t reserved_n = 0;
    if (kwargs_n > 0 && member(kwargs, kwargs_n, "messages", &reserved_n) != NULL) {
        return fn_fail(err, FN_E_USAGE, "kwargs: \"messages\" is the conversation, no variable");
    }
    if (member(request, n, "messages", &messages_n) == NULL) {
        return fn_fail(err, FN_E_USAGE, "the conversation has no \"messages\"");
    }
    fn_template_part parts[4] = {
        {.object = text->special_tokens, .trusted = true},
        {.text = defaults, .n = sizeof defaults - 1, .trusted = true},
        {.text = request, .n = n},
    };
    size_t n_parts = 3;
    if (kwargs_n > 0) {
        parts[n_parts++] = (fn_template_part){.text = kwargs, .n = kwargs_n};
    }
    fn_status status = fn_chat_template_render(text->chat_template, parts, n_parts,
                                               (fn_render_limits){0}, out, err);
    if (status == FN_E_FAILED && !out->raised) {
        fn_error_prefix(err, "chat template: line %d", out->error_line);
    }
    if (status == FN_OK && out->n == 0) {
        status = fn_fail(err, FN_E_FAILED, "chat template: made an empty prompt of the messages");
    }
    return status;
}

static fn_status encode_rendered(const fn_text *text, const fn_rendered *rendered, bool safe,
                                 fn_ids *ids, fn_error *err) {
    fn_status status = need_tokenizer(text, err);
    if (status != FN_OK) {
        return status;
    }
    return safe ? fn_tokenizer_encode_spans(text->tokenizer, rendered->text, rendered->n,
                                            rendered->spans, rendered->n_spans, ids, err)
                : fn_tokenizer_encode(text->tokenizer, rendered->text, rendered->n, true, ids, err);
}

fn_status fn_text_render(const fn_text *text, const char *request, size_t n, bool safe_content,
                         char **prompt, size_t *prompt_n, fn_ids *ids, fn_error *err) {
    fn_rendered rendered = {0};
    *prompt = NULL;
    *prompt_n = 0;
    if (text->chat_template == NULL) {
        return fn_fail(
            err, FN_E_MODEL,
            "this checkpoint has no chat template (chat_template.jinja, or chat_template in "
            "tokenizer_config.json): name one");
    }
    fn_status status = render(text, request, n, &rendered, err);
    if (status == FN_OK && ids != NULL) {
        status = encode_rendered(text, &rendered, safe_content, ids, err);
    }
    if (status == FN_OK) {
        *prompt = rendered.text;
        *prompt_n = rendered.n;
        rendered.text = NULL;
    }
    fn_rendered_free(&rendered);
    return status;
}
