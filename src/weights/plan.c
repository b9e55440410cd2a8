#include "weights/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/machine.h"
#include "base/saturate.h"
#include "kernels/matrix.h"
#include "shape/ngram_constants.h"
#include "weights/ngram_row.h"

/* The largest n-gram table that is read into RAM unasked: well under a second of reading. */
#define LARGEST_AUTOMATIC ((uint64_t)256 << 20)

/* ---- names ---------------------------------------------------------------------------------- */

const char *fn_plan_class_name(fn_plan_class c) {
    static const char *const names[] = {
#define FN_PLAN_NAME(name, json, words) json,
        FN_PLAN_CLASS_MAP(FN_PLAN_NAME)
#undef FN_PLAN_NAME
    };
    return names[c];
}

const char *fn_plan_class_words(fn_plan_class c) {
    static const char *const words_of[] = {
#define FN_PLAN_WORDS(name, json, words) words,
        FN_PLAN_CLASS_MAP(FN_PLAN_WORDS)
#undef FN_PLAN_WORDS
    };
    return words_of[c];
}

/* ---- one tensor ----------------------------------------------------------------------------- */

static uint64_t round_64(uint64_t n) {
    return n <= UINT64_MAX - 63 ? (n + 63) / 64 * 64 : UINT64_MAX / 64 * 64;
}

static void grow(uint64_t *sum, uint64_t by) {
    *sum = fn_saturate_add(*sum, by);
}

static void add_line(fn_plan_line *sum, const fn_plan_line *by) {
    grow(&sum->params, by->params);
    grow(&sum->stored, by->stored);
    grow(&sum->weights, by->weights);
    grow(&sum->scales, by->scales);
    grow(&sum->mapped, by->mapped);
    grow(&sum->active, by->active);
    grow(&sum->read, by->read);
}

/* Without headers (NULL) every tensor is BF16. */
static uint64_t stored_bytes(const fn_tensor *t, uint64_t n) {
    return t != NULL ? t->bytes : fn_saturate_mul(n, 2);
}

static bool is_bf16(const fn_tensor *t) {
    return t == NULL || t->dtype == FN_DTYPE_BF16;
}

/* As stored; of two kinds F32. */
static fn_matrix_kind stored_kind(const fn_source *a, const fn_source *b) {
    if (a->weight == NULL) {
        return FN_MATRIX_BF16;
    }
    fn_matrix_kind kind = fn_source_kind(a);
    return b == NULL || fn_source_kind(b) == kind ? kind : FN_MATRIX_F32;
}

static uint64_t source_bytes(const fn_source *s, uint64_t n) {
    return s->weight != NULL ? fn_source_bytes(s) : fn_saturate_mul(n, 2);
}

/* How a matrix is kept. */
typedef struct kept_as {
    const fn_weight_settings *settings;
    int bits; /* 0: as stored */
} kept_as;

/* A matrix of `rows` x `cols` numbers stored in source a, or half in a and half in b below it. */
static void add_halves(fn_plan_line *line, kept_as as, uint64_t rows, uint64_t cols,
                       const fn_source *a, const fn_source *b) {
    bool packed_so = a->format == FN_SOURCE_PACKED; /* both halves are in a */
    b = packed_so ? NULL : b;
    fn_matrix_kind kind = packed_so ? a->packed_kind : fn_weight_kind(as.bits, stored_kind(a, b));
    size_t group = packed_so ? a->packed_group : fn_weight_group(as.settings, kind, as.bits);
    uint64_t n = fn_saturate_mul(rows, cols);
    uint64_t packed =
        fn_saturate_mul(fn_matrix_tiles(rows), fn_matrix_tile_bytes(kind, cols, group));
    uint64_t scales = fn_matrix_scale_bytes(kind, rows, cols, group);
    uint64_t half = b != NULL ? n / 2 : n;
    grow(&line->params, n);
    grow(&line->stored, source_bytes(a, half));
    grow(&line->stored, b != NULL ? source_bytes(b, half) : 0);
    grow(&line->weights, packed - scales);
    grow(&line->scales, scales);
    grow(&line->active, n);
    grow(&line->read, packed);
}

static void add_matrix(fn_plan_line *line, kept_as as, uint64_t rows, uint64_t cols,
                       const fn_source *s) {
    add_halves(line, as, rows, cols, s, NULL);
}

static void add_vector(fn_plan_line *line, uint64_t n, const fn_tensor *t) {
    grow(&line->params, n);
    grow(&line->stored, stored_bytes(t, n));
    grow(&line->weights, round_64(fn_saturate_mul(n, sizeof(float))));
    grow(&line->active, n);
    grow(&line->read, fn_saturate_mul(n, sizeof(float)));
}

