/* checkpoint/tensor.h - one stored tensor: its name, type, shape and place in a file.
 *
 * Path:    checkpoint/safetensors.h fills it -> everything that reads weights.
 * Memory:  a view; names belong to the checkpoint. */
#ifndef FN_CHECKPOINT_TENSOR_H
#define FN_CHECKPOINT_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#define FN_MAX_DIMS 8

/* Every type the safetensors format knows: name there, bits of an element. */
#define FN_DTYPE_MAP(X)                                                                            \
    X(F32, 32)                                                                                     \
    X(BF16, 16)                                                                                    \
    X(F16, 16)                                                                                     \
    X(I64, 64)                                                                                     \
    X(I32, 32)                                                                                     \
    X(U8, 8)                                                                                       \
    X(F8_E4M3, 8)                                                                                  \
    X(F64, 64)                                                                                     \
    X(I8, 8)                                                                                       \
    X(I16, 16)                                                                                     \
    X(BOOL, 8)                                                                                     \
    X(U16, 16)                                                                                     \
    X(U32, 32)                                                                                     \
    X(U64, 64)                                                                                     \
    X(F8_E5M2, 8)                                                                                  \
    X(F8_E8M0, 8)                                                                                  \
    X(F8_E4M3FNUZ, 8)                                                                              \
    X(F8_E5M2FNUZ, 8)                                                                              \
    X(C64, 64)                                                                                     \
    X(F6_E2M3, 6)                                                                                  \
    X(F6_E3M2, 6)                                                                                  \
    X(F4, 4)

typedef enum fn_dtype {
#define FN_DTYPE_ENUM(name, bits) FN_DTYPE_##name,
    FN_DTYPE_MAP(FN_DTYPE_ENUM)
#undef FN_DTYPE_ENUM
        FN_DTYPE_OTHER /* no tensor has it: the answer for a name that is not known */
} fn_dtype;

typedef struct fn_tensor {
    const char *name;
    fn_dtype dtype;
    size_t n_dims;
    uint64_t dims[FN_MAX_DIMS];
    uint32_t file;          /* index into the checkpoint's files */
    uint64_t offset, bytes; /* absolute offset of the data in that file */
} fn_tensor;

uint64_t fn_tensor_elements(const fn_tensor *t);

const char *fn_dtype_name(fn_dtype dtype); /* as in safetensors: "BF16" */
size_t fn_dtype_bytes(fn_dtype dtype);     /* 0 for OTHER and for types below one byte */
size_t fn_dtype_bits(fn_dtype dtype);      /* 0 for OTHER */
/* FN_DTYPE_OTHER for a name that is none. */
fn_dtype fn_dtype_from_name(const char *name, size_t n);

/* "[512, 1280, 2560]" for messages; cut off when it does not fit. */
void fn_dims_text(const uint64_t *dims, size_t n_dims, char *out, size_t room);

#endif
