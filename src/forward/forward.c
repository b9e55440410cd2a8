#include "forward/forward.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "forward/mtp.h"
#include "forward/trunk.h"
#include "layers/layers.h"

struct fn_forward {
    fn_step step;
    uint8_t *arena;
    size_t arena_bytes;
    fn_step_segment segments[FN_STEP_SEGMENTS];
    const int32_t *ids[FN_STEP_SEGMENTS];
    const float *embeds[FN_STEP_SEGMENTS];
    const uint8_t *use_embed[FN_STEP_SEGMENTS];
};

typedef struct room {
    size_t rows, threads, keys, blocks;
} room;

static room room_for(const fn_shape *s, size_t max_rows, size_t context, size_t threads) {
    room r = {.rows = max_rows, .threads = threads, .keys = context, .blocks = 0};
    if (s->has_indexer) {
        size_t budget = s->index_budget + s->index_ratio;
        r.keys = budget < context ? budget : context;
        r.blocks = context / s->index_ratio + 1;
    }
    return r;
}

static void *place(uint8_t *base, size_t *used, size_t bytes) {
    size_t at = *used;
    *used += (bytes + 63) / 64 * 64;
    return base != NULL ? base + at : NULL;
}

/* Places every buffer of the step from `base` on (NULL: only adds up) and returns the bytes. */
static size_t place_buffers(fn_step *step, const fn_shape *s, const room *r, uint8_t *base) {
    size_t common = 0;
    size_t used = 0;
    size_t most = 0;
    size_t R = r->rows;
    size_t W = r->threads;
    size_t N = r->keys;
    size_t B = r->blocks;
#define FN_STEP_PLACE(name, type, elements)                                                        \
    step->name = place(base, &used, (elements) * sizeof(type));
#define FN_STEP_SHARE(list)                                                                        \
    used = common;                                                                                 \
    list(FN_STEP_PLACE) most = used > most ? used : most;
    FN_STEP_COMMON(FN_STEP_PLACE)
    common = used;
    FN_STEP_SHARE(FN_STEP_DELTA)
    FN_STEP_SHARE(FN_STEP_ATTENTION)
    FN_STEP_SHARE(FN_STEP_MOE)
    FN_STEP_SHARE(FN_STEP_PLE)
    FN_STEP_SHARE(FN_STEP_HEAD)
#undef FN_STEP_SHARE
#undef FN_STEP_PLACE
    return most;
}

size_t fn_forward_bytes(const fn_shape *shape, size_t max_rows, size_t context, size_t threads) {
    fn_step step;
    room r = room_for(shape, max_rows, context, threads);
    return place_buffers(&step, shape, &r, NULL);
}

fn_status fn_forward_create(const fn_model *model, size_t max_rows, size_t context,
                            fn_forward **out, fn_error *err) {
    const fn_shape *shape = &model->weights->shape;
    room r = room_for(shape, max_rows, context, fn_pool_threads(model->pool));
    *out = NULL;
    fn_forward *f = fn_alloc_zero(1, sizeof *f);
    if (f == NULL) {
        return fn_fail_nomem(err, "the forward pass", sizeof *f);
    }
    f->arena_bytes = place_buffers(&f->step, shape, &r, NULL);
    f->arena = fn_pages_alloc(f->arena_bytes);
    if (f->arena == NULL) {
        size_t bytes = f->arena_bytes;
        fn_forward_destroy(f);
        return fn_fail_nomem(err, "the forward pass", bytes);
    }
    (void)place_buffers(&f->step, shape, &r, f->arena);
    f->step.k = model->kernels;
    f->step.pool = model->pool;
    f->step.weights = model->weights;
    f->step.shape = shape;
    f->step.layout = model->layout;
    f->step.tables = model->tables;
    f->step.segments = f->segments;
    f->step.ids = f->ids;
    f->step.embeds = f->embeds;
    f->step.use_embed = f->use_embed;
    f->step.parts = &fn_trunk_parts;
    f->step.max_rows = max_rows;
    f->step.max_keys = r.keys;
    f->step.max_blocks = r.blocks;
    *out = f;
    return FN_OK;
}

void fn_forward_destroy(fn_forward *f) {
    if (f != NULL) {
        fn_pages_free(f->arena, f->arena_bytes);
        fn_free(f);
    }
}

size_t fn_forward_max_rows(const fn_forward *f) {
    return f->step.max_rows;
}

void fn_forward_watch(fn_forward *f, bool (*go_on)(void *ud), void *ud) {
    f->step.go_on = go_on;
    f->step.go_on_ud = ud;
}

