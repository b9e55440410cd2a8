/* Tensors -> roles: every published layout, and every way in which tensors and config can
 * disagree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "support/check_error.h"
#include "support/make_checkpoint.h"
#include "weights/bind.h"

typedef struct opened {
    fn_checkpoint *c;
    fn_shape shape;
    fn_bound *bound;
} opened;

static fn_status open_dir(const char *dir, opened *out, fn_error *err) {
    char path[400];
    fn_config config;
    *out = (opened){.c = NULL};
    (void)snprintf(path, sizeof path, "%s/config.json", dir);
    fn_status status = fn_checkpoint_open(dir, &out->c, err);
    if (status == FN_OK) {
        status = fn_config_read(path, &config, err);
    }
    if (status == FN_OK) {
        status = fn_shape_from_config(&config, &out->shape, err);
        fn_config_free(&config);
    }
    if (status == FN_OK) {
        status = fn_bind(out->c, &out->shape, &out->bound, err);
    }
    return status;
}

static void close_all(opened *o) {
    fn_bound_free(o->bound);
    fn_checkpoint_close(o->c);
    *o = (opened){.c = NULL};
}

static opened open_ok(const char *dir) {
    opened o;
    fn_error err = {0};
    fn_status status = open_dir(dir, &o, &err);
    if (status != FN_OK) {
        print_error("%s\n", err.text);
    }
    assert_int_equal(status, FN_OK);
    assert_non_null(o.bound);
    return o;
}

static made_model tiny(void) {
    made_model m;
    fn_shape shape = made_tiny_shape();
    made_model_init(&m, &shape, made_plain_layout());
    return m;
}

/* Writes the model, expects the failure, frees it. */
#define check_bind(m, ...)                                                                         \
    do {                                                                                           \
        opened refused;                                                                            \
        fn_error error = {0};                                                                      \
        made_write(m);                                                                             \
        fn_status result = open_dir((m)->dir, &refused, &error);                                   \
        check_error(result, &error, FN_E_MODEL, __VA_ARGS__);                                      \
        assert_null(refused.bound);                                                                \
        close_all(&refused);                                                                       \
        made_model_free(m);                                                                        \
    } while (0)

static void check_name(const fn_tensor *t, const char *prefix, const char *name) {
    char full[200];
    (void)snprintf(full, sizeof full, "%s%s", prefix, name);
    assert_non_null(t);
    assert_string_equal(t->name, full);
}

static void check_delta_layer(const fn_bound_layer *l, const char *prefix) {
    check_name(l->attn_mixer.norm, prefix, "attn_hyper_connection.hc_norm.weight");
    check_name(l->attn_mixer.down.weight, prefix,
               "attn_hyper_connection.input_mix_weight_down.weight");
    check_name(l->mlp_mixer.up.weight, prefix, "mlp_hyper_connection.input_mix_weight_up.weight");
    check_name(l->mlp_mixer.inject.weight, prefix,
               "mlp_hyper_connection.block_inject_weight.weight");
    check_name(l->in_qkv.weight, prefix, "linear_attn.in_proj_qkv.weight");
    check_name(l->in_z.weight, prefix, "linear_attn.in_proj_z.weight");
    check_name(l->in_a.weight, prefix, "linear_attn.in_proj_a.weight");
    check_name(l->in_b.weight, prefix, "linear_attn.in_proj_b.weight");
    check_name(l->conv, prefix, "linear_attn.conv1d.weight");
    check_name(l->a_log, prefix, "linear_attn.A_log");
    check_name(l->dt_bias, prefix, "linear_attn.dt_bias");
    check_name(l->delta_norm, prefix, "linear_attn.norm.weight");
    check_name(l->delta_out.weight, prefix, "linear_attn.out_proj.weight");
    assert_null(l->q.weight);
    assert_null(l->index_qk.weight);
}

