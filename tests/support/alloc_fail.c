#include "support/alloc_fail.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static atomic_long calls;
static atomic_long fail_at = -1;
static atomic_int fill = -1;

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *ptr, size_t n);
int __real_posix_memalign(void **out, size_t alignment, size_t n);
void *__real_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *ptr, size_t n);
int __wrap_posix_memalign(void **out, size_t alignment, size_t n);
void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset);

static int fails_now(void) {
    long call = atomic_fetch_add(&calls, 1);
    return call == atomic_load(&fail_at);
}

static void *filled(void *ptr, size_t n) {
    int byte = atomic_load(&fill);
    if (byte >= 0 && ptr != NULL) {
        memset(ptr, byte, n);
    }
    return ptr;
}

void *__wrap_malloc(size_t n) {
    return fails_now() ? NULL : filled(__real_malloc(n), n);
}

void *__wrap_calloc(size_t count, size_t size) {
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *ptr, size_t n) {
    return fails_now() ? NULL : __real_realloc(ptr, n);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t n) {
    if (fails_now()) {
        return 12; /* ENOMEM */
    }
    int result = __real_posix_memalign(out, alignment, n);
    if (result == 0) {
        (void)filled(*out, n);
    }
    return result;
}

void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
    if (fails_now()) {
        return MAP_FAILED;
    }
    void *ptr = __real_mmap(at, n, protection, flags, fd, offset);
    return ptr == MAP_FAILED || fd >= 0 || (protection & PROT_WRITE) == 0 ? ptr : filled(ptr, n);
}

void fn_alloc_fail_at(long n) {
    atomic_store(&calls, 0);
    atomic_store(&fail_at, n);
}

void fn_alloc_fill(int byte) {
    atomic_store(&fill, byte);
}

long fn_alloc_calls(void) {
    return atomic_load(&calls);
}

static void *jansson_malloc(size_t n) {
    return __wrap_malloc(n);
}

void fn_alloc_watch_jansson(void) {
    json_set_alloc_funcs(jansson_malloc, free);
}
