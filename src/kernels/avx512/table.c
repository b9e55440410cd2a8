/* One table in three forms, with the same bits: CPUs without an instruction of the fast precision
 * get the AVX2 functions in its place. */
#include "kernels/avx512/avx512.h"
#include "kernels/ref/ref.h"
#include "kernels/softplus.h"
#include "kernels/tables.h"

#undef FN_SIMD
#define FN_SIMD(name) fn_avx2_##name
#include "kernels/simd/entries.inc"
#undef FN_SIMD
#define FN_SIMD(name) fn_avx512_##name

#define FN_INT(name) fn_avx512_##name
#define FN_BF16(name) fn_avx512_##name
const fn_kernels fn_kernels_avx512 = {
    .name = "avx512",
#include "kernels/simd/table.inc"
};

#undef FN_BF16
#define FN_BF16(name) fn_avx2_##name
const fn_kernels fn_kernels_avx512_vnni = {
    .name = "avx512",
#include "kernels/simd/table.inc"
};

#undef FN_INT
#define FN_INT(name) fn_avx2_##name
const fn_kernels fn_kernels_avx512_plain = {
    .name = "avx512",
#include "kernels/simd/table.inc"
};