/* ---- parts of a layer ----------------------------------------------------------------------- */

typedef struct planner {
    const fn_shape *s;
    const fn_plan_settings *set;
    fn_plan_line *lines; /* [FN_PLAN_CLASSES] */
} planner;

static kept_as dense(const planner *p) {
    return (kept_as){&p->set->weights, p->set->weights.dense_bits};
}

static kept_as kept(const planner *p) {
    return (kept_as){&p->set->weights, 0};
}

static void add_mixer(planner *p, const fn_bound_mixer *b, bool final) {
    fn_plan_line *line = &p->lines[FN_PLAN_MIXERS];
    uint64_t streams = fn_shape_streams(p->s);
    add_vector(line, streams, b->norm);
    add_matrix(line, dense(p), p->s->hc_rank, streams, &b->down);
    add_matrix(line, dense(p), streams, p->s->hc_rank, &b->up);
    if (!final) {
        add_matrix(line, kept(p), p->s->hc, streams, &b->inject);
    }
}

static void add_delta(planner *p, const fn_bound_layer *b) {
    const fn_shape *s = p->s;
    fn_plan_line *line = &p->lines[FN_PLAN_DELTA];
    kept_as bits = dense(p);
    add_matrix(line, bits, fn_shape_conv(s), s->hidden, &b->in_qkv);
    add_matrix(line, bits, fn_shape_delta_v(s), s->hidden, &b->in_z);
    add_matrix(line, kept(p), s->delta_v_heads, s->hidden, &b->in_a);
    add_matrix(line, kept(p), s->delta_v_heads, s->hidden, &b->in_b);
    add_matrix(line, bits, s->hidden, fn_shape_delta_v(s), &b->delta_out);
    add_vector(line, fn_shape_conv(s) * s->conv_kernel, b->conv);
    add_vector(line, s->delta_v_heads, b->a_log);
    add_vector(line, s->delta_v_heads, b->dt_bias);
    add_vector(line, s->delta_v_dim, b->delta_norm);
}

static void add_attention(planner *p, const fn_bound_layer *b) {
    const fn_shape *s = p->s;
    fn_plan_line *line = &p->lines[FN_PLAN_ATTENTION];
    kept_as bits = dense(p);
    uint64_t q = s->n_heads * s->head_dim;
    uint64_t kv = s->n_kv_heads * s->head_dim;
    add_matrix(line, bits, 2 * q, s->hidden, &b->q);
    add_matrix(line, bits, kv, s->hidden, &b->k);
    add_matrix(line, bits, kv, s->hidden, &b->v);
    add_matrix(line, bits, s->hidden, q, &b->o);
    if (s->attention_bias) {
        add_vector(line, 2 * q, b->q_bias);
        add_vector(line, kv, b->k_bias);
        add_vector(line, kv, b->v_bias);
        add_vector(line, s->hidden, b->o_bias);
    }
    add_vector(line, s->head_dim, b->q_norm);
    add_vector(line, s->head_dim, b->k_norm);
    if (s->has_indexer) {
        line = &p->lines[FN_PLAN_INDEXER];
        add_matrix(line, kept(p), (s->index_heads + 1) * s->index_dim, s->hidden, &b->index_qk);
        add_vector(line, s->index_dim, b->index_q_norm);
        add_vector(line, s->index_dim, b->index_k_norm);
    }
}

/* All experts of a layer; a token reads n_chosen of n_experts. */
static void add_routed(planner *p, const fn_bound_layer *b) {
    const fn_shape *s = p->s;
    kept_as bits = {&p->set->weights, p->set->weights.expert_bits};
    static const fn_source none;
    bool bound = b->expert_gate != NULL;
    fn_plan_line layer = {0};
    if (s->n_experts == 0) {
        return;
    }
    for (size_t e = 0; e < s->n_experts; e++) {
        add_halves(&layer, bits, 2 * s->expert_width, s->hidden, bound ? &b->expert_gate[e] : &none,
                   bound ? &b->expert_up[e] : &none);
        add_matrix(&layer, bits, s->hidden, s->expert_width, bound ? &b->expert_down[e] : &none);
    }
    layer.active = layer.active / s->n_experts * s->n_chosen;
    layer.read = layer.read / s->n_experts * s->n_chosen;
    /* The engine's table of an expert's two matrices. */
    grow(&layer.weights, 2 * round_64(s->n_experts * sizeof(fn_matrix)));
    add_line(&p->lines[FN_PLAN_ROUTED], &layer);
}

