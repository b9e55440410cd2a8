/* cli/ini.h - the settings file: [section], key = value, # or ; comments.
 *
 * A value runs to the end of its line without surrounding blanks; in double quotes it keeps them
 * and knows \" \\ \n \t. A comment has a line of its own.
 *
 * Path:     config.ini -> [this] -> options.c
 * Threads:  any; Memory: texts are lent to the callback. */
#ifndef CLI_INI_H
#define CLI_INI_H

#include <stddef.h>

#include "flashnext.h"

/* section is "" before the first one. A status other than FN_OK ends the reading and is passed
 * on. */
typedef fn_status (*cli_ini_entry)(void *ud, const char *section, const char *key,
                                   const char *value, size_t line, fn_error *err);

/* Reads text [n]; name stands for it in messages. Fails with FN_E_USAGE ("name:12: ..."). */
fn_status cli_ini_read(const char *text, size_t n, const char *name, cli_ini_entry entry, void *ud,
                       fn_error *err);

#endif
