#include "server/job.h"

#include <event2/util.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/buffer.h"
#include "cli/progress.h"
#include "server/job_reply.h"

#define AT_ONCE 8 /* prompts of one job in the scheduler */

/* ---- on the scheduler's thread ---------------------------------------------------------- */

static srv_mailbox *mailbox_of(const srv_part *part) {
    return &part->job->server->mailbox;
}

static bool on_event(void *ud, const fn_event *event) {
    srv_part *part = ud;
    size_t n_text =
        event->kind == FN_EVENT_THINKING || event->kind == FN_EVENT_ANSWER ? event->n : 0;
    size_t n_top = event->n_top * sizeof *event->top;
    srv_note *note = srv_note_create(part, SRV_NOTE_EVENT, n_text + n_top);
    note->event = *event;
    note->event.top = NULL;
    note->event.text = NULL;
    /* The alternatives first: they have an alignment. */
    if (n_top > 0) {
        note->event.top = memcpy(note->bytes, event->top, n_top);
    }
    if (n_text > 0) {
        note->event.text = memcpy(note->bytes + n_top, event->text, n_text);
    }
    srv_mailbox_post(mailbox_of(part), note);
    return true;
}

static void on_progress(void *ud, const fn_prompt_progress *progress) {
    srv_note *note = srv_note_create(ud, SRV_NOTE_PROGRESS, 0);
    note->progress = *progress;
    srv_mailbox_post(mailbox_of(ud), note);
}

static void on_answer(void *ud, size_t answer, const fn_generated *generated) {
    srv_note *note = srv_note_create(ud, SRV_NOTE_ANSWER, 0);
    note->event.answer = answer;
    note->generated = *generated;
    srv_mailbox_post(mailbox_of(ud), note);
}

static void on_done(void *ud, const fn_request_result *result) {
    const char *error = result->error != NULL ? result->error : "";
    size_t n = strlen(error) + 1;
    srv_note *note = srv_note_create(ud, SRV_NOTE_DONE, n);
    note->result = *result;
    note->result.error = memcpy(note->bytes, error, n);
    srv_mailbox_post(mailbox_of(ud), note);
}

/* ---- beginning and end ------------------------------------------------------------------ */

static void free_part(srv_job *job, srv_part *part) {
    fn_request_free(part->handle);
    srv_mailbox_forget(&job->server->mailbox, part);
    for (size_t i = 0; i < job->request.n_answers; i++) {
        cli_buffer_free(&part->answers[i].text);
        cli_buffer_free(&part->answers[i].thought);
        srv_tokens_free(&part->answers[i].tokens);
    }
    srv_tokens_free(&part->prompt_tokens);
    free(part->answers);
}

/* Stops what still runs. The exchange has ended, or is about to. */
static void free_job(srv_job *job) {
    srv_job **at = &job->server->jobs;
    while (*at != job && *at != NULL) {
        at = &(*at)->next;
    }
    if (*at == job) {
        *at = job->next;
    }
    for (size_t i = 0; i < job->request.n_prompts; i++) {
        free_part(job, &job->parts[i]);
    }
    free(job->parts);
    srv_request_free(&job->request);
    free(job);
}

static void on_gone(void *ud) {
    srv_job *job = ud;
    srv_exchange *x = job->x;
    x->log.finish = "gone";
    free_job(job);
    srv_exchange_drop(x);
}

/* Ends it with what went wrong; in a stream as an event, after which there is no [DONE]. */
static void fail_job(srv_job *job, const srv_problem *problem) {
    srv_exchange *x = job->x;
    x->log.finish = "error";
    free_job(job);
    if (x->streaming) {
        srv_stream_event(x, srv_problem_json(problem));
        srv_stream_end(x);
    } else {
        srv_reply_problem(x, problem);
    }
}

static fn_status submit(srv_job *job, srv_part *part, fn_error *err) {
    const srv_request *request = &job->request;
    const srv_prompt *prompt = &request->prompts[part->index];
    fn_request_options options = fn_request_options_default(job->server->limits.text);
    options.ids = prompt->ids;
    options.n_ids = prompt->n_ids;
    options.generation = request->generation;
    options.generation.on_event = on_event;
    options.generation.ud = part;
    options.n_answers = request->n_answers;
    options.prompt_logprobs = request->echo && request->logprobs;
    options.no_cache = request->no_cache;
    options.on_progress = request->return_progress && request->stream ? on_progress : NULL;
    options.on_answer = on_answer;
    options.on_done = on_done;
    options.ud = part;
    return fn_scheduler_submit(job->server->scheduler, &options, &part->handle, err);
}

