/* engine/row_times.h - seconds of steps of so many rows, as measured.
 *
 * Threads: one. Memory: the struct. */
#ifndef FN_ENGINE_ROW_TIMES_H
#define FN_ENGINE_ROW_TIMES_H

#include <stdbool.h>
#include <stddef.h>

/* More rows count as so many. */
#define FN_ROW_TIMES_MAX 256

typedef struct fn_row_times {
    double seconds[FN_ROW_TIMES_MAX + 1]; /* 0: unknown */
} fn_row_times;

/* Near the middle of what was seen, not its mean: steps that the system held up must not count for more. */
void fn_row_times_learn(fn_row_times *t, size_t rows, double seconds);
/* As measured for just so many rows; 0: unknown. */
double fn_row_times_of(const fn_row_times *t, size_t rows);
/* As measured, or on the line through what was measured beside it, or of the lines' end; 0: nothing was. */
double fn_row_times_near(const fn_row_times *t, size_t rows);
/* Was any larger number of rows measured? */
bool fn_row_times_beyond(const fn_row_times *t, size_t rows);

#endif
