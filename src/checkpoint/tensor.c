#include "checkpoint/tensor.h"

#include <stdio.h>
#include <string.h>

uint64_t fn_tensor_elements(const fn_tensor *t) {
    uint64_t n = 1;
    for (size_t i = 0; i < t->n_dims; i++) {
        n *= t->dims[i]; /* cannot overflow: checked when the header was read */
    }
    return n;
}

const char *fn_dtype_name(fn_dtype dtype) {
    switch (dtype) {
#define FN_DTYPE_CASE(name, bits)                                                                  \
    case FN_DTYPE_##name:                                                                          \
        return #name;
        FN_DTYPE_MAP(FN_DTYPE_CASE)
#undef FN_DTYPE_CASE
    case FN_DTYPE_OTHER:
        break;
    }
    return "unknown";
}

size_t fn_dtype_bits(fn_dtype dtype) {
    static const uint8_t bits_of[] = {
#define FN_DTYPE_BITS(name, bits) [FN_DTYPE_##name] = (bits),
        FN_DTYPE_MAP(FN_DTYPE_BITS)
#undef FN_DTYPE_BITS
    };
    return dtype < FN_DTYPE_OTHER ? bits_of[dtype] : 0;
}

size_t fn_dtype_bytes(fn_dtype dtype) {
    return fn_dtype_bits(dtype) / 8;
}

fn_dtype fn_dtype_from_name(const char *name, size_t n) {
    for (int i = 0; i < (int)FN_DTYPE_OTHER; i++) {
        const char *known = fn_dtype_name((fn_dtype)i);
        if (strlen(known) == n && memcmp(known, name, n) == 0) {
            return (fn_dtype)i;
        }
    }
    return FN_DTYPE_OTHER;
}

void fn_dims_text(const uint64_t *dims, size_t n_dims, char *out, size_t room) {
    size_t used = 0;
    if (room < 3) {
        return;
    }
    out[used++] = '[';
    for (size_t i = 0; i < n_dims; i++) {
        int n = snprintf(out + used, room - used, i > 0 ? ", %llu" : "%llu",
                         (unsigned long long)dims[i]);
        if (n < 0 || (size_t)n + 1 >= room - used) {
            break;
        }
        used += (size_t)n;
    }
    out[used++] = ']';
    out[used] = '\0';
}
