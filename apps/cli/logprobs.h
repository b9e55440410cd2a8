/* cli/logprobs.h - log-probabilities of chosen tokens as JSON.
 *
 * Path:     FN_EVENT_TOKEN -> [this] -> run --json, --logprobs-out
 * Memory:   results are the caller's (json_decref). */
#ifndef CLI_LOGPROBS_H
#define CLI_LOGPROBS_H

#include <jansson.h>

#include "flashnext.h"

/* {"id", "token", "bytes", "logprob", "top": [{"id", "token", "bytes", "logprob"}]}; token has
 * U+FFFD where its bytes are no whole character; token and bytes are null without a tokenizer. */
json_t *cli_logprobs_json(const fn_text *text, const fn_event *event);

#endif
