#define _GNU_SOURCE
#include "support/read_fail.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;
static atomic_long fail_at = -1;
static atomic_size_t most;
static atomic_long turns;

ssize_t __real_pread(int fd, void *dst, size_t n, off_t offset);
ssize_t __wrap_pread(int fd, void *dst, size_t n, off_t offset);
ssize_t __real_preadv2(int fd, const struct iovec *parts, int n, off_t offset, int flags);
ssize_t __wrap_preadv2(int fd, const struct iovec *parts, int n, off_t offset, int flags);

ssize_t __wrap_pread(int fd, void *dst, size_t n, off_t offset) {
    long call = atomic_fetch_add(&calls, 1);
    long fail = atomic_load(&fail_at);
    size_t limit = atomic_load(&most);
    if (fail >= 0 && call >= fail) {
        errno = EIO;
        return -1;
    }
    if (limit > 0 && atomic_fetch_add(&turns, 1) % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    return __real_pread(fd, dst, limit > 0 && limit < n ? limit : n, offset);
}

ssize_t __wrap_preadv2(int fd, const struct iovec *parts, int n, off_t offset, int flags) {
    if (atomic_load(&fail_at) >= 0 || atomic_load(&most) > 0) {
        errno = EAGAIN;
        return -1;
    }
    return __real_preadv2(fd, parts, n, offset, flags);
}

void fn_read_fail_at(long n) {
    atomic_store(&calls, 0);
    atomic_store(&fail_at, n);
}

void fn_read_short(size_t limit) {
    atomic_store(&most, limit);
}

long fn_read_calls(void) {
    return atomic_load(&calls);
}
