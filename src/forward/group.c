#include "forward/group.h"

#include <string.h>

#include "layers/layers.h"

void fn_group_init(fn_group *g, const fn_step *step) {
    g->step = *step;
    g->step.segments = g->segments;
    g->step.ids = g->ids;
    g->step.embeds = g->embeds;
    g->step.use_embed = g->use_embed;
    g->step.n_segments = 0;
    g->step.rows = 0;
}

static fn_status check_segment(const fn_group *g, const fn_segment *segment, fn_error *err) {
    for (size_t t = 0; t < segment->n; t++) {
        if (segment->ids[t] < 0 || (size_t)segment->ids[t] >= g->step.shape->vocab) {
            return fn_fail(err, FN_E_RANGE, "token id at index %zu: found %d, expected 0 to %zu", t,
                           (int)segment->ids[t], g->step.shape->vocab - 1);
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

static fn_status add(fn_group *g, const fn_segment *segment, fn_error *err) {
    fn_step *s = &g->step;
    size_t i = s->n_segments;
    fn_status status = check_segment(g, segment, err);
    if (status == FN_OK && segment->n > s->max_rows - s->rows) {
        status = fn_fail(err, FN_E_RANGE, "a forward of more than %zu rows", s->max_rows);
    }
    if (status == FN_OK) {
        status = fn_state_begin(segment->state, segment->n, segment->keep_rows, err);
    }
    if (status != FN_OK) {
        return status;
    }
    g->segments[i] = (fn_step_segment){.state = segment->state,
                                       .first = s->rows,
                                       .n = segment->n,
                                       .length = fn_state_length(segment->state),
                                       .traced = s->rows};
    g->ids[i] = segment->ids;
    g->embeds[i] = segment->embeds;
    g->use_embed[i] = segment->embeds != NULL ? segment->use_embed : NULL;
    g->wants[i] = segment->wants;
    set_positions(s, segment, &g->segments[i]);
    s->rows += segment->n;
    s->n_segments++;
    return FN_OK;
}

static fn_status check_count(size_t n, fn_error *err) {
    return n > 0 && n <= FN_STEP_SEGMENTS
               ? FN_OK
               : fn_fail(err, FN_E_RANGE, "a forward of %zu segments: expected 1 to %d", n,
                         FN_STEP_SEGMENTS);
}

fn_status fn_group_begin(fn_group *g, const fn_segment *segments, size_t n, fn_error *err) {
    fn_step *s = &g->step;
    s->rows = 0;
    s->n_segments = 0;
    fn_status status = check_count(n, err);
    for (size_t i = 0; i < n && status == FN_OK; i++) {
        status = add(g, &segments[i], err);
    }
    fn_step_lap(s, FN_PROFILE_REST);
    status = status == FN_OK ? fn_layer_ngram_start(s, err) : status;
    if (status != FN_OK) {
        fn_group_end(g, false);
        return status;
    }
    fn_layer_embed(s);
    fn_layer_rope(s);
    fn_layer_ngram_history(s);
    fn_step_lap(s, FN_PROFILE_EMBEDDING);
    return FN_OK;
}

/* The streams after a row are part of the state: a later request may need their logits, or the MTP head. */
void fn_group_keep_streams(const fn_group *g) {
    const fn_step *s = &g->step;
    size_t width = fn_shape_streams(s->shape);
    for (size_t i = 0; i < s->n_segments; i++) {
        const fn_step_segment *segment = &s->segments[i];
        for (size_t t = 0; t < segment->n; t++) {
            uint8_t *block = fn_state_after(segment->state, t);
            if (block != NULL) {
                memcpy(fn_recurrent_part(s->layout, block, FN_PART_STREAMS, 0),
                       s->streams + (segment->first + t) * width, width * sizeof(float));
            }
        }
    }
}

size_t fn_group_wanted(const fn_group *g, float *dst) {
    const fn_step *s = &g->step;
    size_t width = fn_shape_streams(s->shape);
    size_t wanted = 0;
    for (size_t i = 0; i < s->n_segments; i++) {
        const fn_step_segment *segment = &s->segments[i];
        for (size_t t = 0; t < segment->n && g->wants[i] != NULL; t++) {
            if (g->wants[i][t]) {
                memcpy(dst + wanted++ * width, s->streams + (segment->first + t) * width,
                       width * sizeof *dst);
            }
        }
    }
    return wanted;
}

void fn_group_end(fn_group *g, bool ok) {
    fn_step *s = &g->step;
    fn_layer_ngram_end(s);
    for (size_t i = 0; i < s->n_segments; i++) {
        if (ok) {
            fn_state_commit(s->segments[i].state);
        } else {
            fn_state_abort(s->segments[i].state);
        }
    }
    s->n_segments = 0;
    s->rows = 0;
    s->trace = NULL;
}
