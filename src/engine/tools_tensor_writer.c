/* engine/tools_tensor_writer.c - writes a safetensors file front to back, under its name only when
 * whole.
 *
 * The header is written with the first byte of data: keys in the order they were declared, padded
 * with spaces so that the data start at a multiple of 8. */
#include <jansson.h>
#include <string.h>

#include "base/mem.h"
#include "base/new_file.h"
#include "checkpoint/tensor.h"
#include "flashnext_tools.h"
#include "tokens/text_buffer.h"

#define MAX_HEADER_BYTES ((size_t)100 << 20) /* what readers of the format accept */

struct fn_tensor_writer {
    char *path; /* as given, for messages */
    fn_new_file out;
    json_t *names; /* set of declared names */
    fn_text_buffer header;
    size_t n_tensors;
    uint64_t declared, written; /* bytes of data */
    bool header_written;
};

/* ---- life ----------------------------------------------------------------------------------- */

void fn_tensor_writer_abandon(fn_tensor_writer *w) {
    if (w == NULL) {
        return;
    }
    fn_new_file_abandon(&w->out);
    json_decref(w->names);
    fn_text_buffer_free(&w->header);
    fn_free(w->path);
    fn_free(w);
}

fn_status fn_tensor_writer_create(const char *path, fn_tensor_writer **out, fn_error *err) {
    *out = NULL;
    fn_tensor_writer *w = fn_alloc_zero(1, sizeof *w);
    if (w == NULL) {
        return fn_fail_nomem(err, path, sizeof *w);
    }
    w->path = fn_strndup(path, strlen(path));
    w->names = json_object();
    fn_status status = w->path != NULL && w->names != NULL
                           ? fn_text_buffer_append(&w->header, "{", 1, err)
                           : fn_fail_nomem(err, path, strlen(path));
    if (status == FN_OK) {
        status = fn_new_file_open(path, &w->out, err);
    }
    if (status != FN_OK) {
        fn_tensor_writer_abandon(w);
        return status;
    }
    *out = w;
    return FN_OK;
}

/* ---- header --------------------------------------------------------------------------------- */

static fn_status count_bytes(const fn_tensor_writer *w, const char *name, fn_dtype dtype,
                             const uint64_t *dims, size_t n_dims, uint64_t *bytes, fn_error *err) {
    uint64_t n = fn_dtype_bytes(dtype);
    bool overflow = false;
    for (size_t i = 0; i < n_dims; i++) {
        overflow = overflow || __builtin_mul_overflow(n, dims[i], &n);
    }
    if (overflow || n > INT64_MAX - w->declared) {
        return fn_fail(err, FN_E_USAGE, "%s: %s: more bytes than a file can hold", w->path, name);
    }
    *bytes = n;
    return FN_OK;
}

static fn_status check_declaration(const fn_tensor_writer *w, const char *name, const char *dtype,
                                   size_t n_dims, fn_error *err) {
    if (w->header_written) {
        return fn_fail(err, FN_E_USAGE, "%s: %s declared after the first data", w->path, name);
    }
    if (strcmp(name, "__metadata__") == 0 || json_object_get(w->names, name) != NULL) {
        return fn_fail(err, FN_E_USAGE, "%s: %s: name is taken", w->path, name);
    }
    if (fn_dtype_bytes(fn_dtype_from_name(dtype, strlen(dtype))) == 0 || n_dims > FN_MAX_DIMS) {
        return fn_fail(err, FN_E_USAGE, "%s: %s: type %s with %zu dimensions cannot be written",
                       w->path, name, dtype, n_dims);
    }
    return FN_OK;
}

/* "name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]} */
static json_t *entry(const char *dtype, const uint64_t *dims, size_t n_dims, uint64_t begin,
                     uint64_t end) {
    json_t *shape = json_array();
    for (size_t i = 0; i < n_dims; i++) {
        if (json_array_append_new(shape, json_integer((json_int_t)dims[i])) != 0) {
            json_decref(shape);
            return NULL;
        }
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)end);
}

typedef struct sink {
    fn_text_buffer *text;
    fn_error *err;
    bool failed; /* jansson forgets a failure while it writes a key */
} sink;

