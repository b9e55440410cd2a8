#define _GNU_SOURCE
#include "base/page_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/mem.h"

/* cachestat(2), Linux 6.5; younger than many C libraries. */
#ifdef SYS_cachestat
#define CACHESTAT SYS_cachestat
#else
#define CACHESTAT 451
#endif

/* A mapping of that much is asked about at a time. */
#define WINDOW ((uint64_t)1 << 30)

typedef struct cachestat_range {
    uint64_t offset, bytes;
} cachestat_range;

typedef struct cachestat_answer {
    uint64_t cached, dirty, writeback, evicted, recently_evicted; /* pages */
} cachestat_answer;

static bool ask_cachestat(int fd, uint64_t offset, uint64_t bytes, uint64_t page, uint64_t *held) {
    cachestat_range range = {offset, bytes};
    cachestat_answer answer = {0};
    if (syscall(CACHESTAT, fd, &range, &answer, 0U) != 0) {
        return false;
    }
    *held = answer.cached * page;
    return true;
}

/* Of a file that is not ours the kernel says that every page is there. */
static bool may_ask_mincore(int fd) {
    struct stat info;
    return fstat(fd, &info) == 0 && (geteuid() == 0 || geteuid() == info.st_uid);
}

/* The mapping is never touched: mincore only looks. */
static bool ask_mincore(int fd, uint64_t begin, uint64_t bytes, uint64_t page, uint64_t *held) {
    size_t pages = (size_t)((bytes + page - 1) / page);
    void *map = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, (off_t)begin);
    unsigned char *resident = fn_alloc(pages, 1);
    bool told = map != MAP_FAILED && resident != NULL && mincore(map, (size_t)bytes, resident) == 0;
    for (size_t i = 0; told && i < pages; i++) {
        *held += (resident[i] & 1U) != 0 ? page : 0;
    }
    fn_free(resident);
    if (map != MAP_FAILED) {
        munmap(map, (size_t)bytes);
    }
    return told;
}

bool fn_page_cache_held(int fd, uint64_t offset, uint64_t bytes, uint64_t *held) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t begin = offset / page * page;
    uint64_t end = offset + bytes;
    *held = 0;
    if (bytes == 0 || ask_cachestat(fd, offset, bytes, page, held)) {
        return true;
    }
    bool told = errno == ENOSYS && may_ask_mincore(fd);
    while (told && begin < end) {
        uint64_t n = end - begin < WINDOW ? end - begin : WINDOW;
        told = ask_mincore(fd, begin, n, page, held);
        begin += n;
    }
    return told;
}

bool fn_page_cache_read(int fd, uint64_t offset, void *dst, size_t n) {
    struct iovec part = {.iov_base = dst, .iov_len = n};
    return preadv2(fd, &part, 1, (off_t)offset, RWF_NOWAIT) == (ssize_t)n;
}

void fn_page_cache_no_readahead(int fd) {
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); /* advice: what it cannot give costs speed */
}