static void add_experts(planner *p, const fn_bound_layer *b) {
    const fn_shape *s = p->s;
    fn_plan_line *line = &p->lines[FN_PLAN_SHARED];
    add_matrix(&p->lines[FN_PLAN_ROUTER], kept(p), s->n_experts, s->hidden, &b->router);
    add_halves(line, dense(p), 2 * s->shared_width, s->hidden, &b->shared_gate, &b->shared_up);
    add_matrix(line, dense(p), s->hidden, s->shared_width, &b->shared_down);
    add_matrix(line, kept(p), 1, s->hidden, &b->shared_expert_gate);
    add_routed(p, b);
}

static void add_table(planner *p, const fn_bound_ple *b, uint64_t rows) {
    fn_plan_line *line = &p->lines[FN_PLAN_NGRAM];
    uint64_t width = fn_shape_ngram_row(p->s);
    uint64_t n = fn_saturate_mul(rows, width);
    uint64_t stored = 0;
    for (size_t i = 0; i < b->n_pieces; i++) {
        grow(&stored, b->pieces[i]->bytes);
    }
    stored = b->n_pieces > 0 ? stored : fn_saturate_mul(n, 2);
    uint64_t scale = b->table_scale != NULL ? b->table_scale->bytes : 0;
    uint64_t bits = (uint64_t)p->set->ngram_bits;
    uint64_t row_bytes = bits > 0 ? (width * bits + 7) / 8 : stored / rows;
    if (bits == 8) {
        row_bytes += FN_NGRAM_SCALE_BYTES;
    } else if (bits > 0 && bits < 16) {
        row_bytes += (width + FN_GROUP_DEFAULT - 1) / FN_GROUP_DEFAULT * 2;
    }
    grow(&line->params, n);
    grow(&line->stored, fn_saturate_add(stored, scale));
    grow(p->set->ngram_in_ram ? &line->weights : &line->mapped, fn_saturate_mul(rows, row_bytes));
    grow(&line->active, p->s->ple_embed);
    grow(&line->read, fn_saturate_mul(fn_shape_ngram_heads(p->s), row_bytes));
}

static void add_ple(planner *p, const fn_bound_ple *bound, size_t index) {
    static const fn_bound_ple none;
    const fn_bound_ple *b = bound != NULL ? bound : &none;
    const fn_shape *s = p->s;
    fn_plan_line *line = &p->lines[FN_PLAN_PLE];
    uint64_t streams = fn_shape_streams(s);
    uint64_t constants = s->ngram_size + 2 * fn_shape_ngram_heads(s);
    fn_ngram_constants hash;
    fn_ngram_constants_init(s, index, &hash);
    add_matrix(line, dense(p), streams, s->ple_embed, &b->key);
    add_matrix(line, dense(p), s->hidden, s->ple_embed, &b->value);
    add_vector(line, streams, b->norm_key);
    add_vector(line, streams, b->norm_query);
    add_vector(line, streams, b->norm_conv);
    add_vector(line, streams * s->ple_kernel, b->conv);
    grow(&line->params, constants);
    grow(&line->stored, constants * sizeof(int64_t));
    add_table(p, b, (uint64_t)hash.padded_rows);
}

static void add_halves_of_layer(planner *p, const fn_bound_layer *b, fn_layer_kind kind) {
    add_mixer(p, &b->attn_mixer, false);
    add_mixer(p, &b->mlp_mixer, false);
    if (kind == FN_LAYER_DELTA) {
        add_delta(p, b);
    } else {
        add_attention(p, b);
    }
    add_experts(p, b);
}

static void add_layer(planner *p, const fn_bound_layer *bound, size_t i) {
    static const fn_bound_layer none;
    const fn_bound_layer *b = bound != NULL ? bound : &none;
    size_t ple = fn_shape_ple_index(p->s, i);
    add_halves_of_layer(p, b, (fn_layer_kind)p->s->layer_kind[i]);
    if (ple < p->s->n_ple) {
        add_ple(p, b->ple, ple);
    }
}

/* ---- embedding and head --------------------------------------------------------------------- */

