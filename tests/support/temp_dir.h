/* tests/support/temp_dir.h - a folder of a test's own, below TMPDIR or /tmp. */
#ifndef FN_TESTS_TEMP_DIR_H
#define FN_TESTS_TEMP_DIR_H

#include <stddef.h>

/* Makes the folder and writes its path to out [room]; ends the test program when it cannot. */
void temp_dir_make(char *out, size_t room);
/* Removes the folder and the files in it (no folders below it). */
void temp_dir_remove(const char *path);

#endif
