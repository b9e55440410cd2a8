#include "server/job_reply.h"

#include <stdlib.h>
#include <string.h>

#include "cli/build.h"
#include "cli/progress.h"

const char *srv_finish_name(fn_finish finish) {
    return finish == FN_FINISH_LENGTH ? "length" : "stop";
}

/* ---- numbers ---------------------------------------------------------------------------- */

static json_t *whole(size_t n) {
    return json_integer((json_int_t)n);
}

static json_t *usage_json(size_t n_prompt, size_t n_cached, size_t n_generated, size_t n_thinking) {
    return json_pack("{s:o, s:o, s:o, s:{s:o}, s:{s:o}}", "prompt_tokens", whole(n_prompt),
                     "completion_tokens", whole(n_generated), "total_tokens",
                     whole(n_prompt + n_generated), "prompt_tokens_details", "cached_tokens",
                     whole(n_cached), "completion_tokens_details", "reasoning_tokens",
                     whole(n_thinking));
}

/* Of all prompts together. */
static fn_request_result total(const srv_job *job) {
    fn_request_result sum = {0};
    for (size_t i = 0; i < job->request.n_prompts; i++) {
        const fn_request_result *r = &job->parts[i].result;
        sum.n_prompt += r->n_prompt;
        sum.n_cached += r->n_cached;
        sum.n_generated += r->n_generated;
        sum.n_thinking += r->n_thinking;
        sum.n_drafted += r->n_drafted;
        sum.n_accepted += r->n_accepted;
        sum.prompt += r->prompt > r->started ? r->prompt - r->started : 0.0;
        sum.end += r->end > r->prompt ? r->end - r->prompt : 0.0;
    }
    return sum;
}

static double rate(size_t n, double seconds) {
    return seconds > 0.0 ? (double)n / seconds : 0.0;
}

/* llama.cpp's names. */
static json_t *timings_json(const fn_request_result *sum) {
    size_t n_read = sum->n_prompt - sum->n_cached;
    return json_pack("{s:o, s:o, s:f, s:f, s:o, s:f, s:f, s:o, s:o}", "cache_n",
                     whole(sum->n_cached), "prompt_n", whole(n_read), "prompt_ms",
                     sum->prompt * 1e3, "prompt_per_second", rate(n_read, sum->prompt),
                     "predicted_n", whole(sum->n_generated), "predicted_ms", sum->end * 1e3,
                     "predicted_per_second", rate(sum->n_generated, sum->end), "draft_n",
                     whole(sum->n_drafted), "draft_n_accepted", whole(sum->n_accepted));
}

static size_t prompt_ids(const srv_job *job) {
    size_t n = 0;
    for (size_t i = 0; i < job->request.n_prompts; i++) {
        n += job->request.prompts[i].n_ids;
    }
    return n;
}

/* ---- chunks ----------------------------------------------------------------------------- */

/* What every chunk and every whole answer begins with; choices is taken. */
static json_t *envelope(const srv_job *job, json_t *choices) {
    const char *object = job->request.chat
                             ? job->request.stream ? "chat.completion.chunk" : "chat.completion"
                             : "text_completion";
    const char *build = CLI_BUILD_GIT[0] != 0 ? CLI_BUILD_GIT : fn_version();
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", job->id, "object", object, "created",
                     (json_int_t)job->created, "model", job->server->card.id, "system_fingerprint",
                     build, "choices", choices);
}

static size_t choice_index(const srv_job *job, const srv_part *part, size_t answer) {
    return part->index * job->request.n_answers + answer;
}

/* body is the delta (chat) or the text; taken, as logprobs is. */
static json_t *choice_json(const srv_job *job, size_t index, json_t *body, json_t *logprobs,
                           const char *finish) {
    return json_pack("{s:o, s:o, s:o, s:o}", "index", whole(index),
                     job->request.chat ? "delta" : "text", body, "logprobs", logprobs,
                     "finish_reason", finish != NULL ? json_string(finish) : json_null());
}

static json_t *take_logprobs(const srv_job *job, srv_answer *answer) {
    return job->request.chat ? srv_tokens_take_chat(&answer->tokens)
                             : srv_tokens_take_legacy(&answer->tokens);
}

