/* weights/load.c - checkpoint tensors -> one arena of packed matrices and float vectors.
 *
 * The same walk over the model runs twice: once to sum the sizes, once to place everything and note what
 * must be read (weights/pack.h). */
#include "base/mem.h"
#include "weights/pack.h"
#include "weights/weights.h"

/* What is placed begins at multiples of this; the tiles of a matrix are a multiple, too. */
#define ARENA_STEP 64

/* What decides in which kind of matrix weights are kept. */
typedef enum weight_class {
    KEEP, /* never narrower than stored */
    DENSE,
    EXPERT,
    WEIGHT_CLASSES
} weight_class;

typedef struct loader {
    const fn_shape *shape;
    uint8_t *arena; /* NULL while sizes are summed */
    size_t used;
    fn_pack_list list;                /* filled when there is an arena */
    const fn_weight_visitor *visitor; /* or NULL: it is told, and nothing is placed */
    size_t mapped;                    /* bytes of packed matrices left in their files */
    const fn_weight_settings *settings;
    int bits[WEIGHT_CLASSES]; /* 0: as stored */
    bool quantises;
} loader;

static void *place(loader *l, size_t bytes) {
    size_t at = l->used;
    l->used += (bytes + ARENA_STEP - 1) / ARENA_STEP * ARENA_STEP;
    return l->arena != NULL ? l->arena + at : NULL;
}

static void add_task(loader *l, const fn_pack_task *t) {
    if (l->arena != NULL) {
        fn_pack_add(&l->list, t);
    }
}

static void add_rows(loader *l, const fn_pack_task *whole) {
    if (l->arena != NULL) {
        fn_pack_add_rows(&l->list, whole);
    }
}

/* A packed matrix: where its file is mapped, or a copy. */
static fn_matrix stored_matrix(loader *l, const fn_source *s) {
    fn_matrix m = {
        .kind = s->packed_kind, .rows = s->rows, .cols = s->cols, .group = s->packed_group};
    size_t bytes = fn_matrix_bytes(m.kind, m.rows, m.cols, m.group);
    m.tile_bytes = fn_matrix_tile_bytes(m.kind, m.cols, m.group);
    m.tiles = fn_tensor_mapped(l->list.checkpoint, s->weight);
    l->mapped += m.tiles != NULL ? bytes : 0;
    if (m.tiles == NULL) {
        uint8_t *tiles = place(l, bytes);
        m.tiles = tiles;
        add_rows(l, &(fn_pack_task){.kind = FN_PACK_COPY,
                                    .tensor = s->weight,
                                    .rows = bytes / ARENA_STEP,
                                    .cols = ARENA_STEP,
                                    .dst = tiles});
    }
    return m;
}

/* One matrix made of up to two sources, one below the other. Of two kinds the result is F32, which
 * holds both exactly. */
static fn_matrix matrix_of(loader *l, const fn_source *const *parts, size_t n_parts,
                           weight_class class) {
    if (parts[0]->format == FN_SOURCE_PACKED) {
        return stored_matrix(l, parts[0]);
    }
    fn_matrix m = {.kind = fn_source_kind(parts[0]), .cols = parts[0]->cols};
    for (size_t i = 0; i < n_parts; i++) {
        m.rows += parts[i]->rows;
        m.kind = fn_source_kind(parts[i]) == m.kind ? m.kind : FN_MATRIX_F32;
    }
    m.kind = fn_weight_kind(l->bits[class], m.kind);
    m.group = fn_weight_group(l->settings, m.kind, l->bits[class]);
    m.tile_bytes = fn_matrix_tile_bytes(m.kind, m.cols, m.group);
    if (l->visitor != NULL) {
        l->visitor->matrix(l->visitor->ud, parts, n_parts, &m);
        return m;
    }
    uint8_t *tiles = place(l, fn_matrix_bytes(m.kind, m.rows, m.cols, m.group));
    m.tiles = tiles;
    size_t row = 0;
    bool groups = m.kind == FN_MATRIX_INT8 || m.kind == FN_MATRIX_INT4;
    for (size_t i = 0; i < n_parts; i++) {
        l->quantises |= groups && fn_source_kind(parts[i]) != m.kind;
        add_rows(l, &(fn_pack_task){.kind = FN_PACK_MATRIX,
                                    .source = parts[i],
                                    .rows = parts[i]->rows,
                                    .cols = m.cols,
                                    .matrix = m,
                                    .dst_row = row,
                                    .dst = tiles});
        row += parts[i]->rows;
    }
    return m;
}

