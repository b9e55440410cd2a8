/* base/mem.h - the library's only way to the heap: sizes checked for overflow, huge blocks by mmap.
 *
 * Everything allocates through these, so that tests can count and fail allocations by wrapping the
 * C allocator at link time (tests/support/alloc_fail.h). Memory is freed with
 * fn_free/fn_pages_free. */
#ifndef FN_BASE_MEM_H
#define FN_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

/* count * size bytes, uninitialised / zeroed / resized; NULL on overflow or when memory is out. */
void *fn_alloc(size_t count, size_t size) __attribute__((malloc, warn_unused_result));
void *fn_alloc_zero(size_t count, size_t size) __attribute__((malloc, warn_unused_result));
void *fn_realloc(void *ptr, size_t count, size_t size) __attribute__((warn_unused_result));
void fn_free(const void *ptr);

/* Aligned to 64 bytes (a cache line and a zmm register); freed with fn_free. */
void *fn_alloc_aligned(size_t count, size_t size) __attribute__((malloc, warn_unused_result));

/* A copy of n bytes with a 0 behind it. */
char *fn_strndup(const char *text, size_t n) __attribute__((malloc, warn_unused_result));

/* Zeroed memory straight from the system, page aligned, huge pages asked for; touched when used.
 * For arenas, weights and state pools. */
void *fn_pages_alloc(size_t bytes) __attribute__((malloc, warn_unused_result));
void fn_pages_free(void *ptr, size_t bytes);
/* The system may have what lies behind bytes [ptr, ptr + bytes) of them; they read as zeros from then on,
 * except at the edges, where a page is shared with others. */
void fn_pages_give_back(void *ptr, size_t bytes);
/* Asks for huge pages again, or for none: where some of a huge page was given back, the system would fill it up
 * by itself sooner or later. */
void fn_pages_ask_huge(void *ptr, size_t bytes, bool huge);

/* Makes room for at least `need` elements of `size` bytes in *items, doubling; false when out of
 * memory (then *items and *capacity are untouched). */
bool fn_grow(void **items, size_t *capacity, size_t need, size_t size)
    __attribute__((warn_unused_result));

#endif
