/* engine/tools_tensor_file.c - one safetensors file, read for tools and tests. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "flashnext_tools.h"

#define PIECE_BYTES ((size_t)1 << 18)

struct fn_tensor_file {
    fn_checkpoint *checkpoint;
};

fn_status fn_tensor_file_open(const char *path, fn_tensor_file **out, fn_error *err) {
    *out = NULL;
    fn_tensor_file *file = fn_alloc_zero(1, sizeof *file);
    if (file == NULL) {
        return fn_fail_nomem(err, path, sizeof *file);
    }
    fn_status status = fn_checkpoint_open_file(path, &file->checkpoint, err);
    if (status != FN_OK) {
        fn_free(file);
        return status;
    }
    *out = file;
    return FN_OK;
}

void fn_tensor_file_close(fn_tensor_file *file) {
    if (file != NULL) {
        fn_checkpoint_close(file->checkpoint);
        fn_free(file);
    }
}

size_t fn_tensor_file_count(const fn_tensor_file *file) {
    return fn_checkpoint_count(file->checkpoint);
}

static void view(const fn_tensor *t, fn_tensor_view *out) {
    *out = (fn_tensor_view){
        .name = t->name, .dtype = fn_dtype_name(t->dtype), .n_dims = t->n_dims, .bytes = t->bytes};
    memcpy(out->dims, t->dims, t->n_dims * sizeof t->dims[0]);
}

void fn_tensor_file_at(const fn_tensor_file *file, size_t i, fn_tensor_view *out) {
    view(fn_checkpoint_at(file->checkpoint, i), out);
}

bool fn_tensor_file_find(const fn_tensor_file *file, const char *name, fn_tensor_view *out) {
    const fn_tensor *t = fn_checkpoint_find(file->checkpoint, name);
    if (t != NULL) {
        view(t, out);
    }
    return t != NULL;
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* sign, exponent, mantissa of a small float without infinities beyond its all-ones exponent. */
static double small_float(unsigned bits, int exponent_bits, int mantissa_bits, bool has_infinity) {
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    int mantissa = (int)bits & ((1 << mantissa_bits) - 1);
    double sign = (bits >> (exponent_bits + mantissa_bits) & 1) != 0 ? -1.0 : 1.0;
    bool top = exponent == (1 << exponent_bits) - 1;
    if (top && has_infinity) {
        return mantissa == 0 ? sign * (double)INFINITY : (double)NAN;
    }
    if (top && mantissa == (1 << mantissa_bits) - 1) {
        return (double)NAN; /* E4M3 gives its last code only to NaN */
    }
    if (exponent == 0) {
        return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    }
    return sign * ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

/* Reads one element of type T at `bytes`. */
#define AS(T) (double)*(const T *)memcpy(&(T){0}, bytes, sizeof(T))

static double bf16(const uint8_t *bytes) {
    uint32_t bits = (uint32_t)(bytes[0] | bytes[1] << 8) << 16;
    float value = 0;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static double number(fn_dtype dtype, const uint8_t *bytes) {
    switch (dtype) {
    case FN_DTYPE_F64:
        return AS(double);
    case FN_DTYPE_F32:
        return AS(float);
    case FN_DTYPE_BF16:
        return bf16(bytes);
    case FN_DTYPE_F16:
        return small_float((unsigned)(bytes[0] | bytes[1] << 8), 5, 10, true);
    case FN_DTYPE_F8_E4M3:
        return small_float(bytes[0], 4, 3, false);
    case FN_DTYPE_F8_E5M2:
        return small_float(bytes[0], 5, 2, true);
    case FN_DTYPE_I64:
        return AS(int64_t);
    case FN_DTYPE_U64:
        return AS(uint64_t);
    case FN_DTYPE_I32:
        return AS(int32_t);
    case FN_DTYPE_U32:
        return AS(uint32_t);
    case FN_DTYPE_I16:
        return AS(int16_t);
    case FN_DTYPE_U16:
        return AS(uint16_t);
    case FN_DTYPE_I8:
        return AS(int8_t);
    case FN_DTYPE_U8:
    case FN_DTYPE_BOOL:
        return AS(uint8_t);
    default:
        return (double)NAN;
    }
}

static bool has_numbers(fn_dtype dtype) {
    static const fn_dtype types[] = {
        FN_DTYPE_F64, FN_DTYPE_F32, FN_DTYPE_BF16,    FN_DTYPE_F16,     FN_DTYPE_I64,
        FN_DTYPE_U64, FN_DTYPE_I32, FN_DTYPE_U32,     FN_DTYPE_I16,     FN_DTYPE_U16,
        FN_DTYPE_I8,  FN_DTYPE_U8,  FN_DTYPE_F8_E4M3, FN_DTYPE_F8_E5M2, FN_DTYPE_BOOL};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i] == dtype) {
            return true;
        }
    }
    return false;
}

fn_status fn_tensor_file_read(const fn_tensor_file *file, const char *name, double *dst,
                              fn_error *err) {
    const fn_checkpoint *c = file->checkpoint;
    const fn_tensor *t = fn_checkpoint_find(c, name);
    if (t == NULL) {
        return fn_fail(err, FN_E_MODEL, "%s: no tensor %s", fn_checkpoint_file_path(c, 0), name);
    }
    if (!has_numbers(t->dtype)) {
        return fn_fail(err, FN_E_UNSUPPORTED, "%s: %s: type %s cannot be read as numbers",
                       fn_checkpoint_file_path(c, 0), name, fn_dtype_name(t->dtype));
    }
    uint8_t *piece = fn_alloc(PIECE_BYTES, 1);
    if (piece == NULL) {
        return fn_fail_nomem(err, name, PIECE_BYTES);
    }
    fn_status status = FN_OK;
    size_t element = fn_dtype_bytes(t->dtype);
    for (uint64_t at = 0; at < t->bytes && status == FN_OK; at += PIECE_BYTES) {
        size_t n = t->bytes - at < PIECE_BYTES ? (size_t)(t->bytes - at) : PIECE_BYTES;
        status = fn_tensor_read(c, t, at, piece, n, err);
        for (size_t i = 0; status == FN_OK && i < n; i += element) {
            *dst++ = number(t->dtype, piece + i);
        }
    }
    fn_free(piece);
    return status;
}
