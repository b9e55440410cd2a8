/* Gated attention over selected keys. Reference: Qwen4ExpTextAttention.
 *   per head [q gate] = q_proj x;  q, k = rope(rmsnorm(.));  scale 1 / sqrt(Dh)
 *   y = o_proj(softmax(scale q k^T over the keys that the indexer chose) v * sigmoid(gate))
 * Keys are taken in ascending position, whatever chose them. */
#include <math.h>
#include <string.h>

#include "layers/layers.h"

typedef struct attention_job {
    const fn_attention_weights *w;
    size_t index;
    const fn_step_segment *segment; /* of the single row whose blocks are scored by all threads */
    size_t row;
} attention_job;

static void norm_and_turn(const fn_step *s, float *head, const float *w, size_t width, size_t row) {
    size_t pairs = s->shape->rotary / 2;
    s->k->rms_norm(head, head, w, width, s->shape->norm_eps);
    s->k->rope(head, s->rope_cos + row * pairs, s->rope_sin + row * pairs, s->shape->rotary);
}

static bool keeps_bf16(const fn_step *s) {
    return s->layout->precision != FN_PRECISION_EXACT;
}

/* n floats as the state keeps them, at value `at` of a page. */
static void store(const fn_step *s, void *page, size_t at, const float *x, size_t n) {
    if (keeps_bf16(s)) {
        s->k->f32_to_bf16((uint16_t *)page + at, x, n);
    } else {
        memcpy((float *)page + at, x, n * sizeof *x);
    }
}

static void store_row(const fn_step *s, size_t index, size_t row) {
    const fn_step_segment *g = fn_step_segment_of(s, row);
    const fn_shape *m = s->shape;
    size_t at = g->length + row - g->first;
    void *keys = fn_state_page(g->state, s->parts->keys, index, at / FN_PAGE_ROWS);
    void *values = fn_state_page(g->state, s->parts->values, index, at / FN_PAGE_ROWS);
    for (size_t h = 0; h < m->n_kv_heads; h++) {
        size_t to = (h * FN_PAGE_ROWS + at % FN_PAGE_ROWS) * m->head_dim;
        size_t from = (row * m->n_kv_heads + h) * m->head_dim;
        store(s, keys, to, s->key + from, m->head_dim);
        store(s, values, to, s->value + from, m->head_dim);
    }
}

/* What meets rounded keys is rounded too: the queries of a row and of its indexer. */
static void round_queries(const fn_step *s, size_t row) {
    const fn_shape *m = s->shape;
    for (size_t h = row * m->n_heads; h < (row + 1) * m->n_heads; h++) {
        s->k->f32_to_bf16(s->query_bf16 + h * m->head_dim, s->query + h * 2 * m->head_dim,
                          m->head_dim);
    }
    if (m->has_indexer) {
        size_t width = m->index_heads * m->index_dim;
        s->k->f32_to_bf16(s->index_q_bf16 + row * width, s->index_qk + row * (width + m->index_dim),
                          width);
    }
}

static void prepare_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    const attention_job *j = ctx;
    const fn_shape *m = s->shape;
    size_t q_width = m->n_heads * 2 * m->head_dim;
    size_t kv_width = m->n_kv_heads * m->head_dim;
    (void)thread;
    for (size_t r = begin; r < end; r++) {
        if (j->w->q_bias != NULL) {
            s->k->add(s->query + r * q_width, j->w->q_bias, q_width);
            s->k->add(s->key + r * kv_width, j->w->k_bias, kv_width);
            s->k->add(s->value + r * kv_width, j->w->v_bias, kv_width);
        }
        for (size_t h = 0; h < m->n_heads; h++) {
            norm_and_turn(s, s->query + r * q_width + h * 2 * m->head_dim, j->w->q_norm,
                          m->head_dim, r);
        }
        for (size_t h = 0; h < m->n_kv_heads; h++) {
            norm_and_turn(s, s->key + r * kv_width + h * m->head_dim, j->w->k_norm, m->head_dim, r);
        }
        store_row(s, j->index, r);
        for (size_t h = 0; m->has_indexer && h < m->index_heads; h++) {
            norm_and_turn(s, s->index_qk + (r * (m->index_heads + 1) + h) * m->index_dim,
                          j->w->index_q_norm, m->index_dim, r);
        }
        if (keeps_bf16(s)) {
            round_queries(s, r);
        }
    }
}

