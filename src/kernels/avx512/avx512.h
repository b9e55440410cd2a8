/* kernels/avx512/avx512.h - the functions of the avx512 table; kernels.h says what each computes. */
#ifndef FN_KERNELS_AVX512_H
#define FN_KERNELS_AVX512_H

#include "kernels/kernels.h"

#include "kernels/avx512/v16.h"
#include "kernels/simd/entries.inc"

#endif