/* Lets in as many prompts as may be; a full queue is no failure while others of the job are in it. */
static bool submit_more(srv_job *job, srv_problem *problem) {
    while (job->n_submitted < job->request.n_prompts && job->n_submitted - job->n_done < AT_ONCE) {
        fn_error err = {0};
        srv_part *part = &job->parts[job->n_submitted];
        fn_status status = submit(job, part, &err);
        if (status == FN_E_BUSY && (job->n_submitted > job->n_done || job->n_done > 0)) {
            return true;
        }
        if (status != FN_OK) {
            return srv_refuse_status(problem, status, &err);
        }
        job->n_submitted++;
    }
    return true;
}

static void make_id(srv_job *job) {
    unsigned char random[12];
    evutil_secure_rng_get_bytes(random, sizeof random);
    int n = snprintf(job->id, sizeof job->id, "%s-", job->request.chat ? "chatcmpl" : "cmpl");
    for (size_t i = 0; i < sizeof random; i++) {
        n += snprintf(job->id + n, sizeof job->id - (size_t)n, "%02x", random[i]);
    }
}

void srv_job_start(srv_server *server, srv_exchange *x, const srv_request *request) {
    srv_problem problem = {0};
    srv_job *job = cli_alloc(sizeof *job);
    *job = (srv_job){.next = server->jobs,
                     .server = server,
                     .x = x,
                     .request = *request,
                     .created = (int64_t)time(NULL)};
    /* The strings of stop moved with the request. */
    job->request.generation.stop = job->request.stop;
    make_id(job);
    job->parts = cli_alloc(request->n_prompts * sizeof *job->parts);
    for (size_t i = 0; i < request->n_prompts; i++) {
        srv_part *part = &job->parts[i];
        *part = (srv_part){.job = job, .index = i};
        part->answers = cli_alloc(request->n_answers * sizeof *part->answers);
        for (size_t k = 0; k < request->n_answers; k++) {
            part->answers[k] = (srv_answer){0};
        }
    }
    server->jobs = job;
    if (!submit_more(job, &problem)) {
        fail_job(job, &problem);
        return;
    }
    srv_exchange_wait(x, on_gone, job);
    if (request->stream) {
        /* Before the prompt is read, which may take minutes. */
        srv_stream_begin(x);
        srv_stream_send(x, ": accepted\n\n", 12);
    }
}

/* ---- what comes back -------------------------------------------------------------------- */

static bool is_end_id(const srv_job *job, int32_t id) {
    size_t n = 0;
    const int32_t *ids = fn_text_end_ids(job->server->limits.text, &n);
    bool found = false;
    for (size_t i = 0; i < n && !job->request.generation.ignore_end; i++) {
        found |= ids[i] == id;
    }
    return found;
}

static void take_token(srv_job *job, srv_part *part, const fn_event *event) {
    srv_answer *answer = &part->answers[event->answer];
    const fn_text *text = job->server->limits.text;
    double now = cli_now();
    if (answer->last_token > 0.0) {
        srv_metrics_observe(&job->server->metrics, SRV_INTER_TOKEN_LATENCY,
                            now - answer->last_token);
    } else {
        srv_metrics_observe(&job->server->metrics, SRV_TIME_TO_FIRST_TOKEN, now - job->x->started);
        answer->tokens.n_chars = part->prompt_tokens.n_chars; /* its text follows the echo */
    }
    answer->last_token = now;
    job->first_token = job->n_generated++ == 0 ? now : job->first_token;
    if (job->request.return_token_ids) {
        srv_tokens_add_id(&answer->tokens, event->id);
    }
    /* A message does not show its end token; the old shape does, where clients count tokens. */
    if (job->request.logprobs && job->request.chat && !is_end_id(job, event->id)) {
        srv_tokens_add_chat(&answer->tokens, text, event, job->request.n_top);
    } else if (job->request.logprobs && !job->request.chat) {
        srv_tokens_add_legacy(&answer->tokens, text, event, job->request.n_top, true);
    }
}

