/* Traced forwards: runs ids through the model and writes what the ladder of evidence compares. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "engine/engine.h"
#include "flashnext_tools.h"

/* Rows of logits of one forward take at most this; smaller pieces give the same bits. */
#define MAX_LOGIT_BYTES ((size_t)64 << 20)

/* name, trace kind or none, dtype, element type, dimensions as a list; letters below. Present if it has elements
 * and tracing is on (logits: always). */
#define TENSORS(X)                                                                                 \
    X(logits, "F32", float, 3, {B, T, V})                                                          \
    X(streams, "F32", float, 4, {L, T, hc, D})                                                     \
    X(hidden, "F32", float, 2, {T, D})                                                             \
    X(mixer_out, "F32", float, 3, {L, T, D})                                                       \
    X(mlp_out, "F32", float, 3, {L, T, D})                                                         \
    X(ple_out, "F32", float, 4, {P, T, hc, D})                                                     \
    X(router_ids, "I32", int32_t, 3, {L, T, K})                                                    \
    X(router_weights, "F32", float, 3, {L, T, K})                                                  \
    X(delta_state, "F32", float, 4, {N, Hv, dk, dv})                                               \
    X(qsa_selected, "U8", uint8_t, 4, {A, B, T, T})                                                \
    X(ngram_rows, "I64", int64_t, 4, {P, B, T, H})                                                 \
    X(mtp_fused, "F32", float, 3, {M, hc, D})                                                      \
    X(mtp_streams, "F32", float, 3, {M, hc, D})                                                    \
    X(mtp_logits, "F32", float, 2, {M, V})                                                         \
    X(mtp_qsa_selected, "U8", uint8_t, 2, {M, M})                                                  \
    X(draft_tokens, "I32", int32_t, 1, {C > 0 ? C + 1 : 0})                                        \
    X(draft_logits, "F32", float, 2, {C, V})                                                       \
    X(draft_streams, "F32", float, 3, {C, hc, D})

typedef enum tensor_id {
#define TENSOR_ENUM(name, dtype, type, n_dims, ...) T_##name,
    TENSORS(TENSOR_ENUM)
#undef TENSOR_ENUM
        N_TENSORS
} tensor_id;

typedef struct tensor {
    const char *name, *dtype;
    size_t n_dims, bytes;
    uint64_t dims[4];
    uint8_t *data;
} tensor;

typedef struct tracer {
    fn_engine *engine;
    const fn_trace_options *options;
    tensor tensors[N_TENSORS];
    fn_state **states;    /* [B] */
    fn_segment *segments; /* [B] */
    uint8_t *wants;       /* [max rows], all set */
    float *logits;        /* of one forward */
    float *mtp_logits;    /* [V] of one pair */
    size_t at, n;         /* the piece that runs: positions [at, at + n) */
    size_t first_row;     /* the batch row of its first segment */
} tracer;

static void describe(tracer *t) {
    const fn_shape *s = &t->engine->shape;
    uint64_t B = t->options->rows;
    uint64_t T = t->options->length;
    uint64_t V = s->vocab;
    uint64_t L = s->n_layers;
    uint64_t D = s->hidden;
    uint64_t hc = s->hc;
    uint64_t P = s->n_ple;
    uint64_t K = s->n_chosen;
    uint64_t N = s->n_delta;
    uint64_t Hv = s->delta_v_heads;
    uint64_t dk = s->delta_k_dim;
    uint64_t dv = s->delta_v_dim;
    uint64_t A = s->n_attention;
    uint64_t H = P > 0 ? fn_shape_ngram_heads(s) : 0;
    uint64_t M = s->n_mtp * (T - 1);
    uint64_t C = t->options->drafts;
#define TENSOR_FILL(label, kind, type, count, ...)                                                 \
    t->tensors[T_##label] = (tensor){.name = #label,                                               \
                                     .dtype = (kind),                                              \
                                     .n_dims = (count),                                            \
                                     .bytes = sizeof(type),                                        \
                                     .dims = __VA_ARGS__};
    TENSORS(TENSOR_FILL)
#undef TENSOR_FILL
    for (size_t i = 0; i < N_TENSORS; i++) {
        for (size_t d = 0; d < t->tensors[i].n_dims; d++) {
            t->tensors[i].bytes *= t->tensors[i].dims[d];
        }
        if (i != T_logits && i < T_draft_tokens && !t->options->trace) {
            t->tensors[i].bytes = 0;
        }
    }
}

