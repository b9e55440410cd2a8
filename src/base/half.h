/* base/half.h - the small float formats of checkpoints, bit for bit: FP16, BF16, FP8 E4M3, FP4 E2M1. */
#ifndef FN_BASE_HALF_H
#define FN_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float fn_float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t fn_bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float fn_bf16_to_float(uint16_t bits) {
    return fn_float_of_bits((uint32_t)bits << 16);
}

/* Nearest, ties to even. */
static inline uint16_t fn_float_to_bf16(float value) {
    uint32_t bits = fn_bits_of_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)(bits >> 16 | 0x40u); /* not a number stays so */
    }
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* IEEE binary16; every value is exact in float32. */
static inline float fn_f16_to_float(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t exponent = bits >> 10 & 31u;
    uint32_t fraction = bits & 1023u;
    if (exponent == 0) { /* zero and subnormals: fraction * 2^-24 */
        float value = (float)fraction * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    return fn_float_of_bits(sign | (exponent == 31 ? 255u : exponent + 112u) << 23 |
                            fraction << 13);
}

/* Nearest, ties to even; what is too large becomes infinite. */
static inline uint16_t fn_float_to_f16(float value) {
    uint32_t bits = fn_bits_of_float(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u); /* not a number */
    }
    if (magnitude >= 0x477ff000u) {
        return (uint16_t)(sign | 0x7c00u); /* 65520 and above round to infinity */
    }
    if (magnitude < 0x38800000u) { /* below 2^-14: the sum's last bit is worth 2^-24 */
        float aligned = fn_float_of_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (fn_bits_of_float(aligned) - 0x3f000000u));
    }
    uint32_t odd = magnitude >> 13 & 1u;
    return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

/* E4M3 as checkpoints use it ("fn"): bias 7, no infinities, S.1111.111 is not a number, largest 448. */
static inline float fn_e4m3_to_float(uint8_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x80u) << 24;
    uint32_t exponent = bits >> 3 & 15u;
    uint32_t fraction = bits & 7u;
    if (exponent == 0) {
        float value = (float)fraction * 0x1p-9f;
        return sign != 0 ? -value : value;
    }
    if (exponent == 15 && fraction == 7) {
        return fn_float_of_bits(sign | 0x7fc00000u);
    }
    return fn_float_of_bits(sign | (exponent + 120u) << 23 | fraction << 20);
}

/* E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives; the low four bits count. */
static inline float fn_e2m1_to_float(uint8_t bits) {
    static const float values[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    float value = values[bits & 7u];
    return (bits & 8u) != 0 ? -value : value;
}

#endif
