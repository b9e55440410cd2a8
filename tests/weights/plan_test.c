/* The memory plan: the published estimate, the exact sums of the published files, what the loader
 * really takes, and the refusal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/check_error.h"
#include "support/make_checkpoint.h"
#include "weights/plan.h"
#include "weights/textbook.h"
#include "weights/weights.h"

#define GIB 1073741824.0

typedef struct published {
    fn_config config;
    fn_shape shape;
} published;

static void read_config(published *p) {
    fn_error err = {0};
    if (fn_config_read("tests/data/plan/config.json", &p->config, &err) != FN_OK ||
        fn_shape_from_config(&p->config, &p->shape, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
}

static fn_memory_plan plan_of(const fn_plan_source *source, fn_plan_settings settings) {
    fn_error err = {0};
    fn_memory_plan plan;
    if (fn_memory_plan_make(source, &settings, &plan, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    return plan;
}

/* Equal to `expected` as printed with that many decimals. */
static void same_figure(double value, const char *expected) {
    char text[32];
    const char *dot = strchr(expected, '.');
    int decimals = dot != NULL ? (int)strlen(dot + 1) : 0;
    (void)snprintf(text, sizeof text, "%.*f", decimals, value);
    assert_string_equal(text, expected);
}

/* ---- the textbook ---- */

static void the_published_estimate_comes_out(void **state) {
    (void)state;
    published p;
    read_config(&p);
    fn_textbook b = fn_textbook_of(&p.shape);
    same_figure((double)b.routed * 2 / GIB, "225.0");
    same_figure((double)b.routed / GIB, "112.5");
    same_figure((double)b.routed / 2 / GIB, "56.25");
    same_figure((double)b.dense * 2 / GIB, "9.11");
    same_figure((double)b.ngram * 2 / GIB, "95.37");
    same_figure((double)fn_textbook_kv_bytes(&p.shape, 32768) / GIB, "0.75");
    same_figure((double)fn_textbook_kv_bytes(&p.shape, 262144) / GIB, "6.0");
    same_figure((double)b.recurrent_bytes / 1048576.0, "108");
    same_figure((double)b.active * 1e-9, "5.98");
    same_figure((double)b.active_experts * 1e-9, "2.36");
    same_figure((double)b.active_dense_with_head * 1e-9, "4.25");
    same_figure((double)fn_textbook_read_bytes(&b, 16, 4) * 1e-9, "9.7");
    same_figure((double)fn_textbook_read_bytes(&b, 8, 4) * 1e-9, "5.4");
    fn_config_free(&p.config);
}

/* ---- exact, from the config alone ---- */

/* Bytes of tensor data by class as range-read from the published files' headers. */
static void exact_sums_are_those_of_the_published_files(void **state) {
    (void)state;
    published p;
    read_config(&p);
    fn_plan_source source = {.shape = &p.shape, .config = &p.config};
    fn_memory_plan plan = plan_of(&source, (fn_plan_settings){0});
    const fn_plan_line *l = plan.lines;
    assert_int_equal(l[FN_PLAN_EMBEDDING].stored, 1271398400);
    assert_int_equal(l[FN_PLAN_HEAD].stored, 1271398400);
    assert_int_equal(l[FN_PLAN_DELTA].stored, 4173020928);
    assert_int_equal(l[FN_PLAN_ATTENTION].stored + l[FN_PLAN_INDEXER].stored, 1234716672);
    assert_int_equal(l[FN_PLAN_MIXERS].stored, 1281249280);
    assert_int_equal(l[FN_PLAN_ROUTER].stored, 125829120);
    assert_int_equal(l[FN_PLAN_SHARED].stored, 472104960);
    assert_int_equal(l[FN_PLAN_ROUTED].stored, 241591910400);
    assert_int_equal(l[FN_PLAN_PLE].stored + l[FN_PLAN_NGRAM].stored, 102466171160);
    assert_int_equal(l[FN_PLAN_MTP].stored + l[FN_PLAN_VISION].stored, 6112163808);
    assert_int_equal(plan.total.stored, 359999963128);
    same_figure((double)plan.dense.stored / GIB, "9.22");
    same_figure((double)(plan.total.active - l[FN_PLAN_HEAD].active) * 1e-9, "6.04");
    same_figure((double)plan.dense.active * 1e-9, "4.31");
    fn_config_free(&p.config);
}

