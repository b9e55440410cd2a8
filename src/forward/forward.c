#include "forward/forward.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "forward/group.h"
#include "forward/mtp.h"
#include "forward/trunk.h"
#include "layers/layers.h"

struct fn_forward {
    fn_step step; /* all buffers, from row 0 on */
    uint8_t *arena;
    size_t arena_bytes;
    fn_group held;                /* rows from 0 on; empty: nothing is held */
    fn_group run;                 /* of one call: rows behind those */
    fn_group both;                /* the two, where they go together */
    size_t part;                  /* of what is held: comes next */
    size_t last_first, last_rows; /* of the last forward's own rows */
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
    f->step.parts = &fn_trunk_parts;
    f->step.max_rows = max_rows;
    f->step.max_keys = r.keys;
    f->step.max_blocks = r.blocks;
    fn_group_place(&f->held, &f->step, 0, 0);
    fn_group_place(&f->run, &f->step, 0, 1);
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

size_t fn_forward_room(const fn_forward *f) {
    return f->step.max_rows - f->held.step.rows;
}

bool fn_forward_holds(const fn_forward *f) {
    return f->held.step.rows > 0;
}

size_t fn_forward_held_part(const fn_forward *f) {
    return f->part;
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

size_t fn_forward_parts(const fn_forward *f) {
    return fn_trunk_parts_of(f->step.shape) + (f->step.weights->mtp != NULL);
}

/* ---- a forward ---- */

/* The rows of a call begin behind those that are held. */
static void place_run(fn_forward *f) {
    fn_step *s = &f->run.step;
    fn_step now = f->step;
    now.clock = s->clock;
    now.go_on = s->go_on;
    now.go_on_ud = s->go_on_ud;
    fn_group_place(&f->run, &now, f->held.step.rows, 1);
}

static void end_held(fn_forward *f, bool ok) {
    if (fn_forward_holds(f)) {
        fn_group_end(&f->held, ok);
        place_run(f);
    }
}

void fn_forward_drop(fn_forward *f) {
    end_held(f, false);
}

fn_status fn_forward_hold(fn_forward *f, const fn_segment *segments, size_t n, fn_error *err) {
    FN_ASSERT(!fn_forward_holds(f));
    f->held.step.clock = f->run.step.clock;
    start_clock(&f->held.step);
    fn_status status = fn_group_begin(&f->held, segments, n, f->step.max_rows, err);
    f->part = 0;
    place_run(f);
    return status;
}

static bool asked_to_stop(const fn_forward *f) {
    const fn_step *s = &f->run.step;
    return s->go_on != NULL && !s->go_on(s->go_on_ud);
}

/* Does what is held go along through this part? */
static bool takes(const fn_forward *f, const fn_carry *carry, size_t part) {
    return carry != NULL && fn_forward_holds(f) && f->part == part && carry->take(carry->ud, part);
}

/* Whose rows go through a part: NULL when nobody's. */
static fn_step *step_of(fn_forward *f, bool run, bool held) {
    if (run && held) {
        fn_group_join(&f->both, &f->held, &f->run);
        return &f->both.step;
    }
    return run ? &f->run.step : held ? &f->held.step : NULL;
}

static fn_status ngram(const fn_forward *f, size_t layer, bool run, bool held, fn_error *err) {
    fn_status status = held ? fn_trunk_ngram(&f->held.step, layer, err) : FN_OK;
    return status == FN_OK && run ? fn_trunk_ngram(&f->run.step, layer, err) : status;
}

static void run_part(fn_step *s, size_t part) {
    if (part < fn_trunk_parts_of(s->shape)) {
        fn_trunk_part(s, part);
    } else {
        fn_mtp_run(s);
        fn_step_lap(s, FN_PROFILE_MTP);
    }
}

/* The parts from `first` on over the rows of the call (run: it has some), and over what is held as far as it is
 * taken. */
static fn_status run_parts(fn_forward *f, bool run, const fn_carry *carry, fn_error *err) {
    size_t layer_parts = fn_trunk_parts_of(f->step.shape);
    for (size_t part = run ? 0 : f->part; part < fn_forward_parts(f); part++) {
        size_t layer = part / FN_TRUNK_LAYER_PARTS;
        bool begins = part < layer_parts && part % FN_TRUNK_LAYER_PARTS == 0;
        if (asked_to_stop(f)) {
            return fn_fail(err, FN_E_CANCELLED, "the forward was stopped in layer %zu", layer);
        }
        bool held = takes(f, carry, part);
        fn_step *s = step_of(f, run, held);
        if (s == NULL) {
            break;
        }
        fn_status status = begins ? ngram(f, layer, run, held, err) : FN_OK;
        if (status != FN_OK) {
            return status;
        }
        run_part(s, part);
        f->part += held;
    }
    return FN_OK;
}

/* What states keep, and the logits that are wanted: of the call's rows (if any), and of what is held (all its parts
 * done). */
static void end_parts(fn_forward *f, bool read, float *logits) {
    size_t width = fn_shape_streams(f->step.shape);
    fn_group_keep_streams(&f->run);
    size_t wanted = fn_group_wanted(&f->run, f->step.wanted);
    if (read) {
        fn_group_keep_streams(&f->held);
        wanted += fn_group_wanted(&f->held, f->step.wanted + wanted * width);
    }
    if (wanted > 0 && logits != NULL) {
        head(&f->run.step, f->step.wanted, wanted, logits);
    }
}

static fn_status run(fn_forward *f, bool some, const fn_carry *carry, float *logits,
                     fn_error *err) {
    f->last_first = f->held.step.rows;
    f->last_rows = f->run.step.rows;
    fn_status status = run_parts(f, some, carry, err);
    bool read = carry != NULL && fn_forward_holds(f) && f->part == fn_forward_parts(f);
    if (read) {
        (void)carry->take(carry->ud, f->part);
    }
    if (status == FN_OK) {
        end_parts(f, read, logits);
    }
    fn_step_lap(&f->run.step, FN_PROFILE_REST);
    fn_group_end(&f->run, status == FN_OK);
    if (read || (status != FN_OK && carry != NULL)) {
        end_held(f, status == FN_OK);
    }
    return status;
}

fn_status fn_forward_run_beside(fn_forward *f, const fn_segment *segments, size_t n,
                                const fn_carry *carry, float *logits, fn_error *err) {
    start_clock(&f->run.step);
    f->held.step.clock = f->run.step.clock;
    fn_status status = FN_OK;
    if (n > FN_STEP_SEGMENTS - f->held.step.n_segments) {
        status = fn_fail(err, FN_E_RANGE, "a forward of %zu segments: expected at most %zu", n,
                         FN_STEP_SEGMENTS - f->held.step.n_segments);
    } else if (n > 0 || !fn_forward_holds(f)) {
        status = fn_group_begin(&f->run, segments, n, fn_forward_room(f), err);
    }
    if (status != FN_OK) {
        end_held(f, false);
        return status;
    }
    return run(f, n > 0, carry, logits, err);
}

fn_status fn_forward_run(fn_forward *f, const fn_segment *segments, size_t n, float *logits,
                         const fn_trace *trace, fn_error *err) {
    FN_ASSERT(trace == NULL || !fn_forward_holds(f));
    start_clock(&f->run.step);
    f->run.step.trace = trace;
    fn_status status = fn_group_begin(&f->run, segments, n, fn_forward_room(f), err);
    f->run.step.trace = status == FN_OK ? trace : NULL;
    return status == FN_OK ? run(f, true, NULL, logits, err) : status;
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

/* A group's streams stand until the rows of another forward come there. */
void fn_forward_logits(fn_forward *f, size_t first, size_t n, float *logits) {
    size_t own = f->last_rows;
    size_t at = first < own ? f->last_first + first : first - own;
    head(&f->run.step, f->step.streams + at * fn_shape_streams(f->step.shape), n, logits);
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
