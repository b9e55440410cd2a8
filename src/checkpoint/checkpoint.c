#include "checkpoint/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shard_index.h"

struct fn_checkpoint {
    char *dir;
    fn_shard_list names; /* of the files, without the folder; parallel to `files` */
    fn_safetensors *files;
    size_t n_files;
    const void **maps;  /* [n_files] or NULL: where files are mapped */
    fn_tensor *tensors; /* sorted by name */
    size_t n_tensors;
};

static int by_name(const void *a, const void *b) {
    return strcmp(((const fn_tensor *)a)->name, ((const fn_tensor *)b)->name);
}

static fn_status check_unique(const fn_checkpoint *c, fn_error *err) {
    for (size_t i = 1; i < c->n_tensors; i++) {
        const fn_tensor *a = &c->tensors[i - 1];
        const fn_tensor *b = &c->tensors[i];
        if (strcmp(a->name, b->name) == 0) {
            return fn_fail(err, FN_E_MODEL, "tensor %.200s is in two files: %.380s and %.380s",
                           a->name, fn_checkpoint_file_path(c, a->file),
                           fn_checkpoint_file_path(c, b->file));
        }
    }
    return FN_OK;
}

/* Moves the files' tensors into one table sorted by name. */
static fn_status merge(fn_checkpoint *c, const fn_linked_file *links, fn_error *err) {
    size_t n = 0;
    for (size_t f = 0; f < c->n_files; f++) {
        n += c->files[f].n_tensors;
    }
    c->tensors = fn_alloc(n, sizeof *c->tensors);
    if (c->tensors == NULL) {
        return fn_fail_nomem(err, "the table of tensors", n * sizeof *c->tensors);
    }
    for (size_t f = 0; f < c->n_files; f++) {
        fn_safetensors *file = &c->files[f];
        const char *prefix = f >= c->names.n && links != NULL ? links[f - c->names.n].prefix : "";
        for (size_t i = 0; i < file->n_tensors; i++) {
            if (strncmp(file->tensors[i].name, prefix, strlen(prefix)) != 0) {
                continue;
            }
            c->tensors[c->n_tensors] = file->tensors[i];
            c->tensors[c->n_tensors].file = (uint32_t)f;
            c->n_tensors++;
        }
        fn_free(file->tensors);
        file->tensors = NULL;
    }
    qsort(c->tensors, c->n_tensors, sizeof *c->tensors, by_name);
    return check_unique(c, err);
}

static fn_status open_file(fn_checkpoint *c, const char *path, fn_error *err) {
    fn_status status = fn_safetensors_open(path, &c->files[c->n_files], err);
    c->n_files += status == FN_OK ? 1 : 0;
    return status;
}

static fn_status open_files(fn_checkpoint *c, const fn_linked_file *links, size_t n_links,
                            fn_error *err) {
    size_t n = c->names.n + n_links;
    c->files = fn_alloc_zero(n, sizeof *c->files);
    if (c->files == NULL) {
        return fn_fail_nomem(err, c->dir, n * sizeof *c->files);
    }
    for (size_t f = 0; f < c->names.n; f++) {
        char *path = fn_path_join(c->dir, c->names.names[f]);
        fn_status status = path != NULL ? open_file(c, path, err)
                                        : fn_fail_nomem(err, c->names.names[f], strlen(c->dir));
        fn_free(path);
        if (status != FN_OK) {
            return status;
        }
    }
    for (size_t i = 0; i < n_links; i++) {
        fn_status status = open_file(c, links[i].path, err);
        if (status != FN_OK) {
            return status;
        }
    }
    return FN_OK;
}

static fn_status open_dir(fn_checkpoint *c, const fn_linked_file *links, size_t n_links,
                          fn_error *err) {
    fn_shard_index index = {0};
    fn_status status = fn_shard_list_read(c->dir, &c->names, err);
    if (status == FN_OK) {
        status = fn_shard_index_read(c->dir, &c->names, &index, err);
    }
    if (status == FN_OK) {
        status = open_files(c, links, n_links, err);
    }
    if (status == FN_OK) {
        status = merge(c, links, err);
    }
    if (status == FN_OK) {
        status = fn_shard_index_check(&index, c->dir, c->files, c->names.n, c->tensors,
                                      c->n_tensors, err);
    }
    fn_shard_index_free(&index);
    return status;
}

static fn_status new_checkpoint(const char *dir, fn_checkpoint **out, fn_error *err) {
    *out = fn_alloc_zero(1, sizeof **out);
    char *copy = fn_strndup(dir, strlen(dir));
    if (*out == NULL || copy == NULL) {
        fn_free(*out);
        fn_free(copy);
        *out = NULL;
        return fn_fail_nomem(err, "a checkpoint", sizeof **out);
    }
    (*out)->dir = copy;
    return FN_OK;
}

