#include "kernels/avx2/avx2.h"

#include "kernels/simd/attention_f32.inc"
