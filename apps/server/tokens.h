/* server/tokens.h - chosen tokens as the API shows them: ids, and log-probabilities in both shapes.
 *
 * chat:   {"content": [{token, logprob, bytes, top_logprobs: [...]}]}
 * legacy: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}, one entry a token; the first
 *         token of a prompt has null.
 * A token that is no whole text is "bytes:\xe2\x80" in the legacy shape, where it is a key; in the
 * chat shape it is U+FFFD with its bytes beside it.
 *
 * Path:     FN_EVENT_TOKEN and FN_EVENT_PROMPT -> [this] -> job_reply.c
 * Memory:   srv_tokens owns its arrays until srv_tokens_free. */
#ifndef SERVER_TOKENS_H
#define SERVER_TOKENS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "flashnext.h"

typedef struct srv_tokens {
    json_t *ids, *content;                     /* chat; NULL while empty */
    json_t *names, *logprobs, *tops, *offsets; /* legacy */
    size_t n_chars;                            /* before the next token, from the first one on */
} srv_tokens;

void srv_tokens_add_id(srv_tokens *tokens, int32_t id);
/* n_top alternatives of the event's are shown. */
void srv_tokens_add_chat(srv_tokens *tokens, const fn_text *text, const fn_event *event,
                         size_t n_top);
/* known: the event has a log-probability. */
void srv_tokens_add_legacy(srv_tokens *tokens, const fn_text *text, const fn_event *event,
                           size_t n_top, bool known);

/* What was added since the last take; JSON null or [] if nothing was. The caller owns it. */
json_t *srv_tokens_take_ids(srv_tokens *tokens);
json_t *srv_tokens_take_chat(srv_tokens *tokens);
json_t *srv_tokens_take_legacy(srv_tokens *tokens);
void srv_tokens_free(srv_tokens *tokens);

#endif
