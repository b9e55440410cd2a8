#include "engine/row_times.h"

static size_t place_of(size_t rows) {
    return rows < FN_ROW_TIMES_MAX ? rows : FN_ROW_TIMES_MAX;
}

static double between(double x, double least, double most) {
    x = x < least ? least : x;
    return x > most ? most : x;
}

void fn_row_times_learn(fn_row_times *t, size_t rows, double seconds) {
    double *known = &t->seconds[place_of(rows)];
    *known = *known > 0 ? *known + 0.3 * (between(seconds, 0.5 * *known, 1.5 * *known) - *known)
                        : seconds;
}

double fn_row_times_of(const fn_row_times *t, size_t rows) {
    return t->seconds[place_of(rows)];
}

/* The nearest place that is known, from `at` on downwards or upwards; 0: none. */
static size_t known_below(const fn_row_times *t, size_t at) {
    for (size_t i = at < FN_ROW_TIMES_MAX ? at : FN_ROW_TIMES_MAX; i > 0; i--) {
        if (t->seconds[i] > 0) {
            return i;
        }
    }
    return 0;
}

static size_t known_above(const fn_row_times *t, size_t at) {
    while (at <= FN_ROW_TIMES_MAX && !(t->seconds[at] > 0)) {
        at++;
    }
    return at <= FN_ROW_TIMES_MAX ? at : 0;
}

bool fn_row_times_beyond(const fn_row_times *t, size_t rows) {
    return known_above(t, place_of(rows) + 1) > 0;
}

double fn_row_times_near(const fn_row_times *t, size_t rows) {
    size_t at = place_of(rows);
    size_t low = known_below(t, at);
    size_t high = known_above(t, at);
    if (low == 0) {
        return high > 0 ? t->seconds[high] : 0;
    }
    if (high == 0) { /* beyond everything: as steep as what is known */
        high = low;
        low = known_above(t, 1);
    }
    if (low == high) {
        return t->seconds[low];
    }
    double slope = (t->seconds[high] - t->seconds[low]) / (double)(high - low);
    double line = t->seconds[low] + slope * ((double)at - (double)low);
    return slope > 0 ? line : t->seconds[at > high ? high : low];
}
