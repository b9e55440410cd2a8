/* cli/statistics.h - what several rounds of a measurement say together. */
#ifndef CLI_STATISTICS_H
#define CLI_STATISTICS_H

#include <stddef.h>

/* Of x [n]; 0 where n is too small. */
double cli_mean(const double *x, size_t n);
double cli_deviation(const double *x, size_t n);

#endif
