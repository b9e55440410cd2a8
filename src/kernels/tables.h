/* kernels/tables.h - the tables that kernels.c chooses from; callers go through kernels.h. */
#ifndef FN_KERNELS_TABLES_H
#define FN_KERNELS_TABLES_H

#include "kernels/kernels.h"

extern const fn_kernels fn_kernels_ref, fn_kernels_avx2, fn_kernels_avx512;

#endif
