/* kernels_bench [ROUNDS] - how near the kernels come to the two limits of this machine, which are
 * measured in the same run, turn by turn: reading memory (one row) and multiplying (many rows).
 *
 * Prints, for every table x kind of weights x shape: the median time of ROUNDS (default 15) rounds
 * on two pinned threads (their own processor time), GB/s of weights with the share of a plain read of the same bytes just before
 * and after, and GFLOP/s with the share of the fused multiply-add peak of the table's registers. */
#define _GNU_SOURCE /* pthread_setaffinity_np */
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "kernels/kernels.h"

#define THREADS 2
#define MAX_ROUNDS 101
#define WEIGHT_BYTES ((size_t)256 << 20) /* all matrices of a kind: beyond every cache */
#define MAX_BATCH 512
#define MAX_OUT 10240

typedef struct bench bench;
typedef void job_fn(bench *b, int thread);

struct bench {
    const fn_kernels *table;
    uint8_t *weights;
    float *x, *y;
    fn_matrix m;
    size_t rows, matrices, next; /* matrices that fit in weights; the next one to use */
    job_fn *job;
    double cpu[THREADS];          /* seconds that each thread's part of the round took it */
    atomic_int started, finished; /* rounds */
    atomic_bool stop;
};

/* The thread's own time: on a machine with other work, waiting for a turn does not count. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- jobs: each thread's half ---- */

static void multiply(bench *b, int thread) {
    size_t tiles = fn_matrix_tiles(b->m.rows), half = tiles / THREADS;
    fn_matmul_args a = {.y = b->y,
                        .ldy = b->m.rows,
                        .x = b->x,
                        .ldx = b->m.cols * sizeof(float),
                        .rows = b->rows,
                        .w = &b->m,
                        .tile_begin = half * (size_t)thread,
                        .tile_end = thread == THREADS - 1 ? tiles : half * (size_t)(thread + 1)};
    b->table->matmul[b->m.kind](&a);
}

__attribute__((target("avx2"))) static void read_weights(bench *b, int thread) {
    size_t bytes = fn_matrix_tiles(b->m.rows) * b->m.tile_bytes / THREADS / 512 * 512;
    const uint8_t *p = b->m.tiles + (size_t)thread * bytes;
    __m256i sum[8];
    for (int j = 0; j < 8; j++)
        sum[j] = _mm256_setzero_si256();
    for (size_t i = 0; i < bytes; i += 256)
        for (int j = 0; j < 8; j++) {
            const void *at = p + i + (size_t)j * 32;
            sum[j] = _mm256_xor_si256(sum[j], _mm256_loadu_si256(at));
        }
    for (int j = 1; j < 8; j++)
        sum[0] = _mm256_xor_si256(sum[0], sum[j]);
    __asm__ volatile("" : : "x"(sum[0]));
}

#define PEAK_STEPS 200000

/* Twelve chains of fused multiply-adds that stay in registers; the compiler must not see that they
 * are all alike. */
#define PEAK_LOOP(type, set1, fma)                                                                 \
    type s[12], w = set1(1.0f);                                                                    \
    for (int j = 0; j < 12; j++) {                                                                 \
        s[j] = set1((float)j);                                                                     \
        __asm__ volatile("" : "+v"(s[j]));                                                         \
    }                                                                                              \
    for (int i = 0; i < PEAK_STEPS; i++) {                                                         \
        _Pragma("GCC unroll 12") for (int j = 0; j < 12; j++) s[j] = fma(w, w, s[j]);              \
        __asm__ volatile("" : "+v"(w));                                                            \
    }                                                                                              \
    for (int j = 0; j < 12; j++)                                                                   \
    __asm__ volatile("" : : "v"(s[j]))

__attribute__((target("avx512f"))) static void peak_avx512(bench *b, int thread) {
    (void)b;
    (void)thread;
    PEAK_LOOP(__m512, _mm512_set1_ps, _mm512_fmadd_ps);
}

__attribute__((target("avx2,fma"))) static void peak_avx2(bench *b, int thread) {
    (void)b;
    (void)thread;
    PEAK_LOOP(__m256, _mm256_set1_ps, _mm256_fmadd_ps);
}

/* ---- rounds on all threads ---- */

static void pin(size_t cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void run_part(bench *b, int thread) {
    double start = now();
    b->job(b, thread);
    b->cpu[thread] = now() - start;
}

static void *helper(void *arg) {
    bench *b = arg;
    pin(1);
    for (int round = 1;; round++) {
        while (atomic_load(&b->started) < round)
            if (atomic_load(&b->stop))
                return NULL;
        run_part(b, 1);
        atomic_store(&b->finished, round);
    }
}

/* Seconds of one round, by the thread that took longest; all start together. */
static double timed(bench *b, job_fn *job) {
    b->job = job;
    int round = atomic_load(&b->started) + 1;
    atomic_store(&b->started, round);
    run_part(b, 0);
    while (atomic_load(&b->finished) < round) {
    }
    return b->cpu[0] > b->cpu[1] ? b->cpu[0] : b->cpu[1];
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, ascending);
    return values[n / 2];
}

