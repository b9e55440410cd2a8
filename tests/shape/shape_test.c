/* config.json -> shape: the published config, keys that may be absent, keys that may not, and
 * every combination the model cannot have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "shape/shape.h"
#include "support/check_error.h"
#include "support/make_internal.h"

static fn_status read_json(json_t *root, fn_shape *out, fn_error *err) {
    char *text = json_dumps(root, 0);
    fn_config config;
    fn_status status = fn_config_parse(text, strlen(text), "config.json", &config, err);
    free(text);
    if (status == FN_OK) {
        status = fn_shape_from_config(&config, out, err);
        fn_config_free(&config);
    }
    return status;
}

static json_t *real_config(void) {
    fn_shape shape = made_real_shape();
    made_layout layout = made_real_layout();
    return made_config(&shape, &layout);
}

static json_t *text_of(json_t *root) {
    json_t *text = json_object_get(root, "text_config");
    return text != NULL ? text : root;
}

static fn_shape read_ok(json_t *root) {
    fn_shape s;
    fn_error err = {0};
    fn_status status = read_json(root, &s, &err);
    if (status != FN_OK) {
        print_error("%s\n", err.text);
    }
    assert_int_equal(status, FN_OK);
    return s;
}

static void check_published(const fn_shape *s) {
    assert_int_equal(s->n_layers, 48);
    assert_int_equal(s->n_delta, 36);
    assert_int_equal(s->n_attention, 12);
    for (size_t i = 0; i < 48; i++) {
        assert_int_equal(s->layer_kind[i], i % 4 == 3 ? FN_LAYER_ATTENTION : FN_LAYER_DELTA);
    }
    assert_int_equal(s->hidden, 2560);
    assert_int_equal(s->vocab, 248320);
    assert_int_equal(s->max_positions, 262144);
    assert_true(s->norm_eps == 1e-6F);
    assert_false(s->tied_head);
    assert_int_equal(s->hc, 4);
    assert_int_equal(s->hc_rank, 320);
    assert_int_equal(s->n_heads, 24);
    assert_int_equal(s->n_kv_heads, 2);
    assert_int_equal(s->head_dim, 256);
    assert_int_equal(s->rotary, 64);
    assert_true(s->rope_theta == 1e7);
    assert_int_equal(s->mrope_section[0], 11);
    assert_int_equal(s->mrope_section[1], 11);
    assert_int_equal(s->mrope_section[2], 10);
    assert_true(s->has_indexer);
    assert_int_equal(s->index_heads, 4);
    assert_int_equal(s->index_dim, 128);
    assert_int_equal(s->index_budget, 2048);
    assert_int_equal(s->index_ratio, 4);
    assert_int_equal(s->delta_k_heads, 16);
    assert_int_equal(s->delta_v_heads, 48);
    assert_int_equal(fn_shape_conv(s), 10240);
    assert_int_equal(s->conv_kernel, 4);
    assert_int_equal(s->delta_gate, FN_GATE_SIGMOID);
    assert_int_equal(s->n_experts, 512);
    assert_int_equal(s->n_chosen, 10);
    assert_int_equal(s->expert_width, 640);
    assert_int_equal(s->shared_width, 640);
    assert_true(s->norm_topk);
    assert_int_equal(s->n_ple, 1);
    assert_int_equal(s->ple_layer[0], 1);
    assert_int_equal(fn_shape_ngram_heads(s), 16);
    assert_int_equal(fn_shape_ngram_row(s), 160);
    assert_int_equal(fn_shape_ple_tail(s), 9);
    assert_int_equal(s->ngram_base, 20000000);
    assert_int_equal(s->ngram_seed, 1234);
    assert_int_equal(s->eos_id, 248044);
    assert_int_equal(s->n_mtp, 1);
    assert_true(s->has_vision);
    assert_int_equal(s->image_id, 248056);
    assert_int_equal(s->video_id, 248057);
}

static void published_values_arrive(void **state) {
    (void)state;
    json_t *root = real_config();
    fn_shape s = read_ok(root);
    check_published(&s);
    assert_int_equal(fn_shape_kind_index(&s, 7), 1);
    assert_int_equal(fn_shape_kind_index(&s, 8), 6);
    assert_int_equal(fn_shape_ple_index(&s, 1), 0);
    assert_int_equal(fn_shape_ple_index(&s, 2), FN_MAX_PLE);
    json_decref(root);
}

static void official_config_file_is_read(void **state) {
    (void)state;
    static const char path[] = FN_SOURCE_DIR "/../shared/official/config.json";
    fn_config config;
    fn_shape s;
    fn_error err = {0};
    if (!fn_file_exists(path)) {
        print_message("no %s: skipped\n", path);
        skip();
    }
    assert_int_equal(fn_config_read(path, &config, &err), FN_OK);
    assert_int_equal(fn_shape_from_config(&config, &s, &err), FN_OK);
    fn_config_free(&config);
    check_published(&s);
}

static void text_config_may_stand_at_the_root(void **state) {
    (void)state;
    json_t *root = real_config();
    json_t *text = json_incref(text_of(root));
    fn_shape s = read_ok(text);
    assert_int_equal(s.hidden, 2560);
    assert_false(s.has_vision);
    assert_int_equal(s.image_id, -1);
    json_decref(text);
    json_decref(root);
}

static void absent_keys_have_their_meaning(void **state) {
    (void)state;
    static const char *const absent[] = {
        "seed",         "norm_topk_prob",   "tie_word_embeddings",   "attention_bias",
        "layer_types",  "output_gate_type", "mtp_num_hidden_layers", "ple_embed_dim",
        "eos_token_id", "model_type",       "split_ngram_parts",     "ple_layer_ids"};
    json_t *root = real_config();
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
        json_object_del(text_of(root), absent[i]);
    }
    json_object_del(json_object_get(text_of(root), "rope_parameters"), "mrope_section");
    json_object_del(root, "vision_config");
    fn_shape s = read_ok(root);
    assert_true(s.norm_topk);
    assert_false(s.tied_head);
    assert_false(s.attention_bias);
    assert_int_equal(s.delta_gate, FN_GATE_SILU);
    assert_int_equal(s.n_attention, 12);
    assert_int_equal(s.layer_kind[3], FN_LAYER_ATTENTION);
    assert_int_equal(s.n_mtp, 0);
    assert_int_equal(s.n_ple, 0);
    assert_int_equal(s.eos_id, -1);
    assert_int_equal(s.mrope_section[1], 11);
    assert_int_equal(s.mrope_section[2], 10);
    assert_false(s.has_vision);
    json_decref(root);
}

static void null_means_absent(void **state) {
    (void)state;
    static const char *const nulls[] = {"output_gate_type", "ple_embed_dim", "layer_types", "seed",
                                        "norm_topk_prob",   "rope_scaling"};
    json_t *root = real_config();
    for (size_t i = 0; i < sizeof nulls / sizeof nulls[0]; i++) {
        json_object_set_new(text_of(root), nulls[i], json_null());
    }
    json_object_set_new(text_of(root), "full_attention_interval", json_integer(3));
    fn_shape s = read_ok(root);
    assert_int_equal(s.delta_gate, FN_GATE_SILU);
    assert_int_equal(s.ple_embed, 2560);
    assert_int_equal(s.ngram_seed, 1234);
    assert_int_equal(s.n_attention, 16);
    assert_int_equal(s.layer_kind[2], FN_LAYER_ATTENTION);
    json_decref(root);
}

static void without_ngram_layers_no_ngram_key_is_needed(void **state) {
    (void)state;
    static const char *const gone[] = {
        "ple_embed_dim",     "ple_conv_kernel_size",  "ngram_size",
        "heads_per_ngram",   "ngram_vocab_size_base", "make_ngram_vocab_size_divisible_by",
        "split_ngram_parts", "eos_token_id"};
    json_t *root = real_config();
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        json_object_del(text_of(root), gone[i]);
    }
    json_object_set_new(text_of(root), "ple_layer_ids", json_array());
    assert_int_equal(read_ok(root).n_ple, 0);
    json_object_set_new(text_of(root), "ple_layer_ids", json_null());
    assert_int_equal(read_ok(root).n_ple, 0);
    json_decref(root);
}

static void without_indexer_keys_attention_is_dense(void **state) {
    (void)state;
    static const char *const keys[] = {"indexer_n_heads", "indexer_kv_heads", "indexer_head_dim",
                                       "indexer_budget", "indexer_compress_ratio"};
    fn_shape s;
    for (size_t kept = 0; kept <= 5; kept++) { /* all gone, or all but one */
        json_t *root = real_config();
        for (size_t i = 0; i < 5; i++) {
            if (i != kept) {
                json_object_del(text_of(root), keys[i]);
            }
        }
        fn_error err = {0};
        fn_status status = read_json(root, &s, &err);
        if (kept == 5) {
            assert_int_equal(status, FN_OK);
            assert_false(s.has_indexer);
        } else {
            check_error(status, &err, FN_E_MODEL, "missing key", "indexer_");
        }
        json_decref(root);
    }
}