/* Row r of the running forward: batch row and position. */
static void locate(const tracer *t, size_t r, size_t *b, size_t *at) {
    *b = t->first_row + r / t->n;
    *at = t->at + r % t->n;
}

static void copy_row(tracer *t, tensor_id id, size_t layer, size_t b, size_t at, const void *data,
                     size_t row_bytes) {
    const tensor *to = &t->tensors[id];
    bool per_batch = id == T_ngram_rows;
    if (b == 0 || per_batch) {
        size_t rows = per_batch ? t->options->rows : 1;
        size_t index = ((layer * rows) + b) * t->options->length + at;
        memcpy(to->data + index * row_bytes, data, row_bytes);
    }
}

/* The MTP head's values are kept for batch row 0, by the pair's first token; `at` is its second. */
static void copy_pair(tracer *t, tensor_id id, size_t b, size_t at, const void *data,
                      size_t row_bytes) {
    if (b == 0) {
        memcpy(t->tensors[id].data + (at - 1) * row_bytes, data, row_bytes);
    }
}

static void mark_pairs(tracer *t, size_t row, size_t n, const int32_t *pairs) {
    size_t b;
    size_t at;
    size_t M = t->options->length - 1;
    locate(t, row, &b, &at);
    for (size_t i = 0; b == 0 && i < n; i++) {
        t->tensors[T_mtp_qsa_selected].data[(at - 1) * M + (size_t)pairs[i]] = 1;
    }
}

static void mark_selected(tracer *t, size_t layer, size_t row, size_t n, const int32_t *positions) {
    size_t b;
    size_t at;
    size_t T = t->options->length;
    locate(t, row, &b, &at);
    uint8_t *mask = t->tensors[T_qsa_selected].data + ((layer * t->options->rows + b) * T + at) * T;
    for (size_t i = 0; i < n; i++) {
        mask[positions[i]] = 1;
    }
}

static void emit(void *ud, fn_trace_kind kind, size_t layer, size_t first_row, size_t rows,
                 size_t width, const void *data) {
    static const struct {
        tensor_id id;
        size_t bytes;
    } map[] = {
        [FN_TRACE_STREAMS] = {T_streams, sizeof(float)},
        [FN_TRACE_MIXER_OUT] = {T_mixer_out, sizeof(float)},
        [FN_TRACE_MLP_OUT] = {T_mlp_out, sizeof(float)},
        [FN_TRACE_PLE_OUT] = {T_ple_out, sizeof(float)},
        [FN_TRACE_ROUTER_IDS] = {T_router_ids, sizeof(int32_t)},
        [FN_TRACE_ROUTER_WEIGHTS] = {T_router_weights, sizeof(float)},
        [FN_TRACE_SELECTED] = {T_qsa_selected, 1},
        [FN_TRACE_NGRAM_ROWS] = {T_ngram_rows, sizeof(int64_t)},
        [FN_TRACE_HIDDEN] = {T_hidden, sizeof(float)},
        [FN_TRACE_MTP_FUSED] = {T_mtp_fused, sizeof(float)},
        [FN_TRACE_MTP_STREAMS] = {T_mtp_streams, sizeof(float)},
        [FN_TRACE_MTP_LOGITS] = {T_mtp_logits, sizeof(float)},
    };
    tracer *t = ud;
    if (kind == FN_TRACE_SELECTED) {
        mark_selected(t, layer, first_row, width, data);
        return;
    }
    if (kind == FN_TRACE_MTP_SELECTED) {
        mark_pairs(t, first_row, width, data);
        return;
    }
    for (size_t r = 0; r < rows; r++) {
        size_t b;
        size_t at;
        size_t row_bytes = width * map[kind].bytes;
        locate(t, first_row + r, &b, &at);
        const uint8_t *row = (const uint8_t *)data + r * row_bytes;
        if (map[kind].id >= T_mtp_fused) {
            copy_pair(t, map[kind].id, b, at, row, row_bytes);
        } else {
            copy_row(t, map[kind].id, layer, b, at, row, row_bytes);
        }
    }
}

