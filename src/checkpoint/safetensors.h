/* checkpoint/safetensors.h - the header of one safetensors file, checked whole.
 *
 * Format:  u64 n, n bytes of JSON {name: {dtype, shape, data_offsets}}, then the data, which the
 *          offsets must cover without gap or overlap up to the file's last byte.
 * Path:    file -> [this: typed views] -> checkpoint/checkpoint.h.
 * Memory:  owns descriptor, views and names. */
#ifndef FN_CHECKPOINT_SAFETENSORS_H
#define FN_CHECKPOINT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "checkpoint/tensor.h"

typedef struct fn_safetensors {
    char *path;
    int fd;
    uint64_t bytes;     /* of the file */
    uint64_t digest;    /* of the header's JSON */
    fn_tensor *tensors; /* in the order of their data; `file` is left 0 */
    size_t n_tensors;
    char *names; /* where the tensors' names live */
} fn_safetensors;

/* Opens path and reads its header. Fails with FN_E_MODEL, FN_E_IO or FN_E_NOMEM; then *out needs
 * no closing. */
FN_NODISCARD fn_status fn_safetensors_open(const char *path, fn_safetensors *out, fn_error *err);
void fn_safetensors_close(fn_safetensors *file);

/* The JSON part alone: json [n] of a file of file_bytes bytes, `path` for messages. Fills tensors
 * and names of *out, which is closed by fn_safetensors_close. */
FN_NODISCARD fn_status fn_safetensors_parse(const char *json, size_t n, const char *path,
                                            uint64_t file_bytes, fn_safetensors *out,
                                            fn_error *err);

#endif