/* What passed between two forwards counts for none of them. */
static void start_clock(const fn_step *s) {
    if (s->clock != NULL) {
        s->clock->at = fn_clock_seconds();
    }
}

static fn_status check_segment(const fn_forward *f, const fn_segment *segment, fn_error *err) {
    for (size_t t = 0; t < segment->n; t++) {
        if (segment->ids[t] < 0 || (size_t)segment->ids[t] >= f->step.shape->vocab) {
            return fn_fail(err, FN_E_RANGE, "token id at index %zu: found %d, expected 0 to %zu", t,
                           (int)segment->ids[t], f->step.shape->vocab - 1);
        }
    }
    return segment->n > 0 ? FN_OK : fn_fail(err, FN_E_RANGE, "a segment has no ids");
}

static void set_positions(const fn_step *s, const fn_segment *segment, const fn_step_segment *g) {
    int32_t *positions = s->positions + 3 * g->first;
    if (segment->positions != NULL) {
        memcpy(positions, segment->positions, 3 * segment->n * sizeof *positions);
        return;
    }
    for (size_t i = 0; i < 3 * segment->n; i++) {
        positions[i] = (int32_t)(g->length + i / 3) + fn_state_position_offset(segment->state);
    }
}

/* Takes room in every state; on failure the ones that began are given back. */
static fn_status begin(fn_forward *f, const fn_segment *segments, size_t n, fn_error *err) {
    fn_step *s = &f->step;
    s->rows = 0;
    s->n_segments = 0;
    for (size_t i = 0; i < n; i++) {
        const fn_segment *segment = &segments[i];
        fn_status status = check_segment(f, segment, err);
        if (status == FN_OK && segment->n > s->max_rows - s->rows) {
            status = fn_fail(err, FN_E_RANGE, "a forward of more than %zu rows", s->max_rows);
        }
        if (status == FN_OK) {
            status = fn_state_begin(segment->state, segment->n, segment->keep_rows, err);
        }
        if (status != FN_OK) {
            for (size_t k = 0; k < i; k++) {
                fn_state_abort(segments[k].state);
            }
            return status;
        }
        f->segments[i] = (fn_step_segment){.state = segment->state,
                                           .first = s->rows,
                                           .n = segment->n,
                                           .length = fn_state_length(segment->state),
                                           .traced = s->rows};
        f->ids[i] = segment->ids;
        f->embeds[i] = segment->embeds;
        f->use_embed[i] = segment->embeds != NULL ? segment->use_embed : NULL;
        set_positions(s, segment, &f->segments[i]);
        s->rows += segment->n;
        s->n_segments++;
    }
    return FN_OK;
}

/* The streams after a row are part of the state: a later request may need their logits, or the MTP head. */
static void keep_streams(const fn_step *s) {
    size_t width = fn_shape_streams(s->shape);
    for (size_t i = 0; i < s->n_segments; i++) {
        const fn_step_segment *g = &s->segments[i];
        for (size_t t = 0; t < g->n; t++) {
            uint8_t *block = fn_state_after(g->state, t);
            if (block != NULL) {
                memcpy(fn_recurrent_part(s->layout, block, FN_PART_STREAMS, 0),
                       s->streams + (g->first + t) * width, width * sizeof(float));
            }
        }
    }
}

/* streams [rows, hc*D] -> logits [rows, V]. */
static void head(const fn_step *s, const float *streams, size_t rows, float *logits) {
    fn_input in = fn_input_of(s->mixed, s->shape->hidden);
    fn_input_add(s, &in, rows, &s->weights->head);
    fn_layer_mix_last(s, &s->weights->mixer, streams, rows, s->mixed, &in);
    fn_step_trace(s, FN_TRACE_HIDDEN, 0, rows, s->shape->hidden, s->mixed);
    fn_linear out = fn_input_product(s, &in, &s->weights->head, logits, rows);
    fn_step_linear(s, &out, 1);
    fn_step_lap(s, FN_PROFILE_HEAD);
}

static void wanted_logits(const fn_step *s, const fn_segment *segments, float *logits) {
    size_t width = fn_shape_streams(s->shape);
    size_t wanted = 0;
    for (size_t i = 0; i < s->n_segments; i++) {
        for (size_t t = 0; t < segments[i].n && segments[i].wants != NULL; t++) {
            if (segments[i].wants[t]) {
                memcpy(s->wanted + wanted++ * width,
                       s->streams + (s->segments[i].first + t) * width, width * sizeof(float));
            }
        }
    }
    if (wanted > 0 && logits != NULL) {
        head(s, s->wanted, wanted, logits);
    }
}