/* One forward over positions [at, at + n) of n_rows batch rows from first_row on. */
static fn_status run_piece(tracer *t, size_t first_row, size_t n_rows, size_t at, size_t n,
                           fn_error *err) {
    size_t T = t->options->length;
    size_t V = t->engine->shape.vocab;
    fn_trace trace = {emit, t, t->mtp_logits};
    t->at = at;
    t->n = n;
    t->first_row = first_row;
    for (size_t i = 0; i < n_rows; i++) {
        t->segments[i] = (fn_segment){.state = t->states[first_row + i],
                                      .ids = t->options->ids + (first_row + i) * T + at,
                                      .n = n,
                                      .wants = t->wants};
    }
    pthread_mutex_lock(&t->engine->mutex);
    fn_status status = fn_forward_run(t->engine->forward, t->segments, n_rows, t->logits,
                                      t->options->trace ? &trace : NULL, err);
    pthread_mutex_unlock(&t->engine->mutex);
    for (size_t i = 0; i < n_rows && status == FN_OK; i++) {
        float *to = (float *)(void *)t->tensors[T_logits].data + ((first_row + i) * T + at) * V;
        memcpy(to, t->logits + i * n * V, n * V * sizeof *to);
    }
    return status;
}

static size_t most_rows(const fn_engine *e) {
    size_t rows = MAX_LOGIT_BYTES / (e->shape.vocab * sizeof(float));
    rows = rows > 0 ? rows : 1;
    return rows < e->chunk ? rows : e->chunk;
}

static fn_status run_rows(tracer *t, size_t first_row, size_t n_rows, fn_error *err) {
    const fn_trace_options *o = t->options;
    size_t whole[1] = {o->length};
    const size_t *split = o->n_split > 0 ? o->split : whole;
    size_t n_split = o->n_split > 0 ? o->n_split : 1;
    size_t limit = most_rows(t->engine) / n_rows;
    fn_status status = FN_OK;
    size_t at = 0;
    if (limit == 0) {
        return fn_fail(err, FN_E_RANGE, "%zu rows together: at most %zu fit one forward", n_rows,
                       most_rows(t->engine));
    }
    for (size_t i = 0; i < n_split; i++) {
        for (size_t left = split[i]; left > 0 && status == FN_OK;) {
            size_t n = left < limit ? left : limit;
            status = run_piece(t, first_row, n_rows, at, n, err);
            at += n;
            left -= n;
        }
    }
    return status;
}

static fn_status check_drafts(const fn_engine *e, const fn_trace_options *o, fn_error *err) {
    if (e->weights->mtp == NULL) {
        return fn_fail(err, FN_E_USAGE, "drafts: the model has no MTP head, or was loaded without");
    }
    if (o->draft_position >= o->length) {
        return fn_fail(err, FN_E_USAGE, "draft position: found %zu, expected at most %zu",
                       o->draft_position, o->length - 1);
    }
    if (o->drafts > e->context - o->draft_position - 1) {
        return fn_fail(err, FN_E_RANGE, "context limit: %zu tokens and %zu drafts, limit %zu",
                       o->draft_position + 1, o->drafts, e->context);
    }
    return FN_OK;
}

