#include "support/alloc_fail.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

static atomic_long calls;
static atomic_long fail_at = -1;

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

void *__wrap_malloc(size_t n) {
    return fails_now() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t count, size_t size) {
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *ptr, size_t n) {
    return fails_now() ? NULL : __real_realloc(ptr, n);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t n) {
    return fails_now() ? 12 /* ENOMEM */ : __real_posix_memalign(out, alignment, n);
}

void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
    return fails_now() ? MAP_FAILED : __real_mmap(at, n, protection, flags, fd, offset);
}

void fn_alloc_fail_at(long n) {
    atomic_store(&calls, 0);
    atomic_store(&fail_at, n);
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