fn_status fn_forward_run(fn_forward *f, const fn_segment *segments, size_t n, float *logits,
                         const fn_trace *trace, fn_error *err) {
    fn_step *s = &f->step;
    if (n == 0 || n > FN_STEP_SEGMENTS) {
        return fn_fail(err, FN_E_RANGE, "a forward of %zu segments: expected 1 to %d", n,
                       FN_STEP_SEGMENTS);
    }
    start_clock(s);
    fn_status status = begin(f, segments, n, err);
    if (status != FN_OK) {
        return status;
    }
    s->trace = trace;
    fn_step_lap(s, FN_PROFILE_REST);
    status = fn_layer_ngram_start(s, err);
    fn_layer_embed(s);
    fn_layer_rope(s);
    fn_layer_ngram_history(s);
    fn_step_lap(s, FN_PROFILE_EMBEDDING);
    status = status == FN_OK ? fn_trunk_run(s, 0, s->shape->n_layers, err) : status;
    fn_layer_ngram_end(s);
    if (status == FN_OK) {
        keep_streams(s);
        wanted_logits(s, segments, logits);
        if (s->weights->mtp != NULL) {
            fn_mtp_run(s);
            fn_step_lap(s, FN_PROFILE_MTP);
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (status == FN_OK) {
            fn_state_commit(segments[i].state);
        } else {
            fn_state_abort(segments[i].state);
        }
    }
    s->trace = NULL;
    fn_step_lap(s, FN_PROFILE_REST);
    return status;
}

const fn_shape *fn_forward_shape(const fn_forward *f) {
    return f->step.shape;
}

fn_status fn_forward_start_chain(fn_forward *f, fn_mtp_chain *chain, fn_state *state, size_t n,
                                 fn_error *err) {
    return fn_mtp_chain_start(chain, f->step.layout, state, n, err);
}

/* x [rows, D] -> logits [rows, V] of the shortlist's tiles. */
static void short_head(const fn_step *s, const fn_shortlist *list, const float *x, size_t rows,
                       float *logits) {
    const fn_matrix *head = &s->weights->head;
    fn_matrix parts[FN_SHORTLIST_RUNS];
    fn_linear units[FN_SHORTLIST_RUNS];
    fn_input in = fn_input_of(x, head->cols);
    fn_input_add(s, &in, rows, head);
    fn_input_write_all(s, &in, rows);
    for (size_t i = 0; i < rows * head->rows; i++) {
        logits[i] = -INFINITY;
    }
    for (size_t i = 0; i < list->n_runs; i++) {
        size_t first = list->runs[i].first_tile * FN_TILE;
        size_t n = list->runs[i].tiles * FN_TILE;
        parts[i] = *head;
        parts[i].tiles += list->runs[i].first_tile * head->tile_bytes;
        parts[i].rows = n < head->rows - first ? n : head->rows - first;
        units[i] = fn_input_product(s, &in, head, logits + first, rows);
        units[i].w = &parts[i];
    }
    fn_step_linear(s, units, list->n_runs);
}

void fn_forward_draft(fn_forward *f, fn_mtp_chain *const *chains, size_t n, const int32_t *tokens,
                      const fn_shortlist *shortlist, float *logits) {
    fn_step *s = &f->step;
    start_clock(s);
    fn_mtp_draft(s, chains, n, tokens, s->mixed);
    s->segments = f->segments;
    fn_step_lap(s, FN_PROFILE_MTP);
    if (shortlist != NULL) {
        short_head(s, shortlist, s->mixed, n, logits);
    } else {
        fn_step_project(s, &s->weights->head, s->mixed, logits, n);
    }
    fn_step_lap(s, FN_PROFILE_HEAD);
}

void fn_forward_logits(fn_forward *f, size_t first, size_t n, float *logits) {
    head(&f->step, f->step.streams + first * fn_shape_streams(f->step.shape), n, logits);
}

void fn_forward_time(fn_forward *f, fn_step_clock *clock) {
    f->step.clock = clock;
}

void fn_forward_head(fn_forward *f, const fn_state *state, float *logits) {
    start_clock(&f->step);
    const float *streams =
        fn_recurrent_view(f->step.layout, fn_state_before(state), FN_PART_STREAMS, 0);
    head(&f->step, streams, 1, logits);
}
