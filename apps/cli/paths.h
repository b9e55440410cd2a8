/* cli/paths.h - where things are on this machine.
 *
 * Path:     environment (HOME, XDG_*, FLASHNEXT_HOME) -> [this] -> settings, history, default model
 * Memory:   results are the caller's (free). */
#ifndef CLI_PATHS_H
#define CLI_PATHS_H

#include <stdbool.h>

/* $XDG_CONFIG_HOME/flashnext/config.ini, or under ~/.config; NULL without a home. */
char *cli_path_settings(void);
/* $XDG_STATE_HOME/flashnext/history, or under ~/.local/state; its directory is made. NULL: not
 * possible. */
char *cli_path_history(void);
/* The first of $FLASHNEXT_HOME/models/demo and models/demo that exists; NULL: none. */
char *cli_path_demo(void);
/* `name` in the directory of `file`: ("a/b.c", "d") -> "a/d". */
char *cli_path_beside(const char *file, const char *name);
/* "directory/name" */
char *cli_path_join(const char *directory, const char *name);
/* What a person types: "~/name" means the home directory. */
char *cli_path_expand(const char *typed);
bool cli_path_exists(const char *path);

#endif