static void layer_types_have_four_spellings(void **state) {
    (void)state;
    static const char *const spellings[] = {"full_attention", "indexed_attention",
                                            "qwen_sparse_attention"};
    for (size_t i = 0; i < 3; i++) {
        json_t *root = real_config();
        json_t *types = json_object_get(text_of(root), "layer_types");
        for (size_t k = 3; k < 48; k += 4) {
            json_array_set_new(types, k, json_string(spellings[(i + k / 4) % 3]));
        }
        fn_shape s = read_ok(root);
        assert_int_equal(s.n_attention, 12);
        assert_int_equal(s.layer_kind[47], FN_LAYER_ATTENTION);
        json_decref(root);
    }
}

static void rope_has_two_spellings(void **state) {
    (void)state;
    json_t *root = real_config();
    json_t *text = text_of(root);
    json_object_del(text, "rope_parameters");
    json_object_set_new(text, "rope_theta", json_integer(5000));
    json_object_set_new(text, "partial_rotary_factor", json_real(0.5));
    fn_shape s = read_ok(root);
    assert_true(s.rope_theta == 5000.0);
    assert_int_equal(s.rotary, 128);
    /* with a dictionary beside it */
    json_object_set_new(
        text, "rope_scaling",
        json_pack("{s:s, s:[i,i,i]}", "type", "default", "mrope_section", 24, 20, 20));
    s = read_ok(root);
    assert_int_equal(s.mrope_section[0], 24);
    assert_int_equal(s.mrope_section[2], 20);
    /* both: what the dictionary says goes first */
    json_object_set_new(text, "rope_parameters",
                        json_pack("{s:s, s:f, s:f}", "rope_type", "default", "rope_theta", 1e7,
                                  "partial_rotary_factor", 0.25));
    s = read_ok(root);
    assert_true(s.rope_theta == 1e7);
    assert_int_equal(s.rotary, 64);
    /* without any factor the whole head rotates */
    json_object_del(json_object_get(text, "rope_parameters"), "partial_rotary_factor");
    json_object_del(text, "partial_rotary_factor");
    json_object_set_new(text, "head_dim", json_integer(128));
    s = read_ok(root);
    assert_int_equal(s.rotary, 128);
    json_decref(root);
}