static void check_attention_layer(const fn_bound_layer *l, const char *prefix) {
    check_name(l->q.weight, prefix, "self_attn.q_proj.weight");
    check_name(l->k.weight, prefix, "self_attn.k_proj.weight");
    check_name(l->v.weight, prefix, "self_attn.v_proj.weight");
    check_name(l->o.weight, prefix, "self_attn.o_proj.weight");
    check_name(l->q_norm, prefix, "self_attn.q_norm.weight");
    check_name(l->k_norm, prefix, "self_attn.k_norm.weight");
    check_name(l->index_qk.weight, prefix, "self_attn.indexer.index_qk_proj.weight");
    check_name(l->index_q_norm, prefix, "self_attn.indexer.q_layernorm.weight");
    check_name(l->index_k_norm, prefix, "self_attn.indexer.k_layernorm.weight");
    assert_null(l->in_qkv.weight);
    assert_null(l->q_bias);
    assert_null(l->ple);
}

static void check_mlp(const fn_bound_layer *l, const char *prefix, bool stacked) {
    check_name(l->router.weight, prefix, "mlp.gate.weight");
    check_name(l->shared_gate.weight, prefix, "mlp.shared_expert.gate_proj.weight");
    check_name(l->shared_up.weight, prefix, "mlp.shared_expert.up_proj.weight");
    check_name(l->shared_down.weight, prefix, "mlp.shared_expert.down_proj.weight");
    check_name(l->shared_expert_gate.weight, prefix, "mlp.shared_expert_gate.weight");
    if (stacked) {
        for (size_t e = 0; e < 3; e++) { /* the stack: gate 0, up 0, gate 1, ... of 7 rows each */
            check_name(l->expert_gate[e].weight, prefix, "mlp.experts.gate_up_proj");
            check_name(l->expert_up[e].weight, prefix, "mlp.experts.gate_up_proj");
            check_name(l->expert_down[e].weight, prefix, "mlp.experts.down_proj");
            assert_int_equal(l->expert_gate[e].first_row, 14 * e);
            assert_int_equal(l->expert_up[e].first_row, 14 * e + 7);
            assert_int_equal(l->expert_down[e].first_row, 12 * e);
            assert_int_equal(l->expert_up[e].rows, 7);
            assert_int_equal(l->expert_down[e].cols, 7);
        }
    } else {
        check_name(l->expert_gate[0].weight, prefix, "mlp.experts.0.gate_proj.weight");
        check_name(l->expert_up[2].weight, prefix, "mlp.experts.2.up_proj.weight");
        check_name(l->expert_down[1].weight, prefix, "mlp.experts.1.down_proj.weight");
        assert_int_equal(l->expert_up[2].first_row, 0);
    }
}

static void check_ple(const fn_bound_ple *ple, size_t n_pieces, const char *prefix) {
    assert_non_null(ple);
    check_name(ple->key.weight, prefix, "key_proj.weight");
    check_name(ple->value.weight, prefix, "value_proj.weight");
    check_name(ple->norm_key, prefix, "norm_key.weight");
    check_name(ple->norm_query, prefix, "norm_query.weight");
    check_name(ple->norm_conv, prefix, "norm_conv.weight");
    check_name(ple->conv, prefix, "conv1d.weight");
    check_name(ple->multipliers, prefix, "ple_embedding.layer_multipliers");
    check_name(ple->vocab_sizes, prefix, "ple_embedding.ngram_heads_vocab_sizes");
    check_name(ple->offsets, prefix, "ple_embedding.ngram_heads_offsets");
    assert_int_equal(ple->n_pieces, n_pieces > 0 ? n_pieces : 1);
    for (size_t i = 0; i < n_pieces; i++) {
        char name[80];
        (void)snprintf(name, sizeof name, "ple_embedding.ngram_embedding.shard_%zu.weight", i);
        check_name(ple->pieces[i], prefix, name);
    }
    if (n_pieces == 0) {
        check_name(ple->pieces[0], prefix, "ple_embedding.ngram_embedding.weight");
    }
}

