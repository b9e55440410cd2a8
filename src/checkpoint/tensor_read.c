/* Reading a stored tensor's elements as float32. */
#include <string.h>

#include "base/half.h"
#include "checkpoint/checkpoint.h"

enum { CHUNK = 512 };

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
        dst[i] = t->dtype == FN_DTYPE_BF16 ? fn_bf16_to_float(bits) : fn_f16_to_float(bits);
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
