#define _GNU_SOURCE
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

fn_status fn_file_open(const char *path, int *fd, uint64_t *bytes, fn_error *err) {
    struct stat info;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) {
        return fn_fail(err, FN_E_IO, "%s: cannot open: %s", path, strerror(errno));
    }
    if (fstat(*fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(*fd);
        *fd = -1;
        return fn_fail(err, FN_E_IO, "%s: not a regular file", path);
    }
    *bytes = (uint64_t)info.st_size;
    return FN_OK;
}

fn_status fn_file_read_at(int fd, const char *path, uint64_t offset, void *dst, size_t n,
                          fn_error *err) {
    char *at = dst;
    size_t left = n;
    while (left > 0) {
        size_t want = left < (size_t)1 << 30 ? left : (size_t)1 << 30;
        ssize_t got = pread(fd, at, want, (off_t)(offset + (n - left)));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return fn_fail(err, FN_E_IO, "%s: read of %zu bytes at offset %llu failed: %s", path, n,
                           (unsigned long long)offset, strerror(errno));
        }
        if (got == 0) {
            return fn_fail(err, FN_E_IO,
                           "%s: file ends early: wanted %zu bytes at offset %llu, found %zu", path,
                           n, (unsigned long long)offset, n - left);
        }
        at += got;
        left -= (size_t)got;
    }
    return FN_OK;
}

void fn_file_close(int fd) {
    if (fd >= 0) {
        close(fd);
    }
}

bool fn_file_same(int a, int b) {
    struct stat first;
    struct stat second;
    return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

fn_status fn_file_map(int fd, const char *path, size_t bytes, const void **out, fn_error *err) {
    *out = NULL;
    if (bytes == 0) {
        return FN_OK;
    }
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        return fn_fail(err, FN_E_IO, "%s: cannot map %zu bytes: %s", path, bytes, strerror(errno));
    }
    *out = map;
    return FN_OK;
}

/* The system's calls take what they do not write as `void *`. */
static void *writable(const void *map) {
    void *address;
    memcpy(&address, &map, sizeof address);
    return address;
}

void fn_file_map_large(const void *map, size_t offset, size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t begin = offset / page * page;
    (void)madvise((char *)writable(map) + begin, offset + bytes - begin, MADV_HUGEPAGE);
}

void fn_file_unmap(const void *map, size_t bytes) {
    if (map != NULL) {
        (void)munmap(writable(map), bytes);
    }
}

fn_status fn_file_read_all(const char *path, size_t max_bytes, char **out, size_t *n,
                           fn_error *err) {
    int fd = -1;
    uint64_t bytes = 0;
    *out = NULL;
    *n = 0;
    fn_status status = fn_file_open(path, &fd, &bytes, err);
    if (status != FN_OK) {
        return status;
    }
    if (bytes > max_bytes) {
        status = fn_fail(err, FN_E_MODEL, "%s: %llu bytes, expected at most %zu", path,
                         (unsigned long long)bytes, max_bytes);
        goto done;
    }
    *out = fn_alloc((size_t)bytes + 1, 1);
    if (*out == NULL) {
        status = fn_fail_nomem(err, path, (size_t)bytes + 1);
        goto done;
    }
    status = fn_file_read_at(fd, path, 0, *out, (size_t)bytes, err);
    if (status != FN_OK) {
        fn_free(*out);
        *out = NULL;
        goto done;
    }
    (*out)[bytes] = '\0';
    *n = (size_t)bytes;
done:
    fn_file_close(fd);
    return status;
}

bool fn_file_exists(const char *path) {
    return access(path, F_OK) == 0;
}

char *fn_path_join(const char *dir, const char *name) {
    size_t a = strlen(dir);
    size_t b = strlen(name);
    bool slash = a > 0 && dir[a - 1] != '/';
    char *path = fn_alloc(a + b + 2, 1);
    if (path != NULL) {
        memcpy(path, dir, a);
        path[a] = '/';
        memcpy(path + a + (slash || a == 0 ? 1 : 0), name, b + 1);
        if (a == 0) {
            memcpy(path, name, b + 1);
        }
    }
    return path;
}