/* Prefixes, experts, table pieces (12: numeric and name order differ) and types. */
static void every_layout_binds_to_the_same_roles(void **state) {
    (void)state;
    static const size_t pieces[] = {0, 1, 3, 12};
    static const char *const types[] = {"BF16", "F16", "F32"};
    for (size_t i = 0; i < 12; i++) {
        char prefix[80];
        made_model m;
        fn_shape shape = made_tiny_shape();
        made_layout layout = made_plain_layout();
        layout.nested = i % 2 == 1;
        layout.stacked = i / 2 % 2 == 1;
        layout.n_pieces = pieces[i % 4];
        layout.dtype = types[i / 4];
        made_model_init(&m, &shape, layout);
        made_write(&m);
        opened o = open_ok(m.dir);
        const char *model = layout.nested ? "model.language_model." : "model.";
        check_name(o.bound->embed, model, "embed_tokens.weight");
        check_name(o.bound->mixer.norm, model, "hyper_connection_mixer.hc_norm.weight");
        assert_null(o.bound->mixer.inject.weight);
        check_name(o.bound->head.weight, "", "lm_head.weight");
        for (size_t k = 0; k < 3; k++) {
            (void)snprintf(prefix, sizeof prefix, "%slayers.%zu.", model, k);
            if (k == 1) {
                check_attention_layer(&o.bound->layers[k], prefix);
            } else {
                check_delta_layer(&o.bound->layers[k], prefix);
            }
            check_mlp(&o.bound->layers[k], prefix, layout.stacked);
        }
        assert_null(o.bound->layers[0].ple);
        (void)snprintf(prefix, sizeof prefix, "%slayers.2.ple.", model);
        check_ple(o.bound->layers[2].ple, layout.n_pieces, prefix);
        close_all(&o);
        made_model_free(&m);
    }
}

static void experts_may_differ_from_layer_to_layer(void **state) {
    (void)state;
    static const uint64_t gate_up[] = {3, 14, 12};
    static const uint64_t down[] = {3, 12, 7};
    made_model m = tiny();
    for (int e = 0; e < 3; e++) {
        static const char *const parts[] = {"gate", "up", "down"};
        for (int k = 0; k < 3; k++) {
            char name[80];
            (void)snprintf(name, sizeof name, "layers.1.mlp.experts.%d.%s_proj.weight", e,
                           parts[k]);
            made_remove(&m, name);
        }
    }
    made_add(&m, "model.layers.1.mlp.experts.gate_up_proj", "BF16", 3, gate_up);
    made_add(&m, "model.layers.1.mlp.experts.down_proj", "BF16", 3, down);
    made_write(&m);
    opened o = open_ok(m.dir);
    check_name(o.bound->layers[1].expert_up[2].weight, "model.layers.1.",
               "mlp.experts.gate_up_proj");
    check_name(o.bound->layers[2].expert_up[2].weight, "model.layers.2.",
               "mlp.experts.2.up_proj.weight");
    close_all(&o);
    made_model_free(&m);
}

static void config_decides_about_optional_parts(void **state) {
    (void)state;
    fn_shape shape = made_tiny_shape();
    made_model m;
    shape.attention_bias = true;
    shape.has_indexer = false;
    shape.tied_head = true;
    shape.n_ple = 0;
    made_model_init(&m, &shape, made_plain_layout());
    made_write(&m);
    opened o = open_ok(m.dir);
    assert_null(o.bound->head.weight);
    assert_null(o.bound->layers[2].ple);
    assert_null(o.bound->layers[1].index_qk.weight);
    check_name(o.bound->layers[1].q_bias, "model.layers.1.", "self_attn.q_proj.bias");
    check_name(o.bound->layers[1].o_bias, "model.layers.1.", "self_attn.o_proj.bias");
    close_all(&o);
    made_model_free(&m);
}

static void two_tables_have_their_own_constants(void **state) {
    (void)state;
    fn_shape shape = made_tiny_shape();
    made_model m;
    shape.n_ple = 2;
    shape.ple_layer[0] = 0;
    shape.ple_layer[1] = 2;
    made_model_init(&m, &shape, made_plain_layout());
    made_write(&m);
    opened o = open_ok(m.dir);
    check_ple(o.bound->layers[0].ple, 3, "model.layers.0.ple.");
    check_ple(o.bound->layers[2].ple, 3, "model.layers.2.ple.");
    assert_true(o.bound->layers[0].ple->pieces[0] != o.bound->layers[2].ple->pieces[0]);
    close_all(&o);
    made_model_free(&m);
}