fn_status fn_checkpoint_open(const char *dir, fn_checkpoint **out, fn_error *err) {
    return fn_checkpoint_open_linked(dir, NULL, 0, out, err);
}

fn_status fn_checkpoint_open_linked(const char *dir, const fn_linked_file *links, size_t n_links,
                                    fn_checkpoint **out, fn_error *err) {
    fn_status status = new_checkpoint(dir, out, err);
    if (status == FN_OK) {
        status = open_dir(*out, links, n_links, err);
    }
    if (status != FN_OK) {
        fn_checkpoint_close(*out);
        *out = NULL;
    }
    return status;
}

fn_status fn_checkpoint_open_file(const char *path, fn_checkpoint **out, fn_error *err) {
    fn_status status = new_checkpoint("", out, err);
    if (status == FN_OK) {
        (*out)->files = fn_alloc_zero(1, sizeof *(*out)->files);
        status = (*out)->files != NULL ? open_file(*out, path, err) : fn_fail_nomem(err, path, 1);
    }
    if (status == FN_OK) {
        status = merge(*out, NULL, err);
    }
    if (status != FN_OK) {
        fn_checkpoint_close(*out);
        *out = NULL;
    }
    return status;
}

void fn_checkpoint_close(fn_checkpoint *c) {
    if (c == NULL) {
        return;
    }
    for (size_t f = 0; c->files != NULL && f < c->n_files; f++) {
        if (c->maps != NULL) {
            fn_file_unmap(c->maps[f], (size_t)c->files[f].bytes);
        }
        fn_safetensors_close(&c->files[f]);
    }
    fn_free(c->maps);
    fn_free(c->files);
    fn_shard_list_free(&c->names);
    fn_free(c->tensors);
    fn_free(c->dir);
    fn_free(c);
}

size_t fn_checkpoint_count(const fn_checkpoint *c) {
    return c->n_tensors;
}

const fn_tensor *fn_checkpoint_at(const fn_checkpoint *c, size_t i) {
    return &c->tensors[i];
}

