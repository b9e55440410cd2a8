#include "checkpoint/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"

enum { LENGTH_BYTES = 8 };
#define MAX_HEADER_BYTES ((uint64_t)100000000) /* the format's own limit */
#define METADATA_KEY "__metadata__"

typedef unsigned long long ull;

/* A name that could not be printed on one line would break every message that carries it. */
static bool name_is_plain(const char *name) {
    for (const char *at = name; *at != '\0'; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f) {
            return false;
        }
    }
    return name[0] != '\0';
}

static fn_status read_dims(const json_t *shape, const char *path, fn_tensor *t, fn_error *err) {
    if (!json_is_array(shape) || json_array_size(shape) > FN_MAX_DIMS) {
        return fn_fail(err, FN_E_MODEL, "%s: %s: shape: expected an array of at most %d integers",
                       path, t->name, FN_MAX_DIMS);
    }
    t->n_dims = json_array_size(shape);
    for (size_t i = 0; i < t->n_dims; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0) {
            return fn_fail(err, FN_E_MODEL, "%s: %s: shape: element %zu is no size", path, t->name,
                           i);
        }
        t->dims[i] = (uint64_t)json_integer_value(dim);
    }
    return FN_OK;
}

static fn_status read_offsets(const json_t *offsets, const char *path, fn_tensor *t,
                              fn_error *err) {
    const json_t *begin = json_array_get(offsets, 0);
    const json_t *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin)) {
        return fn_fail(err, FN_E_MODEL,
                       "%s: %s: data_offsets: expected [begin, end] with 0 <= begin <= end", path,
                       t->name);
    }
    t->offset = (uint64_t)json_integer_value(begin);
    t->bytes = (uint64_t)json_integer_value(end) - t->offset;
    return FN_OK;
}

/* Whether the stored bytes are what shape and dtype ask for. */
static fn_status check_size(const char *path, const fn_tensor *t, fn_error *err) {
    char dims[160];
    uint64_t bits = fn_dtype_bits(t->dtype);
    bool fits = true;
    for (size_t i = 0; i < t->n_dims; i++) {
        fits = fits && !__builtin_mul_overflow(bits, t->dims[i], &bits);
    }
    if (fits && bits % 8 == 0 && bits / 8 == t->bytes) {
        return FN_OK;
    }
    fn_dims_text(t->dims, t->n_dims, dims, sizeof dims);
    if (!fits) {
        return fn_fail(err, FN_E_MODEL, "%s: %s: %s %s is larger than any file", path, t->name,
                       fn_dtype_name(t->dtype), dims);
    }
    return fn_fail(err, FN_E_MODEL, "%s: %s: data_offsets give %llu bytes, %s %s needs %llu", path,
                   t->name, (ull)t->bytes, fn_dtype_name(t->dtype), dims, (ull)(bits / 8));
}

static fn_status read_tensor(json_t *info, const char *path, fn_tensor *t, fn_error *err) {
    const json_t *dtype = json_object_get(info, "dtype");
    if (!json_is_object(info) || !json_is_string(dtype)) {
        return fn_fail(err, FN_E_MODEL,
                       "%s: %s: expected an object with dtype, shape and data_offsets", path,
                       t->name);
    }
    t->dtype = fn_dtype_from_name(json_string_value(dtype), json_string_length(dtype));
    if (t->dtype == FN_DTYPE_OTHER) {
        return fn_fail(
            err, FN_E_MODEL, "%s: %s: dtype: found %s, expected a type of the safetensors format",
            path, t->name,
            name_is_plain(json_string_value(dtype)) ? json_string_value(dtype) : "unreadable text");
    }
    fn_status status = read_dims(json_object_get(info, "shape"), path, t, err);
    if (status == FN_OK) {
        status = read_offsets(json_object_get(info, "data_offsets"), path, t, err);
    }
    return status == FN_OK ? check_size(path, t, err) : status;
}

