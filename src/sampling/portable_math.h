/* sampling/portable_math.h - natural logarithm and exponential in double, the same bits everywhere.
 *
 * Path:    [this] -> noise, sampler, logprobs.
 * Why:     the C library picks other code on CPUs with FMA, and its last bit differs there; one
 *          seed must give one text on any machine. Only +, -, *, / and exact steps are used here.
 * Error:   below 1 ulp for log of normal numbers > 0, below 1 ulp for exp of -708 .. 708.
 * Threads: stateless. Memory:  none. */
#ifndef FN_SAMPLING_PORTABLE_MATH_H
#define FN_SAMPLING_PORTABLE_MATH_H

/* x must be a normal number > 0. */
double fn_portable_log(double x);

/* 0 below -708, +inf above 708. */
double fn_portable_exp(double x);

#endif
