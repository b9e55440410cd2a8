#define BITS 8

#include "kernels/avx512/matmul_fast_int.inc"

void fn_avx512_matmul_fast_int8(const fn_matmul_args *a) {
    matmul_any(a);
}