/* Rows of the embedding are copied as stored; a tied head is packed once and serves as both. */
static void add_ends(planner *p, const fn_bound *bound) {
    static const fn_source none;
    const fn_shape *s = p->s;
    const fn_tensor *embed = bound != NULL ? bound->embed : NULL;
    fn_plan_line *line = &p->lines[FN_PLAN_EMBEDDING];
    fn_plan_line *head = &p->lines[FN_PLAN_HEAD];
    uint64_t row_bytes = s->hidden * (is_bf16(embed) ? sizeof(uint16_t) : sizeof(float));
    uint64_t n = fn_saturate_mul(s->vocab, s->hidden);
    line->params = n;
    line->stored =
        stored_bytes(embed == NULL && bound != NULL ? bound->tied_head.weight : embed, n);
    line->read = row_bytes;
    if (s->tied_head) {
        add_matrix(head, kept(p), s->vocab, s->hidden, bound != NULL ? &bound->tied_head : &none);
        head->params = 0;
        head->stored = 0;
    } else {
        line->weights = round_64(fn_saturate_mul(s->vocab, row_bytes));
        add_matrix(head, dense(p), s->vocab, s->hidden, bound != NULL ? &bound->head : &none);
    }
}

/* ---- the whole ------------------------------------------------------------------------------ */

static fn_status check_ngram_bits(int bits, fn_error *err) {
    if (bits == 0 || bits == 4 || bits == 8 || bits == 16 || bits == 32) {
        return FN_OK;
    }
    return fn_fail(err, FN_E_USAGE, "ngram_bits: %d, expected 4, 8, 16, 32 or 0 (as stored)", bits);
}

/* Scales that a token reads of a class: of routed experts its share. */
static uint64_t scales_read(const fn_shape *s, const fn_plan_line *line, bool routed) {
    return routed ? line->scales / s->n_experts * s->n_chosen : line->scales;
}

/* The head's parts in one line. One token multiplies by them beside the model, not for it. */
static void add_mtp(planner *p, const fn_bound_mtp *bound, uint64_t *read) {
    static const fn_bound_mtp none;
    const fn_bound_mtp *b = bound != NULL ? bound : &none;
    const fn_shape *s = p->s;
    fn_plan_line lines[FN_PLAN_CLASSES] = {0};
    fn_plan_line *line = &lines[FN_PLAN_MTP];
    planner own = {.s = s, .set = p->set, .lines = lines};
    add_matrix(line, dense(p), s->hidden, s->hidden, &b->fc_embedding);
    add_matrix(line, dense(p), s->hidden, s->hidden, &b->fc_hidden);
    add_vector(line, s->hidden, b->norm_embedding);
    add_vector(line, fn_shape_streams(s), b->norm_hidden);
    add_mixer(&own, &b->mixer, true);
    add_halves_of_layer(&own, &b->layer, FN_LAYER_ATTENTION);
    for (size_t i = 0; i < FN_PLAN_CLASSES; i++) {
        lines[i].active = 0;
        grow(read, scales_read(s, &lines[i], i == FN_PLAN_ROUTED));
        add_line(&p->lines[FN_PLAN_MTP], &lines[i]);
    }
}

/* Tensors that are recognised and left alone: sizes from headers where there are some. */
static fn_status add_unloaded(const fn_plan_source *source, fn_plan_line *lines, fn_error *err) {
    const fn_checkpoint *c = source->checkpoint;
    for (size_t i = 0; c != NULL && i < fn_checkpoint_count(c); i++) {
        const fn_tensor *t = fn_checkpoint_at(c, i);
        bool mtp = strncmp(t->name, "mtp.", 4) == 0 && source->shape->n_mtp == 0;
        if (mtp || strncmp(t->name, "model.visual.", 13) == 0) {
            fn_plan_line *line = &lines[mtp ? FN_PLAN_MTP : FN_PLAN_VISION];
            grow(&line->params, fn_tensor_elements(t));
            grow(&line->stored, t->bytes);
        }
    }
    if (c == NULL && source->shape->has_vision && source->config != NULL) {
        fn_plan_line *line = &lines[FN_PLAN_VISION];
        fn_status status = fn_plan_vision_params(source->config, &line->params, err);
        line->stored = fn_saturate_mul(line->params, 2);
        return status;
    }
    return FN_OK;
}

static void sum_up(fn_memory_plan *plan, const fn_shape *s, const fn_plan_settings *set) {
    plan->scales_read = plan->mtp_scales_read;
    for (size_t i = 0; i < FN_PLAN_CLASSES; i++) {
        const fn_plan_line *line = &plan->lines[i];
        bool routed = i == FN_PLAN_ROUTED;
        add_line(&plan->total, line);
        if (i != FN_PLAN_MTP) {
            grow(&plan->scales_read, scales_read(s, line, routed));
        }
        if (!routed && i != FN_PLAN_NGRAM && i != FN_PLAN_MTP && i != FN_PLAN_VISION) {
            add_line(&plan->dense, line);
        }
    }
    size_t sequences = set->sequences > 0 ? set->sequences : 1;
    plan->states = fn_saturate_mul(set->state_bytes, sequences);
    plan->scratch = set->scratch_bytes;
    plan->resident = fn_saturate_add(fn_saturate_add(plan->total.weights, plan->total.scales),
                                     fn_saturate_add(plan->states, plan->scratch));
}

