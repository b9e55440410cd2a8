/* tests/support/read_fail.h - a disk that fails, gives less than was asked for, or is interrupted.
 *
 * The test programs are linked with --wrap=pread, so that every read by position of the library passes here. Reads
 * that look into the page cache first (preadv2) answer that nothing is there while any of this is on. */
#ifndef FN_TESTS_READ_FAIL_H
#define FN_TESTS_READ_FAIL_H

#include <stddef.h>

/* Call number n from now on (0 = the next) fails with EIO, and so do all after it; n < 0: none. Resets the count. */
void fn_read_fail_at(long n);
/* Every read gives at most so many bytes (0: as many as asked for), and every other call is interrupted first. */
void fn_read_short(size_t most);
/* Reads by position since the last fn_read_fail_at. */
long fn_read_calls(void);

#endif
