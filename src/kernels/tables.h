/* kernels/tables.h - the tables that kernels.c chooses from; callers go through kernels.h. */
#ifndef FN_KERNELS_TABLES_H
#define FN_KERNELS_TABLES_H

#include "base/cpu.h"
#include "kernels/kernels.h"

extern const fn_kernels fn_kernels_ref;
/* "avx2" for CPUs without and with AVX-VNNI. The same bits. */
extern const fn_kernels fn_kernels_avx2, fn_kernels_avx2_vnni;
/* "avx512" for CPUs with VNNI and BF16, with VNNI alone, with neither. The same bits. */
extern const fn_kernels fn_kernels_avx512, fn_kernels_avx512_vnni, fn_kernels_avx512_plain;

/* What fn_kernels_for answers on such a CPU. */
const fn_kernels *fn_kernels_on(fn_isa isa, fn_cpu cpu);

#endif
