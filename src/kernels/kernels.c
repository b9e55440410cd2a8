#include "kernels/kernels.h"

#include <stdbool.h>
#include <string.h>

#include "kernels/tables.h"

const fn_kernels *fn_kernels_on(fn_isa isa, fn_cpu cpu) {
    switch (isa) {
    case FN_ISA_REF:
        return &fn_kernels_ref;
    case FN_ISA_AVX2:
        if (!cpu.avx2)
            return NULL;
        return cpu.avx_vnni ? &fn_kernels_avx2_vnni : &fn_kernels_avx2;
    case FN_ISA_AVX512:
        if (!cpu.avx512)
            return NULL;
        if (!cpu.avx512_vnni)
            return &fn_kernels_avx512_plain;
        return cpu.avx512_bf16 ? &fn_kernels_avx512 : &fn_kernels_avx512_vnni;
    case FN_ISA_COUNT:
        break;
    }
    return NULL;
}

const fn_kernels *fn_kernels_for(fn_isa isa) {
    fn_cpu cpu = fn_cpu_detect();
    return fn_kernels_on(isa, cpu);
}

const fn_kernels *fn_kernels_best(void) {
    for (int isa = FN_ISA_COUNT - 1; isa > FN_ISA_REF; isa--) {
        const fn_kernels *table = fn_kernels_for((fn_isa)isa);
        if (table != NULL)
            return table;
    }
    return &fn_kernels_ref;
}

bool fn_isa_parse(const char *word, fn_isa *isa) {
    static const char *const names[FN_ISA_COUNT] = {"ref", "avx2", "avx512"};
    for (int i = 0; i < FN_ISA_COUNT; i++) {
        if (strcmp(word, names[i]) == 0) {
            *isa = (fn_isa)i;
            return true;
        }
    }
    return false;
}