static size_t complete_blocks(const fn_step *s, size_t visible) {
    return s->shape->has_indexer ? visible / s->shape->index_ratio : 0;
}

/* Whether a query must choose: more complete blocks than the budget holds. */
static bool must_choose(const fn_step *s, size_t visible) {
    return s->shape->has_indexer &&
           complete_blocks(s, visible) > s->shape->index_budget / s->shape->index_ratio;
}

/* The positions row r reads, into the thread's list. scores: of its complete blocks, if it must choose. */
static size_t choose_keys(const fn_step *s, size_t visible, const float *scores, size_t thread) {
    int32_t *keys = s->chosen_keys + thread * s->max_keys;
    if (must_choose(s, visible)) {
        return fn_indexer_choose(
            scores, complete_blocks(s, visible), s->shape->index_budget / s->shape->index_ratio,
            s->shape->index_ratio, visible, s->block_order + thread * s->max_blocks, keys);
    }
    for (size_t i = 0; i < visible; i++) {
        keys[i] = (int32_t)i;
    }
    return visible;
}

/* Row pointers of the chosen keys for one key head. */
static void gather(const fn_step *s, const fn_step_segment *g, size_t index, size_t head, size_t n,
                   size_t thread) {
    const int32_t *keys = s->chosen_keys + thread * s->max_keys;
    const void **k = s->key_rows + thread * s->max_keys;
    const void **v = s->value_rows + thread * s->max_keys;
    size_t row_bytes = s->shape->head_dim * s->layout->part[FN_PART_KEYS].value_bytes;
    const uint8_t *key_page = NULL;
    const uint8_t *value_page = NULL;
    size_t page = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        size_t at = (size_t)keys[i];
        if (at / FN_PAGE_ROWS != page) {
            page = at / FN_PAGE_ROWS;
            key_page = fn_state_page(g->state, s->parts->keys, index, page);
            value_page = fn_state_page(g->state, s->parts->values, index, page);
        }
        size_t offset = (head * FN_PAGE_ROWS + at % FN_PAGE_ROWS) * row_bytes;
        k[i] = key_page + offset;
        v[i] = value_page + offset;
    }
}

static void attend(const fn_step *s, float *out, size_t row, size_t first_head, size_t heads,
                   size_t n, size_t thread) {
    const fn_shape *m = s->shape;
    size_t d = m->head_dim;
    size_t at = row * m->n_heads + first_head;
    const void **k = s->key_rows + thread * s->max_keys;
    const void **v = s->value_rows + thread * s->max_keys;
    float *scores = s->scores + thread * s->max_keys * (m->n_heads / m->n_kv_heads);
    float scale = 1.0f / sqrtf((float)d);
    if (keeps_bf16(s)) {
        s->k->attention_bf16(&(fn_attention_bf16_args){.out = out,
                                                       .q = s->query_bf16 + at * d,
                                                       .ldq = d,
                                                       .heads = heads,
                                                       .head_dim = d,
                                                       .n_keys = n,
                                                       .k = (const uint16_t *const *)k,
                                                       .v = (const uint16_t *const *)v,
                                                       .scale = scale,
                                                       .scores = scores});
    } else {
        s->k->attention(&(fn_attention_args){.out = out,
                                             .q = s->query + at * 2 * d,
                                             .ldq = 2 * d,
                                             .heads = heads,
                                             .head_dim = d,
                                             .n_keys = n,
                                             .k = (const float *const *)k,
                                             .v = (const float *const *)v,
                                             .scale = scale,
                                             .scores = scores});
    }
}