static fn_status check(const fn_engine *e, const fn_trace_options *o, fn_error *err) {
    size_t sum = 0;
    for (size_t i = 0; i < o->n_split; i++) {
        if (o->split[i] == 0 || o->split[i] > o->length - sum) {
            return fn_fail(err, FN_E_USAGE,
                           "split: piece %zu of %zu does not fit: the pieces must add up "
                           "to %zu",
                           i + 1, o->n_split, o->length);
        }
        sum += o->split[i];
    }
    if (o->n_split > 0 && sum != o->length) {
        return fn_fail(err, FN_E_USAGE, "split: the pieces add up to %zu, expected %zu", sum,
                       o->length);
    }
    if (o->rows == 0 || o->length == 0) {
        return fn_fail(err, FN_E_USAGE,
                       "ids: found %zu rows of %zu ids, expected at least one of each", o->rows,
                       o->length);
    }
    if (o->length > e->context) {
        return fn_fail(err, FN_E_RANGE, "context limit: %zu tokens, but the limit is %zu",
                       o->length, e->context);
    }
    return o->drafts > 0 ? check_drafts(e, o, err) : FN_OK;
}

static fn_status reserve(tracer *t, fn_error *err) {
    size_t B = t->options->rows;
    size_t rows = most_rows(t->engine);
    t->states = fn_alloc_zero(B, sizeof *t->states);
    t->segments = fn_alloc_zero(B, sizeof *t->segments);
    t->wants = fn_alloc(rows, 1);
    t->logits = fn_alloc_aligned(rows * t->engine->shape.vocab, sizeof *t->logits);
    bool pairs = t->options->trace && t->engine->weights->mtp != NULL;
    t->mtp_logits = pairs ? fn_alloc_aligned(t->engine->shape.vocab, sizeof *t->logits) : NULL;
    bool ok = t->states != NULL && t->segments != NULL && t->wants != NULL && t->logits != NULL &&
              (t->mtp_logits != NULL || !pairs);
    for (size_t i = 0; i < N_TENSORS && ok; i++) {
        t->tensors[i].data = fn_pages_alloc(t->tensors[i].bytes);
        ok = t->tensors[i].data != NULL;
    }
    if (!ok) {
        return fn_fail_nomem(err, "the trace", t->tensors[T_logits].bytes);
    }
    memset(t->wants, 1, rows);
    fn_status status = FN_OK;
    for (size_t b = 0; b < B && status == FN_OK; b++) {
        status = fn_state_create(t->engine->states, t->options->length, &t->states[b], err);
    }
    return status;
}

static void copy_delta_states(tracer *t) {
    const fn_state_layout *layout = &t->engine->layout;
    const fn_part_layout *p = &layout->part[FN_PART_DELTA];
    for (size_t i = 0; i < p->layers && t->options->trace; i++) {
        memcpy(t->tensors[T_delta_state].data + i * p->row_bytes,
               fn_recurrent_view(layout, fn_state_before(t->states[0]), FN_PART_DELTA, i),
               p->row_bytes);
    }
}

static int32_t best_of(const float *logits, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return (int32_t)best;
}

static fn_status read_until(tracer *t, fn_state *state, size_t n, fn_error *err) {
    fn_forward *forward = t->engine->forward;
    fn_status status = FN_OK;
    for (size_t at = 0; at < n && status == FN_OK;) {
        size_t step = n - at < t->engine->chunk ? n - at : t->engine->chunk;
        fn_segment segment = {.state = state, .ids = t->options->ids + at, .n = step};
        status = fn_forward_run(forward, &segment, 1, NULL, NULL, err);
        at += step;
    }
    if (status == FN_OK) {
        fn_forward_head(forward, state, t->logits);
    }
    return status;
}

