#define BITS 4

#include "kernels/avx2/matmul_fast_vnni.inc"

void fn_avx2_matmul_fast_int4_vnni(const fn_matmul_args *a) {
    matmul(a);
}
