/* base/clock.h - seconds that only go forward. */
#ifndef FN_BASE_CLOCK_H
#define FN_BASE_CLOCK_H

double fn_clock_seconds(void);

#endif
