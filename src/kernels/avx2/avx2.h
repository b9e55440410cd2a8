/* kernels/avx2/avx2.h - the functions of the avx2 table; kernels.h says what each computes. */
#ifndef FN_KERNELS_AVX2_H
#define FN_KERNELS_AVX2_H

#include "kernels/kernels.h"

#include "kernels/avx2/v16.h"
#include "kernels/simd/entries.inc"

#endif