/* What drafting did is told at the end. */
static json_t *timings_so_far(const srv_job *job) {
    fn_request_result sum = {.n_prompt = prompt_ids(job),
                             .n_generated = job->n_generated,
                             .end = cli_now() - job->first_token};
    for (size_t i = 0; i < job->request.n_prompts; i++) {
        fn_request_state state = {0};
        if (job->parts[i].handle != NULL) {
            fn_request_get_state(job->parts[i].handle, &state);
        }
        sum.n_cached += state.prompt.cached;
        sum.prompt += state.prompt.seconds;
    }
    json_t *timings = timings_json(&sum);
    (void)json_object_del(timings, "draft_n");
    (void)json_object_del(timings, "draft_n_accepted");
    return timings;
}

static void add_numbers_so_far(const srv_job *job, json_t *chunk) {
    if (job->request.usage_in_every_chunk) {
        (void)json_object_set_new(chunk, "usage",
                                  usage_json(prompt_ids(job), 0, job->n_generated, 0));
    }
    if (job->request.timings_in_every_chunk) {
        (void)json_object_set_new(chunk, "timings", timings_so_far(job));
    }
}

/* One choice with what its answer's tokens have gathered. */
static json_t *chunk_json(srv_job *job, srv_part *part, size_t index, json_t *body,
                          const char *finish) {
    srv_answer *answer = &part->answers[index];
    json_t *choice =
        choice_json(job, choice_index(job, part, index), body, take_logprobs(job, answer), finish);
    if (job->request.return_token_ids) {
        (void)json_object_set_new(choice, "token_ids", srv_tokens_take_ids(&answer->tokens));
    }
    json_t *chunk = envelope(job, json_pack("[o]", choice));
    add_numbers_so_far(job, chunk);
    return chunk;
}

/* The prompt's log-probabilities, then the answer's (taken; NULL: none). */
static json_t *join_legacy(const srv_tokens *prompt, json_t *answer) {
    json_t *joined = json_pack("{s:o, s:o, s:o, s:o}", "tokens", json_copy(prompt->names),
                               "token_logprobs", json_copy(prompt->logprobs), "top_logprobs",
                               json_copy(prompt->tops), "text_offset", json_copy(prompt->offsets));
    const char *key = NULL;
    json_t *array = NULL;
    json_object_foreach(joined, key, array) {
        (void)json_array_extend(array, json_object_get(answer, key));
    }
    json_decref(answer);
    return joined;
}

/* The prompt again, before its completion. */
static void send_echo(srv_job *job, srv_part *part, size_t answer) {
    const srv_prompt *prompt = &job->request.prompts[part->index];
    json_t *logprobs = json_null();
    if (part->prompt_tokens.names != NULL) {
        /* Every answer shows them, so they stay. */
        logprobs = join_legacy(&part->prompt_tokens, NULL);
    }
    json_t *choice = choice_json(job, choice_index(job, part, answer),
                                 json_stringn(prompt->text, prompt->n_text), logprobs, NULL);
    srv_stream_event(job->x, envelope(job, json_pack("[o]", choice)));
}

static void begin(srv_job *job, srv_part *part, size_t index) {
    srv_answer *answer = &part->answers[index];
    if (answer->begun) {
        return;
    }
    answer->begun = true;
    if (job->request.chat) {
        json_t *delta = json_pack("{s:s, s:s}", "role", "assistant", "content", "");
        json_t *choice = choice_json(job, choice_index(job, part, index), delta, json_null(), NULL);
        srv_stream_event(job->x, envelope(job, json_pack("[o]", choice)));
    } else if (job->request.echo) {
        send_echo(job, part, index);
    }
}

void srv_job_send_text(srv_job *job, srv_part *part, size_t answer, bool is_thought,
                       const char *text, size_t n) {
    begin(job, part, answer);
    json_t *string = json_stringn(text, n);
    json_t *body = string;
    if (job->request.chat && is_thought) {
        body = json_pack("{s:O, s:o}", "reasoning_content", string, "reasoning", string);
    } else if (job->request.chat) {
        body = json_pack("{s:o}", "content", string);
    }
    srv_stream_event(job->x, chunk_json(job, part, answer, body, NULL));
}

void srv_job_send_progress(srv_job *job, const fn_prompt_progress *progress) {
    json_t *chunk = envelope(job, json_array());
    (void)json_object_set_new(chunk, "prompt_progress",
                              json_pack("{s:o, s:o, s:o, s:f}", "total", whole(progress->total),
                                        "cache", whole(progress->cached), "processed",
                                        whole(progress->read), "time_ms", progress->seconds * 1e3));
    srv_stream_event(job->x, chunk);
}

static json_t *finish_chunk(srv_job *job, srv_part *part, size_t answer) {
    const char *finish = srv_finish_name(part->answers[answer].generated.finish);
    begin(job, part, answer);
    return chunk_json(job, part, answer, job->request.chat ? json_object() : json_string(""),
                      finish);
}

