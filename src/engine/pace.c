#include "engine/pace.h"

#include "base/mem.h"
#include "forward/trunk.h"

#define LEAST_ROWS 16
#define FIRST_ROWS 64 /* while nothing is known of parts */
#define MOST_RIDING 64
/* A chunk that is larger must be read this much faster. */
#define CLEARLY 1.02

fn_status fn_pace_init(fn_pace *p, const fn_shape *shape, bool mtp, fn_error *err) {
    size_t n = fn_trunk_parts_of(shape);
    *p = (fn_pace){.n_parts = n + mtp, .kinds = fn_alloc_zero(n + mtp, sizeof *p->kinds)};
    if (p->kinds == NULL) {
        return fn_fail_nomem(err, "the scheduler", n + mtp);
    }
    for (size_t i = 0; i < n; i++) {
        bool delta = shape->layer_kind[i / FN_TRUNK_LAYER_PARTS] == FN_LAYER_DELTA;
        p->kinds[i] = i % FN_TRUNK_LAYER_PARTS != 0 ? FN_PACE_EXPERTS
                      : delta                       ? FN_PACE_DELTA
                                                    : FN_PACE_ATTENTION;
    }
    if (mtp) {
        p->kinds[n] = FN_PACE_MTP;
    }
    return FN_OK;
}

void fn_pace_deinit(fn_pace *p) {
    fn_free(p->kinds);
    p->kinds = NULL;
}

static double between(double x, double least, double most) {
    x = x < least ? least : x;
    return x > most ? most : x;
}

bool fn_pace_knows(const fn_pace *p, size_t answers) {
    return fn_row_times_of(&p->alone, answers) > 0;
}

/* What a part takes of a forward without a chunk. */
static double share_of(const fn_pace *p, double quiet) {
    return quiet * (1 - p->outside) / (double)p->n_parts;
}

/* Seconds that `taken` parts may take in a forward of `stretch` times the answers': they are theirs, too. */
static double allowed(const fn_pace *p, double quiet, size_t taken, double stretch) {
    return (stretch - 1) * quiet + (double)taken * share_of(p, quiet);
}

/* ---- what parts take ---- */

static size_t size_of(double rows) {
    size_t size = 0;
    for (; size + 1 < FN_PACE_SIZES && rows >= 2; size++) {
        rows /= 2;
    }
    return size;
}

static bool known(const fn_pace_cost *c) {
    return c->seconds > 0;
}

/* The nearest known cost from size `at` on, in steps of one up or down; NULL: none. */
static const fn_pace_cost *nearest(const fn_pace_cost *cost, size_t at, int step) {
    for (ptrdiff_t i = (ptrdiff_t)at; i >= 0 && i < FN_PACE_SIZES; i += step) {
        if (known(&cost[i])) {
            return &cost[i];
        }
    }
    return NULL;
}

/* On the line through what is known on both sides; beyond that, in proportion upwards, and downwards too, but never
 * less than `least`. 0: nothing is known. */
static double cost_of(const fn_pace *p, size_t part, double rows, double least) {
    const fn_pace_cost *cost = p->cost[p->kinds[part]];
    size_t at = size_of(rows);
    const fn_pace_cost *low = nearest(cost, at, -1);
    const fn_pace_cost *high = nearest(cost, at, 1);
    if (low != NULL && low == high) { /* its own size: the other end is on the other side of it */
        if (rows < low->rows) {
            low = at > 0 ? nearest(cost, at - 1, -1) : NULL;
        } else {
            high = nearest(cost, at + 1, 1);
        }
    }
    if (low != NULL && high != NULL && high->rows > low->rows) {
        double slope = (high->seconds - low->seconds) / (high->rows - low->rows);
        return low->seconds + slope * (rows - low->rows);
    }
    const fn_pace_cost *one = low != NULL ? low : high;
    if (one == NULL) {
        return 0;
    }
    double base = least < one->seconds ? least : one->seconds;
    double scaled = base + (one->seconds - base) * rows / one->rows;
    return rows > one->rows ? one->seconds * rows / one->rows : scaled;
}

/* Is it known for about so many rows? */
static bool knows_near(const fn_pace *p, size_t part, double rows) {
    const fn_pace_cost *c = &p->cost[p->kinds[part]][size_of(rows)];
    return known(c);
}

static bool knows_parts(const fn_pace *p) {
    for (size_t i = 0; i < p->n_parts; i++) {
        if (!(cost_of(p, i, 1, 0) > 0)) {
            return false;
        }
    }
    return true;
}

