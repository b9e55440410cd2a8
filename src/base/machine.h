/* base/machine.h - how much memory this machine has for us.
 *
 * Reads:   /proc/meminfo, the control group's limit and the process's own (ulimit -v), every time it is asked.
 * Threads: any. Memory:  nothing is kept. */
#ifndef FN_BASE_MACHINE_H
#define FN_BASE_MACHINE_H

#include <stdint.h>

typedef struct fn_machine_memory {
    uint64_t total;     /* RAM, or a limit where that is lower; 0: unknown */
    uint64_t available; /* of it, without swapping; 0: unknown */
} fn_machine_memory;

fn_machine_memory fn_machine_memory_now(void);

#endif
