/* The header of a safetensors file. Input: one byte that chooses the form, then either a whole
 * file, or two bytes of data length and the header's JSON (so that the length need not be
 * guessed). */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* What every reader of tensors relies on. */
static void check(const fn_safetensors *file, uint64_t file_bytes) {
    for (size_t i = 0; i < file->n_tensors; i++) {
        const fn_tensor *t = &file->tensors[i];
        if (t->n_dims > FN_MAX_DIMS || t->offset > file_bytes ||
            t->bytes > file_bytes - t->offset || t->name[0] == '\0' ||
            fn_tensor_elements(t) * fn_dtype_bits(t->dtype) != t->bytes * 8) {
            abort();
        }
    }
}

static void run_file(const uint8_t *data, size_t n) {
    char path[64];
    fn_safetensors file;
    fn_error err = {0};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, n) != (ssize_t)n) {
        abort();
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fn_safetensors_open(path, &file, &err) == FN_OK) {
        check(&file, n);
        fn_safetensors_close(&file);
    }
    (void)close(fd);
}

static void run_header(const uint8_t *data, size_t n) {
    fn_safetensors file = {.fd = -1};
    fn_error err = {0};
    uint64_t bytes = 8 + (n - 2) + (data[0] | (uint64_t)data[1] << 8);
    if (fn_safetensors_parse((const char *)data + 2, n - 2, "fuzz", bytes, &file, &err) == FN_OK) {
        check(&file, bytes);
    }
    fn_safetensors_close(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n > 0 && (data[0] & 1) != 0) {
        run_file(data + 1, n - 1);
    } else if (n > 2) {
        run_header(data + 1, n - 1);
    }
    return 0;
}
