#include "kernels/avx2/avx2.h"

#include "kernels/simd/row.inc"
