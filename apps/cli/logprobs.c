#include "cli/logprobs.h"

#include "cli/buffer.h"

/* Bytes as text, with U+FFFD for each one that belongs to no whole character. */
static json_t *lossy_text(const char *bytes, size_t n) {
    cli_buffer out = {0};
    for (size_t at = 0; at < n;) {
        size_t valid = cli_utf8_valid(bytes + at, n - at);
        cli_buffer_add(&out, bytes + at, valid);
        at += valid;
        if (at < n) {
            cli_buffer_puts(&out, "\xEF\xBF\xBD");
            at++;
        }
    }
    json_t *text = json_stringn(cli_buffer_text(&out), out.n);
    cli_buffer_free(&out);
    return text;
}

static json_t *one(const fn_text *text, int32_t id, float logprob) {
    size_t n = 0;
    const char *bytes = fn_text_has_tokenizer(text) ? fn_text_token(text, id, &n) : NULL;
    json_t *entry = json_object();
    (void)json_object_set_new(entry, "id", json_integer(id));
    (void)json_object_set_new(entry, "token", bytes != NULL ? lossy_text(bytes, n) : json_null());
    json_t *list = bytes != NULL ? json_array() : json_null();
    for (size_t i = 0; bytes != NULL && i < n; i++) {
        (void)json_array_append_new(list, json_integer((unsigned char)bytes[i]));
    }
    (void)json_object_set_new(entry, "bytes", list);
    (void)json_object_set_new(entry, "logprob", json_real((double)logprob));
    return entry;
}

json_t *cli_logprobs_json(const fn_text *text, const fn_event *event) {
    json_t *entry = one(text, event->id, event->logprob);
    json_t *top = json_array();
    for (size_t i = 0; i < event->n_top; i++) {
        (void)json_array_append_new(top, one(text, event->top[i].id, event->top[i].logprob));
    }
    (void)json_object_set_new(entry, "top", top);
    return entry;
}
