#define _GNU_SOURCE
#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *fn_alloc(size_t count, size_t size) {
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        return NULL;
    }
    return malloc(bytes > 0 ? bytes : 1);
}

void *fn_alloc_zero(size_t count, size_t size) {
    return count > 0 && size > 0 ? calloc(count, size) : calloc(1, 1);
}

void *fn_realloc(void *ptr, size_t count, size_t size) {
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        return NULL;
    }
    return realloc(ptr, bytes > 0 ? bytes : 1);
}

void fn_free(const void *ptr) {
    void *block; /* the owner may give away what it only reads */
    memcpy(&block, &ptr, sizeof block);
    free(block);
}

void *fn_alloc_aligned(size_t count, size_t size) {
    size_t bytes = 0;
    void *ptr = NULL;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - 64) {
        return NULL;
    }
    bytes = (bytes + 63) / 64 * 64;
    return posix_memalign(&ptr, 64, bytes > 0 ? bytes : 64) == 0 ? ptr : NULL;
}

char *fn_strndup(const char *text, size_t n) {
    char *copy = n < SIZE_MAX ? fn_alloc(n + 1, 1) : NULL;
    if (copy != NULL) {
        memcpy(copy, text, n);
        copy[n] = '\0';
    }
    return copy;
}

void *fn_pages_alloc(size_t bytes) {
    void *ptr = mmap(NULL, bytes > 0 ? bytes : 1, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ptr == MAP_FAILED) {
        return NULL;
    }
    (void)madvise(ptr, bytes, MADV_HUGEPAGE); /* a hint: small pages work too, 15-20 % slower */
    return ptr;
}

void fn_pages_free(void *ptr, size_t bytes) {
    if (ptr != NULL) {
        (void)munmap(ptr, bytes > 0 ? bytes : 1);
    }
}

void fn_pages_give_back(void *ptr, size_t bytes) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    size_t before = (size_t)(-(uintptr_t)ptr % page);
    if (bytes > before + page) {
        (void)madvise((uint8_t *)ptr + before, (bytes - before) / page * page, MADV_DONTNEED);
    }
}

void fn_pages_ask_huge(void *ptr, size_t bytes, bool huge) {
    (void)madvise(ptr, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

bool fn_grow(void **items, size_t *capacity, size_t need, size_t size) {
    if (need <= *capacity) {
        return true;
    }
    size_t next = *capacity < 8 ? 8 : *capacity;
    while (next < need) {
        if (next > SIZE_MAX / 2) {
            return false;
        }
        next *= 2;
    }
    void *grown = fn_realloc(*items, next, size);
    if (grown == NULL) {
        return false;
    }
    *items = grown;
    *capacity = next;
    return true;
}
