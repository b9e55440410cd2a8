#include "engine/pace.h"

#define FIRST_CHUNK 16
#define MIN_CHUNK 4

static double chunk_of(const fn_pace *p) {
    return p->chunk > 0 ? p->chunk : FIRST_CHUNK;
}

size_t fn_pace_chunk(const fn_pace *p, size_t answers, size_t room) {
    if (answers == 0) {
        return room;
    }
    if (!(fn_row_times_of(&p->alone, answers) > 0)) {
        return 0;
    }
    size_t chunk = (size_t)chunk_of(p);
    return chunk < room ? chunk : room;
}

static double between(double x, double least, double most) {
    x = x < least ? least : x;
    return x > most ? most : x;
}

/* Far too fast: up to twice as many ids next time; else part of the way. */
static double next_chunk(double chunk, double ratio) {
    double factor = between(ratio, 0.5, 2);
    return chunk * (factor > 1.5 ? factor : 1 + 0.5 * (factor - 1));
}

static double middle(const double x[3]) {
    double low = x[0] < x[1] ? x[0] : x[1];
    double high = x[0] < x[1] ? x[1] : x[0];
    return between(x[2], low, high);
}

void fn_pace_learn(fn_pace *p, size_t rows, size_t prompt_ids, double seconds) {
    if (rows == 0 || !(seconds > 0)) {
        return;
    }
    if (prompt_ids == 0) {
        fn_row_times_learn(&p->alone, rows, seconds);
        return;
    }
    double ids = (double)prompt_ids;
    double ratio = FN_PACE_STRETCH * fn_row_times_near(&p->alone, rows) / seconds;
    if (ids < 0.7 * chunk_of(p) && ratio > 1) {
        return; /* the end of a prompt: a smaller chunk than was allowed says nothing of that one */
    }
    double next = next_chunk(ids, ratio);
    p->seen[2] = p->seen[1];
    p->seen[1] = p->seen[0];
    p->seen[0] = next > MIN_CHUNK ? next : MIN_CHUNK;
    p->chunk = p->seen[2] > 0 ? middle(p->seen) : p->seen[0];
}
