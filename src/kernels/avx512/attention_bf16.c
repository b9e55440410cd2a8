#include "kernels/avx512/avx512.h"

typedef __m512i dot_in; /* 16 pairs */

static inline dot_in dot_load(const uint16_t *p) {
    return _mm512_loadu_si512(p);
}

/* Per lane: fma of the second of the pair, then of the first. */
static inline v16 dot_add(dot_in a, dot_in b, v16 sums) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sums) : "v"(a), "v"(b));
    return sums;
}

#include "kernels/simd/attention_bf16.inc"
