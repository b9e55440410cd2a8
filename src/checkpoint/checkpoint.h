/* checkpoint/checkpoint.h - a directory of safetensors files as one table of named, typed tensors.
 *
 * Path:    model.safetensors | index + shards | shards alone -> [this] -> weights/bind.h.
 * Reads:   headers only, each file's once; data are read by fn_tensor_read when asked for.
 * Checks:  header length against file size, offsets that overlap, leave gaps or run past the end,
 *          sizes against shape x dtype, a tensor in two files, numbered shards with a hole, an
 *          index that names a missing file or tensor or omits an existing tensor. Every
 *          "*.safetensors" file of the directory belongs to the checkpoint.
 * Threads: after opening, reads from any number of threads. */
#ifndef FN_CHECKPOINT_CHECKPOINT_H
#define FN_CHECKPOINT_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "checkpoint/tensor.h"

typedef struct fn_checkpoint fn_checkpoint;

/* Opens dir. Fails with FN_E_MODEL or FN_E_IO; messages name file and tensor. */
FN_NODISCARD fn_status fn_checkpoint_open(const char *dir, fn_checkpoint **out, fn_error *err);
/* A file elsewhere, of which the tensors whose names begin with prefix belong to the checkpoint. */
typedef struct fn_linked_file {
    const char *path, *prefix;
} fn_linked_file;

/* Opens dir and the linked files [n_links], which follow its own. */
FN_NODISCARD fn_status fn_checkpoint_open_linked(const char *dir, const fn_linked_file *links,
                                                 size_t n_links, fn_checkpoint **out,
                                                 fn_error *err);
/* One safetensors file by path (golden files, saved tensors). */
FN_NODISCARD fn_status fn_checkpoint_open_file(const char *path, fn_checkpoint **out,
                                               fn_error *err);
void fn_checkpoint_close(fn_checkpoint *c);

size_t fn_checkpoint_count(const fn_checkpoint *c);
const fn_tensor *fn_checkpoint_at(const fn_checkpoint *c, size_t i);           /* sorted by name */
const fn_tensor *fn_checkpoint_find(const fn_checkpoint *c, const char *name); /* NULL if none */
/* The first i whose name is not below `prefix`: where the names that begin with it start. */
size_t fn_checkpoint_lower_bound(const fn_checkpoint *c, const char *prefix);
size_t fn_checkpoint_files(const fn_checkpoint *c);
const char *fn_checkpoint_file_path(const fn_checkpoint *c, size_t file);
const char *fn_checkpoint_file_name(const fn_checkpoint *c, size_t file); /* without the folder */
uint64_t fn_checkpoint_file_bytes(const fn_checkpoint *c, size_t file);
uint64_t fn_checkpoint_header_digest(const fn_checkpoint *c, size_t file);
const char *fn_checkpoint_dir(const fn_checkpoint *c); /* "" after open_file */

/* Another descriptor of the file, for the caller to close. Fails with FN_E_IO, also when another file has taken
 * its name since. */
FN_NODISCARD fn_status fn_checkpoint_reopen(const fn_checkpoint *c, size_t file, int *fd,
                                            fn_error *err);

/* Exactly n bytes from `offset` within the tensor's data. FN_E_RANGE when they are not all its. */
FN_NODISCARD fn_status fn_tensor_read(const fn_checkpoint *c, const fn_tensor *t, uint64_t offset,
                                      void *dst, size_t n, fn_error *err);
/* `count` elements from element `first`, widened to float32 (F32, BF16, F16, F64). */
FN_NODISCARD fn_status fn_tensor_read_f32(const fn_checkpoint *c, const fn_tensor *t,
                                          uint64_t first, size_t count, float *dst, fn_error *err);

/* Maps every file that holds a tensor whose name contains `part`, until closing; nothing is read. Each file's part
 * from the first of these tensors to the last is to be read in large pages. From then on touching such a tensor
 * raises SIGBUS when its file has shrunk. Fails with FN_E_IO or FN_E_NOMEM. */
FN_NODISCARD fn_status fn_checkpoint_map(fn_checkpoint *c, const char *part, fn_error *err);
/* The tensor's data; NULL when its file is not mapped. c may be NULL. */
const uint8_t *fn_tensor_mapped(const fn_checkpoint *c, const fn_tensor *t);
/* The file that is mapped at an address, NULL if none is; may be called from a signal handler. */
const char *fn_checkpoint_mapped_file(const fn_checkpoint *c, const void *address);

/* A stable 64-bit digest of all names, dtypes, shapes, offsets, file names and sizes, and of some bytes
 * in the middle of the tensors (2,048 of them where there are more): what tells one training from another
 * without reading everything. Fails with FN_E_IO. */
FN_NODISCARD fn_status fn_checkpoint_digest(const fn_checkpoint *c, uint64_t *out, fn_error *err);

#endif
