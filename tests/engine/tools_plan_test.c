/* fn_plan and fn_inspect: their JSON, and that it is what the engine does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "flashnext.h"
#include "flashnext_tools.h"
#include "support/alloc_fail.h"
#include "support/check_error.h"

#define CONFIG "tests/data/plan/config.json"
#define MINI "tests/data/mini-bf16/checkpoint"

static json_t *parse(char *text) {
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(value);
    fn_string_free(text);
    return value;
}

static json_t *plan(fn_plan_options options) {
    fn_error err = {0};
    char *text = NULL;
    if (fn_plan(&options, &text, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    return parse(text);
}

/* The integer at "a.b.c". */
static json_int_t at(const json_t *value, const char *path) {
    char key[64];
    for (const char *rest = path; rest != NULL;) {
        const char *dot = strchr(rest, '.');
        size_t n = dot != NULL ? (size_t)(dot - rest) : strlen(rest);
        assert_true(n < sizeof key);
        memcpy(key, rest, n);
        key[n] = '\0';
        value = json_object_get(value, key);
        rest = dot != NULL ? dot + 1 : NULL;
    }
    if (!json_is_integer(value)) {
        fail_msg("no integer at %s", path);
    }
    return json_integer_value(value);
}

static json_int_t sum_of(const json_t *list, const char *key) {
    json_int_t sum = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        sum += at(json_array_get(list, i), key);
    }
    return sum;
}

static void the_published_config_gives_the_published_figures(void **state) {
    (void)state;
    json_t *p = plan((fn_plan_options){.config_path = CONFIG, .mem_limit = (uint64_t)64 << 30});
    assert_int_equal(at(p, "textbook.bytes.experts_16bit"), 241591910400);
    assert_int_equal(at(p, "textbook.bytes.experts_4bit"), 60397977600);
    assert_int_equal(at(p, "textbook.bytes.recurrent"), 108 << 20);
    const json_t *kv = json_object_get(json_object_get(p, "textbook"), "kv_16bit");
    assert_int_equal(json_array_size(kv), 2);
    assert_int_equal(at(json_array_get(kv, 0), "bytes"), 768 << 20);
    assert_int_equal(at(json_array_get(kv, 1), "tokens"), 262144);
    assert_int_equal(at(p, "exact.total.stored"), 359999963128);
    assert_int_equal(at(p, "exact.dense.stored"), 9895397400);
    assert_int_equal(at(p, "limit"), (json_int_t)64 << 30);
    assert_true(json_is_false(json_object_get(p, "fits")));
    assert_int_equal(at(p, "largest_context"), 0);
    assert_int_equal(at(p, "max_context"), 262144);
    json_decref(p);
}

static void parts_add_up(void **state) {
    (void)state;
    json_t *p = plan((fn_plan_options){.config_path = CONFIG,
                                       .expert_bits = 4,
                                       .dense_bits = 8,
                                       .sequences = 3,
                                       .context = 32768});
    const json_t *exact = json_object_get(p, "exact");
    const char *fields[] = {"params", "stored", "weights", "scales", "mapped", "active", "read"};
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(sum_of(json_object_get(exact, "classes"), fields[i]),
                         at(json_object_get(exact, "total"), fields[i]));
    }
    assert_int_equal(sum_of(json_object_get(exact, "state"), "bytes"),
                     at(exact, "state_per_sequence"));
    assert_int_equal(at(exact, "total.weights") + at(exact, "total.scales") +
                         3 * at(exact, "state_per_sequence") + at(exact, "scratch"),
                     at(exact, "resident"));
    assert_int_equal(at(exact, "read_per_token.weights") + at(exact, "read_per_token.scales"),
                     at(exact, "total.read"));
    json_decref(p);
}

/* Keys and values, float32 in exact precision (fast halves them), of 12 attention layers and the MTP head's, 2
 * heads of 256, and 128 pooled of every 4th. */
