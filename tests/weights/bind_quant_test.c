/* Quantised modules: what belongs together is bound, whatever the mixture; a scale without its
 * weight, a weight without its scale and every wrong shape or type is named. */
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
#include "weights/bind.h"

#define EXPERT "model.layers.1.mlp.experts.2.up_proj"
#define TABLE "model.layers.2.ple.ple_embedding.ngram_embedding"

enum { WIDTH = 144, HIDDEN = 160 }; /* of an expert: two blocks of FP8 each way, the last partial */

static made_model small(void) {
    made_model m;
    fn_shape shape = made_tiny_shape();
    shape.hidden = HIDDEN;
    shape.expert_width = WIDTH;
    made_model_init(&m, &shape, made_plain_layout());
    return m;
}

static void add(made_model *m, const char *name, const char *dtype, uint64_t rows, uint64_t cols) {
    uint64_t dims[2] = {rows, cols};
    (void)made_add(m, name, dtype, cols > 0 ? 2 : rows > 0 ? 1 : 0, dims);
}

static void make_fp8(made_model *m) {
    made_find(m, EXPERT ".weight")->dtype = "F8_E4M3";
    add(m, EXPERT ".weight_scale_inv", "BF16", 2, 2);
}

static void make_nvfp4(made_model *m) {
    made_tensor *t = made_find(m, EXPERT ".weight");
    t->dtype = "U8";
    t->dims[1] = HIDDEN / 2;
    add(m, EXPERT ".weight_scale", "F8_E4M3", WIDTH, HIDDEN / 16);
    add(m, EXPERT ".weight_scale_2", "F32", 0, 0);
    add(m, EXPERT ".input_scale", "F32", 0, 0);
}

static void make_gptq(made_model *m) {
    made_remove(m, EXPERT ".weight");
    add(m, EXPERT ".qweight", "I32", HIDDEN / 8, WIDTH);
    add(m, EXPERT ".scales", "F16", 2, WIDTH);
    add(m, EXPERT ".qzeros", "I32", 2, WIDTH / 8);
}

static void make_fp8_table(made_model *m) {
    made_find(m, "shard_0.weight")->dtype = "F8_E4M3";
    made_find(m, "shard_1.weight")->dtype = "F8_E4M3";
    made_find(m, "shard_2.weight")->dtype = "F8_E4M3";
    add(m, TABLE ".weight_scale", "BF16", 1, 0);
}

/* Codes and the row's scale in one row. */
static void make_int8_table(made_model *m) {
    static const char *const pieces[] = {"shard_0.weight", "shard_1.weight", "shard_2.weight"};
    for (size_t i = 0; i < 3; i++) {
        made_tensor *t = made_find(m, pieces[i]);
        t->dtype = "I8";
        t->dims[1] += 4;
    }
}

/* Writes, opens and binds; the model is freed. */
static fn_status bind(made_model *m, fn_checkpoint **c, fn_bound **bound, fn_error *err) {
    char path[400];
    fn_config config = {.root = NULL};
    fn_shape shape;
    *bound = NULL;
    made_write(m);
    made_path(m, "config.json", path, sizeof path);
    fn_status status = fn_checkpoint_open(m->dir, c, err);
    status = status == FN_OK ? fn_config_read(path, &config, err) : status;
    status = status == FN_OK ? fn_shape_from_config(&config, &shape, err) : status;
    status = status == FN_OK ? fn_bind(*c, &shape, bound, err) : status;
    fn_config_free(&config);
    made_model_free(m);
    return status;
}

#define refused(m, ...)                                                                            \
    do {                                                                                           \
        fn_checkpoint *c = NULL;                                                                   \
        fn_bound *bound = NULL;                                                                    \
        fn_error err = {0};                                                                        \
        fn_status status = bind(m, &c, &bound, &err);                                              \
        check_error(status, &err, FN_E_MODEL, __VA_ARGS__);                                        \
        fn_bound_free(bound);                                                                      \
        fn_checkpoint_close(c);                                                                    \
    } while (0)

