#include "server/request.h"

#include <errno.h>
#include <event2/util.h>
#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "server/fields.h"

/* Lower than any logit: a finite "never". */
#define BANNED (-1e30)

/* ---- sampling --------------------------------------------------------------------------- */

static bool read_penalties(const json_t *root, fn_sampling *s, srv_problem *problem) {
    return srv_field_float(root, "repetition_penalty", 0.01, 100.0, &s->repetition_penalty,
                           problem) &&
           srv_field_float(root, "repeat_penalty", 0.01, 100.0, &s->repetition_penalty, problem) &&
           srv_field_float(root, "presence_penalty", -100.0, 100.0, &s->presence_penalty,
                           problem) &&
           srv_field_float(root, "frequency_penalty", -100.0, 100.0, &s->frequency_penalty,
                           problem);
}

static bool read_seed(const json_t *root, fn_sampling *s, srv_problem *problem) {
    int64_t seed = -1;
    if (!srv_field_whole(root, "seed", INT64_MIN, INT64_MAX, &seed, problem)) {
        return false;
    }
    if (seed == -1) { /* none, or llama.cpp's "any" */
        uint32_t random = 0;
        evutil_secure_rng_get_bytes(&random, sizeof random);
        seed = random;
    }
    s->seed = (uint64_t)seed;
    return true;
}

static bool read_sampling(const json_t *root, fn_sampling *s, srv_problem *problem) {
    int64_t top_k = s->top_k;
    bool good = srv_field_float(root, "temperature", 0.0, 1000.0, &s->temperature, problem) &&
                srv_field_float(root, "top_p", 0.0, 1.0, &s->top_p, problem) &&
                srv_field_float(root, "min_p", 0.0, 1.0, &s->min_p, problem) &&
                srv_field_whole(root, "top_k", -1, INT32_MAX, &top_k, problem) &&
                read_penalties(root, s, problem) && read_seed(root, s, problem);
    s->top_k = top_k > 0 ? (int32_t)top_k : 0;
    s->top_p = s->top_p > 1e-6f ? s->top_p : 1e-6f; /* 0: the likeliest token alone */
    return good;
}

static bool read_bias_entry(const char *key, const json_t *value, size_t vocab, fn_logit_bias *out,
                            srv_problem *problem) {
    char *end = NULL;
    errno = 0;
    long id = strtol(key, &end, 10);
    if (end == key || *end != 0 || errno != 0 || id < 0 || (size_t)id >= vocab) {
        return srv_refuse(problem, "logit_bias",
                          "logit_bias: expected token ids below %zu, found '%s'", vocab, key);
    }
    if (!json_is_number(value)) {
        return srv_refuse(problem, "logit_bias", "logit_bias: expected a number for %s, found %s",
                          key, srv_type_name(value));
    }
    double bias = json_number_value(value);
    bias = bias < BANNED ? BANNED : bias;
    out->id = (int32_t)id;
    out->bias = (float)(bias > -BANNED ? -BANNED : bias);
    return true;
}

static bool read_bias(const srv_limits *limits, srv_request *request, srv_problem *problem) {
    const json_t *object = NULL;
    if (!srv_field_object(request->root, "logit_bias", &object, problem)) {
        return false;
    }
    size_t n = json_object_size(object);
    if (n == 0) {
        return true;
    }
    request->bias = cli_alloc(n * sizeof *request->bias);
    size_t at = 0;
    const char *key = NULL;
    json_t *value = NULL;
    json_t *entries = json_object_get(request->root, "logit_bias"); /* to walk: not const */
    json_object_foreach(entries, key, value) {
        if (!read_bias_entry(key, value, limits->vocab, &request->bias[at++], problem)) {
            return false;
        }
    }
    request->generation.sampling.bias = request->bias;
    request->generation.sampling.n_bias = n;
    return true;
}

/* ---- length and end --------------------------------------------------------------------- */

/* What is wrong with a string, or NULL. */
static const char *wrong_stop(const json_t *text) {
    size_t n = json_string_length(text);
    return n == 0                                 ? "an empty one"
           : strlen(json_string_value(text)) != n ? "one with a NUL character"
                                                  : NULL;
}

static bool read_stop(srv_request *request, srv_problem *problem) {
    const json_t *stop = srv_field(request->root, "stop");
    size_t n = json_is_array(stop) ? json_array_size(stop) : stop != NULL ? 1 : 0;
    if (n > SRV_MAX_STOPS) {
        return srv_refuse(problem, "stop", "stop: expected at most %d strings, found %zu",
                          SRV_MAX_STOPS, n);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *text = json_is_array(stop) ? json_array_get(stop, i) : stop;
        const char *found = json_is_string(text) ? wrong_stop(text) : srv_type_name(text);
        if (found != NULL) {
            return srv_refuse(problem, "stop",
                              "stop: expected strings that are not empty, found %s", found);
        }
        request->stop[i] = json_string_value(text);
    }
    request->generation.stop = request->stop;
    request->generation.n_stop = n;
    return true;
}

/* -1 and absent: no limit. max_completion_tokens is the younger name. */
static bool read_lengths(srv_request *request, srv_problem *problem) {
    const json_t *root = request->root;
    int64_t most = request->chat ? -1 : 16;
    int64_t least = 0;
    if (!srv_field_whole(root, "max_tokens", -1, INT64_MAX, &most, problem) ||
        !srv_field_whole(root, "max_completion_tokens", -1, INT64_MAX, &most, problem) ||
        !srv_field_whole(root, "min_tokens", 0, INT64_MAX, &least, problem) ||
        !srv_field_bool(root, "ignore_eos", &request->generation.ignore_end, problem)) {
        return false;
    }
    if (most >= 0 && least > most) {
        return srv_refuse(problem, "min_tokens",
                          "min_tokens: expected at most max_tokens (%lld), found %lld",
                          (long long)most, (long long)least);
    }
    request->generation.max_tokens = most >= 0 ? (size_t)most : FN_UNLIMITED;
    request->generation.min_tokens = (size_t)least;
    return true;
}

