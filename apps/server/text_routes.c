#include <stdlib.h>

#include "cli/buffer.h"
#include "server/fields.h"
#include "server/reading.h"
#include "server/routes.h"

static json_t *whole(size_t n) {
    return json_integer((json_int_t)n);
}

/* The text one id stands for; bytes as U+FFFD where it is none. */
static json_t *piece_json(const fn_text *text, int32_t id) {
    size_t n = 0;
    const char *bytes = fn_text_token(text, id, &n);
    if (bytes != NULL && cli_utf8_valid(bytes, n) == n) {
        return json_stringn(bytes, n);
    }
    json_t *list = json_array();
    for (size_t i = 0; bytes != NULL && i < n; i++) {
        (void)json_array_append_new(list, json_integer((unsigned char)bytes[i]));
    }
    return list;
}

/* ---- POST /tokenize ---------------------------------------------------------------------- */

/* llama.cpp's {content} and vLLM's {prompt | messages}. */
static bool read_tokens(const srv_limits *limits, const json_t *body, fn_ids *ids,
                        srv_problem *problem) {
    const char *prompt = NULL;
    const char *content = NULL;
    char *rendered = NULL;
    size_t n = 0;
    if (srv_field(body, "messages") != NULL) {
        bool good = srv_render(limits, body, &rendered, &n, ids, problem);
        fn_string_free(rendered);
        return good;
    }
    if (!srv_field_text(body, "prompt", &prompt, problem) ||
        !srv_field_text(body, "content", &content, problem)) {
        return false;
    }
    if (prompt == NULL && content == NULL) {
        return srv_refuse(problem, "content",
                          "content: expected a string here, or in prompt, or messages");
    }
    const json_t *text = json_object_get(body, prompt != NULL ? "prompt" : "content");
    bool parse_special = true;
    if (!srv_field_bool(body, "parse_special", &parse_special, problem)) {
        return false;
    }
    fn_error err = {0};
    fn_status status = fn_text_encode(limits->text, json_string_value(text),
                                      json_string_length(text), parse_special, ids, &err);
    return status == FN_OK || srv_refuse_status(problem, status, &err);
}

static json_t *tokens_json(const fn_text *text, const fn_ids *ids, bool with_pieces) {
    json_t *tokens = json_array();
    for (size_t i = 0; i < ids->count; i++) {
        json_t *id = json_integer(ids->items[i]);
        (void)json_array_append_new(tokens, with_pieces ? json_pack("{s:o, s:o}", "id", id, "piece",
                                                                    piece_json(text, ids->items[i]))
                                                        : id);
    }
    return tokens;
}

bool srv_read_tokenize(const srv_limits *limits, json_t *body, srv_outcome *out) {
    fn_ids ids = {0};
    bool with_pieces = false;
    bool with_texts = false;
    if (!srv_field_bool(body, "with_pieces", &with_pieces, &out->problem) ||
        !srv_field_bool(body, "return_token_strs", &with_texts, &out->problem) ||
        !read_tokens(limits, body, &ids, &out->problem)) {
        fn_ids_free(&ids);
        return false;
    }
    out->reply =
        json_pack("{s:o, s:o, s:o}", "tokens", tokens_json(limits->text, &ids, with_pieces),
                  "count", whole(ids.count), "max_model_len", whole(limits->context));
    if (with_texts) {
        json_t *texts = json_array();
        for (size_t i = 0; i < ids.count; i++) {
            (void)json_array_append_new(texts, piece_json(limits->text, ids.items[i]));
        }
        (void)json_object_set_new(out->reply, "token_strs", texts);
    }
    fn_ids_free(&ids);
    return true;
}

/* ---- POST /detokenize -------------------------------------------------------------------- */

static bool read_ids(const srv_limits *limits, const json_t *body, int32_t **out, size_t *n,
                     srv_problem *problem) {
    const json_t *tokens = NULL;
    if (!srv_field_array(body, "tokens", &tokens, problem)) {
        return false;
    }
    if (tokens == NULL) {
        return srv_refuse(problem, "tokens", "tokens: expected an array of token ids");
    }
    *n = json_array_size(tokens);
    *out = cli_alloc((*n + 1) * sizeof **out);
    for (size_t i = 0; i < *n; i++) {
        const json_t *id = json_array_get(tokens, i);
        json_int_t value = json_integer_value(id);
        if (!json_is_integer(id) || value < 0 || (size_t)value >= limits->vocab) {
            return srv_refuse(problem, "tokens", "tokens[%zu]: expected an id below %zu", i,
                              limits->vocab);
        }
        (*out)[i] = (int32_t)value;
    }
    return true;
}

bool srv_read_detokenize(const srv_limits *limits, json_t *body, srv_outcome *out) {
    int32_t *ids = NULL;
    size_t n = 0;
    char *text = NULL;
    size_t n_text = 0;
    fn_error err = {0};
    bool good = read_ids(limits, body, &ids, &n, &out->problem);
    if (good) {
        fn_status status = fn_text_decode(limits->text, ids, n, false, &text, &n_text, &err);
        good = status == FN_OK || srv_refuse_status(&out->problem, status, &err);
    }
    free(ids);
    if (good) {
        /* "content" is llama.cpp's name, "prompt" vLLM's */
        json_t *string = json_stringn(text, n_text);
        out->reply = json_pack("{s:O, s:o}", "content", string, "prompt", string);
    }
    fn_string_free(text);
    return good;
}

/* ---- templates --------------------------------------------------------------------------- */

bool srv_read_apply_template(const srv_limits *limits, json_t *body, srv_outcome *out) {
    char *prompt = NULL;
    size_t n = 0;
    bool good = srv_render(limits, body, &prompt, &n, NULL, &out->problem);
    if (good) {
        out->reply = json_pack("{s:o}", "prompt", json_stringn(prompt, n));
    }
    fn_string_free(prompt);
    return good;
}

void srv_get_tokenizer_info(srv_exchange *x) {
    const srv_server *server = x->server;
    json_t *info = json_copy(server->card.tokenizer_config);
    (void)json_object_set(info, "chat_template", server->card.chat_template);
    (void)json_object_set_new(info, "model_max_length", whole(server->limits.context));
    if (!json_is_string(json_object_get(info, "eos_token"))) {
        size_t n_ends = 0;
        const int32_t *ends = fn_text_end_ids(server->limits.text, &n_ends);
        if (n_ends > 0) {
            (void)json_object_set_new(info, "eos_token", piece_json(server->limits.text, ends[0]));
        }
    }
    srv_reply_json(x, 200, info);
}
