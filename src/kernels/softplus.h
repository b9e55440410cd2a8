/* kernels/softplus.h - log(1 + exp(x)), one scalar form that every kernel table shares.
 *
 * Path:    the tables' softplus entry; a few dozen values a token (the delta net's decay).
 * Order:   double arithmetic in a fixed order without fused multiply-adds. */
#ifndef FN_KERNELS_SOFTPLUS_H
#define FN_KERNELS_SOFTPLUS_H

#include <stddef.h>

/* y [n], x [n]; y may be x. x above 20 is returned as it is, as the reference framework does. */
void fn_softplus(float *y, const float *x, size_t n);

#endif
