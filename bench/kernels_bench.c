/* kernels_bench [-r ROUNDS] [WORD...] - how near the kernels come to the two limits of this machine,
 * which are measured in the same run, turn by turn: reading memory, and multiplying in registers.
 *
 * Prints, for every table x kernel x shape whose line holds all WORDs: the median time of ROUNDS
 * (default 15) rounds on two pinned threads, the slower one's own processor time; GB/s of weights or
 * states with the share of the fastest of four reads of as many bytes (plain and in 8 streams, just
 * before and just after); GOP/s with the share of the peak of the instructions that the kernel is made
 * of. A round that is faster than 103 % of reading is left out and counted. */
#define _GNU_SOURCE /* pthread_setaffinity_np */
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
#define MAX_BATCH 2048
#define MAX_WIDTH 10240
#define PEAK_ROUNDS 100000

/* The real model's. */
#define DELTA_WIDTH ((size_t)128) /* key and value columns of a head */
#define DELTA_HEADS ((size_t)48)
#define ATTENTION_HEADS ((size_t)12) /* per key head */
#define ATTENTION_KEYS ((size_t)2051)
#define ATTENTION_WIDTH ((size_t)256)
#define INDEX_HEADS ((size_t)4)
#define INDEX_WIDTH ((size_t)128)

typedef struct bench bench;
typedef void job_fn(bench *b, size_t thread);

struct bench {
    const fn_kernels *table;
    uint8_t *weights, *x;
    float *y, *inputs;
    const void *pointers[2][ATTENTION_KEYS];
    fn_matrix m;
    bool fast;
    size_t rows, context;
    const uint8_t *at;                 /* what this round works on */
    size_t bytes, span, form, streams; /* of it; to the next; form of rows; of the reading job */
    double (*probe)(size_t rounds), peak_ops; /* the peak that counts */
    job_fn *job;
    double cpu[THREADS];          /* seconds that each thread's part of the round took it */
    atomic_int started, finished; /* rounds */
    atomic_bool stop;
    int rounds;
    char **words;
};

/* The thread's own time: on a machine with other work, waiting for a turn does not count. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- jobs: each thread's half ---- */

static void read_half(bench *b, size_t thread) {
    size_t half = b->bytes / THREADS / 64 * 64;
    uint64_t sum = b->table->probe_read(b->at + thread * half, half, b->streams);
    __asm__ volatile("" : : "r"(sum));
}

static void reach_peak(bench *b, size_t thread) {
    double ops = b->probe(PEAK_ROUNDS);
    if (thread == 0)
        b->peak_ops = ops * THREADS;
}

static void multiply(bench *b, size_t thread) {
    size_t tiles = fn_matrix_tiles(b->m.rows), half = tiles / THREADS;
    fn_row_form form = b->fast ? fn_row_form_of(b->m.kind) : FN_ROW_F32;
    fn_matmul_args a = {.y = b->y,
                        .ldy = b->m.rows,
                        .x = b->x,
                        .ldx = fn_row_bytes(form, b->m.cols, b->m.group),
                        .rows = b->rows,
                        .w = &b->m,
                        .tile_begin = half * thread,
                        .tile_end = thread == THREADS - 1 ? tiles : half * (thread + 1)};
    b->m.tiles = b->at;
    (b->fast ? b->table->matmul_fast : b->table->matmul)[b->m.kind](&a);
}

/* Each thread's half of the heads, `rows` tokens. */
static void run_delta(bench *b, size_t thread) {
    float *states = (float *)b->weights + (size_t)(b->at - b->weights) / sizeof(float);
    size_t each = DELTA_WIDTH * DELTA_WIDTH;
    for (size_t h = thread * DELTA_HEADS / 2; h < (thread + 1) * DELTA_HEADS / 2; h++)
        b->table->delta_run(&(fn_delta_run_args){.state_out = states + h * each,
                                                 .state_in = states + h * each,
                                                 .ld_state = DELTA_WIDTH,
                                                 .dk = DELTA_WIDTH,
                                                 .dv = DELTA_WIDTH,
                                                 .tokens = b->rows,
                                                 .q = b->inputs,
                                                 .k = b->inputs + DELTA_WIDTH,
                                                 .v = b->inputs + 2 * DELTA_WIDTH,
                                                 .ldx = 3 * DELTA_WIDTH,
                                                 .decay = b->inputs,
                                                 .beta = b->inputs,
                                                 .ld_gate = 1,
                                                 .out = b->y + thread * b->rows * DELTA_WIDTH,
                                                 .ldo = DELTA_WIDTH});
}

