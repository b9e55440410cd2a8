/* base/bandwidth.h - how fast this machine reads memory, measured now.
 *
 * Path:    a buffer beyond the caches, read by all threads of a pool in turn -> [this] -> the plan's decode ceiling.
 * Threads: one caller; it uses the pool. Takes about a fifth of a second.
 * Memory:  the buffer, freed before it returns. */
#ifndef FN_BASE_BANDWIDTH_H
#define FN_BASE_BANDWIDTH_H

#include "base/pool.h"

/* Bytes a second, the best of a few passes; 0 when the buffer could not be had. */
double fn_read_bandwidth(fn_pool *pool);

#endif