/* ---- stream and extras ------------------------------------------------------------------ */

static bool read_stream(srv_request *request, srv_problem *problem) {
    const json_t *options = NULL;
    if (!srv_field_bool(request->root, "stream", &request->stream, problem) ||
        !srv_field_object(request->root, "stream_options", &options, problem)) {
        return false;
    }
    return options == NULL ||
           (srv_field_bool(options, "include_usage", &request->include_usage, problem) &&
            srv_field_bool(options, "continuous_usage_stats", &request->usage_in_every_chunk,
                           problem));
}

static bool read_extras(srv_request *request, srv_problem *problem) {
    const json_t *root = request->root;
    bool cache = true;
    int64_t n = 1;
    const char *model = NULL; /* there is one: any name will do, but it is a name */
    bool good =
        srv_field_text(root, "model", &model, problem) &&
        srv_field_whole(root, "n", 1, SRV_MAX_ANSWERS, &n, problem) &&
        srv_field_bool(root, "cache_prompt", &cache, problem) &&
        srv_field_bool(root, "return_token_ids", &request->return_token_ids, problem) &&
        srv_field_bool(root, "timings_per_token", &request->timings_in_every_chunk, problem) &&
        srv_field_bool(root, "return_progress", &request->return_progress, problem);
    int64_t best_of = n;
    good = good && srv_field_whole(root, "best_of", 1, INT32_MAX, &best_of, problem);
    if (good && best_of != n) {
        return srv_refuse_capability(problem, "best_of", "choice among several answers");
    }
    request->n_answers = (size_t)n;
    request->no_cache = !cache;
    return good;
}

/* ---- what is not there ------------------------------------------------------------------ */

static bool is_asked(const json_t *value) {
    return value != NULL && !json_is_false(value) &&
           !(json_is_array(value) && json_array_size(value) == 0) &&
           !(json_is_string(value) && json_string_length(value) == 0);
}

static bool read_format(const json_t *root, srv_problem *problem) {
    const json_t *format = NULL;
    if (!srv_field_object(root, "response_format", &format, problem)) {
        return false;
    }
    const json_t *type = json_object_get(format, "type");
    if (format != NULL && !json_is_string(type)) {
        return srv_refuse(problem, "response_format",
                          "response_format.type: expected a string, found %s", srv_type_name(type));
    }
    return format == NULL || strcmp(json_string_value(type), "text") == 0 ||
           srv_refuse_capability(problem, "response_format", "constrained output");
}

static bool refuse_missing(const json_t *root, srv_problem *problem) {
    static const struct {
        const char *field, *capability;
    } missing[] = {{"tools", "tool calls"},
                   {"functions", "tool calls"},
                   {"json_schema", "constrained output"},
                   {"grammar", "constrained output"},
                   {"guided_json", "constrained output"},
                   {"guided_regex", "constrained output"},
                   {"guided_grammar", "constrained output"},
                   {"guided_choice", "constrained output"},
                   {"structured_outputs", "constrained output"},
                   {"suffix", "text completion in the middle"},
                   {"audio", "audio output"},
                   {"use_beam_search", "beam search"}};
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        if (is_asked(srv_field(root, missing[i].field))) {
            return srv_refuse_capability(problem, missing[i].field, missing[i].capability);
        }
    }
    const json_t *choice = srv_field(root, "tool_choice");
    const char *name = json_is_string(choice) ? json_string_value(choice) : "";
    if (choice != NULL && strcmp(name, "none") != 0 && strcmp(name, "auto") != 0) {
        return srv_refuse_capability(problem, "tool_choice", "tool calls");
    }
    return read_format(root, problem);
}

/* ---- all of it -------------------------------------------------------------------------- */

bool srv_request_read_common(const srv_limits *limits, srv_request *request, srv_problem *problem) {
    request->generation = fn_generation_default(limits->text);
    return refuse_missing(request->root, problem) &&
           read_sampling(request->root, &request->generation.sampling, problem) &&
           read_bias(limits, request, problem) && read_stop(request, problem) &&
           read_lengths(request, problem) && read_stream(request, problem) &&
           read_extras(request, problem);
}

bool srv_prompt_fits(const srv_limits *limits, size_t n_ids, srv_problem *problem) {
    if (n_ids < limits->context) {
        return true;
    }
    if (problem->status == 0) {
        (void)srv_refuse(problem, NULL,
                         "the prompt has %zu tokens and the context holds %zu: expected room for "
                         "at least one more token",
                         n_ids, limits->context);
        problem->type = "exceed_context_size_error";
        problem->code = "context_length_exceeded";
        problem->n_prompt = n_ids;
        problem->n_context = limits->context;
    }
    return false;
}

void srv_prompt_take(srv_prompt *prompt, fn_ids *ids) {
    prompt->n_ids = ids->count;
    prompt->ids = cli_alloc((ids->count + 1) * sizeof *prompt->ids);
    if (ids->count > 0) {
        memcpy(prompt->ids, ids->items, ids->count * sizeof *prompt->ids);
    }
    fn_ids_free(ids);
}

void srv_request_free(srv_request *request) {
    for (size_t i = 0; i < request->n_prompts; i++) {
        free(request->prompts[i].ids);
        fn_string_free(request->prompts[i].decoded);
    }
    free(request->prompts);
    free(request->bias);
    json_decref(request->root);
    *request = (srv_request){0};
}