static void tied_head_ignores_a_stored_one(void **state) {
    (void)state;
    made_model m = tiny();
    json_object_set_new(made_text(&m), "tie_word_embeddings", json_true());
    made_write(&m);
    opened o = open_ok(m.dir);
    assert_null(o.bound->head.weight);
    close_all(&o);
    made_model_free(&m);
}

static void vision_and_a_head_that_the_config_lacks_are_left_alone(void **state) {
    (void)state;
    made_model m;
    fn_shape shape = made_tiny_shape();
    made_layout layout = made_plain_layout();
    static const uint64_t dims[] = {3};
    layout.mtp = true;
    layout.nested = true;
    made_model_init(&m, &shape, layout);
    made_add(&m, "model.visual.a", "BF16", 1, dims);
    made_add(&m, "model.visual.b", "F8_E4M3", 1, dims);
    made_add(&m, "visual.c", "BF16", 1, dims);
    made_write(&m);
    opened o = open_ok(m.dir);
    assert_int_equal(o.bound->n_vision, 3);
    assert_int_equal(o.bound->n_mtp, 31);
    close_all(&o);
    made_model_free(&m);
}

static made_model with_head(void) {
    made_model m;
    fn_shape shape = made_tiny_shape();
    made_layout layout = made_plain_layout();
    shape.n_mtp = 1;
    layout.mtp = true;
    made_model_init(&m, &shape, layout);
    return m;
}

static void the_mtp_head_binds_and_its_stream_norms_may_have_two_axes(void **state) {
    (void)state;
    for (size_t flat = 0; flat < 2; flat++) {
        made_model m = with_head();
        fn_shape shape = made_tiny_shape();
        const char *norms[] = {"mtp.pre_fc_norm_hidden.weight",
                               "mtp.layers.0.attn_hyper_connection.hc_norm.weight"};
        for (size_t i = 0; flat == 0 && i < 2; i++) {
            made_tensor *t = made_find(&m, norms[i]);
            t->n_dims = 2;
            t->dims[0] = shape.hc;
            t->dims[1] = shape.hidden;
        }
        made_write(&m);
        opened o = open_ok(m.dir);
        assert_non_null(o.bound->mtp);
        assert_int_equal(o.bound->n_mtp, 31);
        assert_int_equal(fn_tensor_elements(o.bound->mtp->norm_hidden), shape.hc * shape.hidden);
        assert_non_null(o.bound->mtp->layer.q.weight);
        assert_non_null(o.bound->mtp->layer.expert_down[shape.n_experts - 1].weight);
        close_all(&o);
        made_model_free(&m);
    }
}

static void a_head_that_is_missing_or_wrong_is_named(void **state) {
    (void)state;
    made_model m;
    fn_shape shape = made_tiny_shape();
    shape.n_mtp = 1;
    made_model_init(&m, &shape, made_plain_layout());
    check_bind(&m, "the MTP head is missing", "mtp_num_hidden_layers is 1", "--no-mtp");
    m = with_head();
    made_remove(&m, "mtp.fc_hidden.weight");
    check_bind(&m, "1 tensor missing", "mtp.fc_hidden.weight");
    m = with_head();
    made_find(&m, "mtp.pre_fc_norm_hidden.weight")->dims[0] += 1;
    check_bind(&m, "mtp.pre_fc_norm_hidden.weight: found", "expected");
    m = with_head();
    made_find(&m, "mtp.fc_embedding.weight")->dims[1] += 1;
    check_bind(&m, "mtp.fc_embedding.weight: found", "expected");
    m = with_head();
    made_remove(&m, "mtp.layers.0.mlp.experts.down_proj");
    check_bind(&m, "incomplete experts in layer mtp.0");
}