/* Query heads [first, first + heads), all of one key head, over the thread's n chosen keys. */
static void attend_some(const fn_step *s, const attention_job *j, size_t row, size_t first,
                        size_t heads, size_t n, size_t thread) {
    const fn_shape *m = s->shape;
    size_t d = m->head_dim;
    float *out = s->attended + (row * m->n_heads + first) * d;
    gather(s, fn_step_segment_of(s, row), j->index, first / (m->n_heads / m->n_kv_heads), n,
           thread);
    attend(s, out, row, first, heads, n, thread);
    for (size_t h = 0; h < heads; h++) {
        float *gate = s->query + (row * m->n_heads + first + h) * 2 * d + d;
        s->k->sigmoid(gate, gate, d, 1.0f);
        s->k->mul(out + h * d, out + h * d, gate, d);
    }
}

static void attend_rows(const fn_step *s, const attention_job *j, size_t begin, size_t end,
                        size_t thread) {
    for (size_t r = begin; r < end; r++) {
        const fn_step_segment *g = fn_step_segment_of(s, r);
        size_t visible = g->length + r - g->first + 1;
        float *scores = s->block_scores + thread * s->max_blocks;
        if (must_choose(s, visible)) {
            fn_indexer_score(s, j->index, r, 0, complete_blocks(s, visible), scores);
        }
        size_t n = choose_keys(s, visible, scores, thread);
        if (s->trace != NULL) {
            s->trace->emit(s->trace->ud, s->parts->selected, j->index, g->traced + r - g->first, 1,
                           n, s->chosen_keys + thread * s->max_keys);
        }
        size_t shared_by = s->shape->n_heads / s->shape->n_kv_heads;
        for (size_t h = 0; h < s->shape->n_heads; h += shared_by) {
            attend_some(s, j, r, h, shared_by, n, thread);
        }
    }
}

/* Keys that a row reads, roughly: what it costs. */
static size_t row_cost(const fn_step *s, size_t visible) {
    size_t most = s->shape->index_budget + s->shape->index_ratio;
    return must_choose(s, visible) ? most : visible;
}

/* The first row behind which the costs of all rows up to there exceed `part`. */
static size_t row_at_cost(const fn_step *s, size_t part) {
    size_t cost = 0;
    for (size_t i = 0; i < s->n_segments; i++) {
        const fn_step_segment *g = &s->segments[i];
        for (size_t t = 0; t < g->n; t++) {
            cost += row_cost(s, g->length + t + 1);
            if (cost > part) {
                return g->first + t;
            }
        }
    }
    return s->rows;
}

typedef struct attend_job {
    const fn_step *step;
    const attention_job *attention;
    size_t cost; /* of all rows */
} attend_job;

/* Neighbouring rows, which read much the same keys, on one thread; later rows read more. */
static void attend_share(void *ctx, const fn_turn *turn) {
    const attend_job *j = ctx;
    size_t begin;
    size_t end;
    fn_turn_share(turn, j->cost, &begin, &end);
    attend_rows(j->step, j->attention, row_at_cost(j->step, begin), row_at_cost(j->step, end),
                turn->thread);
}

static void attend_many_rows(const fn_step *s, const attention_job *attention) {
    attend_job j = {.step = s, .attention = attention};
    for (size_t i = 0; i < s->n_segments; i++) {
        const fn_step_segment *g = &s->segments[i];
        for (size_t t = 0; t < g->n; t++) {
            j.cost += row_cost(s, g->length + t + 1);
        }
    }
    fn_pool_run(s->pool, attend_share, &j);
}

/* ---- few rows: all threads share one row's blocks, then its heads ---- */

/* Parts of a key head's query heads that threads take: one where key heads are enough for all, and not so
 * many that reading the keys outweighs what they are read for. */
