#include "forward/forward.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "forward/group.h"
#include "forward/mtp.h"
#include "forward/trunk.h"
#include "layers/layers.h"

struct fn_forward {
    uint8_t *arena;
    size_t arena_bytes;
    fn_group run; /* of one call */
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
#define FN_STEP_PLACE_ROWS(name, type, per_row) FN_STEP_PLACE(name, type, R *(per_row))
#define FN_STEP_PLACE_NGRAM(name, type, per_row) FN_STEP_PLACE(name, type, s->n_ple *R *(per_row))
    FN_STEP_ROWS(FN_STEP_PLACE_ROWS)
    FN_STEP_NGRAM_ROWS(FN_STEP_PLACE_NGRAM)
    FN_STEP_COMMON(FN_STEP_PLACE)
    common = used;
    FN_STEP_SHARE(FN_STEP_DELTA)
    FN_STEP_SHARE(FN_STEP_ATTENTION)
    FN_STEP_SHARE(FN_STEP_MOE)
    FN_STEP_SHARE(FN_STEP_PLE)
    FN_STEP_SHARE(FN_STEP_HEAD)
#undef FN_STEP_SHARE
#undef FN_STEP_PLACE_NGRAM
#undef FN_STEP_PLACE_ROWS
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
    fn_step step = {.k = model->kernels,
                    .pool = model->pool,
                    .weights = model->weights,
                    .shape = shape,
                    .layout = model->layout,
                    .tables = model->tables,
                    .parts = &fn_trunk_parts,
                    .max_rows = max_rows,
                    .max_keys = r.keys,
                    .max_blocks = r.blocks};
    f->arena_bytes = place_buffers(&step, shape, &r, NULL);
    f->arena = fn_pages_alloc(f->arena_bytes);
    if (f->arena == NULL) {
        size_t bytes = f->arena_bytes;
        fn_forward_destroy(f);
        return fn_fail_nomem(err, "the forward pass", bytes);
    }
    (void)place_buffers(&step, shape, &r, f->arena);
    fn_group_init(&f->run, &step);
    *out = f;
    return FN_OK;
}

void fn_forward_destroy(fn_forward *f) {
    if (f != NULL) {
        fn_pages_free(f->arena, f->arena_bytes);
        fn_free(f);
    }
}

void fn_forward_touch(fn_forward *f) {
    memset(f->arena, 0, f->arena_bytes);
}

size_t fn_forward_max_rows(const fn_forward *f) {
    return f->run.step.max_rows;
}

void fn_forward_watch(fn_forward *f, bool (*go_on)(void *ud), void *ud) {
    f->run.step.go_on = go_on;
    f->run.step.go_on_ud = ud;
}

/* What passed between two forwards counts for none of them. */
static void start_clock(const fn_step *s) {
    if (s->clock != NULL) {
        s->clock->at = fn_clock_seconds();
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

static bool asked_to_stop(const fn_step *s) {
    return s->go_on != NULL && !s->go_on(s->go_on_ud);
}

static fn_status run_layers(const fn_step *s, fn_error *err) {
    for (size_t part = 0; part < fn_trunk_parts_of(s->shape); part++) {
        size_t layer = part / FN_TRUNK_LAYER_PARTS;
        bool begins = part % FN_TRUNK_LAYER_PARTS == 0;
        if (asked_to_stop(s)) {
            return fn_fail(err, FN_E_CANCELLED, "the forward was stopped in layer %zu", layer);
        }
        fn_status status = begins ? fn_trunk_ngram(s, layer, err) : FN_OK;
        if (status != FN_OK) {
            return status;
        }
        fn_trunk_part(s, part);
    }
    return FN_OK;
}

/* What states keep, and the logits that are wanted. */
static void end_layers(fn_forward *f, float *logits) {
    fn_step *s = &f->run.step;
    if (s->weights->mtp != NULL) {
        fn_mtp_run(s);
        fn_step_lap(s, FN_PROFILE_MTP);
    }
    fn_group_keep_streams(&f->run);
    size_t wanted = fn_group_wanted(&f->run, s->wanted);
    if (wanted > 0 && logits != NULL) {
        head(s, s->wanted, wanted, logits);
    }
}

fn_status fn_forward_run(fn_forward *f, const fn_segment *segments, size_t n, float *logits,
                         const fn_trace *trace, fn_error *err) {
    fn_step *s = &f->run.step;
    start_clock(s);
    s->trace = trace;
    fn_status status = fn_group_begin(&f->run, segments, n, err);
    if (status != FN_OK) {
        return status;
    }
    status = run_layers(s, err);
    if (status == FN_OK) {
        end_layers(f, logits);
    }
    fn_step_lap(s, FN_PROFILE_REST);
    fn_group_end(&f->run, status == FN_OK);
    return status;
}

const fn_shape *fn_forward_shape(const fn_forward *f) {
    return f->run.step.shape;
}

fn_status fn_forward_start_chain(fn_forward *f, fn_mtp_chain *chain, fn_state *state, size_t n,
                                 fn_error *err) {
    return fn_mtp_chain_start(chain, f->run.step.layout, state, n, err);
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
    fn_step *s = &f->run.step;
    start_clock(s);
    fn_mtp_draft(s, chains, n, tokens, s->mixed);
    s->segments = f->run.segments;
    fn_step_lap(s, FN_PROFILE_MTP);
    if (shortlist != NULL) {
        short_head(s, shortlist, s->mixed, n, logits);
    } else {
        fn_step_project(s, &s->weights->head, s->mixed, logits, n);
    }
    fn_step_lap(s, FN_PROFILE_HEAD);
}

void fn_forward_logits(fn_forward *f, size_t first, size_t n, float *logits) {
    const fn_step *s = &f->run.step;
    head(s, s->streams + first * fn_shape_streams(s->shape), n, logits);
}

void fn_forward_time(fn_forward *f, fn_step_clock *clock) {
    f->run.step.clock = clock;
}

void fn_forward_head(fn_forward *f, const fn_state *state, float *logits) {
    const fn_step *s = &f->run.step;
    start_clock(s);
    const float *streams = fn_recurrent_view(s->layout, fn_state_before(state), FN_PART_STREAMS, 0);
    head(s, streams, 1, logits);
}