static void the_state_follows_context_and_kv_bits(void **state) {
    (void)state;
    const json_int_t kv = (json_int_t)32768 * 13 * (2 * 512 * 4 + 128 * 4 / 4);
    json_t *none = plan((fn_plan_options){.config_path = CONFIG, .context = 64, .kv_bits = 32});
    json_t *full =
        plan((fn_plan_options){.config_path = CONFIG, .context = 32768 + 64, .kv_bits = 32});
    json_t *half = plan((fn_plan_options){.config_path = CONFIG, .context = 32768 + 64});
    json_int_t more = at(full, "exact.state_per_sequence") - at(none, "exact.state_per_sequence");
    assert_true(more >= kv && more <= kv + 32768 * 4 + 64 * 13 * 512);
    json_int_t saved = at(full, "exact.state_per_sequence") - at(half, "exact.state_per_sequence");
    assert_true(saved >= kv / 2 && saved <= kv / 2 + 64 * 13 * 4224);
    json_decref(none);
    json_decref(full);
    json_decref(half);
}

/* Four rows of 10 out of 512 experts: 512 (1 - (502 / 512)^4) = 38.9. */
static void drafts_read_the_experts_of_all_rows(void **state) {
    (void)state;
    json_t *p = plan((fn_plan_options){
        .config_path = CONFIG, .context = 32768, .expert_bits = 4, .dense_bits = 8});
    const json_t *drafts = json_object_get(p, "drafts");
    double experts = json_real_value(json_object_get(drafts, "distinct_experts"));
    double speed = json_real_value(json_object_get(drafts, "speed"));
    double tokens = json_real_value(json_object_get(drafts, "tokens_per_pass"));
    assert_true(experts > 38.8 && experts < 38.9);
    assert_true(tokens > 3.109 && tokens < 3.111);
    /* Between reading all four rows for nothing and paying for each in full. */
    assert_true(speed > 3.11 / 4 && speed < 3.11);
    json_decref(p);
    p = plan((fn_plan_options){.config_path = CONFIG, .context = 32768, .no_mtp = true});
    assert_null(json_object_get(p, "drafts"));
    json_decref(p);
}

/* The largest context fits, and one token more does not. */
static void the_largest_context_is_the_largest(void **state) {
    (void)state;
    fn_plan_options o = {
        .config_path = CONFIG, .expert_bits = 4, .dense_bits = 8, .mem_limit = (uint64_t)70 << 30};
    json_t *p = plan(o);
    json_int_t largest = at(p, "largest_context");
    assert_true(largest > 4096 && largest < 262144);
    json_decref(p);
    o.context = (size_t)largest;
    p = plan(o);
    assert_true(json_is_true(json_object_get(p, "fits")));
    json_decref(p);
    o.context = (size_t)largest + 1;
    p = plan(o);
    assert_true(json_is_false(json_object_get(p, "fits")));
    json_decref(p);
}

