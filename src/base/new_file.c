#define _XOPEN_SOURCE 700 /* realpath; NOLINT(bugprone-reserved-identifier) */
#include "base/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define MAX_ATTEMPTS 100

/* What stands under the name now may be replaced; *path is where the new file will go. */
static fn_status check_target(const char *name, char **path, mode_t *mode, fn_error *err) {
    struct stat info;
    *path = NULL;
    *mode = 0666;
    if (lstat(name, &info) != 0) {
        *path =
            fn_strndup(name, strlen(name)); /* new, or the directory is missing: open will say */
        return *path != NULL ? FN_OK : fn_fail_nomem(err, name, strlen(name));
    }
    fn_status status = FN_E_IO; /* of all three */
    if (stat(name, &info) != 0 || !S_ISREG(info.st_mode)) {
        (void)fn_fail(err, FN_E_IO, "%s: not a regular file, so it is not replaced", name);
        return status;
    }
    if ((info.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) == 0 || access(name, W_OK) != 0) {
        (void)fn_fail(err, FN_E_IO, "%s: may not be written, so it is not replaced", name);
        return status;
    }
    char *resolved = realpath(name, NULL);
    if (resolved == NULL) {
        (void)fn_fail(err, FN_E_IO, "%s: cannot resolve: %s", name, strerror(errno));
        return status;
    }
    *mode = info.st_mode & 0777;
    *path = fn_strndup(resolved, strlen(resolved));
    free(resolved);
    return *path != NULL ? FN_OK : fn_fail_nomem(err, name, strlen(name));
}

static fn_status open_partial(fn_new_file *f, mode_t mode, fn_error *err) {
    size_t room = strlen(f->path) + 48;
    f->partial = fn_alloc(room, 1);
    if (f->partial == NULL) {
        return fn_fail_nomem(err, f->path, room);
    }
    int fd = -1;
    for (int i = 0; i < MAX_ATTEMPTS && fd < 0; i++) {
        (void)snprintf(f->partial, room, "%s.partial-%ld-%d", f->path, (long)getpid(), i);
        fd = open(f->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (fd < 0 && errno != EEXIST) {
            break;
        }
    }
    f->file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (f->file != NULL) {
        return FN_OK;
    }
    fn_status status = fn_fail(err, FN_E_IO, "%s: cannot create: %s", f->partial, strerror(errno));
    if (fd >= 0) {
        (void)close(fd);
        (void)unlink(f->partial);
    }
    return status;
}

static void release(fn_new_file *f) {
    fn_free(f->path);
    fn_free(f->partial);
    *f = (fn_new_file){0};
}

fn_status fn_new_file_open(const char *path, fn_new_file *out, fn_error *err) {
    mode_t mode = 0;
    *out = (fn_new_file){0};
    fn_status status = check_target(path, &out->path, &mode, err);
    status = status == FN_OK ? open_partial(out, mode, err) : status;
    if (status != FN_OK) {
        release(out);
    }
    return status;
}

fn_status fn_new_file_write(fn_new_file *f, const void *bytes, size_t n, fn_error *err) {
    if (n > 0 && fwrite(bytes, 1, n, f->file) != n) {
        return fn_fail(err, FN_E_IO, "%s: write of %zu bytes failed: %s", f->path, n,
                       strerror(errno));
    }
    return FN_OK;
}

/* The name must survive a crash, too. */
static void sync_directory(const char *path) {
    const char *slash = strrchr(path, '/');
    char *dir = slash == NULL ? fn_strndup(".", 1) : fn_strndup(path, (size_t)(slash - path) + 1);
    int fd = dir != NULL ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)fsync(fd);
        (void)close(fd);
    }
    fn_free(dir);
}

fn_status fn_new_file_finish(fn_new_file *f, fn_error *err) {
    fn_status status = FN_OK;
    bool good = fflush(f->file) == 0 && fsync(fileno(f->file)) == 0;
    int reason = errno;
    bool closed = fclose(f->file) == 0;
    reason = good && !closed ? errno : reason;
    good = good && closed;
    if (good && rename(f->partial, f->path) != 0) {
        reason = errno;
        good = false;
    }
    if (good) {
        sync_directory(f->path);
    } else {
        (void)unlink(f->partial);
        status = fn_fail(err, FN_E_IO, "%s: cannot finish: %s", f->path, strerror(reason));
    }
    release(f);
    return status;
}

void fn_new_file_abandon(fn_new_file *f) {
    if (f->file != NULL) {
        (void)fclose(f->file);
        (void)unlink(f->partial);
    }
    release(f);
}