/* One expert of 1280 x 2560 and 2560 x 640 at 4 bits: half a byte a weight, 2 bytes for 128. */
static void quantised_sizes_follow_the_packed_layout(void **state) {
    (void)state;
    published p;
    read_config(&p);
    fn_plan_source source = {.shape = &p.shape, .config = &p.config};
    fn_memory_plan plan =
        plan_of(&source, (fn_plan_settings){.weights = {.expert_bits = 4, .dense_bits = 8}});
    const fn_plan_line *routed = &plan.lines[FN_PLAN_ROUTED];
    uint64_t weights = 120795955200u;
    uint64_t tables = 48 * 2 * 512 * sizeof(fn_matrix);
    assert_int_equal(routed->weights, weights / 2 + tables);
    assert_int_equal(routed->scales, weights / 128 * 2);
    assert_int_equal(routed->read, (weights / 2 + weights / 64) / 512 * 10);
    assert_int_equal(plan.lines[FN_PLAN_HEAD].weights, 635699200);
    assert_int_equal(plan.lines[FN_PLAN_HEAD].scales, 635699200 / 64);
    /* Never quantised: */
    assert_int_equal(plan.lines[FN_PLAN_ROUTER].weights, 125829120);
    assert_int_equal(plan.lines[FN_PLAN_ROUTER].scales, 0);
    assert_int_equal(plan.lines[FN_PLAN_EMBEDDING].weights, 1271398400);
    fn_config_free(&p.config);
}

static void the_table_stays_on_disk(void **state) {
    (void)state;
    published p;
    read_config(&p);
    fn_plan_source source = {.shape = &p.shape};
    fn_memory_plan plan = plan_of(&source, (fn_plan_settings){0});
    const fn_plan_line *table = &plan.lines[FN_PLAN_NGRAM];
    assert_int_equal(table->mapped, 320001536ull * 160 * 2);
    assert_int_equal(table->weights, 0);
    assert_int_equal(table->read, 16 * 320);
    plan = plan_of(&source, (fn_plan_settings){.ngram_bits = 4});
    assert_int_equal(plan.lines[FN_PLAN_NGRAM].mapped, 320001536ull * (80 + 2 * 2));
    fn_config_free(&p.config);
}

static void states_and_scratch_are_added(void **state) {
    (void)state;
    published p;
    read_config(&p);
    fn_plan_source source = {.shape = &p.shape};
    fn_memory_plan without = plan_of(&source, (fn_plan_settings){0});
    fn_memory_plan with = plan_of(
        &source, (fn_plan_settings){.sequences = 3, .state_bytes = 1000, .scratch_bytes = 7});
    assert_int_equal(without.resident, without.total.weights);
    assert_int_equal(with.resident - without.resident, 3007);
    fn_config_free(&p.config);
}

/* ---- exact, from headers: what the loader takes ---- */

static void expect_loader_size(const char *dir, const char *what, bool quantised) {
    char path[400];
    fn_error err = {0};
    fn_config config = {0};
    fn_shape shape;
    fn_checkpoint *c = NULL;
    fn_bound *bound = NULL;
    size_t bytes = 0;
    (void)snprintf(path, sizeof path, "%s/config.json", dir);
    if (fn_config_read(path, &config, &err) != FN_OK ||
        fn_shape_from_config(&config, &shape, &err) != FN_OK ||
        fn_checkpoint_open(dir, &c, &err) != FN_OK || fn_bind(c, &shape, &bound, &err) != FN_OK) {
        fail_msg("%s: %s", what, err.text);
    }
    static const fn_weight_settings ways[] = {{8, 8, 0}, {4, 8, 64},   {4, 4, 32},
                                              {0, 8, 0}, {4, 16, 128}, {0, 0, 0}};
    fn_plan_source source = {.shape = &shape, .bound = bound, .checkpoint = c};
    fn_memory_plan plan = {0};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) { /* as stored comes last */
        plan = plan_of(&source, (fn_plan_settings){.weights = ways[i]});
        assert_int_equal(fn_weights_size(bound, &shape, &ways[i], &bytes, NULL), FN_OK);
        if (plan.total.weights + plan.total.scales != bytes) {
            fail_msg("%s, way %zu: plan %llu + %llu, loader %zu bytes", what, i,
                     (unsigned long long)plan.total.weights, (unsigned long long)plan.total.scales,
                     bytes);
        }
    }
    uint64_t stored = 0;
    uint64_t params = 0;
    for (size_t i = 0; i < fn_checkpoint_count(c); i++) {
        stored += fn_checkpoint_at(c, i)->bytes;
        params += fn_tensor_elements(fn_checkpoint_at(c, i));
    }
    if (quantised) { /* scales are bytes of their weights, and no parameters; input scales are left */
        assert_true(plan.total.stored <= stored && plan.total.stored + 4096 > stored);
        assert_true(plan.total.scales > 0);
    } else {
        assert_int_equal(plan.total.stored, stored);
        assert_int_equal(plan.total.params, params);
    }
    fn_bound_free(bound);
    fn_checkpoint_close(c);
    fn_config_free(&config);
}

