/* Reading a stored tensor's elements as float32. */
#include <string.h>

#include "checkpoint/checkpoint.h"

enum { CHUNK = 512 };

static float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float widen_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 0x1f;
    uint32_t mantissa = half & 0x3ff;
    if (exponent == 0) { /* zero and subnormals: mantissa * 2^-24, exact in float32 */
        float magnitude = (float)mantissa * 0x1p-24f;
        return sign != 0 ? -magnitude : magnitude;
    }
    uint32_t wide = exponent == 0x1f ? 0xff : exponent + 112;
    return from_bits(sign | wide << 23 | mantissa << 13);
}

/* The 16-bit source lies in the upper half of dst, so that walking up never overwrites what is
 * still to be read. */
static fn_status read_16(const fn_checkpoint *c, const fn_tensor *t, uint64_t first, size_t count,
                         float *dst, fn_error *err) {
    char *source = (char *)dst + count * 2;
    fn_status status = fn_tensor_read(c, t, first * 2, source, count * 2, err);
    if (status != FN_OK) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, source + 2 * i, sizeof bits);
        dst[i] = t->dtype == FN_DTYPE_BF16 ? from_bits((uint32_t)bits << 16) : widen_f16(bits);
    }
    return FN_OK;
}

static fn_status read_f64(const fn_checkpoint *c, const fn_tensor *t, uint64_t first, size_t count,
                          float *dst, fn_error *err) {
    double chunk[CHUNK];
    for (size_t done = 0; done < count;) {
        size_t n = count - done < CHUNK ? count - done : CHUNK;
        fn_status status = fn_tensor_read(c, t, (first + done) * 8, chunk, n * 8, err);
        if (status != FN_OK) {
            return status;
        }
        for (size_t i = 0; i < n; i++) {
            dst[done + i] = (float)chunk[i];
        }
        done += n;
    }
    return FN_OK;
}

fn_status fn_tensor_read_f32(const fn_checkpoint *c, const fn_tensor *t, uint64_t first,
                             size_t count, float *dst, fn_error *err) {
    uint64_t n = fn_tensor_elements(t);
    if (first > n || count > n - first) {
        return fn_fail(err, FN_E_RANGE,
                       "%s: %s: %zu elements from %llu, expected at most %llu elements",
                       fn_checkpoint_file_path(c, t->file), t->name, count,
                       (unsigned long long)first, (unsigned long long)n);
    }
    if (t->dtype == FN_DTYPE_F32) {
        return fn_tensor_read(c, t, first * 4, dst, count * 4, err);
    }
    if (t->dtype == FN_DTYPE_BF16 || t->dtype == FN_DTYPE_F16) {
        return read_16(c, t, first, count, dst, err);
    }
    if (t->dtype == FN_DTYPE_F64) {
        return read_f64(c, t, first, count, dst, err);
    }
    return fn_fail(err, FN_E_MODEL, "%s: %s: found %s, expected F32, BF16, F16 or F64",
                   fn_checkpoint_file_path(c, t->file), t->name, fn_dtype_name(t->dtype));
}