static void sections_beyond_a_small_head_are_cut_off(void **state) {
    (void)state;
    json_t *root = real_config();
    json_object_set_new(text_of(root), "head_dim", json_integer(32));
    fn_shape s = read_ok(root);
    assert_int_equal(s.rotary, 8);
    assert_int_equal(s.mrope_section[0], 11);
    json_decref(root);
}

static void end_token_is_element_0_of_a_list(void **state) {
    (void)state;
    json_t *root = real_config();
    json_object_set_new(text_of(root), "eos_token_id", json_pack("[i,i]", 248044, 248046));
    assert_int_equal(read_ok(root).eos_id, 248044);
    json_decref(root);
}

static void tied_head_comes_from_the_text_config_first(void **state) {
    (void)state;
    json_t *root = real_config();
    json_object_set_new(root, "tie_word_embeddings", json_true());
    assert_false(read_ok(root).tied_head);
    json_object_del(text_of(root), "tie_word_embeddings");
    assert_true(read_ok(root).tied_head);
    json_object_set_new(root, "tie_word_embeddings", json_false());
    json_object_set_new(text_of(root), "tie_word_embeddings", json_true());
    assert_true(read_ok(root).tied_head);
    json_decref(root);
}

static void ngram_layers_are_sorted_and_taken_once(void **state) {
    (void)state;
    json_t *root = real_config();
    json_object_set_new(text_of(root), "ple_layer_ids", json_pack("[i,i,i,i]", 10, 2, 10, 7));
    fn_shape s = read_ok(root);
    assert_int_equal(s.n_ple, 3);
    assert_int_equal(s.ple_layer[0], 1);
    assert_int_equal(s.ple_layer[1], 6);
    assert_int_equal(s.ple_layer[2], 9);
    json_decref(root);
}

