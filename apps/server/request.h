/* server/request.h - what a client asks to be generated, checked and complete.
 *
 * Unknown fields are ignored; null is "not given"; a wrong type or range is named. What this server
 * cannot do (images, tools, constraints) is refused by the capability's name, never ignored.
 *
 * Path:     POST bodies -> [this: fields, defaults of generation_config.json, template, tokenizer]
 *           -> job.c
 * Threads:  one at a time.
 * Memory:   srv_request owns everything until srv_request_free; texts of stop strings are lent by its
 *           root. */
#ifndef SERVER_REQUEST_H
#define SERVER_REQUEST_H

#include "server/problem.h"

#define SRV_MAX_ANSWERS 8
#define SRV_MAX_STOPS 16
#define SRV_MAX_TOP 20
#define SRV_MAX_PROMPTS 4096

/* What requests are read against. */
typedef struct srv_limits {
    const fn_text *text;
    size_t vocab, context;
    bool safe_content; /* what users wrote is encoded without control tokens */
} srv_limits;

typedef struct srv_prompt {
    int32_t *ids; /* [n_ids] */
    size_t n_ids;
    const char *text; /* [n_text]: as it was written, or decoded */
    size_t n_text;
    char *decoded; /* or NULL */
} srv_prompt;

typedef struct srv_request {
    json_t *root;
    bool chat; /* /v1/chat/completions, else /v1/completions */
    bool stream, include_usage, usage_in_every_chunk;
    bool timings_in_every_chunk;
    bool echo, logprobs, return_token_ids, return_progress, no_cache;
    size_t n_top;     /* alternatives to show */
    size_t n_answers; /* to each prompt */
    fn_generation generation;
    fn_logit_bias *bias;
    const char *stop[SRV_MAX_STOPS];
    srv_prompt *prompts; /* [n_prompts] */
    size_t n_prompts;
} srv_request;

/* Takes root over, also on failure. Free *out in either case. */
bool srv_chat_request_read(const srv_limits *limits, json_t *root, srv_request *out,
                           srv_problem *problem);
bool srv_completion_request_read(const srv_limits *limits, json_t *root, srv_request *out,
                                 srv_problem *problem);
void srv_request_free(srv_request *request);
/* Copies the ids and frees them. */
void srv_prompt_take(srv_prompt *prompt, fn_ids *ids);

/* Messages and template variables of root, rendered; ids (NULL allowed) are the prompt's. The prompt
 * is freed with fn_string_free. */
bool srv_render(const srv_limits *limits, const json_t *root, char **prompt, size_t *n_prompt,
                fn_ids *ids, srv_problem *problem);

/* The fields both kinds share; defaults first. */
bool srv_request_read_common(const srv_limits *limits, srv_request *request, srv_problem *problem);
/* A prompt must leave room for one token. */
bool srv_prompt_fits(const srv_limits *limits, size_t n_ids, srv_problem *problem);

#endif