static fn_matrix matrix(loader *l, const fn_source *source, weight_class class) {
    return source->weight != NULL ? matrix_of(l, &source, 1, class) : (fn_matrix){0};
}

static fn_matrix two_matrices(loader *l, const fn_source *above, const fn_source *below,
                              weight_class class) {
    return matrix_of(l, (const fn_source *const[]){above, below}, 2, class);
}

static const float *floats(loader *l, const fn_tensor *tensor, fn_pack_kind kind) {
    if (tensor == NULL) {
        return NULL;
    }
    if (l->visitor != NULL) {
        l->visitor->tensor(l->visitor->ud, tensor);
        return NULL;
    }
    size_t n = (size_t)fn_tensor_elements(tensor);
    float *dst = place(l, n * sizeof *dst);
    size_t rows = kind == FN_PACK_CONV ? (size_t)tensor->dims[0] : 1;
    add_task(l, &(fn_pack_task){
                    .kind = kind, .tensor = tensor, .rows = rows, .cols = n / rows, .dst = dst});
    return dst;
}

static const float *vector(loader *l, const fn_tensor *tensor) {
    return floats(l, tensor, FN_PACK_VECTOR);
}

static fn_mixer_weights mixer(loader *l, const fn_bound_mixer *b) {
    return (fn_mixer_weights){.norm = vector(l, b->norm),
                              .down = matrix(l, &b->down, DENSE),
                              .up = matrix(l, &b->up, DENSE),
                              .inject = matrix(l, &b->inject, KEEP)};
}

static void experts(loader *l, const fn_bound_layer *b, fn_moe_weights *w) {
    const fn_shape *s = l->shape;
    fn_matrix *gate_up = place(l, s->n_experts * sizeof *gate_up);
    fn_matrix *down = place(l, s->n_experts * sizeof *down);
    for (size_t e = 0; e < s->n_experts; e++) {
        fn_matrix m_gate_up = two_matrices(l, &b->expert_gate[e], &b->expert_up[e], EXPERT);
        fn_matrix m_down = matrix(l, &b->expert_down[e], EXPERT);
        if (l->arena != NULL) {
            gate_up[e] = m_gate_up;
            down[e] = m_down;
        }
    }
    w->gate_up = gate_up;
    w->down = down;
}

static void layer(loader *l, const fn_bound_layer *b, fn_layer_weights *w) {
    w->attn_mixer = mixer(l, &b->attn_mixer);
    w->mlp_mixer = mixer(l, &b->mlp_mixer);
    if (b->in_qkv.weight != NULL) {
        w->delta = (fn_delta_weights){.in_qkv = matrix(l, &b->in_qkv, DENSE),
                                      .in_z = matrix(l, &b->in_z, DENSE),
                                      .in_a = matrix(l, &b->in_a, KEEP),
                                      .in_b = matrix(l, &b->in_b, KEEP),
                                      .out = matrix(l, &b->delta_out, DENSE),
                                      .conv = floats(l, b->conv, FN_PACK_CONV),
                                      .a = floats(l, b->a_log, FN_PACK_NEG_EXP),
                                      .dt_bias = vector(l, b->dt_bias),
                                      .norm = vector(l, b->delta_norm)};
    } else {
        w->attention = (fn_attention_weights){.q = matrix(l, &b->q, DENSE),
                                              .k = matrix(l, &b->k, DENSE),
                                              .v = matrix(l, &b->v, DENSE),
                                              .o = matrix(l, &b->o, DENSE),
                                              .q_bias = vector(l, b->q_bias),
                                              .k_bias = vector(l, b->k_bias),
                                              .v_bias = vector(l, b->v_bias),
                                              .o_bias = vector(l, b->o_bias),
                                              .q_norm = vector(l, b->q_norm),
                                              .k_norm = vector(l, b->k_norm),
                                              .index_qk = matrix(l, &b->index_qk, KEEP),
                                              .index_q_norm = vector(l, b->index_q_norm),
                                              .index_k_norm = vector(l, b->index_k_norm)};
    }
    w->moe.router = matrix(l, &b->router, KEEP);
    w->moe.shared_gate_up = two_matrices(l, &b->shared_gate, &b->shared_up, DENSE);
    w->moe.shared_down = matrix(l, &b->shared_down, DENSE);
    w->moe.shared_expert_gate = matrix(l, &b->shared_expert_gate, KEEP);
    experts(l, b, &w->moe);
}