static void every_other_missing_key_is_named(void **state) {
    (void)state;
    static const char *const needed[] = {"num_hidden_layers",
                                         "hidden_size",
                                         "vocab_size",
                                         "max_position_embeddings",
                                         "rms_norm_eps",
                                         "hc_count",
                                         "hc_lowrank",
                                         "num_attention_heads",
                                         "num_key_value_heads",
                                         "head_dim",
                                         "hidden_act",
                                         "linear_num_key_heads",
                                         "linear_num_value_heads",
                                         "linear_key_head_dim",
                                         "linear_value_head_dim",
                                         "linear_conv_kernel_dim",
                                         "num_experts",
                                         "num_experts_per_tok",
                                         "moe_intermediate_size",
                                         "shared_expert_intermediate_size",
                                         "ple_conv_kernel_size",
                                         "ngram_size",
                                         "heads_per_ngram",
                                         "ngram_vocab_size_base",
                                         "make_ngram_vocab_size_divisible_by",
                                         "eos_token_id"};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        fn_shape s;
        json_t *root = real_config();
        for (int pass = 0; pass < 2; pass++) { /* gone, then null */
            fn_error err = {0};
            if (pass == 0) {
                json_object_del(text_of(root), needed[i]);
            } else {
                json_object_set_new(text_of(root), needed[i], json_null());
            }
            check_error(read_json(root, &s, &err), &err, FN_E_MODEL, "config.json: text_config.",
                        needed[i], "missing key");
        }
        json_decref(root);
    }
}

static void keys_of_other_places_are_named_too(void **state) {
    (void)state;
    fn_shape s;
    fn_error err = {0};
    json_t *root = real_config();
    json_object_del(root, "image_token_id");
    check_error(read_json(root, &s, &err), &err, FN_E_MODEL, "config.json: image_token_id",
                "missing key");
    json_object_set_new(root, "image_token_id", json_integer(248320));
    err = (fn_error){0};
    check_error(read_json(root, &s, &err), &err, FN_E_MODEL, "image_token_id", "248320");
    json_object_set_new(root, "image_token_id", json_integer(248056));
    json_object_del(json_object_get(text_of(root), "rope_parameters"), "rope_theta");
    err = (fn_error){0};
    check_error(read_json(root, &s, &err), &err, FN_E_MODEL, "rope_theta", "missing key");
    json_decref(root);
}

typedef struct bad_value {
    const char *key, *json; /* replaces text_config[key] */
    const char *found, *expected;
} bad_value;

