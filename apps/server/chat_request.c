#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "server/fields.h"
#include "server/messages.h"
#include "server/request.h"

/* ---- template variables ----------------------------------------------------------------- */

/* The model has three efforts; the names of others are mapped to them. */
static bool set_effort(json_t *kwargs, const char *effort, srv_problem *problem) {
    static const struct {
        const char *asked, *given;
    } efforts[] = {{"none", NULL},    {"minimal", "low"}, {"low", "low"},  {"medium", "medium"},
                   {"high", "xhigh"}, {"xhigh", "xhigh"}, {"max", "xhigh"}};
    for (size_t i = 0; i < sizeof efforts / sizeof efforts[0]; i++) {
        if (strcmp(effort, efforts[i].asked) == 0) {
            if (efforts[i].given == NULL) {
                (void)json_object_del(kwargs, "reasoning_effort");
                (void)json_object_set_new(kwargs, "enable_thinking", json_false());
            } else {
                (void)json_object_set_new(kwargs, "reasoning_effort",
                                          json_string(efforts[i].given));
            }
            return true;
        }
    }
    return srv_refuse(problem, "reasoning_effort",
                      "reasoning_effort: expected none, minimal, low, medium, high, xhigh or max, "
                      "found '%s'",
                      effort);
}

/* chat_template_kwargs, enable_thinking and reasoning_effort together; NULL: refused. */
static json_t *read_kwargs(const json_t *root, srv_problem *problem) {
    const json_t *given = NULL;
    const char *effort = NULL;
    if (!srv_field_object(root, "chat_template_kwargs", &given, problem)) {
        return NULL;
    }
    json_t *kwargs = given != NULL ? json_deep_copy(given) : json_object();
    bool thinking = true;
    bool good = srv_field_text(kwargs, "reasoning_effort", &effort, problem) &&
                srv_field_text(root, "reasoning_effort", &effort, problem) &&
                srv_field_bool(kwargs, "enable_thinking", &thinking, problem) &&
                srv_field_bool(root, "enable_thinking", &thinking, problem);
    if (good && srv_field(root, "enable_thinking") != NULL) {
        (void)json_object_set_new(kwargs, "enable_thinking", json_boolean(thinking));
    }
    if (good && effort != NULL) {
        good = set_effort(kwargs, effort, problem);
    }
    static const char *const reserved[] = {"messages", "tools"};
    for (size_t i = 0; good && i < 2; i++) {
        if (json_object_get(kwargs, reserved[i]) != NULL) {
            good = srv_refuse(problem, "chat_template_kwargs",
                              "chat_template_kwargs.%s: is no variable to be set", reserved[i]);
        }
    }
    if (!good) {
        json_decref(kwargs);
        return NULL;
    }
    return kwargs;
}

/* ---- the prompt ------------------------------------------------------------------------- */

static bool render_json(const srv_limits *limits, json_t *request, char **prompt, size_t *n_prompt,
                        fn_ids *ids, srv_problem *problem) {
    char *text = json_dumps(request, JSON_COMPACT);
    json_decref(request);
    fn_error err = {0};
    fn_status status = fn_text_render(limits->text, text, strlen(text), limits->safe_content,
                                      prompt, n_prompt, ids, &err);
    free(text);
    return status == FN_OK || srv_refuse_status(problem, status, &err);
}

bool srv_render(const srv_limits *limits, const json_t *root, char **prompt, size_t *n_prompt,
                fn_ids *ids, srv_problem *problem) {
    json_t *messages = NULL;
    bool add_prompt = true;
    *prompt = NULL;
    *n_prompt = 0;
    if (!fn_text_has_template(limits->text) || !fn_text_has_tokenizer(limits->text)) {
        return srv_refuse_as(problem, 501, NULL,
                             "this model has no %s: only token ids can be completed",
                             fn_text_has_tokenizer(limits->text) ? "chat template" : "tokenizer");
    }
    if (!srv_field_bool(root, "add_generation_prompt", &add_prompt, problem)) {
        return false;
    }
    json_t *kwargs = read_kwargs(root, problem);
    if (kwargs == NULL ||
        !srv_messages_read(json_object_get(root, "messages"), &messages, problem)) {
        json_decref(kwargs);
        return false;
    }
    json_t *request = json_pack("{s:o, s:o, s:b}", "messages", messages, "kwargs", kwargs,
                                "add_generation_prompt", (int)add_prompt);
    return render_json(limits, request, prompt, n_prompt, ids, problem);
}

static bool ends_in_thought(const char *prompt, size_t n) {
    static const char opener[] = "<think>\n";
    const size_t n_opener = sizeof opener - 1;
    return n >= n_opener && memcmp(prompt + n - n_opener, opener, n_opener) == 0;
}

/* ---- other fields ----------------------------------------------------------------------- */

static bool read_logprobs(srv_request *request, srv_problem *problem) {
    int64_t n_top = 0;
    if (!srv_field_bool(request->root, "logprobs", &request->logprobs, problem) ||
        !srv_field_whole(request->root, "top_logprobs", 0, SRV_MAX_TOP, &n_top, problem)) {
        return false;
    }
    if (n_top > 0 && !request->logprobs) {
        return srv_refuse(problem, "top_logprobs", "top_logprobs: needs \"logprobs\": true");
    }
    request->n_top = (size_t)n_top;
    request->generation.n_logprobs =
        request->logprobs && n_top < 1 ? 1
                                       : request->n_top; /* the chosen one's alone costs as much */
    return true;
}

/* -1: no limit. Both names are in use. */
static bool read_thinking(srv_request *request, bool *split, srv_problem *problem) {
    int64_t budget = -1;
    const char *format = "auto";
    if (!srv_field_whole(request->root, "thinking_budget", -1, INT64_MAX, &budget, problem) ||
        !srv_field_whole(request->root, "thinking_token_budget", -1, INT64_MAX, &budget, problem) ||
        !srv_field_text(request->root, "reasoning_format", &format, problem)) {
        return false;
    }
    request->generation.thinking_budget = budget >= 0 ? (size_t)budget : FN_UNLIMITED;
    *split = strcmp(format, "none") != 0;
    return true;
}

bool srv_chat_request_read(const srv_limits *limits, json_t *root, srv_request *out,
                           srv_problem *problem) {
    *out = (srv_request){.root = root, .chat = true};
    bool split_thought = true;
    if (!srv_request_read_common(limits, out, problem) || !read_logprobs(out, problem) ||
        !read_thinking(out, &split_thought, problem)) {
        return false;
    }
    char *prompt = NULL;
    size_t n = 0;
    out->prompts = cli_alloc(sizeof *out->prompts);
    out->prompts[0] = (srv_prompt){0};
    out->n_prompts = 1;
    fn_ids ids = {0};
    bool good = srv_render(limits, root, &prompt, &n, &ids, problem) &&
                srv_prompt_fits(limits, ids.count, problem);
    srv_prompt_take(&out->prompts[0], &ids);
    out->generation.starts_in_thought = good && split_thought && ends_in_thought(prompt, n);
    fn_string_free(prompt);
    return good;
}