/* Each thread has a key head of its own. */
static void attend(bench *b, size_t thread) {
    size_t row = ATTENTION_WIDTH * sizeof(uint16_t);
    const uint16_t *k[ATTENTION_KEYS], *v[ATTENTION_KEYS];
    for (size_t i = 0; i < ATTENTION_KEYS; i++) { /* blocks of four keys, spread over the context */
        size_t blocks = b->context / 4, block = i / 4 * (blocks / (ATTENTION_KEYS / 4));
        size_t at = (thread * b->context + block % blocks * 4 + i % 4) * 2 * row;
        k[i] = (const uint16_t *)(const void *)(b->at + at);
        v[i] = (const uint16_t *)(const void *)(b->at + at + row);
    }
    float *y = b->y + thread * ATTENTION_HEADS * (ATTENTION_WIDTH + ATTENTION_KEYS);
    for (size_t r = 0; r < b->rows; r++)
        b->table->attention_bf16(
            &(fn_attention_bf16_args){.out = y,
                                      .q = (const uint16_t *)(const void *)b->x,
                                      .ldq = ATTENTION_WIDTH,
                                      .heads = ATTENTION_HEADS,
                                      .head_dim = ATTENTION_WIDTH,
                                      .n_keys = ATTENTION_KEYS,
                                      .k = k,
                                      .v = v,
                                      .scale = 0.0625f,
                                      .scores = y + ATTENTION_HEADS * ATTENTION_WIDTH});
}

static void score_blocks(bench *b, size_t thread) {
    size_t half = b->context / 2;
    const uint16_t *keys = (const uint16_t *)(const void *)b->at;
    b->table->index_scores_bf16(b->y + thread * half, (const uint16_t *)(const void *)b->x,
                                INDEX_HEADS, keys + thread * half * INDEX_WIDTH, half, INDEX_WIDTH,
                                1.0f);
}

static void write_rows(bench *b, size_t thread) {
    size_t bytes = fn_row_bytes((fn_row_form)b->form, b->m.cols, b->m.group);
    for (size_t r = 0; r < b->rows; r++)
        b->table->write_row[b->form](b->x + thread * bytes, b->inputs + r % 4 * b->m.cols,
                                     b->m.cols, b->m.group);
}

static void norm_rows(bench *b, size_t thread) {
    for (size_t r = 0; r < b->rows; r++)
        b->table->rms_norm(b->y + thread * b->m.cols, b->inputs, b->inputs + b->m.cols, b->m.cols,
                           1e-6f);
}

static void activate_rows(bench *b, size_t thread) {
    for (size_t r = 0; r < b->rows; r++)
        b->table->silu_mul(b->y + thread * b->m.cols, b->inputs, b->inputs + b->m.cols, b->m.cols);
}

static void exponents(bench *b, size_t thread) {
    for (size_t r = 0; r < b->rows; r++)
        b->table->exp(b->y + thread * b->m.cols, b->inputs, b->m.cols);
}

/* ---- rounds on all threads ---- */

