/* Sources and the loader: values worked out by hand for every format, rows read in any pieces, packed
 * rows equal to source rows, memory that was poisoned before. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/mem.h"
#include "support/alloc_fail.h"
#include "support/check_error.h"
#include "support/temp_dir.h"
#include "weights/quantize_row.h"
#include "weights/weights.h"

/* ---- files by hand --------------------------------------------------------------------------- */

typedef struct hand_tensor {
    const char *name, *dtype, *shape;
    const void *data;
    size_t bytes;
} hand_tensor;

static fn_checkpoint *open_tensors(const char *dir, const hand_tensor *t, size_t n) {
    char path[300];
    char header[1024] = "{";
    size_t at = 0;
    fn_error err = {0};
    fn_checkpoint *c = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(header);
        (void)snprintf(header + used, sizeof header - used,
                       "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                       i > 0 ? "," : "", t[i].name, t[i].dtype, t[i].shape, at, at + t[i].bytes);
        at += t[i].bytes;
    }
    (void)strcat(header, "}");
    (void)snprintf(path, sizeof path, "%s/model.safetensors", dir);
    FILE *f = fopen(path, "wb");
    uint64_t length = strlen(header);
    assert_true(f != NULL && fwrite(&length, 8, 1, f) == 1 && fwrite(header, length, 1, f) == 1);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(fwrite(t[i].data, t[i].bytes, 1, f), 1);
    }
    assert_int_equal(fclose(f), 0);
    if (fn_checkpoint_open(dir, &c, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    return c;
}

static float *rows_of(const fn_checkpoint *c, const fn_source *s, size_t first, size_t n) {
    fn_error err = {0};
    void *scratch = fn_alloc_aligned(fn_source_scratch(s, n), 1);
    float *rows = malloc(n * s->cols * sizeof *rows);
    assert_true(scratch != NULL && rows != NULL);
    if (fn_source_read_f32(c, s, first, n, scratch, rows, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    fn_free(scratch);
    return rows;
}

/* ---- values by hand -------------------------------------------------------------------------- */

/* 130 x 129: the scale of an element is that of its block, partial ones too. */
static void fp8_values_are_code_times_the_scale_of_the_block(void **state) {
    (void)state;
    enum { ROWS = 130, COLS = 129 };
    static uint8_t codes[ROWS * COLS];
    static const float scales[4] = {1.0F, 0.5F, 4.0F, 0.25F};
    char dir[200];
    memset(codes, 0x38, sizeof codes); /* 1 */
    codes[129 * COLS + 128] = 0xc4;    /* -3 */
    temp_dir_make(dir, sizeof dir);
    const hand_tensor t[] = {{"s", "F32", "[2,2]", scales, sizeof scales},
                             {"w", "F8_E4M3", "[130,129]", codes, sizeof codes}};
    fn_checkpoint *c = open_tensors(dir, t, 2);
    fn_source s = {.format = FN_SOURCE_FP8,
                   .weight = fn_checkpoint_find(c, "w"),
                   .scale = fn_checkpoint_find(c, "s"),
                   .rows = ROWS,
                   .cols = COLS};
    float *rows = rows_of(c, &s, 0, ROWS);
    assert_true(rows[0] == 1.0F && rows[128] == 0.5F && rows[127 * COLS + 127] == 1.0F);
    assert_true(rows[128 * COLS] == 4.0F && rows[129 * COLS + 128] == -0.75F);
    free(rows);
    rows = rows_of(c, &s, 127, 2); /* across the edge of a block */
    assert_true(rows[5] == 1.0F && rows[COLS + 5] == 4.0F);
    free(rows);
    fn_checkpoint_close(c);
    temp_dir_remove(dir);
}

static void nvfp4_values_are_code_scale_and_scalar(void **state) {
    (void)state;
    uint8_t codes[2 * 16] = {0};
    static const uint8_t scales[4] = {0x38, 0x40, 0x30, 0x48}; /* 1, 2, 0.5, 4 */
    static const float scalar = 0.125F;
    char dir[200];
    codes[0] = 0xd2;  /* row 0: input 0 = 1, input 1 = -3 */
    codes[8] = 0x07;  /* input 16 = 6 */
    codes[16] = 0x10; /* row 1: input 1 = 0.5 */
    codes[31] = 0xf0; /* input 31 = -6 */
    temp_dir_make(dir, sizeof dir);
    const hand_tensor t[] = {{"g", "F32", "[]", &scalar, sizeof scalar},
                             {"s", "F8_E4M3", "[2,2]", scales, sizeof scales},
                             {"w", "U8", "[2,16]", codes, sizeof codes}};
    fn_checkpoint *c = open_tensors(dir, t, 3);
    fn_source s = {.format = FN_SOURCE_NVFP4,
                   .weight = fn_checkpoint_find(c, "w"),
                   .scale = fn_checkpoint_find(c, "s"),
                   .global = fn_checkpoint_find(c, "g"),
                   .rows = 2,
                   .cols = 32};
    float *rows = rows_of(c, &s, 0, 2);
    assert_true(rows[0] == 0.125F && rows[1] == -0.375F && rows[16] == 1.5F && rows[2] == 0.0F);
    assert_true(rows[32 + 1] == 0.03125F && rows[32 + 31] == -3.0F);
    free(rows);
    fn_checkpoint_close(c);
    temp_dir_remove(dir);
}

/* 8 outputs, 136 inputs: 17 words down, two groups. */
static void gptq_values_are_nibble_minus_8_times_scale(void **state) {
    (void)state;
    uint32_t words[17 * 8];
    uint16_t scales[2 * 8];
    uint32_t zeros[2] = {0x77777777u, 0x77777777u};
    char dir[200];
    fn_error err = {0};
    for (size_t i = 0; i < 17 * 8; i++) {
        words[i] = 0x88888888u;
    }
    for (size_t i = 0; i < 16; i++) {
        scales[i] = 0x3c00; /* 1 */
    }
    words[2 * 8 + 5] = 0x888f8088u;  /* output 5: input 18 = -8, input 20 = 7 */
    words[16 * 8 + 5] = 0x98888888u; /* input 135 = 1 */
    scales[8 + 5] = 0x4200;          /* 3, second group */
    scales[5] = 0x3800;              /* 0.5, first group */
    temp_dir_make(dir, sizeof dir);
    const hand_tensor t[] = {{"q", "I32", "[17,8]", words, sizeof words},
                             {"s", "F16", "[2,8]", scales, sizeof scales},
                             {"z", "I32", "[2,1]", zeros, sizeof zeros}};
    fn_checkpoint *c = open_tensors(dir, t, 3);
    fn_source s = {.format = FN_SOURCE_GPTQ,
                   .weight = fn_checkpoint_find(c, "q"),
                   .scale = fn_checkpoint_find(c, "s"),
                   .zeros = fn_checkpoint_find(c, "z"),
                   .rows = 8,
                   .cols = 136};
    float *rows = rows_of(c, &s, 5, 1);
    assert_true(rows[18] == -4.0F && rows[20] == 3.5F && rows[135] == 3.0F && rows[19] == 0.0F);
    free(rows);
    fn_checkpoint_close(c);
    zeros[1] = 0x77877777u; /* output 5 */
    c = open_tensors(dir, t, 3);
    s.weight = fn_checkpoint_find(c, "q");
    s.scale = fn_checkpoint_find(c, "s");
    s.zeros = fn_checkpoint_find(c, "z");
    void *scratch = fn_alloc_aligned(fn_source_scratch(&s, 8), 1);
    float eight[8 * 136];
    fn_status status = fn_source_read_f32(c, &s, 0, 8, scratch, eight, &err);
    check_error(status, &err, FN_E_MODEL, "tensor z: group 1, output 5", "nibble 8, expected 7",
                "model.safetensors");
    fn_free(scratch);
    fn_checkpoint_close(c);
    temp_dir_remove(dir);
}

/* ---- whole models ---------------------------------------------------------------------------- */

static const char *const models[] = {"mini-fp8",  "mini-nvfp4", "mini-gptq", "mini-f32",
                                     "mini-bf16", "mini-tied",  "mini-dense"};

typedef struct loaded {
    fn_checkpoint *c;
    fn_shape shape;
    fn_bound *bound;
    fn_weights *w;
} loaded;

static loaded load_as(const char *dir, size_t threads, fn_weight_settings settings) {
    loaded l = {.c = NULL};
    char path[300];
    fn_error err = {0};
    fn_config config = {.root = NULL};
    fn_pool *pool = NULL;
    (void)snprintf(path, sizeof path, "%s/config.json", dir);
    if (fn_config_read(path, &config, &err) != FN_OK ||
        fn_shape_from_config(&config, &l.shape, &err) != FN_OK ||
        fn_checkpoint_open(dir, &l.c, &err) != FN_OK ||
        fn_bind(l.c, &l.shape, &l.bound, &err) != FN_OK ||
        fn_pool_create(threads, &pool, &err) != FN_OK ||
        fn_weights_load(l.c, l.bound, &l.shape, &settings, pool, NULL, &l.w, &err) != FN_OK) {
        fail_msg("%s: %s", dir, err.text);
    }
    fn_config_free(&config);
    fn_pool_destroy(pool);
    return l;
}

static loaded load(const char *dir, size_t threads) {
    return load_as(dir, threads, (fn_weight_settings){0});
}

static void unload(loaded *l) {
    fn_weights_free(l->w);
    fn_bound_free(l->bound);
    fn_checkpoint_close(l->c);
}

/* Rows [first, ..) of m are those of the source, bit for bit; how many rows it has. */
static size_t same_rows(const loaded *l, const fn_matrix *m, size_t first, const fn_source *s) {
    float *row = malloc(s->cols * sizeof *row);
    float *want = rows_of(l->c, s, 0, s->rows);
    assert_int_equal(m->cols, s->cols);
    assert_true(first + s->rows <= m->rows);
    for (size_t r = 0; r < s->rows; r++) {
        fn_matrix_row(m, first + r, row);
        if (memcmp(row, want + r * s->cols, s->cols * sizeof *row) != 0) {
            fail_msg("%s: row %zu is not what is stored", s->weight->name, r);
        }
    }
    for (size_t r = 0; r < s->rows; r += 1 + r / 2) { /* in any pieces */
        float *part = rows_of(l->c, s, r, s->rows - r < 37 ? s->rows - r : 37);
        assert_memory_equal(part, want + r * s->cols, s->cols * sizeof *part);
        free(part);
    }
    free(row);
    free(want);
    return s->rows;
}

static void same(const loaded *l, const fn_matrix *m, const fn_source *s) {
    if (s->weight != NULL) {
        assert_int_equal(same_rows(l, m, 0, s), m->rows);
    }
}

static void same_pair(const loaded *l, const fn_matrix *m, const fn_source *a, const fn_source *b) {
    size_t rows = same_rows(l, m, 0, a);
    assert_int_equal(rows + same_rows(l, m, rows, b), m->rows);
}

static void same_vector(const loaded *l, const float *v, const fn_tensor *t) {
    if (t == NULL) {
        return;
    }
    size_t n = (size_t)fn_tensor_elements(t);
    float *want = malloc(n * sizeof *want);
    assert_int_equal(fn_tensor_read_f32(l->c, t, 0, n, want, NULL), FN_OK);
    assert_memory_equal(v, want, n * sizeof *want);
    free(want);
}

static void same_mixer(const loaded *l, const fn_mixer_weights *w, const fn_bound_mixer *b) {
    same_vector(l, w->norm, b->norm);
    same(l, &w->down, &b->down);
    same(l, &w->up, &b->up);
    same(l, &w->inject, &b->inject);
}

static void same_layer(const loaded *l, const fn_layer_weights *w, const fn_bound_layer *b) {
    same_mixer(l, &w->attn_mixer, &b->attn_mixer);
    same_mixer(l, &w->mlp_mixer, &b->mlp_mixer);
    same(l, &w->delta.in_qkv, &b->in_qkv);
    same(l, &w->delta.in_z, &b->in_z);
    same(l, &w->delta.in_a, &b->in_a);
    same(l, &w->delta.in_b, &b->in_b);
    same(l, &w->delta.out, &b->delta_out);
    same_vector(l, w->delta.dt_bias, b->dt_bias);
    same_vector(l, w->delta.norm, b->delta_norm);
    for (size_t i = 0; b->a_log != NULL && i < b->a_log->dims[0]; i++) {
        assert_true(w->delta.a[i] < 0.0F && w->delta.a[i] > -1e6F);
    }
    same(l, &w->attention.q, &b->q);
    same(l, &w->attention.k, &b->k);
    same(l, &w->attention.v, &b->v);
    same(l, &w->attention.o, &b->o);
    same(l, &w->attention.index_qk, &b->index_qk);
    same_vector(l, w->attention.q_norm, b->q_norm);
    same_vector(l, w->attention.k_norm, b->k_norm);
    same_vector(l, w->attention.o_bias, b->o_bias);
    same(l, &w->moe.router, &b->router);
    same_pair(l, &w->moe.shared_gate_up, &b->shared_gate, &b->shared_up);
    same(l, &w->moe.shared_down, &b->shared_down);
    same(l, &w->moe.shared_expert_gate, &b->shared_expert_gate);
    for (size_t e = 0; e < l->shape.n_experts; e++) {
        same_pair(l, &w->moe.gate_up[e], &b->expert_gate[e], &b->expert_up[e]);
        same(l, &w->moe.down[e], &b->expert_down[e]);
    }
    if (b->ple != NULL) {
        same(l, &w->ple->key, &b->ple->key);
        same(l, &w->ple->value, &b->ple->value);
        same_vector(l, w->ple->norm_conv, b->ple->norm_conv);
    }
}

/* Everything that layers read, after memory was full of 0x7f: 3e38 or no number in every format. */
static void every_packed_row_is_the_stored_one(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char dir[120];
        (void)snprintf(dir, sizeof dir, "tests/data/%s/checkpoint", models[i]);
        fn_alloc_fill(0x7f);
        loaded l = load(dir, 1 + i % 3);
        fn_alloc_fill(-1);
        same(&l, &l.w->head, &l.bound->head);
        same(&l, &l.w->head, &l.bound->tied_head);
        same_mixer(&l, &l.w->mixer, &l.bound->mixer);
        for (size_t k = 0; k < l.shape.n_layers; k++) {
            same_layer(&l, &l.w->layers[k], &l.bound->layers[k]);
        }
        unload(&l);
    }
}

/* What was mixed is there: the kinds as they are kept. */
static void each_module_is_kept_in_its_own_kind(void **state) {
    (void)state;
    loaded l = load("tests/data/mini-nvfp4/checkpoint", 2);
    const fn_layer_weights *w = l.w->layers;
    assert_int_equal(w[0].moe.gate_up[0].kind, FN_MATRIX_NVFP4);
    assert_int_equal(w[0].moe.gate_up[1].kind, FN_MATRIX_F32); /* up is BF16 */
    assert_int_equal(w[0].moe.down[1].kind, FN_MATRIX_NVFP4);
    assert_int_equal(w[1].moe.gate_up[1].kind, FN_MATRIX_FP8);
    assert_int_equal(w[2].moe.down[0].kind, FN_MATRIX_BF16);
    assert_int_equal(w[0].moe.router.kind, FN_MATRIX_BF16);
    unload(&l);
    l = load("tests/data/mini-gptq/checkpoint", 2);
    assert_int_equal(l.w->head.kind, FN_MATRIX_INT4);
    assert_int_equal(l.w->layers[0].moe.gate_up[1].kind, FN_MATRIX_INT4);
    assert_int_equal(l.w->layers[2].moe.down[1].kind, FN_MATRIX_FP8);
    unload(&l);
}

/* A zero point that is none of ours is found while loading, and named. */
/* ---- quantised while loading ---- */

/* Rows of m are those of the source, each group rounded to codes of one scale: every value an integer times
 * the scale within the codes' range, and no further from the stored one than absmax rounding can be. */
static void quantised_from(const loaded *l, const fn_matrix *m, const fn_source *s, int bits,
                           size_t group) {
    float *row = malloc(s->cols * sizeof *row);
    float *want = rows_of(l->c, s, 0, s->rows);
    int8_t *codes = malloc(s->cols);
    uint16_t *scales = malloc((s->cols / group + 1) * sizeof *scales);
    assert_true(row != NULL && codes != NULL && scales != NULL);
    assert_int_equal(m->kind, bits == 8 ? FN_MATRIX_INT8 : FN_MATRIX_INT4);
    assert_int_equal(m->group, group);
    for (size_t r = 0; r < s->rows; r++) {
        fn_quantize_row(want + r * s->cols, s->cols, group, bits, codes, scales);
        fn_matrix_row(m, r, row);
        for (size_t k = 0; k < s->cols; k++) {
            float value = (float)codes[k] * fn_f16_to_float(scales[k / group]);
            assert_true(row[k] == value);
        }
    }
    free(row);
    free(want);
    free(codes);
    free(scales);
}

static void classes_are_quantised_as_asked_and_the_rest_is_kept(void **state) {
    static const fn_weight_settings ways[] = {{4, 8, 128}, {8, 4, 64}, {4, 4, 32}};
    static const char *const dirs[] = {"tests/data/mini-f32/checkpoint",
                                       "tests/data/mini-bf16/checkpoint",
                                       "tests/data/mini-fp8/checkpoint"};
    (void)state;
    for (size_t d = 0; d < 3; d++) {
        for (size_t i = 0; i < 3; i++) {
            loaded l = load_as(dirs[d], 2, ways[i]);
            for (size_t n = 0; n < l.shape.n_layers; n++) {
                const fn_layer_weights *w = &l.w->layers[n];
                const fn_bound_layer *b = &l.bound->layers[n];
                if (l.shape.layer_kind[n] == FN_LAYER_DELTA) {
                    quantised_from(&l, &w->delta.in_qkv, &b->in_qkv, ways[i].dense_bits,
                                   ways[i].group);
                    quantised_from(&l, &w->delta.out, &b->delta_out, ways[i].dense_bits,
                                   ways[i].group);
                    same(&l, &w->delta.in_a, &b->in_a);
                } else {
                    quantised_from(&l, &w->attention.q, &b->q, ways[i].dense_bits, ways[i].group);
                    same(&l, &w->attention.index_qk, &b->index_qk);
                }
                quantised_from(&l, &w->mlp_mixer.up, &b->mlp_mixer.up, ways[i].dense_bits,
                               ways[i].group);
                quantised_from(&l, &w->moe.down[1], &b->expert_down[1], ways[i].expert_bits,
                               ways[i].group);
                same(&l, &w->mlp_mixer.inject, &b->mlp_mixer.inject);
                same(&l, &w->moe.router, &b->router);
                same(&l, &w->moe.shared_expert_gate, &b->shared_expert_gate);
            }
            quantised_from(&l, &l.w->head, &l.bound->head, ways[i].dense_bits, ways[i].group);
            unload(&l);
        }
    }
}

static void packed_int4_checkpoints_keep_their_codes_at_4_bits(void **state) {
    (void)state;
    loaded l =
        load_as("tests/data/mini-gptq/checkpoint", 2, (fn_weight_settings){.expert_bits = 4});
    for (size_t n = 0; n < l.shape.n_layers; n++) {
        const fn_bound_layer *b = &l.bound->layers[n];
        if (fn_source_kind(&b->expert_down[0]) == FN_MATRIX_INT4) {
            same(&l, &l.w->layers[n].moe.down[0], &b->expert_down[0]);
        }
    }
    unload(&l);
}

static void loading_reports_what_it_finds_in_the_data(void **state) {
    (void)state;
    char dir[200];
    char command[600];
    temp_dir_make(dir, sizeof dir);
    (void)snprintf(command, sizeof command, "cp tests/data/mini-gptq/checkpoint/* %s", dir);
    assert_int_equal(system(command), 0);
    fn_checkpoint *c = NULL;
    fn_error err = {0};
    assert_int_equal(fn_checkpoint_open(dir, &c, &err), FN_OK);
    const fn_tensor *t = fn_checkpoint_find(c, "model.layers.1.mlp.experts.3.down_proj.qzeros");
    assert_non_null(t);
    FILE *f = fopen(fn_checkpoint_file_path(c, t->file), "r+b");
    assert_true(f != NULL && fseeko(f, (off_t)(t->offset + 3), SEEK_SET) == 0);
    assert_true(fputc(0x67, f) == 0x67 && fclose(f) == 0);
    fn_checkpoint_close(c);
    fn_config config = {.root = NULL};
    fn_shape shape;
    fn_bound *bound = NULL;
    fn_pool *pool = NULL;
    fn_weights *w = NULL;
    (void)snprintf(command, sizeof command, "%s/config.json", dir);
    assert_int_equal(fn_config_read(command, &config, &err), FN_OK);
    assert_int_equal(fn_shape_from_config(&config, &shape, &err), FN_OK);
    assert_int_equal(fn_checkpoint_open(dir, &c, &err), FN_OK);
    assert_int_equal(fn_bind(c, &shape, &bound, &err), FN_OK);
    assert_int_equal(fn_pool_create(2, &pool, &err), FN_OK);
    fn_status status =
        fn_weights_load(c, bound, &shape, &(fn_weight_settings){0}, pool, NULL, &w, &err);
    check_error(status, &err, FN_E_MODEL, "layers.1.mlp.experts.3.down_proj.qzeros",
                "group 0, output 7", "nibble 6, expected 7");
    assert_null(w);
    fn_pool_destroy(pool);
    fn_bound_free(bound);
    fn_config_free(&config);
    fn_checkpoint_close(c);
    temp_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp8_values_are_code_times_the_scale_of_the_block),
        cmocka_unit_test(nvfp4_values_are_code_scale_and_scalar),
        cmocka_unit_test(gptq_values_are_nibble_minus_8_times_scale),
        cmocka_unit_test(every_packed_row_is_the_stored_one),
        cmocka_unit_test(each_module_is_kept_in_its_own_kind),
        cmocka_unit_test(classes_are_quantised_as_asked_and_the_rest_is_kept),
        cmocka_unit_test(packed_int4_checkpoints_keep_their_codes_at_4_bits),
        cmocka_unit_test(loading_reports_what_it_finds_in_the_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
