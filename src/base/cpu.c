#include "base/cpu.h"

#include <stdint.h>

typedef struct regs {
    uint32_t eax, ebx, ecx, edx;
} regs;

static regs cpuid(uint32_t leaf, uint32_t subleaf) {
    regs r;
    __asm__ volatile("cpuid"
                     : "=a"(r.eax), "=b"(r.ebx), "=c"(r.ecx), "=d"(r.edx)
                     : "a"(leaf), "c"(subleaf));
    return r;
}

/* Register sets that the operating system saves at a context switch. Needs OSXSAVE. */
static uint32_t xcr0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    return low;
}

static bool bit(uint32_t word, unsigned i) {
    return (word >> i & 1u) != 0;
}

fn_cpu fn_cpu_detect(void) {
    fn_cpu cpu = {.avx2 = false};
    uint32_t max_leaf = cpuid(0, 0).eax;
    if (max_leaf < 7)
        return cpu;
    regs one = cpuid(1, 0);
    bool osxsave = bit(one.ecx, 27);
    if (!osxsave)
        return cpu;
    uint32_t saved = xcr0();
    bool ymm = (saved & 0x06u) == 0x06u; /* XMM and the upper halves of YMM */
    bool zmm = (saved & 0xe6u) == 0xe6u; /* and opmask, upper ZMM, ZMM16-31 */
    regs seven = cpuid(7, 0);
    regs seven_1 = seven.eax >= 1 ? cpuid(7, 1) : (regs){0, 0, 0, 0};
    bool avx = bit(one.ecx, 28), fma = bit(one.ecx, 12), f16c = bit(one.ecx, 29);
    cpu.avx2 = ymm && avx && fma && f16c && bit(seven.ebx, 5);
    cpu.avx_vnni = cpu.avx2 && bit(seven_1.eax, 4);
    bool f = bit(seven.ebx, 16), dq = bit(seven.ebx, 17);
    bool bw = bit(seven.ebx, 30), vl = bit(seven.ebx, 31);
    cpu.avx512 = cpu.avx2 && zmm && f && dq && bw && vl;
    cpu.avx512_vnni = cpu.avx512 && bit(seven.ecx, 11);
    cpu.avx512_bf16 = cpu.avx512 && bit(seven_1.eax, 5);
    return cpu;
}