static void check_bad(const bad_value *bad) {
    fn_shape s;
    fn_error err = {0};
    json_t *root = real_config();
    json_t *value = json_loads(bad->json, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    json_object_set_new(text_of(root), bad->key, value);
    check_error(read_json(root, &s, &err), &err, FN_E_MODEL, "config.json: ", bad->key, bad->found,
                bad->expected);
    json_decref(root);
}

static void impossible_combinations_are_refused(void **state) {
    (void)state;
    static const bad_value bad[] = {
        {"hc_count", "1", "found 1", "from 2"},
        {"indexer_budget", "2047", "found 2047", "indexer_compress_ratio (4)"},
        {"ple_layer_ids", "[4]", "found 4", "linear_attention"},
        {"ple_layer_ids", "[0]", "found 0", "existing layers"},
        {"ple_layer_ids", "[49]", "found 49", "existing layers"},
        {"ple_layer_ids", "2", "found 2", "array"},
        {"indexer_head_dim", "32", "found 32", "rotary width (64)"},
        {"indexer_kv_heads", "2", "found 2", "expected 1"},
        {"ple_embed_dim", "2561", "found 2561", "16 n-gram heads"},
        {"num_experts_per_tok", "513", "found 513", "num_experts (512)"},
        {"num_key_value_heads", "5", "found 24", "num_key_value_heads (5)"},
        {"linear_num_value_heads", "24", "found 24", "linear_num_key_heads (16)"},
        {"layer_types", "[\"linear_attention\"]", "found 1 entries", "(48)"},
        {"layer_types", "\"linear_attention\"", "found \"linear_attention\"", "array"},
        {"hidden_act", "\"gelu\"", "found \"gelu\"", "\"silu\""},
        {"output_gate_type", "\"tanh\"", "found \"tanh\"", "\"sigmoid\" or \"silu\""},
        {"eos_token_id", "248320", "found 248320", "vocab_size (248320)"},
        {"eos_token_id", "-1", "found -1", "vocab_size (248320)"},
        {"eos_token_id", "[]", "missing key", "eos_token_id"},
        {"eos_token_id", "[\"x\"]", "found \"x\"", "token id"},
        {"ngram_size", "1", "found 1", "from 2"},
        {"ngram_size", "9", "found 9", "to 8"},
        {"heads_per_ngram", "200", "found 200", "at most 128"},
        {"mtp_num_hidden_layers", "2", "found 2", "from 0 to 1"},
        {"model_type", "\"qwen3_moe\"", "found \"qwen3_moe\"", "qwen4_exp"},
        {"head_dim", "12", "found 0.25, which rotates 3", "even"},
        {"head_dim", "4", "found 0.25, which rotates 1", "even"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_bad(&bad[i]);
    }
}

static void wrong_types_and_sizes_are_refused(void **state) {
    (void)state;
    static const bad_value bad[] = {
        {"hidden_size", "0", "found 0", "from 1"},
        {"hidden_size", "-2560", "found -2560", "from 1"},
        {"hidden_size", "9223372036854775807", "found 9223372036854775807", "from 1"},
        {"hidden_size", "2560.0", "found 2560.0", "integer"},
        {"hidden_size", "\"2560\"", "found \"2560\"", "integer"},
        {"hidden_size", "[2560]", "found [2560]", "integer"},
        {"hidden_size", "{}", "found an object", "integer"},
        {"hidden_size", "true", "found true", "integer"},
        {"num_hidden_layers", "100000000", "found 100000000", "to 512"},
        {"vocab_size", "4294967296", "found 4294967296", "integer from 1"},
        {"num_experts", "1000000", "found 1000000", "integer from 1"},
        {"ngram_vocab_size_base", "4294967296", "found 4294967296", "from 2"},
        {"make_ngram_vocab_size_divisible_by", "0", "found 0", "from 1"},
        {"max_position_embeddings", "0", "found 0", "from 1"},
        {"rms_norm_eps", "0", "found 0", "positive"},
        {"rms_norm_eps", "-1e-6", "found -", "positive"},
        {"rms_norm_eps", "2.0", "found 2.0", "small"},
        {"rms_norm_eps", "\"1e-6\"", "found \"1e-6\"", "positive"},
        {"seed", "\"1234\"", "found \"1234\"", "integer"},
        {"norm_topk_prob", "1", "found 1", "true or false"},
        {"tie_word_embeddings", "\"no\"", "found \"no\"", "true or false"},
        {"attention_bias", "0", "found 0", "true or false"},
        {"hidden_act", "3", "found 3", "string"},
        {"rope_parameters", "[]", "found []", "object"},
        {"rope_scaling", "\"default\"", "found \"default\"", "object"},
        {"layer_types", "[1]", "found 1 entries", "48"},
        {"hidden_act", "\"si\\nlu\"", "found \"si\\nlu\"", "\"silu\""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_bad(&bad[i]);
    }
}

static void rope_that_is_not_plain_is_refused(void **state) {
    (void)state;
    static const bad_value bad[] = {
        {"rope_type", "\"yarn\"", "found \"yarn\"", "\"default\""},
        {"rope_type", "3", "found 3", "\"default\""},
        {"partial_rotary_factor", "1.5", "found 1.5", "at most 1"},
        {"partial_rotary_factor", "0", "found 0", "positive"},
        {"rope_theta", "-1", "found -1", "positive"},
        {"rope_theta", "\"big\"", "found \"big\"", "positive"},
        {"mrope_section", "[11,11,9]", "found 31 pairs", "32 that rotate"},
        {"mrope_section", "[16,16]", "found [16,16]", "array of 3"},
        {"mrope_section", "[40,-4,-4]", "found [40,-4,-4]", "3 numbers"},
        {"mrope_section", "[11,11,10.0]", "found [11,11,10.0]", "3 numbers"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fn_shape s;
        fn_error err = {0};
        json_t *root = real_config();
        json_object_set_new(json_object_get(text_of(root), "rope_parameters"), bad[i].key,
                            json_loads(bad[i].json, JSON_DECODE_ANY, NULL));
        check_error(read_json(root, &s, &err), &err, FN_E_MODEL, bad[i].key, bad[i].found,
                    bad[i].expected);
        json_decref(root);
    }
}

static void unknown_layer_type_is_named_with_its_layer(void **state) {
    (void)state;
    fn_shape s;
    fn_error err = {0};
    json_t *root = real_config();
    json_array_set_new(json_object_get(text_of(root), "layer_types"), 5, json_string("sliding"));
    check_error(read_json(root, &s, &err), &err, FN_E_MODEL, "layer_types[5]", "found \"sliding\"",
                "qwen_sparse_attention");
    json_decref(root);
}

static void text_that_is_no_config_is_refused(void **state) {
    (void)state;
    static const char *const texts[] = {"",
                                        "[]",
                                        "{",
                                        "{\"text_config\": 3}",
                                        "{\"hidden_size\": 1, \"hidden_size\": 2}",
                                        "\"\\ud800\"",
                                        "{\"text_config\": null}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fn_config config;
        fn_error err = {0};
        fn_status status =
            fn_config_parse(texts[i], strlen(texts[i]), "config.json", &config, &err);
        check_error(status, &err, FN_E_MODEL, "config.json: ");
        assert_null(config.root);
    }
    fn_config config;
    fn_error err = {0};
    check_error(fn_config_read("/nonexistent/config.json", &config, &err), &err, FN_E_IO,
                "/nonexistent/config.json");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_values_arrive),
        cmocka_unit_test(official_config_file_is_read),
        cmocka_unit_test(text_config_may_stand_at_the_root),
        cmocka_unit_test(absent_keys_have_their_meaning),
        cmocka_unit_test(null_means_absent),
        cmocka_unit_test(without_ngram_layers_no_ngram_key_is_needed),
        cmocka_unit_test(without_indexer_keys_attention_is_dense),
        cmocka_unit_test(layer_types_have_four_spellings),
        cmocka_unit_test(rope_has_two_spellings),
        cmocka_unit_test(sections_beyond_a_small_head_are_cut_off),
        cmocka_unit_test(end_token_is_element_0_of_a_list),
        cmocka_unit_test(tied_head_comes_from_the_text_config_first),
        cmocka_unit_test(ngram_layers_are_sorted_and_taken_once),
        cmocka_unit_test(every_other_missing_key_is_named),
        cmocka_unit_test(keys_of_other_places_are_named_too),
        cmocka_unit_test(impossible_combinations_are_refused),
        cmocka_unit_test(wrong_types_and_sizes_are_refused),
        cmocka_unit_test(rope_that_is_not_plain_is_refused),
        cmocka_unit_test(unknown_layer_type_is_named_with_its_layer),
        cmocka_unit_test(text_that_is_no_config_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
