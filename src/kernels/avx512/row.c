#include "kernels/avx512/avx512.h"

#include "kernels/simd/row.inc"