static void take_event(srv_job *job, srv_part *part, const fn_event *event) {
    srv_answer *answer = &part->answers[event->answer];
    bool is_thought = event->kind == FN_EVENT_THINKING;
    switch (event->kind) {
    case FN_EVENT_TOKEN:
        take_token(job, part, event);
        break;
    case FN_EVENT_PROMPT: {
        bool first = part->prompt_tokens.names == NULL;
        srv_tokens_add_legacy(&part->prompt_tokens, job->server->limits.text, event,
                              job->request.n_top, !first);
        break;
    }
    case FN_EVENT_THINKING:
    case FN_EVENT_ANSWER:
        if (job->request.stream) {
            srv_job_send_text(job, part, event->answer, is_thought, event->text, event->n);
        } else {
            cli_buffer_add(is_thought ? &answer->thought : &answer->text, event->text, event->n);
        }
        break;
    }
}

static size_t answers_left(const srv_job *job) {
    size_t left = 0;
    for (size_t i = 0; i < job->request.n_prompts; i++) {
        for (size_t k = 0; k < job->request.n_answers; k++) {
            left += !job->parts[i].answers[k].ended;
        }
    }
    return left;
}

static void take_answer(srv_job *job, srv_part *part, size_t index, const fn_generated *generated) {
    srv_answer *answer = &part->answers[index];
    answer->generated = *generated;
    answer->ended = true;
    job->last_part = part->index;
    job->last_answer = index;
    job->x->log.finish = srv_finish_name(generated->finish);
    /* The last one's chunk waits for the timings. */
    if (job->request.stream && answers_left(job) > 0) {
        srv_job_send_finish(job, part, index);
    }
}

/* The whole job is done. */
static void complete(srv_job *job) {
    srv_exchange *x = job->x;
    srv_metrics_observe(&job->server->metrics, SRV_REQUEST_LATENCY, cli_now() - x->started);
    for (size_t i = 0; i < job->request.n_prompts; i++) {
        const fn_request_result *result = &job->parts[i].result;
        x->log.n_prompt += result->n_prompt;
        x->log.n_cached += result->n_cached;
        x->log.n_generated += result->n_generated;
    }
    if (job->request.stream) {
        srv_job_send_end(job);
    } else {
        srv_job_reply(job);
    }
    free_job(job);
}

static void take_done(srv_job *job, srv_part *part, const fn_request_result *result) {
    srv_problem problem = {0};
    part->result = *result;
    part->result.error = "";
    part->done = true;
    job->n_done++;
    if (result->status != FN_OK) {
        fn_error err = {.code = result->status};
        (void)snprintf(err.text, sizeof err.text, "%s", result->error);
        (void)srv_refuse_status(&problem, result->status, &err);
        fail_job(job, &problem);
        return;
    }
    srv_metrics_observe(&job->server->metrics, SRV_QUEUE_TIME, result->started);
    if (job->n_done == job->request.n_prompts) {
        complete(job);
    } else if (!submit_more(job, &problem)) {
        fail_job(job, &problem);
    }
}

void srv_job_on_note(srv_server *server, const srv_note *note) {
    srv_part *part = note->part;
    srv_job *job = part->job;
    (void)server;
    switch (note->kind) {
    case SRV_NOTE_EVENT:
        take_event(job, part, &note->event);
        break;
    case SRV_NOTE_PROGRESS:
        srv_job_send_progress(job, &note->progress);
        break;
    case SRV_NOTE_ANSWER:
        take_answer(job, part, note->event.answer, &note->generated);
        break;
    case SRV_NOTE_DONE:
        take_done(job, part, &note->result);
        break;
    }
}

void srv_jobs_tick(srv_server *server, double now) {
    static const char comment[] = ": still at it\n\n";
    srv_job *next = NULL;
    for (srv_job *job = server->jobs; job != NULL; job = next) {
        srv_problem problem = {0};
        next = job->next;
        if (job->x->streaming && now - job->x->last_sent >= server->options->ping_seconds) {
            srv_stream_send(job->x, comment, sizeof comment - 1);
        }
        if (!submit_more(job, &problem)) {
            fail_job(job, &problem);
        }
    }
}

void srv_jobs_fail_all(srv_server *server) {
    srv_job *job = NULL;
    while ((job = server->jobs) != NULL) {
        srv_problem problem = {0};
        server->jobs = job->next;
        (void)srv_refuse_as(&problem, 503, "shutting_down", "the server is shutting down");
        fail_job(job, &problem);
    }
}
