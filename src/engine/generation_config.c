#include "engine/generation_config.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "sampling/sampler.h"

/* dir/name if it is there; *path is freed by the caller (NULL: not there). */
fn_status fn_text_find_file(const char *dir, const char *name, char **path, fn_error *err) {
    *path = NULL;
    if (dir == NULL) {
        return FN_OK;
    }
    *path = fn_path_join(dir, name);
    if (*path == NULL) {
        return fn_fail_nomem(err, name, strlen(dir));
    }
    if (!fn_file_exists(*path)) {
        fn_free(*path);
        *path = NULL;
    }
    return FN_OK;
}

fn_status fn_text_read_json(const char *dir, const char *name, json_t **out, fn_error *err) {
    char *path = NULL;
    *out = NULL;
    fn_status status = fn_text_find_file(dir, name, &path, err);
    if (status == FN_OK && path != NULL) {
        status = fn_json_read_file(path, FN_MAX_TEXT_FILE, out, err);
        if (status == FN_OK && !json_is_object(*out)) {
            status = fn_fail(err, FN_E_MODEL, "%s: found %s, expected an object", path,
                             fn_json_type_name(*out));
            json_decref(*out);
            *out = NULL;
        }
    }
    fn_free(path);
    return status;
}

/* ---- the keys ---- */

typedef struct source {
    const json_t *object;
    const char *dir, *name;
} source;

static fn_status wrong(const source *s, const char *key, const json_t *value, const char *expected,
                       fn_error *err) {
    return fn_fail(err, FN_E_MODEL, "%s/%s: key %s: found %s, expected %s", s->dir, s->name, key,
                   fn_json_type_name(value), expected);
}

static fn_status number(const source *s, const char *key, float *out, fn_error *err) {
    const json_t *value = json_object_get(s->object, key);
    if (value == NULL || json_is_null(value)) {
        return FN_OK;
    }
    if (!json_is_number(value)) {
        return wrong(s, key, value, "a number", err);
    }
    *out = (float)json_number_value(value);
    return FN_OK;
}

/* -1 is what some tools write for "all". */
static fn_status top_k(const source *s, int32_t *out, fn_error *err) {
    const json_t *value = json_object_get(s->object, "top_k");
    if (value == NULL || json_is_null(value)) {
        return FN_OK;
    }
    if (!json_is_integer(value)) {
        return wrong(s, "top_k", value, "an integer", err);
    }
    json_int_t k = json_integer_value(value);
    if (k < -1) {
        return fn_fail(err, FN_E_MODEL,
                       "%s/%s: key top_k: found %lld, expected 0 (off) or more, or -1 (off)",
                       s->dir, s->name, (long long)k);
    }
    *out = k < 0 ? 0 : (int32_t)(k < INT32_MAX ? k : INT32_MAX);
    return FN_OK;
}

static fn_status add_end_id(fn_text *text, const source *s, const json_t *value, fn_error *err) {
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > INT32_MAX) {
        return wrong(s, "eos_token_id", value, "an id (0 or more) or a list of ids", err);
    }
    if (text->n_end_ids == FN_MAX_END_IDS) {
        return fn_fail(err, FN_E_MODEL, "%s/%s: key eos_token_id: expected at most %d ids", s->dir,
                       s->name, FN_MAX_END_IDS);
    }
    text->end_ids[text->n_end_ids++] = (int32_t)json_integer_value(value);
    return FN_OK;
}

static fn_status end_ids(fn_text *text, const source *s, fn_error *err) {
    const json_t *value = json_object_get(s->object, "eos_token_id");
    if (value == NULL || json_is_null(value)) {
        return FN_OK;
    }
    if (!json_is_array(value)) {
        return add_end_id(text, s, value, err);
    }
    fn_status status = FN_OK;
    for (size_t i = 0; i < json_array_size(value) && status == FN_OK; i++) {
        status = add_end_id(text, s, json_array_get(value, i), err);
    }
    return status;
}

/* As transformers reads it: penalties count in greedy decoding too, the filters only where
 * do_sample is true. */
static fn_status sampling(fn_text *text, const source *s, fn_error *err) {
    const json_t *do_sample = json_object_get(s->object, "do_sample");
    fn_sampling filters = {.temperature = 1.0f, .top_p = 1.0f};
    fn_sampling *to = &text->sampling;
    if (do_sample != NULL && !json_is_null(do_sample) && !json_is_boolean(do_sample)) {
        return wrong(s, "do_sample", do_sample, "true or false", err);
    }
    const struct {
        const char *key;
        float *to;
    } numbers[] = {
        {"temperature", &filters.temperature},
        {"top_p", &filters.top_p},
        {"min_p", &filters.min_p},
        {"repetition_penalty", &to->repetition_penalty},
        {"presence_penalty", &to->presence_penalty},
        {"frequency_penalty", &to->frequency_penalty},
    };
    fn_status status = top_k(s, &filters.top_k, err);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && status == FN_OK; i++) {
        status = number(s, numbers[i].key, numbers[i].to, err);
    }
    if (status == FN_OK && json_is_true(do_sample)) {
        to->temperature = filters.temperature;
        to->top_k = filters.top_k;
        to->top_p = filters.top_p;
        to->min_p = filters.min_p;
    }
    if (status == FN_OK && fn_sampling_check(to, INT32_MAX, err) != FN_OK) {
        fn_error_prefix(err, "%s/%s: key ", s->dir, s->name);
        if (err != NULL) {
            err->code = FN_E_MODEL; /* the file's fault, not the caller's */
        }
        status = FN_E_MODEL;
    }
    return status;
}

fn_status fn_generation_config_read(fn_text *text, const char *dir, fn_error *err) {
    json_t *config = NULL;
    text->sampling = (fn_sampling){.top_p = 1.0f, .repetition_penalty = 1.0f};
    fn_status status = fn_text_read_json(dir, "generation_config.json", &config, err);
    if (status == FN_OK && config != NULL) {
        source s = {config, dir, "generation_config.json"};
        status = end_ids(text, &s, err);
        status = status == FN_OK ? sampling(text, &s, err) : status;
    }
    json_decref(config);
    if (status != FN_OK || text->n_end_ids > 0) {
        return status;
    }
    status = fn_text_read_json(dir, "config.json", &config, err);
    if (status == FN_OK && config != NULL) {
        json_t *inner = json_object_get(config, "text_config");
        source s = {json_is_object(inner) ? inner : config, dir, "config.json"};
        status = end_ids(text, &s, err);
    }
    json_decref(config);
    return status;
}
