#include "cli/statistics.h"

#include <math.h>

double cli_mean(const double *x, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        sum += x[i];
    }
    return n > 0 ? sum / (double)n : 0.0;
}

double cli_deviation(const double *x, size_t n) {
    double squares = 0.0;
    double middle = cli_mean(x, n);
    for (size_t i = 0; i < n; i++) {
        squares += (x[i] - middle) * (x[i] - middle);
    }
    return n > 1 ? sqrt(squares / (double)(n - 1)) : 0.0;
}
