#include "cli/paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/buffer.h"

char *cli_path_join(const char *directory, const char *name) {
    cli_buffer path = {0};
    cli_buffer_puts(&path, directory);
    if (path.n > 0 && path.data[path.n - 1] != '/') {
        cli_buffer_puts(&path, "/");
    }
    cli_buffer_puts(&path, name);
    return path.data;
}

char *cli_path_beside(const char *file, const char *name) {
    const char *slash = strrchr(file, '/');
    if (slash == NULL) {
        return cli_strdup(name);
    }
    cli_buffer path = {0};
    cli_buffer_add(&path, file, (size_t)(slash - file) + 1);
    cli_buffer_puts(&path, name);
    return path.data;
}

char *cli_path_expand(const char *typed) {
    const char *home = getenv("HOME");
    bool at_home = typed[0] == '~' && typed[1] == '/' && home != NULL && home[0] == '/';
    return at_home ? cli_path_join(home, typed + 2) : cli_strdup(typed);
}

bool cli_path_exists(const char *path) {
    return access(path, F_OK) == 0;
}

/* The XDG directory of a kind; relative ones must be ignored, says the specification. */
static char *xdg_path(const char *variable, const char *below_home, const char *name) {
    const char *directory = getenv(variable);
    if (directory != NULL && directory[0] == '/') {
        return cli_path_join(directory, name);
    }
    const char *home = getenv("HOME");
    if (home == NULL || home[0] != '/') {
        return NULL;
    }
    char *base = cli_path_join(home, below_home);
    char *path = cli_path_join(base, name);
    free(base);
    return path;
}

char *cli_path_settings(void) {
    return xdg_path("XDG_CONFIG_HOME", ".config", "flashnext/config.ini");
}

/* Makes every directory above the file. */
static bool make_parents(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *slash = '/';
        if (!made) {
            return false;
        }
    }
    return true;
}

char *cli_path_history(void) {
    char *path = xdg_path("XDG_STATE_HOME", ".local/state", "flashnext/history");
    if (path != NULL && !make_parents(path)) {
        free(path);
        return NULL;
    }
    return path;
}

char *cli_path_demo(void) {
    const char *home = getenv("FLASHNEXT_HOME");
    if (home != NULL && home[0] != 0) {
        char *path = cli_path_join(home, "models/demo");
        if (cli_path_exists(path)) {
            return path;
        }
        free(path);
    }
    return cli_path_exists("models/demo") ? cli_strdup("models/demo") : NULL;
}
