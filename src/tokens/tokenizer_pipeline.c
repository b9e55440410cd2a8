#include "tokens/tokenizer_pipeline.h"

#include <string.h>

#include "base/json.h"

enum { SHOWN_BYTES = 240 };

static bool is_absent(const json_t *value) {
    return value == NULL || json_is_null(value);
}

static bool is_string(const json_t *value, const char *text) {
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

static bool has_type(const json_t *value, const char *type) {
    return is_string(json_object_get(value, "type"), type);
}

/* "field: found <JSON>; supported: ..." */
static fn_status unsupported(const char *field, const json_t *found, const char *supported,
                             fn_error *err) {
    char text[SHOWN_BYTES + 1] = "nothing";
    if (found != NULL) {
        size_t n = json_dumpb(found, text, SHOWN_BYTES, JSON_ENCODE_ANY | JSON_COMPACT);
        text[n < SHOWN_BYTES ? n : SHOWN_BYTES] = '\0';
        if (n > SHOWN_BYTES) {
            memcpy(text + SHOWN_BYTES - 3, "...", 3);
        }
    }
    return fn_fail(err, FN_E_UNSUPPORTED, "%s: found %s; supported: %s", field, text, supported);
}

static fn_status read_normalizer(const json_t *value, fn_tokenizer *t, fn_error *err) {
    t->nfc = has_type(value, "NFC");
    return t->nfc || is_absent(value)
               ? FN_OK
               : unsupported("normalizer", value, "null or {\"type\":\"NFC\"}", err);
}

static fn_status read_split(const json_t *value, fn_tokenizer *t, fn_error *err) {
    const json_t *regex = json_object_get(json_object_get(value, "pattern"), "Regex");
    if (!has_type(value, "Split")) {
        return unsupported("pre_tokenizer.pretokenizers[0]", value, "type \"Split\"", err);
    }
    t->rule = json_is_string(regex) ? fn_split_rule_find(json_string_value(regex)) : FN_SPLIT_NONE;
    if (t->rule == FN_SPLIT_NONE) {
        char rules[480] = "";
        strncat(rules, fn_split_rule_regex(FN_SPLIT_QWEN35), 200);
        strncat(rules, " and ", 8);
        strncat(rules, fn_split_rule_regex(FN_SPLIT_QWEN2), 200);
        return unsupported("pre_tokenizer.pretokenizers[0].pattern.Regex",
                           regex != NULL ? regex : json_object_get(value, "pattern"), rules, err);
    }
    if (!is_string(json_object_get(value, "behavior"), "Isolated")) {
        return unsupported("pre_tokenizer.pretokenizers[0].behavior",
                           json_object_get(value, "behavior"), "\"Isolated\"", err);
    }
    if (json_is_true(json_object_get(value, "invert"))) {
        return unsupported("pre_tokenizer.pretokenizers[0].invert",
                           json_object_get(value, "invert"), "false", err);
    }
    return FN_OK;
}

/* Its trim_offsets changes offsets only, which nobody here asks for. */
static fn_status read_byte_level(const json_t *value, fn_error *err) {
    if (!has_type(value, "ByteLevel")) {
        return unsupported("pre_tokenizer.pretokenizers[1]", value, "type \"ByteLevel\"", err);
    }
    if (!json_is_false(json_object_get(value, "add_prefix_space"))) {
        return unsupported("pre_tokenizer.pretokenizers[1].add_prefix_space",
                           json_object_get(value, "add_prefix_space"), "false", err);
    }
    if (!json_is_false(json_object_get(value, "use_regex"))) {
        return unsupported("pre_tokenizer.pretokenizers[1].use_regex",
                           json_object_get(value, "use_regex"), "false", err);
    }
    return FN_OK;
}

static fn_status read_pre_tokenizer(const json_t *value, fn_tokenizer *t, fn_error *err) {
    const json_t *list = json_object_get(value, "pretokenizers");
    if (!has_type(value, "Sequence") || json_array_size(list) != 2) {
        return unsupported("pre_tokenizer", value, "a Sequence of Split and ByteLevel", err);
    }
    fn_status status = read_split(json_array_get(list, 0), t, err);
    return status == FN_OK ? read_byte_level(json_array_get(list, 1), err) : status;
}

/* ByteLevel touches offsets only; a template is fine as long as it adds no token to one text. */
static fn_status read_post_processor(const json_t *value, fn_error *err) {
    if (is_absent(value) || has_type(value, "ByteLevel")) {
        return FN_OK;
    }
    const char *supported = "null, ByteLevel, or a TemplateProcessing that adds no tokens";
    const json_t *single = json_object_get(value, "single");
    if (!has_type(value, "TemplateProcessing") || json_array_size(single) != 1 ||
        json_object_get(json_array_get(single, 0), "Sequence") == NULL) {
        return unsupported("post_processor", value, supported, err);
    }
    return FN_OK;
}

static bool is_empty_text(const json_t *value) {
    return is_absent(value) || is_string(value, "");
}

static fn_status read_model(const json_t *model, fn_error *err) {
    const json_t *dropout = json_object_get(model, "dropout");
    if (!has_type(model, "BPE")) {
        return unsupported("model.type", json_object_get(model, "type"), "\"BPE\"", err);
    }
    if (!is_absent(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0.0)) {
        return unsupported("model.dropout", dropout, "null", err);
    }
    if (!is_empty_text(json_object_get(model, "continuing_subword_prefix"))) {
        return unsupported("model.continuing_subword_prefix",
                           json_object_get(model, "continuing_subword_prefix"), "null", err);
    }
    if (!is_empty_text(json_object_get(model, "end_of_word_suffix"))) {
        return unsupported("model.end_of_word_suffix", json_object_get(model, "end_of_word_suffix"),
                           "null", err);
    }
    if (json_is_true(json_object_get(model, "ignore_merges"))) {
        return unsupported("model.ignore_merges", json_object_get(model, "ignore_merges"), "false",
                           err);
    }
    return FN_OK;
}

fn_status fn_tokenizer_read_pipeline(const json_t *root, fn_tokenizer *t, fn_error *err) {
    const json_t *model = json_object_get(root, "model");
    if (!json_is_object(root) || !json_is_object(model)) {
        return fn_fail(err, FN_E_MODEL, "not a tokenizer.json: expected an object with \"model\"");
    }
    fn_status status = read_model(model, err);
    if (status == FN_OK) {
        status = read_normalizer(json_object_get(root, "normalizer"), t, err);
    }
    if (status == FN_OK) {
        status = read_pre_tokenizer(json_object_get(root, "pre_tokenizer"), t, err);
    }
    if (status == FN_OK) {
        status = read_post_processor(json_object_get(root, "post_processor"), err);
    }
    if (status == FN_OK && !has_type(json_object_get(root, "decoder"), "ByteLevel")) {
        status = unsupported("decoder", json_object_get(root, "decoder"),
                             "{\"type\":\"ByteLevel\"}", err);
    }
    return status;
}
