#include "engine/pace.h"

#define FIRST_CHUNK 16
#define MIN_CHUNK 4

size_t fn_pace_chunk(const fn_pace *p, size_t answers, size_t room) {
    if (answers == 0) {
        return room;
    }
    double alone = p->alone[answers < FN_PACE_MAX_ANSWERS ? answers : FN_PACE_MAX_ANSWERS];
    if (!(alone > 0)) {
        return 0;
    }
    size_t chunk = FIRST_CHUNK;
    if (p->per_id > 0) {
        double ids = (FN_PACE_STRETCH - 1) * alone / p->per_id;
        double most =
            2.0 * (double)p->last; /* what was measured holds near where it was measured */
        ids = ids < most ? ids : most;
        chunk = ids < MIN_CHUNK ? MIN_CHUNK : (size_t)ids;
    }
    return chunk < room ? chunk : room;
}

/* A forward that the system held up counts as twice the usual at most. */
static double follow(double known, double seen) {
    double bounded = seen < 2 * known ? seen : 2 * known;
    return known > 0 ? known + 0.3 * (bounded - known) : seen;
}

void fn_pace_learn(fn_pace *p, size_t answers, size_t prompt_ids, double seconds) {
    double *alone = &p->alone[answers < FN_PACE_MAX_ANSWERS ? answers : FN_PACE_MAX_ANSWERS];
    if (answers > 0 && prompt_ids == 0) {
        *alone = follow(*alone, seconds);
    }
    if (answers == 0 || prompt_ids == 0 || prompt_ids * 4 < p->last) {
        return; /* the end of a prompt: too few ids to tell what one costs */
    }
    double added = (seconds - *alone) / (double)prompt_ids;
    double least = 0.01 * *alone / (double)prompt_ids;
    p->last = prompt_ids > p->last ? prompt_ids : p->last;
    p->per_id = follow(p->per_id, added > least ? added : least);
}
