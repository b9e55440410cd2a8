#define BITS 8

#include "kernels/avx2/matmul_fast_vnni.inc"

void fn_avx2_matmul_fast_int8_vnni(const fn_matmul_args *a) {
    matmul(a);
}
