/* base/file.h - reading files: whole small ones, and exact ranges of large ones.
 *
 * Threads: fn_file_read_at may be called on one descriptor from any number of threads. */
#ifndef FN_BASE_FILE_H
#define FN_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* The whole file with a 0 behind it; the caller frees *out with fn_free. Fails with FN_E_IO, or
 * FN_E_MODEL when the file is larger than max_bytes. */
FN_NODISCARD fn_status fn_file_read_all(const char *path, size_t max_bytes, char **out, size_t *n,
                                        fn_error *err);

/* Opens a regular file for reading. Fails with FN_E_IO. */
FN_NODISCARD fn_status fn_file_open(const char *path, int *fd, uint64_t *bytes, fn_error *err);

/* Exactly n bytes at offset; interrupted and short reads are continued, an early end is FN_E_IO.
 * `path` is for the message only. */
FN_NODISCARD fn_status fn_file_read_at(int fd, const char *path, uint64_t offset, void *dst,
                                       size_t n, fn_error *err);

void fn_file_close(int fd);

/* Whether two descriptors are of one file. */
bool fn_file_same(int a, int b);

/* Maps all `bytes` of an open file for reading, shared and unread; *out is NULL for an empty file. What is
 * read after the file shrank or its disk failed raises SIGBUS. Fails with FN_E_IO. */
FN_NODISCARD fn_status fn_file_map(int fd, const char *path, size_t bytes, const void **out,
                                   fn_error *err);
/* Asks for `bytes` from `offset` of a mapping to be read from disk and held in large pages, as what is read whole
 * should be: a thousandth of the page faults, and fewer misses later. A hint, for where kernel and file system can. */
void fn_file_map_large(const void *map, size_t offset, size_t bytes);
void fn_file_unmap(const void *map, size_t bytes);

bool fn_file_exists(const char *path);

/* "dir/name" in memory of the caller (fn_free); NULL when out of memory. */
char *fn_path_join(const char *dir, const char *name) __attribute__((malloc, warn_unused_result));

#endif
