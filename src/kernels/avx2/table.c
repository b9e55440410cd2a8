/* One table in two forms, with the same bits: CPUs that have the integer dot product use it. */
#include "kernels/avx2/avx2.h"
#include "kernels/ref/ref.h"
#include "kernels/softplus.h"
#include "kernels/tables.h"

#define FN_INT(name) fn_avx2_##name
#define FN_BF16(name) fn_avx2_##name
const fn_kernels fn_kernels_avx2 = {
    .name = "avx2",
#include "kernels/simd/table.inc"
};

#undef FN_INT
#define FN_INT(name) fn_avx2_##name##_vnni
const fn_kernels fn_kernels_avx2_vnni = {
    .name = "avx2",
#include "kernels/simd/table.inc"
};
