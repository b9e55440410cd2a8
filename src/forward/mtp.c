/* The multi-token-prediction head. The official library leaves it out; three engines agree on
 *   x = fc_hidden(norm over all hc*D of the streams), stream by stream, + fc_embedding(norm(embedding of the
 *   next token)) on every stream;  one attention layer with experts of its own, at the position of the streams'
 *   token;  a mixer;  the trunk's LM head. */
#include "forward/mtp.h"

#include <string.h>

#include "base/mem.h"
#include "forward/trunk.h"
#include "layers/layers.h"

/* The rows of the trunk's step that end a pair, as segments of the head's own. */
typedef struct pair_rows {
    fn_step_segment segments[FN_STEP_SEGMENTS];
    size_t n_segments;
    size_t rows;
    const fn_step *trunk;
} pair_rows;

/* Position of token `at`: from the step's rows, or what the state keeps of the last ones. */
static const int32_t *position_at(const fn_step *s, const fn_step_segment *g, size_t at) {
    if (at >= g->length) {
        return s->positions + 3 * (g->first + at - g->length);
    }
    const int32_t *kept =
        fn_recurrent_view(s->layout, fn_state_before(g->state), FN_PART_MTP_POSITIONS, 0);
    return kept + 3 * (at % s->layout->index_ratio);
}

/* What a state keeps after row t beside raw keys: positions of the open block's pairs and of the next one. */
static void keep_positions(const fn_step *s, const fn_step_segment *g, size_t t) {
    uint8_t *after = fn_state_after(g->state, t);
    if (after == NULL) {
        return;
    }
    size_t ratio = s->layout->index_ratio;
    size_t pairs = g->length + t;
    int32_t *positions = fn_recurrent_part(s->layout, after, FN_PART_MTP_POSITIONS, 0);
    memset(positions, 0, ratio * 3 * sizeof *positions);
    for (size_t at = pairs / ratio * ratio; at <= pairs; at++) {
        memcpy(positions + 3 * (at % ratio), position_at(s, g, at), 3 * sizeof *positions);
    }
    if (pairs == 0 && s->layout->part[FN_PART_MTP_RAW_KEYS].layers > 0) {
        memset(fn_recurrent_part(s->layout, after, FN_PART_MTP_RAW_KEYS, 0), 0,
               s->layout->part[FN_PART_MTP_RAW_KEYS].row_bytes);
    }
}

static void list_pairs(const fn_step *s, pair_rows *pairs) {
    *pairs = (pair_rows){.trunk = s};
    for (size_t i = 0; i < s->n_segments; i++) {
        const fn_step_segment *g = &s->segments[i];
        size_t skipped = g->length == 0 ? 1 : 0;
        for (size_t t = 0; t < g->n; t++) {
            keep_positions(s, g, t);
        }
        if (g->n == skipped) {
            continue;
        }
        fn_step_segment *own = &pairs->segments[pairs->n_segments++];
        *own = (fn_step_segment){.state = g->state,
                                 .first = pairs->rows,
                                 .n = g->n - skipped,
                                 .length = g->length - 1 + skipped,
                                 .skipped = skipped,
                                 .traced = g->first + skipped};
        pairs->rows += own->n;
    }
}

/* Where the pair of the trunk's row t of segment g has its streams. */
static const float *streams_before(const fn_step *s, const fn_step_segment *g, size_t t) {
    if (t == 0) {
        return fn_recurrent_view(s->layout, fn_state_before(g->state), FN_PART_STREAMS, 0);
    }
    return s->streams + (g->first + t - 1) * fn_shape_streams(s->shape);
}

/* Normed streams, normed embedding and position of every pair. */
static void gather_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    const pair_rows *pairs = ctx;
    size_t width = fn_shape_streams(s->shape);
    size_t d = s->shape->hidden;
    const fn_mtp_weights *w = s->weights->mtp;
    (void)thread;
    for (size_t i = 0, r = begin; r < end; r++) {
        while (r >= pairs->segments[i].first + pairs->segments[i].n) {
            i++;
        }
        const fn_step_segment *own = &pairs->segments[i];
        const fn_step_segment *g =
            fn_step_segment_of(s, own->traced); /* of the trunk: the same state */
        size_t t = own->skipped + r - own->first;
        s->k->rms_norm(s->normed + r * width, streams_before(s, g, t), w->norm_hidden, width,
                       s->shape->norm_eps);
        fn_embed_row(s, g, t, s->mixed + r * d);
        s->k->rms_norm(s->mixed + r * d, s->mixed + r * d, w->norm_embedding, d,
                       s->shape->norm_eps);
        memcpy(s->mtp_positions + 3 * r, position_at(s, g, own->length + r - own->first),
               3 * sizeof(int32_t));
    }
}

