#include "kernels/avx2/avx2.h"

#define vector __m256i
#define ZERO _mm256_setzero_si256
#define XOR _mm256_xor_si256
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define CHAINS 12

static uint64_t fold(__m256i x) {
    __m128i two = _mm_xor_si128(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    return (uint64_t)_mm_cvtsi128_si64(two) ^ (uint64_t)_mm_extract_epi64(two, 1);
}
#define FOLD fold

#include "kernels/simd/probe.inc"

/* Bytes times bytes, pairs to 16 bits, pairs of those to 32, added up. */
double fn_avx2_probe_int8(size_t rounds) {
    PROBE(__m256i, _mm256_setzero_si256,
          __asm__ volatile("vpmaddubsw %2, %1, %%ymm15\n\t"
                           "vpmaddwd %1, %%ymm15, %%ymm15\n\t"
                           "vpaddd %%ymm15, %0, %0"
                           : "+x"(s[j])
                           : "x"(w), "x"(v)
                           : "xmm15"));
    return 64.0 * CHAINS * (double)rounds;
}

double fn_avx2_probe_int8_vnni(size_t rounds) {
    PROBE(__m256i, _mm256_setzero_si256,
          __asm__ volatile("%{vex%} vpdpbusd %2, %1, %0"
                           : "+x"(s[j])
                           : "x"(w), "x"(v)));
    return 64.0 * CHAINS * (double)rounds;
}

/* There are no BF16 instructions: products are made in float32. */
double fn_avx2_probe_bf16(size_t rounds) {
    return fn_avx2_probe_f32(rounds);
}

double fn_avx2_probe_f32(size_t rounds) {
    PROBE(__m256, _mm256_setzero_ps,
          __asm__ volatile("vfmadd231ps %2, %1, %0"
                           : "+x"(s[j])
                           : "x"(w), "x"(v)));
    return 16.0 * CHAINS * (double)rounds;
}
