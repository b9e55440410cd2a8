/* forward/group.h - rows that go through the layers together, in the states of their segments.
 *
 * Path:    fn_segment (forward.h) -> [begin: room in every state, rows in the step's buffers, first streams]
 *          -> trunk.h, part by part -> [end: the states have grown, or are what they were].
 * Shapes:  the segments' rows follow each other in the step's buffers.
 * Threads: as forward.h. Memory: the struct. */
#ifndef FN_FORWARD_GROUP_H
#define FN_FORWARD_GROUP_H

#include "forward/forward.h"

typedef struct fn_group {
    fn_step step;
    fn_step_segment segments[FN_STEP_SEGMENTS];
    const int32_t *ids[FN_STEP_SEGMENTS];
    const float *embeds[FN_STEP_SEGMENTS];
    const uint8_t *use_embed[FN_STEP_SEGMENTS];
    const uint8_t *wants[FN_STEP_SEGMENTS];
} fn_group;

/* An empty group in the step's buffers. */
void fn_group_init(fn_group *g, const fn_step *step);

/* Takes room in every state, and begins to read what the rows need. Fails as fn_forward_run; then the group is empty
 * and no state has changed. */
FN_NODISCARD fn_status fn_group_begin(fn_group *g, const fn_segment *segments, size_t n,
                                      fn_error *err);

/* Behind the last layer: what states keep of the streams. */
void fn_group_keep_streams(const fn_group *g);
/* Copies the streams of the rows that want logits to dst [wanted, hc*D]; returns how many. */
size_t fn_group_wanted(const fn_group *g, float *dst);

/* The states have read the rows (ok), or are what they were before. The group is empty then. */
void fn_group_end(fn_group *g, bool ok);

#endif