static void add_embedding(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    size_t d = s->shape->hidden;
    (void)ctx;
    (void)thread;
    for (size_t i = begin * s->shape->hc; i < end * s->shape->hc; i++) {
        s->k->add(s->mtp_streams + i * d, s->block_out + i / s->shape->hc * d, d);
    }
}

/* Emits rows of width numbers, segment after segment, at the numbers that traces know them by. */
static void trace_rows(const fn_step *s, fn_trace_kind kind, size_t width, const float *data) {
    for (size_t i = 0; s->trace != NULL && i < s->n_segments; i++) {
        const fn_step_segment *g = &s->segments[i];
        s->trace->emit(s->trace->ud, kind, 0, g->traced, g->n, width, data + g->first * width);
    }
}

/* From normed streams and embeddings in s->normed and s->mixed, and s->mtp_positions, to s->mtp_streams. The
 * step's segments, rows and parts are the head's. */
static void run_layer(fn_step *s) {
    const fn_mtp_weights *w = s->weights->mtp;
    size_t width = fn_shape_streams(s->shape);
    float *trunk_streams = s->streams;
    int32_t *trunk_positions = s->positions;
    fn_step_project(s, &w->fc_hidden, s->normed, s->mtp_streams, s->rows * s->shape->hc);
    fn_step_project(s, &w->fc_embedding, s->mixed, s->block_out, s->rows);
    fn_step_each(s, s->rows, add_embedding, NULL);
    trace_rows(s, FN_TRACE_MTP_FUSED, width, s->mtp_streams);
    s->streams = s->mtp_streams;
    s->positions = s->mtp_positions;
    s->parts = &fn_mtp_parts;
    fn_layer_rope(s);
    fn_trunk_layer(s, &w->layer, FN_LAYER_ATTENTION, 0, s->shape->n_layers);
    trace_rows(s, FN_TRACE_MTP_STREAMS, width, s->mtp_streams);
    s->parts = &fn_trunk_parts;
    s->positions = trunk_positions;
    s->streams = trunk_streams;
}

/* Only for traces: nobody needs the logits of pairs that are over. */
static void trace_logits(const fn_step *s) {
    if (s->trace == NULL || s->trace->mtp_logits == NULL) {
        return;
    }
    fn_input none = fn_input_of(s->mixed, s->shape->hidden);
    fn_layer_mix_last(s, &s->weights->mtp->mixer, s->mtp_streams, s->rows, s->mixed, &none);
    for (size_t i = 0; i < s->n_segments; i++) {
        const fn_step_segment *g = &s->segments[i];
        for (size_t t = 0; t < g->n; t++) {
            const float *mixed = s->mixed + (g->first + t) * s->shape->hidden;
            fn_step_project(s, &s->weights->head, mixed, s->trace->mtp_logits, 1);
            s->trace->emit(s->trace->ud, FN_TRACE_MTP_LOGITS, 0, g->traced + t, 1, s->shape->vocab,
                           s->trace->mtp_logits);
        }
    }
}

void fn_mtp_run(fn_step *s) {
    pair_rows pairs;
    const fn_step_segment *segments = s->segments;
    size_t n_segments = s->n_segments;
    size_t rows = s->rows;
    list_pairs(s, &pairs);
    if (pairs.rows == 0) {
        return;
    }
    fn_step_clock *clock = s->clock;
    s->clock = NULL; /* the head's layer counts as the head */
    fn_step_each(s, pairs.rows, gather_rows, &pairs);
    s->segments = pairs.segments;
    s->n_segments = pairs.n_segments;
    s->rows = pairs.rows;
    run_layer(s);
    trace_logits(s);
    s->clock = clock;
    s->segments = segments;
    s->n_segments = n_segments;
    s->rows = rows;
}

/* ---- chains of drafts ---- */

static size_t open_keys(const fn_shape *s) {
    return s->has_indexer ? s->index_ratio * s->index_dim : 0;
}

static size_t open_positions(const fn_shape *s) {
    return 3 * (s->has_indexer ? s->index_ratio : 1);
}

size_t fn_mtp_chain_bytes(const fn_shape *s) {
    return (fn_shape_streams(s) + open_keys(s)) * sizeof(float) +
           open_positions(s) * sizeof(int32_t);
}

