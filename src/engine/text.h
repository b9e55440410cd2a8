/* engine/text.h - what a checkpoint says about text: tokenizer, chat template, generation defaults.
 *
 * Path:    tokenizer.json, chat_template.jinja, tokenizer_config.json, generation_config.json -> [this]. */
#ifndef FN_ENGINE_TEXT_H
#define FN_ENGINE_TEXT_H

#include "base/status.h"
#include "tokens/chat_template.h"
#include "tokens/tokenizer.h"

#define FN_MAX_END_IDS 64

struct fn_text {
    fn_tokenizer *tokenizer;         /* or NULL */
    fn_chat_template *chat_template; /* or NULL */
    json_t *special_tokens;          /* {"bos_token": ...} for the template */
    fn_sampling sampling;
    int32_t end_ids[FN_MAX_END_IDS];
    size_t n_end_ids;
};

#endif
