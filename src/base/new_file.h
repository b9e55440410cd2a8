/* base/new_file.h - a file that gets its name only when it is whole; until then the old one stays.
 *
 * Path:    tensor writers, saved sessions, references of perplexity -> [this] -> the file system.
 * Refuses: a name that belongs to anything but a regular file (a device, pipe, directory), or to a file that
 *          may not be written. A link stays a link: what it points to is replaced.
 * Memory:  opening allocates two names; finish and abandon free them. */
#ifndef FN_BASE_NEW_FILE_H
#define FN_BASE_NEW_FILE_H

#include <stdio.h>

#include "base/status.h"

typedef struct fn_new_file {
    FILE *file;    /* write here; NULL when not open */
    char *path;    /* with links resolved */
    char *partial; /* the name until then, in the same directory */
} fn_new_file;

/* Fails with FN_E_IO or FN_E_NOMEM; nothing was changed and *out holds nothing. */
FN_NODISCARD fn_status fn_new_file_open(const char *path, fn_new_file *out, fn_error *err);

FN_NODISCARD fn_status fn_new_file_write(fn_new_file *f, const void *bytes, size_t n,
                                         fn_error *err);

/* Synchronises, gives it its name, frees. On failure the old file is as it was. */
FN_NODISCARD fn_status fn_new_file_finish(fn_new_file *f, fn_error *err);

/* Removes what was written and frees. Does nothing when not open. */
void fn_new_file_abandon(fn_new_file *f);

#endif