fn_status fn_memory_plan_make(const fn_plan_source *source, const fn_plan_settings *settings,
                              fn_memory_plan *out, fn_error *err) {
    static const fn_bound_mixer none;
    const fn_shape *s = source->shape;
    const fn_bound *bound = source->bound;
    *out = (fn_memory_plan){0};
    planner p = {.s = s, .set = settings, .lines = out->lines};
    fn_status status = fn_weight_settings_check(&settings->weights, err);
    if (status == FN_OK) {
        status = check_ngram_bits(settings->ngram_bits, err);
    }
    if (status == FN_OK) {
        status = add_unloaded(source, out->lines, err);
    }
    if (status != FN_OK) {
        *out = (fn_memory_plan){0};
        return status;
    }
    add_ends(&p, bound);
    add_mixer(&p, bound != NULL ? &bound->mixer : &none, true);
    for (size_t i = 0; i < s->n_layers; i++) {
        add_layer(&p, bound != NULL ? &bound->layers[i] : NULL, i);
    }
    if (s->n_mtp > 0) {
        add_mtp(&p, bound != NULL ? bound->mtp : NULL, &out->mtp_scales_read);
    }
    sum_up(out, s, settings);
    return FN_OK;
}

fn_status fn_plan_place_ngram(const fn_plan_source *source, const fn_plan_settings *settings,
                              fn_ngram_place asked, uint64_t limit, bool *in_ram, fn_error *err) {
    fn_memory_plan plan;
    fn_plan_settings tried = *settings;
    *in_ram = asked == FN_NGRAM_RAM;
    if (asked != FN_NGRAM_AUTO) {
        return FN_OK;
    }
    tried.ngram_in_ram = true;
    fn_status status = fn_memory_plan_make(source, &tried, &plan, err);
    *in_ram = status == FN_OK && plan.lines[FN_PLAN_NGRAM].weights <= LARGEST_AUTOMATIC &&
              (limit == 0 || plan.resident <= limit);
    return status;
}

/* ---- refusal -------------------------------------------------------------------------------- */

/* "12.3 MiB"; what is smaller in KiB, or in bytes. */
static const char *size_text(uint64_t bytes, char *text, size_t room) {
    if (bytes < 1024) {
        (void)snprintf(text, room, "%u bytes", (unsigned)bytes);
    } else if (bytes < (uint64_t)1 << 20) {
        (void)snprintf(text, room, "%.1f KiB", (double)bytes / 1024.0);
    } else {
        (void)snprintf(text, room, "%.1f MiB", (double)bytes / (1024.0 * 1024.0));
    }
    return text;
}

static void append(char *text, size_t room, const char *words, uint64_t bytes) {
    char size[32];
    size_t used = strlen(text);
    if (bytes > 0) {
        (void)snprintf(text + used, room - used, "\n  %-18s %16s", words,
                       size_text(bytes, size, sizeof size));
    }
}

fn_status fn_plan_check(const fn_shape *shape, const fn_bound *bound,
                        const fn_plan_settings *settings, uint64_t mem_limit, fn_error *err) {
    fn_memory_plan plan;
    char table[900] = "";
    char need[32];
    char have[32];
    fn_plan_source source = {.shape = shape, .bound = bound};
    fn_status status = fn_memory_plan_make(&source, settings, &plan, err);
    uint64_t limit = mem_limit > 0 ? mem_limit : fn_machine_memory_now().available;
    if (status != FN_OK || limit == 0 || plan.resident <= limit) {
        return status;
    }
    for (size_t i = 0; i < FN_PLAN_CLASSES; i++) {
        const fn_plan_line *line = &plan.lines[i];
        append(table, sizeof table, fn_plan_class_words((fn_plan_class)i),
               fn_saturate_add(line->weights, line->scales));
    }
    append(table, sizeof table, "states", plan.states);
    append(table, sizeof table, "scratch", plan.scratch);
    return fn_fail(err, FN_E_FIT, "needs %s, %s %s:%s", size_text(plan.resident, need, sizeof need),
                   mem_limit > 0 ? "the limit is" : "available are",
                   size_text(limit, have, sizeof have), table);
}