static void next_matrix(bench *b) {
    size_t bytes = fn_matrix_tiles(b->m.rows) * b->m.tile_bytes;
    b->next = (b->next + 1) % b->matrices;
    b->m.tiles = b->weights + b->next * bytes;
}

static const char *const kind_names[] = {"F32", "BF16", "INT8", "INT4", "FP8", "NVFP4"};

static void measure(bench *b, fn_matrix_kind kind, size_t n, size_t k, int rounds) {
    double times[MAX_ROUNDS], reads[MAX_ROUNDS], read_share[MAX_ROUNDS], peak_share[MAX_ROUNDS];
    bool wide = strcmp(b->table->name, "avx512") == 0;
    double peak_flop = 2.0 * 12 * (wide ? 16 : 8) * PEAK_STEPS * THREADS;
    size_t group = kind == FN_MATRIX_NVFP4 ? FN_GROUP_NVFP4 : FN_GROUP_DEFAULT;
    b->m = (fn_matrix){.kind = kind, .rows = n, .cols = k, .group = group};
    b->m.tile_bytes = fn_matrix_tile_bytes(kind, k, group);
    double bytes = (double)(fn_matrix_tiles(n) * b->m.tile_bytes);
    double flop = 2.0 * (double)n * (double)k * (double)b->rows;
    b->matrices = (size_t)((double)WEIGHT_BYTES / bytes);
    for (int i = 0; i < rounds; i++) {
        next_matrix(b);
        double before = timed(b, read_weights);
        next_matrix(b);
        times[i] = timed(b, multiply);
        next_matrix(b);
        double after = timed(b, read_weights);
        double peak = timed(b, wide ? peak_avx512 : peak_avx2);
        reads[i] = (before + after) / 2;
        read_share[i] = reads[i] / times[i];
        peak_share[i] = flop / times[i] / (peak_flop / peak);
    }
    double t = median(times, rounds);
    printf("%-7s %-5s %5zu x %-5zu %4zu rows %9.3f ms %6.1f GB/s (%3.0f %% of reading, %5.1f GB/s) "
           "%7.1f GFLOP/s (%3.0f %% of peak)\n",
           b->table->name, kind_names[kind], n, k, b->rows, 1e3 * t, bytes / t / 1e9,
           100 * median(read_share, rounds), bytes / median(reads, rounds) / 1e9, flop / t / 1e9,
           100 * median(peak_share, rounds));
}

static void measure_all(bench *b, int rounds) {
    static const struct {
        size_t n, k;
    } shapes[] = {{10240, 2560}, {2560, 6144}, {1280, 2560}, {2560, 640}, {320, 10240}};
    static const size_t batches[] = {1, 2, 4, 8, 16, 32, 64, MAX_BATCH};
    for (int kind = 0; kind < FN_MATRIX_KINDS; kind++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (size_t r = 0; r < sizeof batches / sizeof *batches; r++) {
                b->rows = batches[r];
                measure(b, (fn_matrix_kind)kind, shapes[s].n, shapes[s].k, rounds);
            }
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 15;
    if (rounds < 1 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: kernels_bench [ROUNDS, 1 to %d]\n", MAX_ROUNDS);
        return 2;
    }
    bench b = {.rows = 1};
    b.weights = fn_pages_alloc(WEIGHT_BYTES);
    b.x = fn_pages_alloc(MAX_BATCH * (size_t)10240 * sizeof(float));
    b.y = fn_pages_alloc(MAX_BATCH * (size_t)MAX_OUT * sizeof(float));
    pthread_t thread;
    if (b.weights == NULL || b.x == NULL || b.y == NULL ||
        pthread_create(&thread, NULL, helper, &b) != 0) {
        fprintf(stderr, "kernels_bench: not enough memory\n");
        return 1;
    }
    pin(0);
    memset(b.weights, 0, WEIGHT_BYTES); /* one zero page would not leave the caches */
    for (int isa = FN_ISA_AVX2; isa < FN_ISA_COUNT; isa++) {
        b.table = fn_kernels_for((fn_isa)isa);
        if (b.table != NULL)
            measure_all(&b, rounds);
    }
    atomic_store(&b.stop, true);
    pthread_join(thread, NULL);
    return 0;
}