static void the_plan_is_what_the_loader_takes(void **state) {
    (void)state;
    const char *dirs[] = {"tests/data/mini-bf16/checkpoint",  "tests/data/mini-f32/checkpoint",
                          "tests/data/mini-tied/checkpoint",  "tests/data/mini-dense/checkpoint",
                          "tests/data/twin/checkpoint",       "tests/data/mini-fp8/checkpoint",
                          "tests/data/mini-nvfp4/checkpoint", "tests/data/mini-gptq/checkpoint"};
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        expect_loader_size(dirs[i], dirs[i], i >= 5);
    }
}

/* Every layout, and halves of one matrix in two types. */
static void the_plan_follows_the_stored_types(void **state) {
    (void)state;
    fn_shape shape = made_tiny_shape();
    const char *types[] = {"BF16", "F16", "F32"};
    for (size_t i = 0; i < 12; i++) {
        made_model m;
        made_layout layout = made_plain_layout();
        layout.dtype = types[i % 3];
        layout.stacked = i / 3 % 2 == 0;
        layout.n_pieces = i / 6 * 3;
        layout.mtp = i % 2 == 0;
        made_model_init(&m, &shape, layout);
        made_find(&m, "shared_expert.up_proj.weight")->dtype = "F32";
        made_find(&m, "embed_tokens.weight")->dtype = "F16";
        made_write(&m);
        expect_loader_size(m.dir, layout.dtype, false);
        made_model_free(&m);
    }
}

/* ---- refusal ---- */

static void what_does_not_fit_is_refused_with_numbers(void **state) {
    (void)state;
    published p;
    read_config(&p);
    fn_error err = {0};
    fn_plan_settings settings = {.state_bytes = 6u << 20, .sequences = 2, .scratch_bytes = 1 << 20};
    fn_status status = fn_plan_check(&p.shape, NULL, &settings, (uint64_t)64 << 30, &err);
    assert_int_equal(status, FN_E_FIT);
    const char *words[] = {"needs 244896.6 MiB",
                           "the limit is 65536.0 MiB",
                           "routed experts         230402.2 MiB",
                           "LM head",
                           "states                     12.0 MiB",
                           "scratch"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        assert_non_null(strstr(err.text, words[i]));
    }
    err = (fn_error){0};
    assert_int_equal(fn_plan_check(&p.shape, NULL, &settings, (uint64_t)300 << 30, &err), FN_OK);
    settings = (fn_plan_settings){.weights = {.expert_bits = 4, .dense_bits = 8}};
    assert_int_equal(fn_plan_check(&p.shape, NULL, &settings, (uint64_t)72 << 30, &err), FN_OK);
    settings.weights.expert_bits = 5;
    status = fn_plan_check(&p.shape, NULL, &settings, 0, &err);
    check_error(status, &err, FN_E_USAGE, "expert_bits", "5", "4, 8, 16, 32");
    fn_config_free(&p.config);
}

/* A config with the largest values that are accepted one by one. */
static void an_absurd_config_does_not_wrap_around(void **state) {
    (void)state;
    published p;
    read_config(&p);
    p.shape.hidden = 1 << 20;
    p.shape.expert_width = 1 << 20;
    p.shape.n_experts = 1 << 16;
    fn_textbook b = fn_textbook_of(&p.shape);
    assert_true(b.routed > (uint64_t)1 << 62);
    fn_plan_source source = {.shape = &p.shape};
    fn_memory_plan plan = plan_of(&source, (fn_plan_settings){0});
    assert_true(plan.resident > (uint64_t)1 << 62);
    fn_config_free(&p.config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_estimate_comes_out),
        cmocka_unit_test(exact_sums_are_those_of_the_published_files),
        cmocka_unit_test(quantised_sizes_follow_the_packed_layout),
        cmocka_unit_test(the_table_stays_on_disk),
        cmocka_unit_test(states_and_scratch_are_added),
        cmocka_unit_test(the_plan_is_what_the_loader_takes),
        cmocka_unit_test(the_plan_follows_the_stored_types),
        cmocka_unit_test(what_does_not_fit_is_refused_with_numbers),
        cmocka_unit_test(an_absurd_config_does_not_wrap_around),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
