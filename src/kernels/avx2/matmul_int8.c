#define BITS 8

#include "kernels/avx2/matmul_int.inc"

void fn_avx2_matmul_int8(const fn_matmul_args *a) {
    matmul(a);
}
