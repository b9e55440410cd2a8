/* kernels/exp_poly.h - the constants of the one exponential that all tables compute.
 *
 * Order:   t = fma(x, LOG2E, ROUND), n = t - ROUND (x / ln 2 to the nearest integer);
 *          r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x)), |r| <= ln2 / 2;
 *          p = C4; p = fma(p, r, C3) ... fma(p, r, C0); p = fma(p, r, 1); p = fma(p, r, 1);
 *          exp = p * 2^(n / 2) * 2^(n - n / 2): two exact steps of scale, so that subnormal results
 *          round once and results above the largest float become infinite.
 *          The polynomial's own error is 0.06 ulp (minimax of (e^r - 1 - r) / r^2). */
#ifndef FN_KERNELS_EXP_POLY_H
#define FN_KERNELS_EXP_POLY_H

#define FN_EXP_MIN (-105.0f) /* exp is 0 in float from -103.98 down */
#define FN_EXP_MAX 89.0f     /* and infinite from 88.73 up */
#define FN_EXP_LOG2E 0x1.715476p+0f
#define FN_EXP_ROUND 0x1.8p+23f
#define FN_EXP_ROUND_BITS 0x4b400000u
#define FN_EXP_LN2_HIGH 0x1.62e400p-1f /* 15 bits: n * LN2_HIGH and x minus it are exact */
#define FN_EXP_LN2_LOW 0x1.7f7d1cp-20f
#define FN_EXP_C4 0x1.6a2434p-10f
#define FN_EXP_C3 0x1.1239e2p-7f
#define FN_EXP_C2 0x1.5558f2p-5f
#define FN_EXP_C1 0x1.555492p-3f
#define FN_EXP_C0 0x1.fffffcp-2f

#endif
