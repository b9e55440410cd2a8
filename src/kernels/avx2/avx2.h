/* kernels/avx2/avx2.h - the functions of the avx2 table; kernels.h says what each computes. */
#ifndef FN_KERNELS_AVX2_H
#define FN_KERNELS_AVX2_H

#include "kernels/kernels.h"

#include "kernels/avx2/v16.h"
#include "kernels/simd/entries.inc"

/* For CPUs that have the integer dot product on these registers. */
void fn_avx2_matmul_fast_int8_vnni(const fn_matmul_args *a);
void fn_avx2_matmul_fast_int4_vnni(const fn_matmul_args *a);
double fn_avx2_probe_int8_vnni(size_t rounds);

#endif
