#include "base/bandwidth.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

#define BUFFER_BYTES ((size_t)128 << 20) /* four to ten times a last-level cache */
#define LANES 8 /* words read at once: independent loads keep memory busy */
#define MAX_SECONDS 0.2
#define MAX_PASSES 8

typedef struct reading {
    uint64_t *words; /* [n] */
    size_t n;
    atomic_uint_fast64_t sum; /* keeps the loads from being left out */
} reading;

static void touch(void *ctx, const fn_turn *turn) {
    reading *r = ctx;
    size_t begin = 0;
    size_t end = 0;
    fn_turn_share(turn, r->n / LANES, &begin, &end);
    memset(r->words + begin * LANES, 1, (end - begin) * LANES * sizeof *r->words);
}

static void read_all(void *ctx, const fn_turn *turn) {
    reading *r = ctx;
    size_t begin = 0;
    size_t end = 0;
    uint64_t sum[LANES] = {0};
    fn_turn_share(turn, r->n / LANES, &begin, &end);
    for (size_t i = begin * LANES; i < end * LANES; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            sum[l] += r->words[i + l];
        }
    }
    for (size_t l = 1; l < LANES; l++) {
        sum[0] += sum[l];
    }
    atomic_fetch_add(&r->sum, sum[0]);
}

double fn_read_bandwidth(fn_pool *pool) {
    reading r = {.words = fn_pages_alloc(BUFFER_BYTES), .n = BUFFER_BYTES / sizeof(uint64_t)};
    double best = 0.0;
    if (r.words == NULL) {
        return 0.0;
    }
    fn_pool_run(pool, touch, &r);
    double start = fn_clock_seconds();
    double now = start;
    for (int pass = 0; pass < MAX_PASSES && now - start < MAX_SECONDS; pass++) {
        double before = now;
        fn_pool_run(pool, read_all, &r);
        now = fn_clock_seconds();
        double rate = (double)BUFFER_BYTES / (now > before ? now - before : 1e-9);
        best = rate > best ? rate : best;
    }
    fn_pages_free(r.words, BUFFER_BYTES);
    return best;
}