/* The trunk's greedy token after the position, then the head's own chain. */
static fn_status run_drafts(tracer *t, fn_error *err) {
    fn_engine *e = t->engine;
    size_t n = t->options->drafts;
    size_t length = t->options->draft_position + 1;
    fn_mtp_chain chain = {0};
    fn_mtp_chain *chains[1] = {&chain};
    fn_state *state = NULL;
    fn_status status = fn_state_create(e->states, length + n, &state, err);
    status = status == FN_OK ? fn_mtp_chain_init(&chain, &e->shape, err) : status;
    pthread_mutex_lock(&e->mutex);
    status = status == FN_OK ? read_until(t, state, length, err) : status;
    status = status == FN_OK ? fn_forward_start_chain(e->forward, &chain, state, n, err) : status;
    if (status == FN_OK) {
        int32_t *tokens = (int32_t *)(void *)t->tensors[T_draft_tokens].data;
        float *logits = (float *)(void *)t->tensors[T_draft_logits].data;
        size_t bytes = fn_shape_streams(&e->shape) * sizeof(float);
        tokens[0] = best_of(t->logits, e->shape.vocab);
        for (size_t i = 0; i < n; i++) {
            fn_forward_draft(e->forward, chains, 1, &tokens[i], NULL, logits + i * e->shape.vocab);
            tokens[i + 1] = best_of(logits + i * e->shape.vocab, e->shape.vocab);
            memcpy(t->tensors[T_draft_streams].data + i * bytes, chain.streams, bytes);
        }
    }
    pthread_mutex_unlock(&e->mutex);
    fn_mtp_chain_deinit(&chain);
    fn_state_destroy(state);
    return status;
}

static fn_status write_file(const tracer *t, const char *path, fn_error *err) {
    fn_tensor_writer *writer = NULL;
    fn_status status = fn_tensor_writer_create(path, &writer, err);
    for (size_t i = 0; i < N_TENSORS && status == FN_OK; i++) {
        const tensor *x = &t->tensors[i];
        if (x->bytes > 0) {
            status = fn_tensor_writer_declare(writer, x->name, x->dtype, x->dims, x->n_dims, err);
        }
    }
    for (size_t i = 0; i < N_TENSORS && status == FN_OK; i++) {
        if (t->tensors[i].bytes > 0) {
            status = fn_tensor_writer_append(writer, t->tensors[i].data, t->tensors[i].bytes, err);
        }
    }
    if (status != FN_OK) {
        fn_tensor_writer_abandon(writer);
        return status;
    }
    return fn_tensor_writer_finish(writer, err);
}

/* The file is whole all the same: its intermediate values show where it began. */
static fn_status check_numbers(const tracer *t, fn_error *err) {
    const tensor *x = &t->tensors[T_logits];
    const float *logits = (const float *)(const void *)x->data;
    size_t V = t->engine->shape.vocab;
    size_t n = x->bytes / sizeof *logits;
    size_t bad = 0;
    size_t first = 0;
    for (size_t i = n; i-- > 0;) {
        bad += isnan(logits[i]) ? 1 : 0;
        first = isnan(logits[i]) ? i : first;
    }
    return bad == 0
               ? FN_OK
               : fn_fail(err, FN_E_NUMERIC,
                         "%zu of %zu logits are not a number, the first in row %zu at position "
                         "%zu, of id %zu",
                         bad, n, first / V / t->options->length, first / V % t->options->length,
                         first % V);
}

fn_status fn_trace_run(fn_engine *engine, const fn_trace_options *options, const char *path,
                       fn_error *err) {
    tracer t = {.engine = engine, .options = options};
    fn_status status = check(engine, options, err);
    if (status != FN_OK) {
        return status;
    }
    describe(&t);
    status = reserve(&t, err);
    size_t together = options->together ? options->rows : 1;
    for (size_t b = 0; b < options->rows && status == FN_OK; b += together) {
        status = run_rows(&t, b, together, err);
    }
    if (status == FN_OK && options->drafts > 0) {
        status = run_drafts(&t, err);
    }
    if (status == FN_OK) {
        copy_delta_states(&t);
        status = write_file(&t, path, err);
    }
    status = status == FN_OK ? check_numbers(&t, err) : status;
    for (size_t b = 0; t.states != NULL && b < options->rows; b++) {
        fn_state_destroy(t.states[b]);
    }
    for (size_t i = 0; i < N_TENSORS; i++) {
        fn_pages_free(t.tensors[i].data, t.tensors[i].bytes);
    }
    fn_free(t.states);
    fn_free(t.segments);
    fn_free(t.wants);
    fn_free(t.logits);
    fn_free(t.mtp_logits);
    return status;
}