static void constants_that_differ_from_the_formula_are_named(void **state) {
    (void)state;
    made_model m = tiny();
    made_find(&m, "layer_multipliers")->values[1] ^= 2;
    check_bind(&m, "layers.2.ple.ple_embedding.layer_multipliers[1]: found ", "expected ",
               "model-00003-of-00003.safetensors");
    m = tiny();
    made_find(&m, "ngram_heads_vocab_sizes")->values[3] = 62;
    check_bind(&m, "ngram_heads_vocab_sizes[3]: found 62, expected 67");
    m = tiny();
    made_find(&m, "ngram_heads_offsets")->values[2] = 113;
    check_bind(&m, "ngram_heads_offsets[2]: found 113, expected 112");
    m = tiny(); /* a config with another seed is caught by the same check */
    json_object_set_new(made_text(&m), "seed", json_integer(0));
    check_bind(&m, "layer_multipliers[0]: found ", "seed");
}

static void missing_tensors_are_listed_with_a_hint(void **state) {
    (void)state;
    made_model m = tiny();
    made_remove(&m, "model.embed_tokens.weight");
    check_bind(&m, m.dir,
               "1 tensor missing (incomplete download?): model.embed_tokens.weight [40, 12]");
    m = tiny();
    made_remove(&m, "layers.0.linear_attn.A_log");
    made_remove(&m, "layers.0.linear_attn.dt_bias");
    made_remove(&m, "layers.1.self_attn.indexer.k_layernorm.weight");
    made_remove(&m, "lm_head.weight");
    check_bind(&m, "4 tensors missing",
               "model.layers.0.linear_attn.A_log [4], "
               "model.layers.0.linear_attn.dt_bias [4], "
               "model.layers.1.self_attn.indexer.k_layernorm.weight [6], ...");
    m = tiny();
    (void)snprintf(made_find(&m, "dt_bias")->name, 64, "model.layers.0.linear_attn.dt");
    check_bind(&m, "1 tensor missing (unknown layout? 1 unexpected, the first is "
                   "model.layers.0.linear_attn.dt): model.layers.0.linear_attn.dt_bias");
}

/* Removing any one tensor must be noticed, whatever its role. */
static void no_tensor_can_be_missed(void **state) {
    (void)state;
    made_model whole = tiny();
    for (size_t i = 0; i < whole.n; i++) {
        made_model m = tiny();
        char name[160];
        (void)snprintf(name, sizeof name, "%s", m.tensors[i].name);
        made_remove(&m, name);
        check_bind(&m, "missing", name);
    }
    made_model_free(&whole);
}

/* Nor one with another shape or type. */
static void no_shape_or_type_can_differ(void **state) {
    (void)state;
    made_model whole = tiny();
    for (size_t i = 0; i < whole.n; i++) {
        if (strstr(whole.tensors[i].name, "shard_") != NULL) {
            continue; /* rows are free there: below */
        }
        for (size_t d = 0; d <= whole.tensors[i].n_dims; d++) {
            made_model m = tiny();
            made_tensor *t = &m.tensors[i];
            char name[160];
            (void)snprintf(name, sizeof name, "%s: found %s", t->name,
                           d < t->n_dims ? t->dtype : "I32");
            free(t->values); /* random bytes do: nothing may be read before the checks */
            t->values = NULL;
            if (d < t->n_dims) {
                t->dims[d]++;
            } else {
                t->dtype = "I32";
            }
            check_bind(&m, "tensor ", name, "expected ");
        }
    }
    made_model_free(&whole);
}

static void shape_errors_give_both_shapes(void **state) {
    (void)state;
    made_model m = tiny();
    made_find(&m, "layers.0.linear_attn.conv1d.weight")->n_dims = 2;
    check_bind(&m,
               "tensor model.layers.0.linear_attn.conv1d.weight: found BF16 [32, 1], "
               "expected [32, 1, 4]",
               "model-00001-of-00003.safetensors");
    m = tiny();
    made_find(&m, "layer_multipliers")->dtype = "F64";
    check_bind(&m, "layer_multipliers: found F64 [3], expected I64 [3]");
}

static void types_of_no_known_format_are_named(void **state) {
    (void)state;
    static const char *const types[] = {"F8_E5M2", "I8", "I32", "F64"};
    for (size_t i = 0; i < 4; i++) {
        char found[80];
        made_model m = tiny();
        made_find(&m, "layers.1.mlp.experts.2.up_proj.weight")->dtype = types[i];
        (void)snprintf(found, sizeof found, "experts.2.up_proj.weight: found %s [7, 12]", types[i]);
        check_bind(&m, found, "expected BF16, F16, F32, F8_E4M3 or U8", "not supported");
    }
    made_model m = tiny(); /* rows are taken from it one by one */
    made_find(&m, "embed_tokens.weight")->dtype = "F8_E4M3";
    check_bind(&m, "embed_tokens.weight: found F8_E4M3 [40, 12]", "expected BF16, F16 or F32");
}