static void ple(loader *l, const fn_bound_ple *b, fn_ple_weights *w) {
    w->key = matrix(l, &b->key, DENSE);
    w->value = matrix(l, &b->value, DENSE);
    w->norm_key = vector(l, b->norm_key);
    w->norm_query = vector(l, b->norm_query);
    w->norm_conv = vector(l, b->norm_conv);
    w->conv = floats(l, b->conv, FN_PACK_CONV);
}

static void embedding(loader *l, const fn_bound *b, fn_weights *w) {
    const fn_tensor *t = b->embed;
    if (b->head.weight == NULL) {
        w->head = matrix(l, &b->tied_head, KEEP);
        return;
    }
    w->head = matrix(l, &b->head, DENSE);
    w->embed_dtype = t->dtype == FN_DTYPE_BF16 ? FN_DTYPE_BF16 : FN_DTYPE_F32;
    if (l->visitor != NULL) {
        l->visitor->tensor(l->visitor->ud, t);
        return;
    }
    const uint8_t *view = fn_tensor_mapped(l->list.checkpoint, t);
    if (view != NULL && t->dtype == w->embed_dtype && (uintptr_t)view % sizeof(float) == 0) {
        w->embed = view;
        l->mapped += (size_t)t->bytes;
        return;
    }
    uint8_t *dst = place(l, (size_t)fn_tensor_elements(t) * fn_dtype_bytes(w->embed_dtype));
    w->embed = dst;
    add_rows(l, &(fn_pack_task){.kind = FN_PACK_RAW,
                                .tensor = t,
                                .rows = (size_t)t->dims[0],
                                .cols = (size_t)t->dims[1],
                                .dst = dst});
}

static void mtp(loader *l, const fn_bound_mtp *b, fn_mtp_weights *w) {
    w->norm_embedding = vector(l, b->norm_embedding);
    w->norm_hidden = vector(l, b->norm_hidden);
    w->fc_embedding = matrix(l, &b->fc_embedding, DENSE);
    w->fc_hidden = matrix(l, &b->fc_hidden, DENSE);
    layer(l, &b->layer, &w->layer);
    w->mixer = mixer(l, &b->mixer);
}

static void walk(loader *l, const fn_bound *bound, fn_weights *w) {
    embedding(l, bound, w);
    w->mixer = mixer(l, &bound->mixer);
    for (size_t i = 0; i < l->shape->n_layers; i++) {
        layer(l, &bound->layers[i], &w->layers[i]);
        size_t p = fn_shape_ple_index(l->shape, i);
        if (p < l->shape->n_ple) {
            fn_ngram_constants_init(l->shape, p, &w->ple[p].hash);
            ple(l, bound->layers[i].ple, &w->ple[p]);
            w->layers[i].ple = &w->ple[p];
        }
    }
    if (bound->mtp != NULL && w->mtp != NULL) {
        mtp(l, bound->mtp, w->mtp);
    }
}