static int by_offset(const void *a, const void *b) {
    const fn_tensor *x = a;
    const fn_tensor *y = b;
    if (x->offset != y->offset) {
        return x->offset < y->offset ? -1 : 1;
    }
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The data must be covered exactly: sorts the tensors and walks them. */
static fn_status check_cover(const char *path, uint64_t data_start, uint64_t file_bytes,
                             fn_safetensors *out, fn_error *err) {
    uint64_t at = 0;
    const char *before = "the header";
    if (out->n_tensors > 0) {
        qsort(out->tensors, out->n_tensors, sizeof *out->tensors, by_offset);
    }
    for (size_t i = 0; i < out->n_tensors; i++) {
        const fn_tensor *t = &out->tensors[i];
        if (t->offset != at) {
            return fn_fail(err, FN_E_MODEL,
                           "%s: %s: data begin at offset %llu, expected %llu, the end of %s (%s)",
                           path, t->name, (ull)t->offset, (ull)at, before,
                           t->offset < at ? "they overlap" : "a gap");
        }
        at += t->bytes;
        before = t->name;
    }
    uint64_t expected = data_start + at;
    if (file_bytes != expected) {
        return fn_fail(err, FN_E_MODEL, "%s: found %llu bytes, expected %llu by its header (%s)",
                       path, (ull)file_bytes, (ull)expected,
                       file_bytes < expected ? "truncated: incomplete download?"
                                             : "bytes that belong to no tensor");
    }
    for (size_t i = 0; i < out->n_tensors; i++) {
        out->tensors[i].offset += data_start;
    }
    return FN_OK;
}

static fn_status read_tensors(json_t *root, const char *path, fn_safetensors *out, fn_error *err) {
    const char *name;
    json_t *info;
    size_t name_bytes = 0;
    size_t used = 0;
    json_object_foreach(root, name, info) {
        name_bytes += strlen(name) + 1;
    }
    out->tensors = fn_alloc_zero(json_object_size(root), sizeof *out->tensors);
    out->names = fn_alloc(name_bytes, 1);
    if (out->tensors == NULL || out->names == NULL) {
        return fn_fail_nomem(err, path, json_object_size(root) * sizeof *out->tensors + name_bytes);
    }
    json_object_foreach(root, name, info) {
        if (strcmp(name, METADATA_KEY) == 0) {
            continue;
        }
        if (!name_is_plain(name)) {
            return fn_fail(err, FN_E_MODEL, "%s: tensor %zu: the name is empty or not printable",
                           path, out->n_tensors);
        }
        fn_tensor *t = &out->tensors[out->n_tensors];
        size_t n = strlen(name) + 1;
        memcpy(out->names + used, name, n);
        t->name = out->names + used;
        used += n;
        fn_status status = read_tensor(info, path, t, err);
        if (status != FN_OK) {
            return status;
        }
        out->n_tensors++;
    }
    return FN_OK;
}

fn_status fn_safetensors_parse(const char *json, size_t n, const char *path, uint64_t file_bytes,
                               fn_safetensors *out, fn_error *err) {
    json_t *root = NULL;
    fn_status status = fn_json_parse(json, n, path, &root, err);
    if (status != FN_OK) {
        return status;
    }
    if (json_is_object(root)) {
        status = read_tensors(root, path, out, err);
    } else {
        status = fn_fail(err, FN_E_MODEL, "%s: header: found %s, expected an object", path,
                         fn_json_type_name(root));
    }
    json_decref(root);
    if (status == FN_OK) {
        status = check_cover(path, LENGTH_BYTES + (uint64_t)n, file_bytes, out, err);
    }
    return status;
}

static fn_status read_header(fn_safetensors *file, char **json, size_t *n, fn_error *err) {
    unsigned char raw[LENGTH_BYTES];
    uint64_t length = 0;
    if (file->bytes < LENGTH_BYTES) {
        return fn_fail(err, FN_E_MODEL, "%s: found %llu bytes, expected at least %d (truncated?)",
                       file->path, (ull)file->bytes, LENGTH_BYTES);
    }
    fn_status status = fn_file_read_at(file->fd, file->path, 0, raw, sizeof raw, err);
    if (status != FN_OK) {
        return status;
    }
    for (int i = LENGTH_BYTES - 1; i >= 0; i--) {
        length = length << 8 | raw[i];
    }
    if (length > MAX_HEADER_BYTES || length > file->bytes - LENGTH_BYTES) {
        return fn_fail(err, FN_E_MODEL,
                       "%s: header length: found %llu, expected at most %llu in a file of %llu "
                       "bytes (truncated, or not safetensors)",
                       file->path, (ull)length,
                       (ull)(file->bytes - LENGTH_BYTES < MAX_HEADER_BYTES
                                 ? file->bytes - LENGTH_BYTES
                                 : MAX_HEADER_BYTES),
                       (ull)file->bytes);
    }
    *n = (size_t)length;
    *json = fn_alloc(*n, 1);
    if (*json == NULL) {
        return fn_fail_nomem(err, file->path, *n);
    }
    return fn_file_read_at(file->fd, file->path, LENGTH_BYTES, *json, *n, err);
}

fn_status fn_safetensors_open(const char *path, fn_safetensors *out, fn_error *err) {
    char *json = NULL;
    size_t n = 0;
    *out = (fn_safetensors){.fd = -1};
    out->path = fn_strndup(path, strlen(path));
    fn_status status = out->path != NULL ? fn_file_open(path, &out->fd, &out->bytes, err)
                                         : fn_fail_nomem(err, path, strlen(path) + 1);
    if (status == FN_OK) {
        status = read_header(out, &json, &n, err);
    }
    if (status == FN_OK) {
        out->digest = fn_hash_bytes(FN_HASH_START, json, n);
        status = fn_safetensors_parse(json, n, path, out->bytes, out, err);
    }
    fn_free(json);
    if (status != FN_OK) {
        fn_safetensors_close(out);
    }
    return status;
}

void fn_safetensors_close(fn_safetensors *file) {
    fn_file_close(file->fd);
    fn_free(file->tensors);
    fn_free(file->names);
    fn_free(file->path);
    *file = (fn_safetensors){.fd = -1};
}