static void incomplete_experts_name_their_layers(void **state) {
    (void)state;
    made_model m = tiny();
    made_remove(&m, "layers.0.mlp.experts.1.up_proj.weight");
    made_remove(&m, "layers.2.mlp.experts.0.gate_proj.weight");
    made_remove(&m, "layers.2.mlp.experts.2.down_proj.weight");
    check_bind(&m, "3 tensors missing", "model.layers.0.mlp.experts.1.up_proj.weight",
               "incomplete experts in layers 0, 2");
    fn_shape shape = made_tiny_shape();
    made_layout layout = made_plain_layout();
    layout.stacked = true;
    made_model_init(&m, &shape, layout);
    made_remove(&m, "layers.1.mlp.experts.down_proj");
    check_bind(&m, "1 tensor missing", "incomplete experts in layer 1");
}

static void unexpected_tensors_are_named(void **state) {
    (void)state;
    static const char *const names[] = {"model.layers.3.mlp.gate.weight",
                                        "model.layers.0.input_layernorm.weight",
                                        "model.layers.0.mlp.experts.3.up_proj.weight",
                                        "model.layers.0.mlp.experts.0.up_proj.weight_scale_inv",
                                        "model.layers.1.ple.key_proj.weight",
                                        "model.layers.01.mlp.gate.weight",
                                        "model.norm.weight",
                                        "adapter.weight",
                                        "model.language_mode",
                                        "mtpx.a"};
    static const uint64_t dims[] = {3};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char found[120];
        made_model m = tiny();
        made_add(&m, names[i], "BF16", 1, dims)->file = 1;
        (void)snprintf(found, sizeof found, "tensor %s: unexpected", names[i]);
        check_bind(&m, found, "model-00002-of-00003.safetensors");
    }
}

static void missing_table_pieces_are_named(void **state) {
    (void)state;
    for (size_t gone = 0; gone < 3; gone++) { /* first, middle, last */
        char name[60];
        made_model m = tiny();
        (void)snprintf(name, sizeof name, "ngram_embedding.shard_%zu.weight", gone);
        made_remove(&m, name);
        check_bind(&m, "1 tensor missing", name);
    }
    made_model m = tiny();
    made_remove(&m, "shard_0.weight");
    made_remove(&m, "shard_1.weight");
    made_remove(&m, "shard_2.weight");
    check_bind(&m, "1 tensor missing", "ngram_embedding.shard_0.weight");
}

static void table_rows_must_add_up(void **state) {
    (void)state;
    made_model m = tiny();
    made_find(&m, "shard_1.weight")->dims[0]--;
    check_bind(&m, "n-gram table", "found 239 rows in 3 pieces, expected 240");
    m = tiny();
    made_find(&m, "shard_2.weight")->dims[0] += 16;
    check_bind(&m, "n-gram table", "found 256 rows in 3 pieces, expected 240");
    m = tiny();
    made_find(&m, "shard_1.weight")->dims[1] = 3;
    check_bind(&m, "shard_1.weight: found BF16 [80, 3], expected BF16 [rows, 2]");
    m = tiny();
    made_find(&m, "shard_1.weight")->dtype = "F32";
    check_bind(&m, "shard_1.weight: found F32 [80, 2], expected BF16 [rows, 2]");
    m = tiny();
    made_find(&m, "shard_0.weight")->dtype = "U8";
    check_bind(&m, "shard_0.weight: found U8 [80, 2]", "F8_E4M3", "not supported");
}

/* Pieces of any sizes do, and split_ngram_parts need not be right. */
static void table_pieces_may_be_uneven(void **state) {
    (void)state;
    made_model m = tiny();
    made_find(&m, "shard_0.weight")->dims[0] = 1;
    made_find(&m, "shard_1.weight")->dims[0] = 159;
    json_object_set_new(made_text(&m), "split_ngram_parts", json_integer(512));
    made_write(&m);
    opened o = open_ok(m.dir);
    assert_int_equal(o.bound->layers[2].ple->pieces[1]->dims[0], 159);
    close_all(&o);
    made_model_free(&m);
}