static loader loader_of(const fn_shape *shape, const fn_weight_settings *settings) {
    return (loader){.shape = shape,
                    .settings = settings,
                    .bits = {[DENSE] = settings->dense_bits, [EXPERT] = settings->expert_bits}};
}

static fn_status weights_create(const fn_shape *shape, fn_weights **out, fn_error *err) {
    fn_weights *w = fn_alloc_zero(1, sizeof *w);
    *out = NULL;
    if (w == NULL) {
        return fn_fail_nomem(err, "the weights", sizeof *w);
    }
    w->shape = *shape;
    w->layers = fn_alloc_zero(shape->n_layers, sizeof *w->layers);
    w->ple = fn_alloc_zero(shape->n_ple, sizeof *w->ple);
    w->mtp = shape->n_mtp > 0 ? fn_alloc_zero(1, sizeof *w->mtp) : NULL;
    if (w->layers == NULL || w->ple == NULL || (shape->n_mtp > 0 && w->mtp == NULL)) {
        fn_weights_free(w);
        return fn_fail_nomem(err, "the table of layers", shape->n_layers * sizeof *w->layers);
    }
    *out = w;
    return FN_OK;
}

fn_status fn_weights_size(const fn_bound *bound, const fn_shape *shape,
                          const fn_weight_settings *settings, size_t *bytes, fn_error *err) {
    fn_weights *w = NULL;
    *bytes = 0;
    fn_status status = weights_create(shape, &w, err);
    if (status == FN_OK) {
        loader l = loader_of(shape, settings);
        walk(&l, bound, w);
        *bytes = l.used;
    }
    fn_weights_free(w);
    return status;
}

bool fn_weights_quantises(const fn_bound *bound, const fn_shape *shape,
                          const fn_weight_settings *settings) {
    fn_weights *w = NULL;
    loader l = loader_of(shape, settings);
    if (weights_create(shape, &w, NULL) == FN_OK) {
        walk(&l, bound, w);
    }
    fn_weights_free(w);
    return l.quantises;
}

fn_status fn_weights_visit(const fn_bound *bound, const fn_shape *shape,
                           const fn_weight_settings *settings, const fn_weight_visitor *visitor,
                           fn_error *err) {
    fn_weights *w = NULL;
    fn_status status = weights_create(shape, &w, err);
    if (status == FN_OK) {
        loader l = loader_of(shape, settings);
        l.visitor = visitor;
        walk(&l, bound, w);
    }
    fn_weights_free(w);
    return status;
}

fn_status fn_weights_load(const fn_checkpoint *c, const fn_bound *bound, const fn_shape *shape,
                          const fn_weight_settings *settings, fn_pool *pool,
                          const fn_load_watch *watch, fn_weights **out, fn_error *err) {
    fn_weights *w = NULL;
    loader l = loader_of(shape, settings);
    l.list.checkpoint = c;
    *out = NULL;
    fn_status status = weights_create(shape, &w, err);
    if (status != FN_OK) {
        return status;
    }
    walk(&l, bound, w);
    w->arena_bytes = l.used;
    w->arena = fn_pages_alloc(l.used);
    if (w->arena == NULL) {
        status = fn_fail_nomem(err, "the weights", l.used);
        goto done;
    }
    l.arena = w->arena;
    l.used = 0;
    l.mapped = 0;
    walk(&l, bound, w);
    w->mapped_bytes = l.mapped;
    status = fn_pack_run(&l.list, pool, watch, err);
done:
    fn_pack_free(&l.list);
    if (status != FN_OK) {
        fn_weights_free(w);
        w = NULL;
    }
    *out = w;
    return status;
}

void fn_weights_free(fn_weights *w) {
    if (w == NULL) {
        return;
    }
    fn_pages_free(w->arena, w->arena_bytes);
    fn_free(w->layers);
    fn_free(w->ple);
    fn_free(w->mtp);
    fn_free(w);
}