static void pin(size_t cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void run_part(bench *b, size_t thread) {
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
    return n > 0 ? values[n / 2] : 0.0;
}

/* Other bytes than the last ones. */
static void move_on(bench *b) {
    size_t span = ((b->span > 0 ? b->span : b->bytes) + 63) / 64 * 64;
    size_t begin = (size_t)(b->at - b->weights) + span;
    b->at = b->weights + (begin + span <= WEIGHT_BYTES ? begin : 0);
}

/* The faster of a plain read and one in 8 streams. */
static double fastest_read(bench *b) {
    double plain, eight;
    b->streams = 1;
    move_on(b);
    plain = timed(b, read_half);
    b->streams = 8;
    move_on(b);
    eight = timed(b, read_half);
    return plain < eight ? plain : eight;
}

static bool wanted(const bench *b, const char *line) {
    for (char **word = b->words; *word != NULL; word++)
        if (strstr(line, *word) == NULL)
            return false;
    return true;
}

/* b->bytes of memory pass in a round (0: it works in the caches), `ops` operations are done. */
static void measure(bench *b, const char *line, job_fn *job, double ops) {
    double times[MAX_ROUNDS], read[MAX_ROUNDS], peak_share[MAX_ROUNDS], read_share[MAX_ROUNDS];
    int n = 0, left_out = 0;
    if (!wanted(b, line))
        return;
    for (int i = 0; i < b->rounds; i++) {
        double before = b->bytes > 0 ? fastest_read(b) : 0.0;
        move_on(b);
        double t = timed(b, job), peak = timed(b, reach_peak);
        double after = b->bytes > 0 ? fastest_read(b) : 0.0;
        read[n] = before < after ? before : after;
        if (read[n] > 1.03 * t) {
            left_out++;
            continue;
        }
        times[n] = t;
        read_share[n] = read[n] / t;
        peak_share[n++] = ops / t / (b->peak_ops / peak);
    }
    double t = median(times, n), limit = median(read, n);
    printf("%-46s %9.3f ms", line, 1e3 * t);
    if (b->bytes > 0)
        printf(" %6.1f GB/s, %3.0f %% of reading (%5.1f GB/s)", (double)b->bytes / t / 1e9,
               100 * median(read_share, n), (double)b->bytes / limit / 1e9);
    printf(" %7.1f GOP/s, %3.0f %% of peak", ops / t / 1e9, 100 * median(peak_share, n));
    printf(left_out > 0 ? " (%d rounds left out)\n" : "\n", left_out);
}

/* ---- what is measured ---- */

static const char *const kind_names[] = {"F32", "BF16", "INT8", "INT4", "FP8", "NVFP4"};

static void measure_matrix(bench *b, fn_matrix_kind kind, size_t n, size_t k, size_t rows) {
    char line[100];
    size_t group = kind == FN_MATRIX_NVFP4 ? FN_GROUP_NVFP4 : FN_GROUP_DEFAULT;
    fn_row_form form = b->fast ? fn_row_form_of(kind) : FN_ROW_F32;
    b->m = (fn_matrix){.kind = kind, .rows = n, .cols = k, .group = group};
    b->m.tile_bytes = fn_matrix_tile_bytes(kind, k, group);
    b->rows = rows;
    b->bytes = fn_matrix_tiles(n) * b->m.tile_bytes;
    b->probe = form == FN_ROW_INT8   ? b->table->probe_int8
               : form == FN_ROW_BF16 ? b->table->probe_bf16
                                     : b->table->probe_f32;
    for (size_t r = 0; r < rows && wanted(b, b->table->name); r++)
        b->table->write_row[form](b->x + r * fn_row_bytes(form, k, group), b->inputs, k, group);
    snprintf(line, sizeof line, "%s %s %s %zux%zu rows=%zu", b->table->name,
             b->fast ? "fast" : "exact", kind_names[kind], n, k, rows);
    measure(b, line, multiply, 2.0 * (double)n * (double)k * (double)rows);
}

static void measure_matrices(bench *b) {
    static const struct {
        size_t n, k;
    } shapes[] = {{10240, 2560}, {2560, 6144}, {1280, 2560},
                  {2560, 640},   {320, 10240}, {10240, 320}};
    static const size_t batches[] = {1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 512, MAX_BATCH};
    static const struct {
        fn_matrix_kind kind;
        bool fast;
    } kinds[] = {{FN_MATRIX_INT8, true}, {FN_MATRIX_INT4, true}, {FN_MATRIX_BF16, true},
                 {FN_MATRIX_F32, false}, {FN_MATRIX_FP8, false}, {FN_MATRIX_NVFP4, false}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (size_t r = 0; r < sizeof batches / sizeof *batches; r++) {
                b->fast = kinds[i].fast;
                measure_matrix(b, kinds[i].kind, shapes[s].n, shapes[s].k, batches[r]);
            }
}

static void measure_state(bench *b) {
    static const size_t tokens[] = {1, 8, 64, 512}, contexts[] = {2052, 8192, 32768};
    char line[100];
    double width = (double)DELTA_WIDTH, heads = (double)DELTA_HEADS;
    b->probe = b->table->probe_f32;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        b->rows = tokens[i];
        b->bytes = DELTA_HEADS * DELTA_WIDTH * DELTA_WIDTH * sizeof(float);
        snprintf(line, sizeof line, "%s delta_run heads=48 128x128 tokens=%zu", b->table->name,
                 tokens[i]);
        /* four multiplications per element and token, each with an addition but the decay's */
        measure(b, line, run_delta, 8.0 * width * width * heads * (double)tokens[i]);
    }
    for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++) {
        double per_key = 4.0 * (double)(ATTENTION_HEADS * ATTENTION_WIDTH);
        b->context = contexts[i];
        b->rows = 1;
        b->span = 2 * contexts[i] * 2 * ATTENTION_WIDTH * sizeof(uint16_t);
        b->bytes = 2 * ATTENTION_KEYS * 2 * ATTENTION_WIDTH * sizeof(uint16_t);
        snprintf(line, sizeof line, "%s attention_bf16 heads=2x12 keys=2051 of %zu", b->table->name,
                 contexts[i]);
        measure(b, line, attend, 2 * per_key * (double)ATTENTION_KEYS);
        b->bytes = b->span = 0;
        b->rows = 8;
        snprintf(line, sizeof line, "%s attention_bf16 same keys, 8 queries of %zu", b->table->name,
                 contexts[i]);
        measure(b, line, attend, 8 * 2 * per_key * (double)ATTENTION_KEYS);
        b->context = contexts[i] / 4;
        b->bytes = b->context * INDEX_WIDTH * sizeof(uint16_t);
        snprintf(line, sizeof line, "%s index_scores_bf16 heads=4x128 blocks=%zu", b->table->name,
                 b->context);
        measure(b, line, score_blocks, 2.0 * (double)(INDEX_HEADS * INDEX_WIDTH * b->context));
    }
}