fn_status fn_mtp_chain_init(fn_mtp_chain *chain, const fn_shape *s, fn_error *err) {
    *chain = (fn_mtp_chain){.streams = fn_alloc_aligned(fn_shape_streams(s), sizeof(float)),
                            .open = {.keys = fn_alloc_aligned(open_keys(s), sizeof(float)),
                                     .positions = fn_alloc(open_positions(s), sizeof(int32_t))}};
    if (chain->streams == NULL || chain->open.keys == NULL || chain->open.positions == NULL) {
        fn_mtp_chain_deinit(chain);
        return fn_fail_nomem(err, "a chain of drafts", fn_mtp_chain_bytes(s));
    }
    return FN_OK;
}

void fn_mtp_chain_deinit(fn_mtp_chain *chain) {
    fn_free(chain->streams);
    fn_free(chain->open.keys);
    fn_free(chain->open.positions);
    *chain = (fn_mtp_chain){0};
}

fn_status fn_mtp_chain_start(fn_mtp_chain *chain, const fn_state_layout *layout, fn_state *state,
                             size_t n, fn_error *err) {
    const uint8_t *block = fn_state_before(state);
    const fn_part_layout *raw = &layout->part[FN_PART_MTP_RAW_KEYS];
    const fn_part_layout *positions = &layout->part[FN_PART_MTP_POSITIONS];
    FN_ASSERT(fn_state_length(state) > 0);
    fn_status status = fn_state_begin_drafts(state, n, err);
    if (status != FN_OK) {
        return status;
    }
    chain->state = state;
    chain->depth = 0;
    memcpy(chain->streams, fn_recurrent_view(layout, block, FN_PART_STREAMS, 0),
           layout->part[FN_PART_STREAMS].row_bytes);
    if (raw->layers > 0) {
        memcpy(chain->open.keys, fn_recurrent_view(layout, block, FN_PART_MTP_RAW_KEYS, 0),
               raw->row_bytes);
    }
    memcpy(chain->open.positions, fn_recurrent_view(layout, block, FN_PART_MTP_POSITIONS, 0),
           positions->row_bytes);
    memcpy(chain->next_position,
           chain->open.positions + 3 * (fn_state_pairs(state) % layout->index_ratio),
           sizeof chain->next_position);
    return FN_OK;
}

void fn_mtp_draft(fn_step *s, fn_mtp_chain *const *chains, size_t n, const int32_t *tokens,
                  float *mixed) {
    const fn_mtp_weights *w = s->weights->mtp;
    size_t width = fn_shape_streams(s->shape);
    size_t d = s->shape->hidden;
    fn_step_segment segments[FN_STEP_SEGMENTS];
    FN_ASSERT(n <= FN_STEP_SEGMENTS && n <= s->max_rows);
    for (size_t i = 0; i < n; i++) {
        fn_mtp_chain *c = chains[i];
        segments[i] = (fn_step_segment){.state = c->state,
                                        .first = i,
                                        .n = 1,
                                        .length = fn_state_pairs(c->state) + c->depth,
                                        .traced = i,
                                        .open = &c->open};
        s->k->rms_norm(s->normed + i * width, c->streams, w->norm_hidden, width,
                       s->shape->norm_eps);
        fn_embed_table_row(s, tokens[i], s->mixed + i * d);
        s->k->rms_norm(s->mixed + i * d, s->mixed + i * d, w->norm_embedding, d,
                       s->shape->norm_eps);
        memcpy(s->mtp_positions + 3 * i, c->next_position, sizeof c->next_position);
    }
    fn_step_clock *clock = s->clock;
    s->clock = NULL;
    s->segments = segments;
    s->n_segments = n;
    s->rows = n;
    run_layer(s);
    fn_input none = fn_input_of(mixed, s->shape->hidden);
    fn_layer_mix_last(s, &w->mixer, s->mtp_streams, n, mixed, &none);
    s->clock = clock;
    for (size_t i = 0; i < n; i++) {
        fn_mtp_chain *c = chains[i];
        memcpy(c->streams, s->mtp_streams + i * width, width * sizeof(float));
        /* the pair behind begins at a token of text: its index and the sequence's offset */
        int32_t next = (int32_t)(segments[i].length + 1) + fn_state_position_offset(c->state);
        c->next_position[0] = c->next_position[1] = c->next_position[2] = next;
        c->depth++;
    }
    s->n_segments = 0;
    s->rows = 0;
}
