/* base/cpu.h - what this CPU can run, and what the operating system lets it: CPUID and XCR0.
 *
 * Threads: stateless; every call asks the CPU again (under a microsecond natively, more in a virtual
 *          machine), so callers keep the answer.
 * Memory:  nothing is kept. */
#ifndef FN_BASE_CPU_H
#define FN_BASE_CPU_H

#include <stdbool.h>

/* A flag is set only when the registers it needs are saved by the operating system, too. */
typedef struct fn_cpu {
    bool avx2;     /* AVX2, FMA and F16C */
    bool avx_vnni; /* the integer dot product on AVX2's registers, with all of avx2 */
    bool avx512;   /* F, BW, DQ and VL, with all of avx2 */
    bool avx512_vnni;
    bool avx512_bf16;
} fn_cpu;

fn_cpu fn_cpu_detect(void);

#endif
