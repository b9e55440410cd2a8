#include "base/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* The number behind `key` on a line of its own, in units of `unit` bytes; 0 where there is none.
 * "MemTotal:       65842980 kB", "anon 1234". */
static uint64_t read_key(const char *path, const char *key, uint64_t unit) {
    char line[256];
    uint64_t value = 0;
    size_t n = strlen(key);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, n) == 0) {
            value = strtoull(line + n, NULL, 10) * unit;
            break;
        }
    }
    (void)fclose(file);
    return value;
}

/* Containers see their own group at the root of the file system: version 2, then version 1. A file
 * without a limit says "max" or a number beyond any RAM. What the group uses and cannot give back is
 * its anonymous memory; page cache makes room when asked. */
static void apply_group_limit(fn_machine_memory *m) {
    static const struct {
        const char *limit, *usage, *key;
    } groups[] = {
        {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.stat", "anon "},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.stat",
         "total_rss "},
    };
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        uint64_t limit = read_key(groups[i].limit, "", 1);
        if (limit > 0 && limit < m->total) {
            uint64_t used = read_key(groups[i].usage, groups[i].key, 1);
            uint64_t left = used < limit ? limit - used : 1; /* 0 would mean unknown */
            m->total = limit;
            m->available = left < m->available ? left : m->available;
        }
    }
}

/* What `ulimit -v` leaves of the address space. */
static void apply_address_limit(fn_machine_memory *m) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return;
    }
    uint64_t used = read_key("/proc/self/status", "VmSize:", 1024);
    uint64_t left = used < limit.rlim_cur ? limit.rlim_cur - used : 1;
    m->total = limit.rlim_cur < m->total ? limit.rlim_cur : m->total;
    m->available = left < m->available ? left : m->available;
}

fn_machine_memory fn_machine_memory_now(void) {
    fn_machine_memory m = {.total = read_key("/proc/meminfo", "MemTotal:", 1024),
                           .available = read_key("/proc/meminfo", "MemAvailable:", 1024)};
    apply_group_limit(&m);
    apply_address_limit(&m);
    return m;
}