static int append_json(const char *bytes, size_t n, void *ud) {
    sink *s = ud;
    s->failed = s->failed || fn_text_buffer_append(s->text, bytes, n, s->err) != FN_OK;
    return s->failed ? -1 : 0;
}

static fn_status append_entry(fn_tensor_writer *w, const char *name, json_t *value, fn_error *err) {
    sink s = {.text = &w->header, .err = err};
    size_t before = w->header.count;
    json_t *key = json_string(name);
    if (key == NULL && value != NULL) {
        json_decref(value);
        return fn_fail(err, FN_E_USAGE, "%s: a tensor's name is not valid UTF-8", w->path);
    }
    bool good = value != NULL && (w->n_tensors == 0 || append_json(",", 1, &s) == 0) &&
                json_dump_callback(key, append_json, &s, JSON_ENCODE_ANY) == 0 &&
                append_json(":", 1, &s) == 0 &&
                json_dump_callback(value, append_json, &s, JSON_COMPACT) == 0 && !s.failed &&
                json_object_set_new(w->names, name, json_true()) == 0;
    json_decref(key);
    json_decref(value);
    if (!good) {
        w->header.count = before;
        return fn_fail_nomem(err, w->path, before);
    }
    return FN_OK;
}

fn_status fn_tensor_writer_declare(fn_tensor_writer *w, const char *name, const char *dtype,
                                   const uint64_t *dims, size_t n_dims, fn_error *err) {
    uint64_t bytes = 0;
    fn_status status = check_declaration(w, name, dtype, n_dims, err);
    if (status == FN_OK) {
        fn_dtype type = fn_dtype_from_name(dtype, strlen(dtype));
        status = count_bytes(w, name, type, dims, n_dims, &bytes, err);
    }
    if (status == FN_OK) {
        json_t *value = entry(dtype, dims, n_dims, w->declared, w->declared + bytes);
        status = append_entry(w, name, value, err);
    }
    if (status == FN_OK) {
        w->declared += bytes;
        w->n_tensors += 1;
    }
    return status;
}

static fn_status write_header(fn_tensor_writer *w, fn_error *err) {
    if (w->header_written) {
        return FN_OK;
    }
    fn_status status = fn_text_buffer_append(&w->header, "}", 1, err);
    while (status == FN_OK && w->header.count % 8 != 0) {
        status = fn_text_buffer_append(&w->header, " ", 1, err);
    }
    if (status != FN_OK) {
        return status;
    }
    if (w->header.count > MAX_HEADER_BYTES) {
        return fn_fail(err, FN_E_USAGE, "%s: header of %zu bytes, expected at most %zu", w->path,
                       w->header.count, MAX_HEADER_BYTES);
    }
    uint8_t length[8];
    for (size_t i = 0; i < sizeof length; i++) {
        length[i] = (uint8_t)((uint64_t)w->header.count >> (8 * i));
    }
    w->header_written = true;
    status = fn_new_file_write(&w->out, length, sizeof length, err);
    return status == FN_OK ? fn_new_file_write(&w->out, w->header.bytes, w->header.count, err)
                           : status;
}

/* ---- data ----------------------------------------------------------------------------------- */

fn_status fn_tensor_writer_append(fn_tensor_writer *w, const void *bytes, size_t n, fn_error *err) {
    if (n > w->declared - w->written) {
        return fn_fail(err, FN_E_USAGE, "%s: %zu bytes appended where %llu were left to write",
                       w->path, n, (unsigned long long)(w->declared - w->written));
    }
    fn_status status = write_header(w, err);
    if (status == FN_OK) {
        status = fn_new_file_write(&w->out, bytes, n, err);
    }
    w->written += status == FN_OK ? n : 0;
    return status;
}

fn_status fn_tensor_writer_finish(fn_tensor_writer *w, fn_error *err) {
    fn_status status = FN_OK;
    if (w->written != w->declared) {
        status = fn_fail(err, FN_E_USAGE, "%s: %llu bytes were written, %llu declared", w->path,
                         (unsigned long long)w->written, (unsigned long long)w->declared);
    }
    status = status == FN_OK ? write_header(w, err) : status;
    status = status == FN_OK ? fn_new_file_finish(&w->out, err) : status;
    fn_tensor_writer_abandon(w);
    return status;
}