static void oddly_numbered_pieces_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {"shard_02.weight", "shard_2", "shard_99999999999.weight",
                                        "shard_-2.weight", "shard_.weight"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        made_model m = tiny();
        made_tensor *t = made_find(&m, "shard_2.weight");
        char *tail = strstr(t->name, "shard_2");
        (void)snprintf(tail, 40, "%s", names[i]);
        check_bind(&m, "1 tensor missing", "unknown layout?", names[i], "shard_2.weight");
    }
}

/* A config that asks for far more than the files hold must not take the machine down. */
static void enormous_claims_are_refused_fast(void **state) {
    (void)state;
    made_model m = tiny();
    json_object_set_new(made_text(&m), "num_hidden_layers", json_integer(512));
    json_object_set_new(made_text(&m), "num_experts", json_integer(65536));
    json_object_set_new(made_text(&m), "num_experts_per_tok", json_integer(2));
    json_object_set_new(made_text(&m), "full_attention_interval", json_integer(2));
    json_object_del(made_text(&m), "layer_types");
    made_remove(&m, "layers.0.mlp.gate.weight");
    made_remove(&m, "layers.1.mlp.gate.weight");
    made_remove(&m, "layers.2.mlp.gate.weight");
    check_bind(&m, "more than ", "tensors missing");
}

static void shared_fixtures_bind(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t n_vision, n_mtp;
    } fixtures[] = {{"tiny-text", 0, 0}, {"tiny-stacked", 0, 0}, {"tiny-bf16", 0, 0},
                    {"mtp", 0, 31},      {"tiny-fp8", 0, 59},    {"tiny-fp8-wide", 0, 0},
                    {"tiny-vlm", 33, 31}};
    for (size_t i = 0; i < sizeof fixtures / sizeof fixtures[0]; i++) {
        char dir[300];
        (void)snprintf(dir, sizeof dir, "%s/../shared/fixtures/%s/checkpoint", FN_SOURCE_DIR,
                       fixtures[i].name);
        if (!fn_file_exists(dir)) {
            print_message("no %s: skipped\n", dir);
            skip();
        }
        opened o = open_ok(dir);
        assert_int_equal(o.bound->n_vision, fixtures[i].n_vision);
        assert_int_equal(o.bound->n_mtp, fixtures[i].n_mtp);
        close_all(&o);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_binds_to_the_same_roles),
        cmocka_unit_test(experts_may_differ_from_layer_to_layer),
        cmocka_unit_test(config_decides_about_optional_parts),
        cmocka_unit_test(two_tables_have_their_own_constants),
        cmocka_unit_test(tied_head_ignores_a_stored_one),
        cmocka_unit_test(vision_and_a_head_that_the_config_lacks_are_left_alone),
        cmocka_unit_test(the_mtp_head_binds_and_its_stream_norms_may_have_two_axes),
        cmocka_unit_test(a_head_that_is_missing_or_wrong_is_named),
        cmocka_unit_test(constants_that_differ_from_the_formula_are_named),
        cmocka_unit_test(missing_tensors_are_listed_with_a_hint),
        cmocka_unit_test(no_tensor_can_be_missed),
        cmocka_unit_test(no_shape_or_type_can_differ),
        cmocka_unit_test(shape_errors_give_both_shapes),
        cmocka_unit_test(types_of_no_known_format_are_named),
        cmocka_unit_test(incomplete_experts_name_their_layers),
        cmocka_unit_test(unexpected_tensors_are_named),
        cmocka_unit_test(missing_table_pieces_are_named),
        cmocka_unit_test(table_rows_must_add_up),
        cmocka_unit_test(table_pieces_may_be_uneven),
        cmocka_unit_test(oddly_numbered_pieces_are_refused),
        cmocka_unit_test(enormous_claims_are_refused_fast),
        cmocka_unit_test(shared_fixtures_bind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
