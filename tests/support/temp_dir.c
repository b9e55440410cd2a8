#include "support/temp_dir.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void temp_dir_make(char *out, size_t room) {
    const char *base = getenv("TMPDIR");
    int n = snprintf(out, room, "%s/fn-test-XXXXXX", base != NULL && *base != '\0' ? base : "/tmp");
    if (n < 0 || (size_t)n >= room || mkdtemp(out) == NULL) {
        perror("temp_dir_make");
        exit(1);
    }
}

void temp_dir_remove(const char *path) {
    DIR *dir = opendir(path);
    char file[1024];
    if (dir == NULL) {
        return;
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            (void)snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
            (void)unlink(file);
        }
    }
    closedir(dir);
    (void)rmdir(path);
}