/* In the caches, operations counted as one a value: GOP/s is thousands of millions of values. */
static void measure_rows(bench *b) {
    static const struct {
        const char *name;
        job_fn *job;
        size_t form;
    } jobs[] = {{"write_row BF16", write_rows, FN_ROW_BF16},
                {"write_row INT8", write_rows, FN_ROW_INT8},
                {"rms_norm", norm_rows, 0},
                {"silu_mul", activate_rows, 0},
                {"exp", exponents, 0}};
    char line[100];
    b->bytes = 0;
    b->rows = 512;
    b->m = (fn_matrix){.cols = 2560, .group = FN_GROUP_DEFAULT};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        b->form = jobs[i].form;
        snprintf(line, sizeof line, "%s %s 2560 (values)", b->table->name, jobs[i].name);
        measure(b, line, jobs[i].job, 2.0 * 512 * 2560);
    }
}

int main(int argc, char **argv) {
    static bench b = {.rounds = 15};
    b.words = argv + 1;
    if (argc > 2 && strcmp(argv[1], "-r") == 0) {
        b.rounds = atoi(argv[2]);
        b.words = argv + 3;
    }
    if (b.rounds < 1 || b.rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: kernels_bench [-r ROUNDS, 1 to %d] [WORD...]\n", MAX_ROUNDS);
        return 2;
    }
    b.weights = fn_pages_alloc(WEIGHT_BYTES);
    b.x = fn_pages_alloc(MAX_BATCH * (size_t)MAX_WIDTH * sizeof(float));
    b.y = fn_pages_alloc(MAX_BATCH * (size_t)MAX_WIDTH * sizeof(float));
    b.inputs = fn_pages_alloc(MAX_BATCH * (size_t)MAX_WIDTH * sizeof(float));
    pthread_t thread;
    if (b.weights == NULL || b.x == NULL || b.y == NULL || b.inputs == NULL ||
        pthread_create(&thread, NULL, helper, &b) != 0) {
        fprintf(stderr, "kernels_bench: not enough memory\n");
        return 1;
    }
    pin(0);
    memset(b.weights, 0, WEIGHT_BYTES); /* one zero page would not leave the caches */
    for (size_t i = 0; i < 2 * MAX_WIDTH; i++)
        b.inputs[i] = (float)(i % 31) / 32 - 0.5f;
    b.at = b.weights;
    for (int isa = FN_ISA_AVX2; isa < FN_ISA_COUNT; isa++) {
        b.table = fn_kernels_for((fn_isa)isa);
        if (b.table != NULL) {
            measure_matrices(&b);
            measure_state(&b);
            measure_rows(&b);
        }
    }
    atomic_store(&b.stop, true);
    pthread_join(thread, NULL);
    return 0;
}
