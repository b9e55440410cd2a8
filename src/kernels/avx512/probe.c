#include "kernels/avx512/avx512.h"

#define vector __m512i
#define ZERO _mm512_setzero_si512
#define XOR _mm512_xor_si512
#define LOAD _mm512_loadu_si512
#define FOLD(x) ((uint64_t)_mm512_reduce_add_epi64(x))
#define CHAINS 16

#include "kernels/simd/probe.inc"

double fn_avx512_probe_int8(size_t rounds) {
    PROBE(__m512i, _mm512_setzero_si512,
          __asm__ volatile("vpdpbusd %2, %1, %0"
                           : "+v"(s[j])
                           : "v"(w), "v"(v)));
    return 128.0 * CHAINS * (double)rounds;
}

double fn_avx512_probe_bf16(size_t rounds) {
    PROBE(__m512, _mm512_setzero_ps,
          __asm__ volatile("vdpbf16ps %2, %1, %0"
                           : "+v"(s[j])
                           : "v"(w), "v"(v)));
    return 64.0 * CHAINS * (double)rounds;
}

double fn_avx512_probe_f32(size_t rounds) {
    PROBE(__m512, _mm512_setzero_ps,
          __asm__ volatile("vfmadd231ps %2, %1, %0"
                           : "+v"(s[j])
                           : "v"(w), "v"(v)));
    return 32.0 * CHAINS * (double)rounds;
}
