#include "server/tokens.h"

#include <math.h>

#include "cli/buffer.h"

static void append(json_t **array, json_t *item) {
    if (*array == NULL) {
        *array = json_array();
    }
    (void)json_array_append_new(*array, item);
}

static json_t *take(json_t **array) {
    json_t *taken = *array != NULL ? *array : json_array();
    *array = NULL;
    return taken;
}

/* JSON has no infinities: a token that cannot be chosen has the lowest float. */
static json_t *number(float logprob) {
    return json_real(isfinite(logprob) ? (double)logprob : -3.4028235e38);
}

static const char *bytes_of(const fn_text *text, int32_t id, size_t *n) {
    const char *bytes = fn_text_token(text, id, n);
    *n = bytes != NULL ? *n : 0;
    return bytes != NULL ? bytes : "";
}

/* ---- chat ------------------------------------------------------------------------------- */

/* What is no UTF-8 becomes U+FFFD. */
static json_t *shown_text(const char *bytes, size_t n) {
    static const char replacement[] = "\xef\xbf\xbd";
    cli_buffer out = {0};
    for (size_t at = 0; at < n;) {
        size_t valid = cli_utf8_valid(bytes + at, n - at);
        cli_buffer_add(&out, bytes + at, valid);
        at += valid;
        if (at < n) {
            cli_buffer_puts(&out, replacement);
            at++;
        }
    }
    json_t *text = json_stringn(cli_buffer_text(&out), out.n);
    cli_buffer_free(&out);
    return text;
}

static json_t *chat_entry(const fn_text *text, int32_t id, float logprob) {
    size_t n = 0;
    const char *bytes = bytes_of(text, id, &n);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(list, json_integer((unsigned char)bytes[i]));
    }
    return json_pack("{s:o, s:o, s:o}", "token", shown_text(bytes, n), "logprob", number(logprob),
                     "bytes", list);
}

void srv_tokens_add_id(srv_tokens *tokens, int32_t id) {
    append(&tokens->ids, json_integer(id));
}

void srv_tokens_add_chat(srv_tokens *tokens, const fn_text *text, const fn_event *event,
                         size_t n_top) {
    json_t *entry = chat_entry(text, event->id, event->logprob);
    json_t *top = json_array();
    for (size_t i = 0; i < event->n_top && i < n_top; i++) {
        (void)json_array_append_new(top, chat_entry(text, event->top[i].id, event->top[i].logprob));
    }
    (void)json_object_set_new(entry, "top_logprobs", top);
    append(&tokens->content, entry);
}

/* ---- legacy ----------------------------------------------------------------------------- */

/* Text, or "bytes:\xe2\x80": unlike U+FFFD it tells two tokens apart. */
static void token_name(const fn_text *text, int32_t id, cli_buffer *out) {
    size_t n = 0;
    const char *bytes = bytes_of(text, id, &n);
    cli_buffer_clear(out);
    if (cli_utf8_valid(bytes, n) == n) {
        cli_buffer_add(out, bytes, n);
        return;
    }
    cli_buffer_puts(out, "bytes:");
    for (size_t i = 0; i < n; i++) {
        cli_buffer_printf(out, "\\x%02x", (unsigned)(unsigned char)bytes[i]);
    }
}

static size_t count_characters(const char *bytes, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        count += ((unsigned char)bytes[i] & 0xc0u) != 0x80u; /* not in the middle of one */
    }
    return count;
}

void srv_tokens_add_legacy(srv_tokens *tokens, const fn_text *text, const fn_event *event,
                           size_t n_top, bool known) {
    cli_buffer name = {0};
    size_t n = 0;
    const char *bytes = bytes_of(text, event->id, &n);
    token_name(text, event->id, &name);
    append(&tokens->names, json_stringn(cli_buffer_text(&name), name.n));
    append(&tokens->logprobs, known ? number(event->logprob) : json_null());
    append(&tokens->offsets, json_integer((json_int_t)tokens->n_chars));
    tokens->n_chars += count_characters(bytes, n);
    json_t *top = known && n_top > 0 ? json_object() : json_null();
    for (size_t i = 0; known && i < event->n_top && i < n_top; i++) {
        token_name(text, event->top[i].id, &name);
        (void)json_object_setn_new(top, cli_buffer_text(&name), name.n,
                                   number(event->top[i].logprob));
    }
    append(&tokens->tops, top);
    cli_buffer_free(&name);
}

/* ---- out -------------------------------------------------------------------------------- */

json_t *srv_tokens_take_ids(srv_tokens *tokens) {
    return take(&tokens->ids);
}

json_t *srv_tokens_take_chat(srv_tokens *tokens) {
    return tokens->content == NULL
               ? json_null()
               : json_pack("{s:o, s:n}", "content", take(&tokens->content), "refusal");
}

json_t *srv_tokens_take_legacy(srv_tokens *tokens) {
    if (tokens->names == NULL) {
        return json_null();
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", take(&tokens->names), "token_logprobs",
                     take(&tokens->logprobs), "top_logprobs", take(&tokens->tops), "text_offset",
                     take(&tokens->offsets));
}

void srv_tokens_free(srv_tokens *tokens) {
    json_t *all[] = {tokens->ids,      tokens->content, tokens->names,
                     tokens->logprobs, tokens->tops,    tokens->offsets};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        json_decref(all[i]);
    }
    *tokens = (srv_tokens){0};
}
