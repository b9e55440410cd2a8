/* base/page_cache.h - what of a file the system holds in memory, and how it should read it.
 *
 * Threads: any number at once. Memory:  one small block while asking an older kernel. */
#ifndef FN_BASE_PAGE_CACHE_H
#define FN_BASE_PAGE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of [offset, offset + bytes) of the file that are in the page cache, in whole pages; the file is not read
 * for it. False when the system does not tell. */
bool fn_page_cache_held(int fd, uint64_t offset, uint64_t bytes, uint64_t *held);

/* Reads n bytes at offset if all of them are in the page cache, without ever waiting for the disk; false, with dst
 * undefined, when they are not, or the file system cannot say. */
bool fn_page_cache_read(int fd, uint64_t offset, void *dst, size_t n);

/* From now on this descriptor reads what is asked for and nothing ahead of it. */
void fn_page_cache_no_readahead(int fd);

#endif