/* May be held up by the system: one measurement moves what is known by half at most. */
static void learn(fn_pace *p, size_t part, double seconds) {
    double rows = (double)p->rows;
    fn_pace_cost *c = &p->cost[p->kinds[part]][size_of(rows)];
    if (known(c)) {
        double scaled = c->seconds * rows / c->rows;
        seconds = scaled + 0.3 * (between(seconds, 0.5 * scaled, 1.5 * scaled) - scaled);
    }
    *c = (fn_pace_cost){seconds, rows};
}

/* ---- how many rows ---- */

/* Forwards that a chunk of so many rows takes; *over: the longest time beyond what is planned. */
static size_t forwards_of(const fn_pace *p, double rows, double quiet, double *over) {
    size_t n = 0;
    size_t taken = 0;
    double used = 0;
    *over = 0;
    for (size_t part = 0; part < p->n_parts; part++) {
        double cost = cost_of(p, part, rows, share_of(p, quiet));
        if (n == 0 || used + cost > allowed(p, quiet, taken + 1, FN_PACE_STRETCH)) {
            n++;
            used = 0;
            taken = 0;
        }
        used += cost;
        taken++;
        double more = used - allowed(p, quiet, taken, FN_PACE_STRETCH);
        *over = more > *over ? more : *over;
    }
    return n;
}

size_t fn_pace_rows(const fn_pace *p, size_t answers, size_t room) {
    double quiet = fn_row_times_near(&p->alone, answers);
    size_t least = LEAST_ROWS < room ? LEAST_ROWS : room;
    size_t best = least;
    double best_rate = 0;
    if (answers == 0) {
        return room;
    }
    if (!knows_parts(p)) {
        return FIRST_ROWS < room ? FIRST_ROWS : room;
    }
    for (size_t rows = least; rows <= room; rows += rows / 16 + 1) {
        double over = 0;
        double rate = (double)rows / (double)forwards_of(p, (double)rows, quiet, &over);
        if (rate > CLEARLY * best_rate && !(over > 0)) {
            best_rate = rate;
            best = rows;
        }
    }
    return best;
}

size_t fn_pace_ride(const fn_pace *p, size_t answers, size_t room) {
    size_t most = room < MOST_RIDING ? room : MOST_RIDING;
    double quiet = fn_row_times_near(&p->alone, answers);
    size_t rows = most;
    if (answers == 0) {
        return most;
    }
    for (; rows > 0; rows--) {
        double seconds = 0;
        for (size_t part = 0; part < p->n_parts; part++) {
            seconds += cost_of(p, part, (double)rows, share_of(p, quiet));
        }
        if (seconds > 0 && seconds <= allowed(p, quiet, p->n_parts, FN_PACE_STRETCH)) {
            break;
        }
    }
    return rows;
}

/* ---- one forward ---- */

void fn_pace_begin(fn_pace *p, size_t answers, size_t rows) {
    p->quiet = answers > 0 ? fn_row_times_near(&p->alone, answers) : 0;
    p->rows = rows;
    p->taken = 0;
    p->used = 0;
    p->marks = 0;
}

void fn_pace_mark(fn_pace *p, double now) {
    p->first_mark = p->marks++ == 0 ? now : p->first_mark;
    p->last_mark = now;
}

bool fn_pace_take(fn_pace *p, size_t part, double now) {
    if (p->taken > 0) {
        p->used += now - p->at;
        learn(p, part - 1, now - p->at);
    }
    p->at = now;
    if (part == p->n_parts) {
        return false;
    }
    double next = cost_of(p, part, (double)p->rows, share_of(p, p->quiet));
    bool goes = p->taken == 0 || !(p->quiet > 0) ||
                (knows_near(p, part, (double)p->rows) &&
                 p->used + next <= allowed(p, p->quiet, p->taken + 1, FN_PACE_LIMIT));
    p->taken += goes;
    return goes;
}

/* Of a forward of answers alone: what is left beside the parts, all as long as those between the marks. */
static void learn_outside(fn_pace *p, double seconds) {
    double parts = (p->last_mark - p->first_mark) * (double)p->marks / (double)(p->marks - 1);
    double outside = between(1 - parts / seconds, 0, 0.9);
    p->outside = p->outside > 0 ? p->outside + 0.2 * (outside - p->outside) : outside;
}

void fn_pace_end(fn_pace *p, size_t answers, double seconds) {
    double quiet = seconds - p->used; /* and the share of the parts that were taken */
    double share = 1 - (double)p->taken * (1 - p->outside) / (double)p->n_parts;
    if (answers > 0 && p->taken == 0 && p->marks == p->n_parts && p->marks > 1) {
        learn_outside(p, seconds);
    }
    if (answers > 0 && quiet > 0 && share > 0.25) {
        fn_row_times_learn(&p->alone, answers, quiet / share);
    }
    p->taken = 0;
    p->used = 0;
}