static void the_engine_uses_what_the_plan_says(void **state) {
    (void)state;
    fn_error err = {0};
    fn_engine_options options = fn_engine_options_default();
    fn_engine *engine = NULL;
    fn_engine_info info;
    options.model_dir = MINI;
    if (fn_engine_open(&options, &engine, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    fn_engine_get_info(engine, &info);
    json_t *p = plan((fn_plan_options){.model_dir = MINI, .context = info.context});
    assert_string_equal(json_string_value(json_object_get(json_object_get(p, "source"), "kind")),
                        "headers");
    assert_int_equal(at(p, "exact.total.weights") + at(p, "exact.total.scales"), info.weight_bytes);
    assert_int_equal(at(p, "exact.state_per_sequence"), info.state_bytes);
    json_decref(p);
    fn_engine_close(engine);
}

static void wrong_options_are_refused(void **state) {
    (void)state;
    const struct {
        fn_plan_options options;
        fn_status status;
        const char *words;
    } wrong[] = {
        {{.config_path = NULL}, FN_E_USAGE, "model directory"},
        {{.config_path = CONFIG, .model_dir = MINI}, FN_E_USAGE, "model directory"},
        {{.config_path = CONFIG, .expert_bits = 3}, FN_E_USAGE, "expert_bits: 3"},
        {{.config_path = CONFIG, .dense_bits = -8}, FN_E_USAGE, "dense_bits: -8"},
        {{.config_path = CONFIG, .ngram_bits = 1}, FN_E_USAGE, "ngram_bits: 1"},
        {{.config_path = CONFIG, .kv_bits = 4}, FN_E_USAGE, "kv bits: 4"},
        {{.config_path = CONFIG, .context = 262145}, FN_E_RANGE, "262145"},
        {{.config_path = CONFIG, .chunk = 262145}, FN_E_USAGE, "262145"},
        {{.config_path = "no/such.json"}, FN_E_IO, "no/such.json"},
        {{.model_dir = "no/such"}, FN_E_IO, "no/such"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        fn_error err = {0};
        char *text = NULL;
        fn_status status = fn_plan(&wrong[i].options, &text, &err);
        check_error(status, &err, wrong[i].status, wrong[i].words);
        assert_null(text);
    }
}

static void inspection_lists_files_tensors_and_shape(void **state) {
    (void)state;
    fn_error err = {0};
    char *text = NULL;
    if (fn_inspect(MINI, &text, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    json_t *in = parse(text);
    const json_t *tensors = json_object_get(in, "tensors");
    assert_int_equal(json_array_size(json_object_get(in, "files")), 2);
    assert_true(json_array_size(tensors) > 50);
    assert_int_equal(sum_of(tensors, "bytes"), at(in, "bytes"));
    assert_int_equal(at(in, "formats.BF16.tensors") + at(in, "formats.I64.tensors"),
                     json_array_size(tensors));
    assert_int_equal(json_array_size(json_object_get(json_object_get(in, "shape"), "layers")),
                     at(in, "shape.n_layers"));
    assert_int_equal((at(in, "params.total") - at(in, "formats.I64.bytes") / 8) * 2 +
                         at(in, "formats.I64.bytes"),
                     at(in, "bytes"));
    json_decref(in);
    assert_int_equal(fn_inspect("no/such", &text, &err), FN_E_IO);
    assert_null(text);
}

/* The machine's memory changes from call to call. */
static json_t *parse_without_machine(char *text) {
    json_t *value = parse(text);
    (void)json_object_del(value, "machine");
    (void)json_object_del(value, "limit");
    return value;
}

static fn_status run_tool(int tool, char **text, fn_error *err) {
    fn_plan_options options = {.model_dir = MINI, .context = 4096, .mem_limit = 1 << 30};
    return tool == 0 ? fn_plan(&options, text, err) : fn_inspect(MINI, text, err);
}

static void lost_memory_is_survived(void **state) {
    (void)state;
    fn_alloc_watch_jansson();
    for (int tool = 0; tool < 2; tool++) {
        char *text = NULL;
        assert_int_equal(run_tool(tool, &text, NULL), FN_OK);
        json_t *whole = parse_without_machine(text);
        bool lost = true;
        for (long n = 0; lost; n++) {
            fn_error err = {0};
            fn_alloc_fail_at(n);
            fn_status status = run_tool(tool, &text, &err);
            lost = fn_alloc_calls() > n;
            fn_alloc_fail_at(-1);
            if (status == FN_OK) { /* a loss that a library made good, or none */
                json_t *value = parse_without_machine(text);
                if (!json_equal(value, whole)) {
                    fail_msg("allocation %ld lost, and a part of the JSON with it", n);
                }
                json_decref(value);
            } else {
                assert_null(text);
                assert_true(err.text[0] != '\0');
            }
        }
        json_decref(whole);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_config_gives_the_published_figures),
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(the_state_follows_context_and_kv_bits),
        cmocka_unit_test(drafts_read_the_experts_of_all_rows),
        cmocka_unit_test(the_largest_context_is_the_largest),
        cmocka_unit_test(the_engine_uses_what_the_plan_says),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(inspection_lists_files_tensors_and_shape),
        cmocka_unit_test(lost_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
