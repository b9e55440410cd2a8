#include "kernels/avx512/avx512.h"

#include "kernels/simd/attention_f32.inc"
