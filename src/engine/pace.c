#include "engine/pace.h"

#include "base/mem.h"

#define LEAST_ROWS 16
#define FIRST_ROWS 64 /* while nothing is known of parts */
#define MOST_RIDING 64
/* A chunk that is larger must be read this much faster. */
#define CLEARLY 1.02
/* What is left of a chunk goes before the answers if it takes less of what is allowed. */
#define LITTLE 0.75

fn_status fn_pace_init(fn_pace *p, size_t n_parts, fn_error *err) {
    *p = (fn_pace){.n_parts = n_parts, .bias = 1};
    p->cost = fn_alloc_zero(n_parts * FN_PACE_SIZES, sizeof *p->cost);
    p->planned = fn_alloc_zero(n_parts, sizeof *p->planned);
    if (p->cost == NULL || p->planned == NULL) {
        fn_pace_deinit(p);
        return fn_fail_nomem(err, "the scheduler", n_parts * FN_PACE_SIZES * sizeof *p->cost);
    }
    return FN_OK;
}

void fn_pace_deinit(fn_pace *p) {
    fn_free(p->cost);
    fn_free(p->planned);
    p->cost = NULL;
    p->planned = NULL;
}

static double between(double x, double least, double most) {
    x = x < least ? least : x;
    return x > most ? most : x;
}

bool fn_pace_knows(const fn_pace *p, size_t answers) {
    return fn_row_times_near(&p->alone, answers) > 0;
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

static fn_pace_cost *costs_of(const fn_pace *p, size_t part) {
    return p->cost + part * FN_PACE_SIZES;
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
    const fn_pace_cost *cost = costs_of(p, part);
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
    fn_pace_cost *c = &costs_of(p, part)[size_of(rows)];
    double guess = cost_of(p, part, rows, share_of(p, p->quiet));
    if (guess > 0) {
        p->bias += 0.3 * (between(seconds / guess, 0.5, 2) - p->bias);
    }
    if (known(c)) {
        double scaled = c->seconds * rows / c->rows;
        seconds = scaled + 0.3 * (between(seconds, 0.5 * scaled, 1.5 * scaled) - scaled);
    }
    *c = (fn_pace_cost){seconds, rows};
}

/* ---- how many rows ---- */

#define PLANNED 24 /* forwards */

/* Rows a forward that chunks of so many rows make, one behind the other; 0: a part is too long for a forward. */
static double rate_of(const fn_pace *p, double rows, double quiet) {
    double read = 0;
    for (size_t i = 0; i < p->n_parts; i++) {
        p->planned[i] = cost_of(p, i, rows, share_of(p, quiet));
    }
    for (size_t n = 0, part = 0; n < PLANNED; n++) {
        double used = 0;
        for (size_t taken = 1; taken <= p->n_parts; taken++) {
            used += p->planned[part];
            if (used > allowed(p, quiet, taken, FN_PACE_STRETCH)) {
                if (taken == 1) {
                    return 0;
                }
                break;
            }
            read += rows / (double)p->n_parts;
            part = (part + 1) % p->n_parts;
        }
    }
    return read / PLANNED;
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
        double rate = rate_of(p, (double)rows, quiet);
        if (rate > CLEARLY * best_rate) {
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

void fn_pace_begin(fn_pace *p, size_t answers) {
    p->quiet = answers > 0 ? fn_row_times_near(&p->alone, answers) : 0;
    p->taken = 0;
    p->used = 0;
    p->marks = 0;
}

static double expected(const fn_pace *p, size_t part) {
    return p->bias * cost_of(p, part, (double)p->rows, share_of(p, p->quiet));
}

bool fn_pace_ends(fn_pace *p, size_t rows, size_t part) {
    double left = 0;
    p->rows = rows;
    p->rest = true;
    for (size_t i = part; i < p->n_parts; i++) {
        left += expected(p, i);
    }
    return p->quiet > 0 && left <= LITTLE * allowed(p, p->quiet, 0, FN_PACE_STRETCH);
}

void fn_pace_join(fn_pace *p, size_t answers, size_t rows) {
    p->quiet = answers > 0 ? fn_row_times_near(&p->alone, answers) : 0;
    p->rows = rows;
    p->taken = 0;
    p->marks = 0;
    p->rest = false;
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
    double next = expected(p, part);
    bool fits = next > 0 && p->used + next <= allowed(p, p->quiet, p->taken + 1, FN_PACE_LIMIT);
    bool goes = p->used + (double)p->taken == 0 || !(p->quiet > 0) || p->rest || fits;
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
