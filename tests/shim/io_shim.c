/* tests/shim/io_shim.c - a disk that is full, slow, broken, or gives less than was asked for; preloaded into the program.
 *
 * Environment:  IO_SHIM_SHORT=N   reads by position give at most N bytes, and every third is interrupted first
 *               IO_SHIM_EIO=N     read by position number N (from 0) and all after it fail with EIO
 *               IO_SHIM_FULL=N    after N bytes written to files, every write fails with ENOSPC
 *               IO_SHIM_SYNC=N    fsync number N fails with EIO
 *               IO_SHIM_SLOW=N    every write to a file takes N microseconds
 * Standard output and error are left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* -1: not set. */
static long setting(const char *name) {
    const char *text = getenv(name);
    return text != NULL ? strtol(text, NULL, 10) : -1;
}

static atomic_long reads, written, syncs;

__attribute__((visibility("default"))) ssize_t pread(int fd, void *dst, size_t n, off_t offset) {
    static ssize_t (*real)(int, void *, size_t, off_t);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "pread");
    }
    long call = atomic_fetch_add(&reads, 1);
    long eio = setting("IO_SHIM_EIO");
    long most = setting("IO_SHIM_SHORT");
    if (eio >= 0 && call >= eio) {
        errno = EIO;
        return -1;
    }
    if (most > 0 && call % 3 == 0) {
        errno = EINTR;
        return -1;
    }
    return real(fd, dst, most > 0 && n > (size_t)most ? (size_t)most : n, offset);
}

__attribute__((visibility("default"))) size_t fwrite(const void *restrict src, size_t size,
                                                     size_t n, FILE *restrict file) {
    static size_t (*real)(const void *, size_t, size_t, FILE *);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "fwrite");
    }
    if (file == stdout || file == stderr) {
        return real(src, size, n, file);
    }
    long full = setting("IO_SHIM_FULL");
    long slow = setting("IO_SHIM_SLOW");
    if (slow > 0) {
        struct timespec rest = {.tv_sec = slow / 1000000, .tv_nsec = slow % 1000000 * 1000};
        (void)nanosleep(&rest, NULL);
    }
    if (full >= 0 && atomic_fetch_add(&written, (long)(size * n)) + (long)(size * n) > full) {
        errno = ENOSPC;
        return 0;
    }
    return real(src, size, n, file);
}

__attribute__((visibility("default"))) int fsync(int fd) {
    static int (*real)(int);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "fsync");
    }
    if (atomic_fetch_add(&syncs, 1) == setting("IO_SHIM_SYNC")) {
        errno = EIO;
        return -1;
    }
    return real(fd);
}
