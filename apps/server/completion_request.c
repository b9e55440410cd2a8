#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "server/fields.h"
#include "server/request.h"

static bool wrong_prompt(const json_t *found, srv_problem *problem) {
    return srv_refuse(problem, "prompt",
                      "prompt: expected a string, an array of strings, an array of token ids or "
                      "an array of those, found %s in it",
                      srv_type_name(found));
}

static bool read_text(const srv_limits *limits, const json_t *text, srv_prompt *out,
                      srv_problem *problem) {
    fn_error err = {0};
    fn_ids ids = {0};
    fn_status status = fn_text_encode(limits->text, json_string_value(text),
                                      json_string_length(text), true, &ids, &err);
    if (status == FN_OK) {
        srv_prompt_take(out, &ids);
        out->text = json_string_value(text);
        out->n_text = json_string_length(text);
    }
    return status == FN_OK || srv_refuse_status(problem, status, &err);
}

static bool read_ids(const srv_limits *limits, const json_t *ids, srv_prompt *out,
                     srv_problem *problem) {
    out->ids = cli_alloc((json_array_size(ids) + 1) * sizeof *out->ids);
    size_t i = 0;
    const json_t *id = NULL;
    json_array_foreach(ids, i, id) {
        if (!json_is_integer(id)) {
            return wrong_prompt(id, problem);
        }
        json_int_t value = json_integer_value(id);
        if (value < 0 || (size_t)value >= limits->vocab) {
            return srv_refuse(problem, "prompt",
                              "prompt: expected token ids below %zu, found %lld at %zu",
                              limits->vocab, (long long)value, i);
        }
        out->ids[out->n_ids++] = (int32_t)value;
    }
    fn_error err = {0};
    fn_status status = FN_OK;
    if (fn_text_has_tokenizer(limits->text)) {
        status = fn_text_decode(limits->text, out->ids, out->n_ids, false, &out->decoded,
                                &out->n_text, &err);
        out->text = out->decoded;
    }
    return status == FN_OK || srv_refuse_status(problem, status, &err);
}

static bool read_prompt(const srv_limits *limits, const json_t *given, srv_request *request,
                        srv_problem *problem) {
    srv_prompt *prompt = &request->prompts[request->n_prompts++];
    *prompt = (srv_prompt){.text = ""};
    bool good = json_is_string(given)  ? read_text(limits, given, prompt, problem)
                : json_is_array(given) ? read_ids(limits, given, prompt, problem)
                                       : wrong_prompt(given, problem);
    if (good && prompt->n_ids == 0) {
        return srv_refuse(problem, "prompt", "prompt: expected at least one token");
    }
    return good && srv_prompt_fits(limits, prompt->n_ids, problem);
}

/* "text", ["text", ...], [id, ...] or [[id, ...], ...] */
static bool read_prompts(const srv_limits *limits, srv_request *request, srv_problem *problem) {
    const json_t *given = srv_field(request->root, "prompt");
    bool many = json_is_array(given) && !json_is_integer(json_array_get(given, 0));
    size_t n = many ? json_array_size(given) : 1;
    if (given == NULL || n == 0) {
        return srv_refuse(problem, "prompt", "prompt: expected a string or an array, found %s",
                          given == NULL ? "nothing" : "an empty array");
    }
    if (n > SRV_MAX_PROMPTS) {
        return srv_refuse(problem, "prompt", "prompt: expected at most %d prompts, found %zu",
                          SRV_MAX_PROMPTS, n);
    }
    request->prompts = cli_alloc(n * sizeof *request->prompts);
    for (size_t i = 0; i < n; i++) {
        if (!read_prompt(limits, many ? json_array_get(given, i) : given, request, problem)) {
            return false;
        }
    }
    return true;
}

/* logprobs: how many alternatives; 0 asks for the chosen token's alone. */
static bool read_logprobs(srv_request *request, srv_problem *problem) {
    int64_t n_top = -1;
    if (!srv_field_bool(request->root, "echo", &request->echo, problem) ||
        !srv_field_whole(request->root, "logprobs", 0, SRV_MAX_TOP, &n_top, problem)) {
        return false;
    }
    request->logprobs = n_top >= 0;
    request->n_top = n_top > 0 ? (size_t)n_top : 0;
    request->generation.n_logprobs =
        request->logprobs && n_top < 1 ? 1
                                       : request->n_top; /* the chosen one's alone costs as much */
    return true;
}

bool srv_completion_request_read(const srv_limits *limits, json_t *root, srv_request *out,
                                 srv_problem *problem) {
    *out = (srv_request){.root = root};
    return srv_request_read_common(limits, out, problem) && read_logprobs(out, problem) &&
           read_prompts(limits, out, problem);
}