void srv_job_send_finish(srv_job *job, srv_part *part, size_t answer) {
    srv_stream_event(job->x, finish_chunk(job, part, answer));
}

/* The answer whose finish was not sent: the one that ended last. */
static void send_last_finish(srv_job *job, const fn_request_result *sum) {
    srv_part *part = &job->parts[job->last_part];
    json_t *chunk = finish_chunk(job, part, job->last_answer);
    (void)json_object_set_new(chunk, "timings", timings_json(sum));
    srv_stream_event(job->x, chunk);
}

void srv_job_send_end(srv_job *job) {
    fn_request_result sum = total(job);
    send_last_finish(job, &sum);
    if (job->request.include_usage) {
        json_t *chunk = envelope(job, json_array());
        (void)json_object_set_new(
            chunk, "usage",
            usage_json(sum.n_prompt, sum.n_cached, sum.n_generated, sum.n_thinking));
        (void)json_object_set_new(chunk, "timings", timings_json(&sum));
        srv_stream_event(job->x, chunk);
    }
    srv_stream_send(job->x, "data: [DONE]\n\n", 14);
    srv_stream_end(job->x);
}

/* ---- whole answers ---------------------------------------------------------------------- */

static json_t *buffer_json(const cli_buffer *buffer) {
    return json_stringn(cli_buffer_text(buffer), buffer->n);
}

static json_t *message_json(const srv_answer *answer) {
    json_t *message = json_pack("{s:s, s:o, s:n}", "role", "assistant", "content",
                                buffer_json(&answer->text), "refusal");
    if (answer->thought.n > 0) {
        json_t *thought = buffer_json(&answer->thought);
        (void)json_object_set(message, "reasoning_content", thought);
        (void)json_object_set_new(message, "reasoning", thought);
    }
    return message;
}

static json_t *completion_choice(srv_job *job, srv_part *part, size_t index) {
    srv_answer *answer = &part->answers[index];
    const srv_prompt *prompt = &job->request.prompts[part->index];
    cli_buffer text = {0};
    if (job->request.echo) {
        cli_buffer_add(&text, prompt->text, prompt->n_text);
    }
    cli_buffer_add(&text, cli_buffer_text(&answer->text), answer->text.n);
    json_t *logprobs = srv_tokens_take_legacy(&answer->tokens);
    if (job->request.echo && part->prompt_tokens.names != NULL) {
        logprobs = join_legacy(&part->prompt_tokens, logprobs);
    }
    json_t *choice = choice_json(job, choice_index(job, part, index), buffer_json(&text), logprobs,
                                 srv_finish_name(answer->generated.finish));
    cli_buffer_free(&text);
    return choice;
}

static json_t *chat_choice(srv_job *job, srv_part *part, size_t index) {
    srv_answer *answer = &part->answers[index];
    return json_pack("{s:o, s:o, s:o, s:s}", "index", whole(choice_index(job, part, index)),
                     "message", message_json(answer), "logprobs",
                     srv_tokens_take_chat(&answer->tokens), "finish_reason",
                     srv_finish_name(answer->generated.finish));
}

static json_t *prompt_ids_json(const srv_prompt *prompt) {
    json_t *ids = json_array();
    for (size_t i = 0; i < prompt->n_ids; i++) {
        (void)json_array_append_new(ids, json_integer(prompt->ids[i]));
    }
    return ids;
}

void srv_job_reply(srv_job *job) {
    json_t *choices = json_array();
    for (size_t i = 0; i < job->request.n_prompts; i++) {
        srv_part *part = &job->parts[i];
        for (size_t k = 0; k < job->request.n_answers; k++) {
            json_t *choice =
                job->request.chat ? chat_choice(job, part, k) : completion_choice(job, part, k);
            if (job->request.return_token_ids) {
                (void)json_object_set_new(choice, "token_ids",
                                          srv_tokens_take_ids(&part->answers[k].tokens));
                (void)json_object_set_new(choice, "prompt_token_ids",
                                          prompt_ids_json(&job->request.prompts[i]));
            }
            (void)json_array_append_new(choices, choice);
        }
    }
    fn_request_result sum = total(job);
    json_t *reply = envelope(job, choices);
    (void)json_object_set_new(
        reply, "usage", usage_json(sum.n_prompt, sum.n_cached, sum.n_generated, sum.n_thinking));
    (void)json_object_set_new(reply, "timings", timings_json(&sum));
    srv_reply_json(job->x, 200, reply);
}
