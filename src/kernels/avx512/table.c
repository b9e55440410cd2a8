#include "kernels/avx512/avx512.h"
#include "kernels/ref/ref.h"
#include "kernels/softplus.h"
#include "kernels/tables.h"

const fn_kernels fn_kernels_avx512 = {
    .name = "avx512",
#include "kernels/simd/table.inc"
};