size_t fn_checkpoint_lower_bound(const fn_checkpoint *c, const char *prefix) {
    size_t low = 0;
    size_t high = c->n_tensors;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(c->tensors[middle].name, prefix) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const fn_tensor *fn_checkpoint_find(const fn_checkpoint *c, const char *name) {
    size_t i = fn_checkpoint_lower_bound(c, name);
    return i < c->n_tensors && strcmp(c->tensors[i].name, name) == 0 ? &c->tensors[i] : NULL;
}

size_t fn_checkpoint_files(const fn_checkpoint *c) {
    return c->n_files;
}

const char *fn_checkpoint_file_path(const fn_checkpoint *c, size_t file) {
    return c->files[file].path;
}

const char *fn_checkpoint_file_name(const fn_checkpoint *c, size_t file) {
    const char *slash = strrchr(c->files[file].path, '/');
    return slash != NULL ? slash + 1 : c->files[file].path;
}

uint64_t fn_checkpoint_file_bytes(const fn_checkpoint *c, size_t file) {
    return c->files[file].bytes;
}

uint64_t fn_checkpoint_header_digest(const fn_checkpoint *c, size_t file) {
    return c->files[file].digest;
}

const char *fn_checkpoint_dir(const fn_checkpoint *c) {
    return c->dir;
}

fn_status fn_checkpoint_reopen(const fn_checkpoint *c, size_t file, int *fd, fn_error *err) {
    const fn_safetensors *known = &c->files[file];
    uint64_t bytes = 0;
    fn_status status = fn_file_open(known->path, fd, &bytes, err);
    if (status == FN_OK && (!fn_file_same(*fd, known->fd) || bytes != known->bytes)) {
        status = fn_fail(err, FN_E_IO, "%s: the file was changed or replaced while it was opened",
                         known->path);
        fn_file_close(*fd);
        *fd = -1;
    }
    return status;
}

fn_status fn_tensor_read(const fn_checkpoint *c, const fn_tensor *t, uint64_t offset, void *dst,
                         size_t n, fn_error *err) {
    if (offset > t->bytes || n > t->bytes - offset) {
        return fn_fail(err, FN_E_RANGE,
                       "%s: %s: read of %zu bytes at %llu, expected at most %llu bytes",
                       fn_checkpoint_file_path(c, t->file), t->name, n, (unsigned long long)offset,
                       (unsigned long long)t->bytes);
    }
    const fn_safetensors *file = &c->files[t->file];
    return fn_file_read_at(file->fd, file->path, t->offset + offset, dst, n, err);
}

/* The bytes of a file from the first tensor whose name contains `part` to the end of the last. */
typedef struct extent {
    uint64_t begin, end;
} extent;

static void add_to_extent(extent *e, const fn_tensor *t) {
    bool first = e->end == 0;
    e->begin = first || t->offset < e->begin ? t->offset : e->begin;
    e->end = t->offset + t->bytes > e->end ? t->offset + t->bytes : e->end;
}

fn_status fn_checkpoint_map(fn_checkpoint *c, const char *part, fn_error *err) {
    fn_status status = FN_OK;
    extent *wanted = fn_alloc_zero(c->n_files, sizeof *wanted);
    if (c->maps == NULL) {
        c->maps = fn_alloc_zero(c->n_files, sizeof *c->maps);
    }
    if (c->maps == NULL || wanted == NULL) {
        fn_free(wanted);
        return fn_fail_nomem(err, c->dir, c->n_files * (sizeof *c->maps + sizeof *wanted));
    }
    for (size_t i = 0; i < c->n_tensors; i++) {
        if (strstr(c->tensors[i].name, part) != NULL) {
            add_to_extent(&wanted[c->tensors[i].file], &c->tensors[i]);
        }
    }
    for (size_t f = 0; f < c->n_files && status == FN_OK; f++) {
        const fn_safetensors *file = &c->files[f];
        if (wanted[f].end > 0 && c->maps[f] == NULL) {
            status = fn_file_map(file->fd, file->path, (size_t)file->bytes, &c->maps[f], err);
        }
        if (wanted[f].end > 0 && status == FN_OK) {
            fn_file_map_large(c->maps[f], (size_t)wanted[f].begin,
                              (size_t)(wanted[f].end - wanted[f].begin));
        }
    }
    fn_free(wanted);
    return status;
}

const uint8_t *fn_tensor_mapped(const fn_checkpoint *c, const fn_tensor *t) {
    const uint8_t *map = c != NULL && c->maps != NULL ? c->maps[t->file] : NULL;
    return map != NULL ? map + t->offset : NULL;
}

const char *fn_checkpoint_mapped_file(const fn_checkpoint *c, const void *address) {
    uintptr_t at = (uintptr_t)address;
    for (size_t f = 0; c->maps != NULL && f < c->n_files; f++) {
        uintptr_t map = (uintptr_t)c->maps[f];
        if (c->maps[f] != NULL && at >= map && at - map < c->files[f].bytes) {
            return c->files[f].path;
        }
    }
    return NULL;
}

/* Numbers go in as 8 little-endian bytes, names with their 0: the same on every machine. */
static uint64_t digest_number(uint64_t hash, uint64_t value) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(value >> (8 * i) & 0xff);
    }
    return fn_hash_bytes(hash, bytes, sizeof bytes);
}

static uint64_t digest_text(uint64_t hash, const char *text) {
    return fn_hash_bytes(hash, text, strlen(text) + 1);
}

#define SAMPLES ((size_t)2048)
#define SAMPLE_BYTES ((uint64_t)256)

/* Bytes from the middle of (at most SAMPLES) tensors: two trainings of one shape differ there. */
static fn_status digest_samples(const fn_checkpoint *c, uint64_t *hash, fn_error *err) {
    size_t n = c->n_tensors < SAMPLES ? c->n_tensors : SAMPLES;
    fn_status status = FN_OK;
    for (size_t i = 0; i < n && status == FN_OK; i++) {
        const fn_tensor *t = &c->tensors[i * c->n_tensors / n];
        uint8_t bytes[SAMPLE_BYTES];
        uint64_t count = t->bytes < SAMPLE_BYTES ? t->bytes : SAMPLE_BYTES;
        status = fn_tensor_read(c, t, (t->bytes - count) / 2, bytes, (size_t)count, err);
        *hash = fn_hash_bytes(*hash, bytes, status == FN_OK ? (size_t)count : 0);
    }
    return status;
}

fn_status fn_checkpoint_digest(const fn_checkpoint *c, uint64_t *out, fn_error *err) {
    uint64_t hash = FN_HASH_START;
    for (size_t f = 0; f < c->n_files; f++) {
        hash = digest_text(hash, fn_checkpoint_file_name(c, f));
        hash = digest_number(hash, c->files[f].bytes);
    }
    for (size_t i = 0; i < c->n_tensors; i++) {
        const fn_tensor *t = &c->tensors[i];
        hash = digest_text(hash, t->name);
        hash = digest_text(hash, fn_dtype_name(t->dtype));
        hash = digest_number(hash, t->n_dims);
        for (size_t d = 0; d < t->n_dims; d++) {
            hash = digest_number(hash, t->dims[d]);
        }
        hash = digest_number(hash, t->file);
        hash = digest_number(hash, t->offset);
    }
    *out = hash;
    return digest_samples(c, out, err);
}