/* The one quantised expert; all others stay BF16. */
static void check_bound(made_model *m, fn_source_format format, fn_matrix_kind kind) {
    fn_checkpoint *c = NULL;
    fn_bound *bound = NULL;
    fn_error err = {0};
    if (bind(m, &c, &bound, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    const fn_source *s = &bound->layers[1].expert_up[2];
    assert_int_equal(s->format, format);
    assert_int_equal(s->rows, WIDTH);
    assert_int_equal(s->cols, HIDDEN);
    assert_int_equal(fn_source_kind(s), kind);
    assert_int_equal(bound->layers[1].expert_gate[2].format, FN_SOURCE_PLAIN);
    assert_true((bound->layers[2].ple->table_scale != NULL) ==
                (bound->layers[2].ple->pieces[0]->dtype == FN_DTYPE_F8_E4M3));
    fn_bound_free(bound);
    fn_checkpoint_close(c);
}

static void each_module_has_its_own_format(void **state) {
    (void)state;
    made_model m = small();
    make_fp8(&m);
    make_fp8_table(&m);
    check_bound(&m, FN_SOURCE_FP8, FN_MATRIX_FP8);
    m = small();
    make_fp8(&m);
    made_find(&m, ".weight_scale_inv")->dtype = "F32";
    check_bound(&m, FN_SOURCE_FP8, FN_MATRIX_FP8);
    m = small();
    make_nvfp4(&m);
    check_bound(&m, FN_SOURCE_NVFP4, FN_MATRIX_NVFP4);
    m = small();
    make_nvfp4(&m);
    made_remove(&m, ".input_scale");
    check_bound(&m, FN_SOURCE_NVFP4, FN_MATRIX_NVFP4);
    m = small();
    make_gptq(&m);
    make_int8_table(&m);
    check_bound(&m, FN_SOURCE_GPTQ, FN_MATRIX_INT4);
}

static void a_weight_without_its_scale_is_named(void **state) {
    (void)state;
    static void (*const makers[])(made_model *) = {make_fp8,  make_nvfp4, make_nvfp4,
                                                   make_gptq, make_gptq,  make_fp8_table};
    static const char *const gone[] = {EXPERT ".weight_scale_inv", EXPERT ".weight_scale",
                                       EXPERT ".weight_scale_2",   EXPERT ".scales",
                                       EXPERT ".qzeros",           TABLE ".weight_scale"};
    for (size_t i = 0; i < 6; i++) {
        made_model m = small();
        makers[i](&m);
        made_remove(&m, gone[i]);
        refused(&m, "1 tensor missing", gone[i]);
    }
}

static void a_scale_without_its_weight_is_named(void **state) {
    (void)state;
    static const char *const scales[] = {
        "weight_scale_inv", "weight_scale", "weight_scale_2", "scales",
        "qzeros",           "qweight",      "g_idx",          "input_scale"};
    for (size_t i = 0; i < 8; i++) { /* beside a BF16 weight */
        char name[120];
        made_model m = small();
        (void)snprintf(name, sizeof name, EXPERT ".%s", scales[i]);
        add(&m, name, "F32", 1, 0);
        refused(&m, name, "unexpected (F32), the weight is stored as BF16");
    }
    made_model m = small(); /* beside none */
    make_fp8(&m);
    made_remove(&m, EXPERT ".weight");
    refused(&m, "1 tensor missing", EXPERT ".weight [144, 160]",
            "the first is " EXPERT ".weight_scale_inv");
    m = small(); /* beside a weight of another format */
    make_fp8(&m);
    add(&m, EXPERT ".weight_scale", "F32", 1, 0);
    refused(&m, EXPERT ".weight_scale: unexpected", "FP8 in blocks");
    m = small();
    make_nvfp4(&m);
    add(&m, EXPERT ".weight_scale_inv", "F32", 1, 0);
    refused(&m, EXPERT ".weight_scale_inv: unexpected", "NVFP4");
    m = small();
    add(&m, TABLE ".weight_scale", "BF16", 1, 0);
    refused(&m, TABLE ".weight_scale: unexpected");
    m = small();
    make_int8_table(&m);
    add(&m, TABLE ".weight_scale", "BF16", 1, 0);
    refused(&m, TABLE ".weight_scale: unexpected");
}

static void wrong_shapes_and_types_are_named(void **state) {
    (void)state;
    static const struct {
        void (*make)(made_model *);
        const char *name, *dtype; /* dtype NULL: as it is */
        uint64_t rows, cols;
        const char *found, *expected;
    } cases[] = {
        {make_fp8, ".weight_scale_inv", NULL, 1, 2, "BF16 [1, 2]", "BF16 or F32 [2, 2]"},
        {make_fp8, ".weight_scale_inv", NULL, 2, 1, "BF16 [2, 1]", "BF16 or F32 [2, 2]"},
        {make_fp8, ".weight_scale_inv", "F16", 2, 2, "F16 [2, 2]", "BF16 or F32 [2, 2]"},
        {make_fp8, EXPERT ".weight", NULL, 143, 160, "F8_E4M3 [143, 160]", "F8_E4M3 [144, 160]"},
        {make_nvfp4, EXPERT ".weight", NULL, 144, 160, "U8 [144, 160]", "[144, 80]"},
        {make_nvfp4, EXPERT ".weight_scale", NULL, 144, 5, "[144, 5]", "F8_E4M3 [144, 10]"},
        {make_nvfp4, EXPERT ".weight_scale", "BF16", 144, 10, "BF16", "F8_E4M3 [144, 10]"},
        {make_nvfp4, ".weight_scale_2", "BF16", 1, 0, "BF16 [1]", "F32, one number"},
        {make_nvfp4, ".weight_scale_2", NULL, 144, 0, "F32 [144]", "[1]"},
        {make_gptq, ".qweight", NULL, 144, 20, "I32 [144, 20]", "I32 [20, 144]"},
        {make_gptq, ".scales", NULL, 5, 144, "F16 [5, 144]", "F16 [2, 144]"},
        {make_gptq, ".scales", "F32", 2, 144, "F32 [2, 144]", "F16 [2, 144]"},
        {make_gptq, ".qzeros", NULL, 2, 144, "I32 [2, 144]", "I32 [2, 18]"},
        {make_fp8_table, TABLE ".weight_scale", NULL, 3, 0, "BF16 [3]", "BF16 or F32 [1]"},
        {make_fp8_table, TABLE ".weight_scale", "F16", 1, 0, "F16 [1]", "BF16 or F32 [1]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        made_model m = small();
        cases[i].make(&m);
        made_tensor *t = made_find(&m, cases[i].name);
        t->dtype = cases[i].dtype != NULL ? cases[i].dtype : t->dtype;
        t->n_dims = cases[i].cols > 0 ? 2 : 1;
        t->dims[0] = cases[i].rows;
        t->dims[1] = cases[i].cols;
        refused(&m, cases[i].name, cases[i].found, cases[i].expected);
    }
}

static void rows_of_a_table_have_one_type_and_width(void **state) {
    (void)state;
    char wanted[60];
    made_model m = small();
    uint64_t width = made_find(&m, "shard_0.weight")->dims[1];
    (void)snprintf(wanted, sizeof wanted, "expected I8 [rows, %llu]",
                   (unsigned long long)width + 4);
    make_int8_table(&m);
    made_find(&m, "shard_1.weight")->dims[1] = width;
    refused(&m, "shard_1.weight: found I8", wanted);
    m = small();
    make_int8_table(&m);
    made_find(&m, "shard_2.weight")->dtype = "F8_E4M3";
    refused(&m, "shard_2.weight: found F8_E4M3", wanted);
    m = small();
    made_find(&m, "shard_0.weight")->dtype = "U8";
    refused(&m, "shard_0.weight: found U8", "BF16, F16, F32, F8_E4M3 or I8");
}

static void what_gptq_cannot_mean_is_refused(void **state) {
    (void)state;
    made_model m = small();
    make_gptq(&m);
    add(&m, EXPERT ".g_idx", "I32", HIDDEN, 0);
    refused(&m, EXPERT ".g_idx", "not supported");
    fn_shape shape = made_tiny_shape(); /* 12 inputs are no whole words */
    made_model_init(&m, &shape, made_plain_layout());
    made_remove(&m, EXPERT ".weight");
    add(&m, EXPERT ".qweight", "I32", 1, 7);
    refused(&m, EXPERT ".qweight", "multiple of 8 inputs");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_module_has_its_own_format),
        cmocka_unit_test(a_weight_without_its_scale_is_named),
        cmocka_unit_test(a_scale_without_its_weight_is_named),
        cmocka_unit_test(wrong_shapes_and_types_are_named),
        cmocka_unit_test(rows_of_a_table_have_one_type_and_width),
        cmocka_unit_test(what_gptq_cannot_mean_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