#define PART_HEADS 4
static size_t head_parts(const fn_step *s) {
    size_t shared_by = s->shape->n_heads / s->shape->n_kv_heads;
    size_t wanted = (fn_pool_threads(s->pool) + s->shape->n_kv_heads - 1) / s->shape->n_kv_heads;
    size_t most = (shared_by + PART_HEADS - 1) / PART_HEADS;
    return wanted < most ? wanted : most;
}

static void score_blocks(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    const attention_job *j = ctx;
    (void)thread;
    fn_indexer_score(s, j->index, j->row, begin, end, s->block_scores + begin);
}

static void attend_parts(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    const attention_job *j = ctx;
    const fn_step_segment *g = j->segment;
    size_t visible = g->length + j->row - g->first + 1;
    size_t n = choose_keys(s, visible, s->block_scores, thread);
    if (s->trace != NULL && begin == 0) {
        s->trace->emit(s->trace->ud, s->parts->selected, j->index, g->traced + j->row - g->first, 1,
                       n, s->chosen_keys + thread * s->max_keys);
    }
    size_t parts = head_parts(s);
    size_t shared_by = s->shape->n_heads / s->shape->n_kv_heads;
    for (size_t i = begin; i < end; i++) {
        size_t first;
        size_t last;
        fn_share(shared_by, i % parts, parts, &first, &last);
        attend_some(s, j, j->row, i / parts * shared_by + first, last - first, n, thread);
    }
}

static void attend_few_rows(const fn_step *s, attention_job *j) {
    for (size_t r = 0; r < s->rows; r++) {
        j->row = r;
        j->segment = fn_step_segment_of(s, r);
        size_t visible = j->segment->length + r - j->segment->first + 1;
        if (must_choose(s, visible)) {
            fn_step_each(s, complete_blocks(s, visible), score_blocks, j);
        }
        fn_step_each(s, s->shape->n_kv_heads * head_parts(s), attend_parts, j);
    }
}

static void bias_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    const attention_job *j = ctx;
    (void)thread;
    for (size_t r = begin; r < end; r++) {
        s->k->add(s->block_out + r * s->shape->hidden, j->w->o_bias, s->shape->hidden);
    }
}

fn_input fn_layer_attention_input(const fn_step *s, const fn_attention_weights *w) {
    fn_input in = fn_input_of(s->mixed, s->shape->hidden);
    fn_input_add(s, &in, s->rows, &w->q);
    fn_input_add(s, &in, s->rows, &w->k);
    fn_input_add(s, &in, s->rows, &w->v);
    if (s->shape->has_indexer) {
        fn_input_add(s, &in, s->rows, &w->index_qk);
    }
    return in;
}

void fn_layer_attention(const fn_step *s, const fn_attention_weights *w, const fn_input *in,
                        size_t index) {
    attention_job j = {.w = w, .index = index};
    fn_linear products[4] = {fn_input_product(s, in, &w->q, s->query, s->rows),
                             fn_input_product(s, in, &w->k, s->key, s->rows),
                             fn_input_product(s, in, &w->v, s->value, s->rows)};
    if (s->shape->has_indexer) {
        products[3] = fn_input_product(s, in, &w->index_qk, s->index_qk, s->rows);
    }
    fn_step_linear(s, products, s->shape->has_indexer ? 4 : 3);
    fn_step_lap(s, FN_PROFILE_ATTENTION_PROJECTIONS);
    fn_step_each(s, s->rows, prepare_rows, &j);
    if (s->shape->has_indexer) {
        fn_indexer_pool(s, w, index);
    }
    fn_step_lap(s, FN_PROFILE_INDEXER);
    if (s->rows >= fn_pool_threads(s->pool) && s->rows > 1) {
        attend_many_rows(s, &j);
    } else {
        attend_few_rows(s, &j);
    }
    fn_step_lap(s, FN_PROFILE_ATTENTION);
    fn_step_project(s, &w->o, s->attended, s->block_out, s->rows);
    if (w->o_bias != NULL) {
        fn_step_each(s, s->rows, bias_rows, &j);
    }
    fn_step_lap(s, FN_PROFILE_ATTENTION_PROJECTIONS);
}
