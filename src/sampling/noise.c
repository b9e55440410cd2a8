#include "sampling/noise.h"

#include "sampling/portable_math.h"

/* A bijection of 64 bits: every input bit reaches every output bit (the finish of splitmix64). */
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

fn_noise fn_noise_at(uint64_t seed, uint64_t position) {
    fn_noise noise;
    uint64_t s = mix(seed + 0x9e3779b97f4a7c15u);
    noise.key[0] = mix(s ^ (position * 0xd1342543de82ef95u + 0x632be59bd9b4e019u));
    /* Not of key[0]'s sequence below: an id whose first mix met key[1] would have no noise. */
    noise.key[1] = mix(s + (position * 0xaf251af3b0f025b5u ^ 0x2545f4914f6cdd1du));
    return noise;
}

double fn_noise_uniform(const fn_noise *noise, int32_t id) {
    uint64_t x = mix(noise->key[0] + (uint64_t)(uint32_t)id * 0x9e3779b97f4a7c15u);
    x = mix(x ^ noise->key[1]);
    return (double)((x >> 11) | 1u) * 0x1p-53;
}

double fn_noise_gumbel(const fn_noise *noise, int32_t id) {
    return -fn_portable_log(-fn_portable_log(fn_noise_uniform(noise, id)));
}
