#include "kernels/ref/ref.h"

#define CHAINS 8

uint64_t fn_ref_probe_read(const uint8_t *p, size_t bytes, size_t streams) {
    uint64_t sum = 0;
    size_t run = bytes / streams;
    for (size_t i = 0; i + sizeof sum <= run; i += sizeof sum) {
        for (size_t s = 0; s < streams; s++) {
            uint64_t word;
            memcpy(&word, p + s * run + i, sizeof word);
            sum ^= word;
        }
    }
    return sum;
}

double fn_ref_probe(size_t rounds) {
    float sums[CHAINS] = {0.0f}, factor = 1.0f;
    for (size_t i = 0; i < rounds; i++) {
        for (size_t j = 0; j < CHAINS; j++)
            sums[j] = sums[j] * factor + factor;
        __asm__ volatile("" : "+m"(factor));
    }
    __asm__ volatile("" : : "m"(sums));
    return 2.0 * CHAINS * (double)rounds;
}
