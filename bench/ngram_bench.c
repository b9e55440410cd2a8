/* Rows of an n-gram table from a cold disk: how much is read, how fast, and what stays in memory.
 *
 *   ngram_bench DIR [GIB] [ROWS]    a table of GIB GiB (default 4) is written to DIR, read, and deleted
 *
 * One JSON object a line. Before each, the page cache forgets the file. `read_bytes` is what the disk delivered
 * (/proc/self/io), per row; `rss_growth` how much larger the process was at most. `through`: "table" as the engine
 * reads, in batches of a prompt's chunk (512 tokens) or of one token; "direct" the same places by O_DIRECT. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "ngram/ngram_table.h"

enum { WIDTH = 160, ROW = 2 * WIDTH, HEADS = 16, CHUNK = 512 * HEADS, BLOCK = 4096, PIECES = 8 };

static void fail(const char *what) {
    fprintf(stderr, "ngram_bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void need(fn_status status, const fn_error *err) {
    if (status != FN_OK) {
        fprintf(stderr, "ngram_bench: %s\n", err->text);
        exit(1);
    }
}

/* The number behind `key` in a file of /proc. */
static uint64_t proc_number(const char *path, const char *key) {
    char line[256];
    unsigned long long value = 0;
    FILE *f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            (void)sscanf(line + strlen(key), "%llu", &value);
        }
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    return value;
}

static uint64_t read_bytes(void) {
    return proc_number("/proc/self/io", "read_bytes:");
}

static uint64_t resident(void) {
    return proc_number("/proc/self/status", "VmRSS:") * 1024;
}

/* ---- the file ------------------------------------------------------------------------------- */

static void write_header(FILE *f, uint64_t rows) {
    char header[2000] = "{";
    for (size_t i = 0; i < PIECES; i++) {
        size_t used = strlen(header);
        uint64_t bytes = rows * ROW;
        (void)snprintf(header + used, sizeof header - used,
                       "%s\"shard_%zu\":{\"dtype\":\"BF16\",\"shape\":[%llu,%d],"
                       "\"data_offsets\":[%llu,%llu]}",
                       i > 0 ? "," : "", i, (unsigned long long)rows, WIDTH,
                       (unsigned long long)(i * bytes), (unsigned long long)((i + 1) * bytes));
    }
    (void)strcat(header, "}");
    uint64_t length = strlen(header);
    if (fwrite(&length, 8, 1, f) != 1 || fwrite(header, length, 1, f) != 1) {
        fail("writing the header");
    }
}

/* Small finite BF16 numbers, all over the place. */
static void write_table(const char *path, uint64_t piece_rows) {
    static uint64_t block[1 << 17];
    FILE *f = fopen(path, "wb");
    if (f == NULL) {
        fail(path);
    }
    write_header(f, piece_rows);
    uint64_t left = PIECES * piece_rows * ROW;
    for (uint64_t seed = 0; left > 0; seed++) {
        size_t n = left < sizeof block ? (size_t)left : sizeof block;
        for (size_t i = 0; i < sizeof block / sizeof *block; i++) {
            block[i] = fn_hash_mix(seed * (1 << 17) + i) & 0xbfffbfffbfffbfffu;
        }
        if (fwrite(block, 1, n, f) != n) {
            fail("writing the table");
        }
        left -= n;
    }
    if (fflush(f) != 0 || fsync(fileno(f)) != 0 || fclose(f) != 0) {
        fail("writing the table");
    }
}

static void forget(const char *path) {
    int fd = open(path, O_RDONLY);
    if (fd < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0) {
        fail(path);
    }
    (void)close(fd);
}

/* ---- reading -------------------------------------------------------------------------------- */

typedef struct bench {
    const char *path;
    fn_checkpoint *checkpoint;
    const fn_tensor *pieces[PIECES];
    uint64_t n_rows; /* of the table */
    size_t wanted;
    int64_t rows[CHUNK];
    fn_ngram_want wants[CHUNK];
    float *dst; /* [CHUNK, WIDTH] */
} bench;

/* Direct reads need whole blocks; a row may lie in two. */
typedef struct direct {
    const bench *b;
    int fd;
    uint8_t (*blocks)[2 * BLOCK]; /* [CHUNK] */
} direct;

static fn_status read_direct(void *ctx, size_t i, fn_error *err) {
    const direct *d = ctx;
    uint64_t row = (uint64_t)d->b->rows[i];
    uint64_t piece_rows = d->b->pieces[0]->dims[0];
    uint64_t at = d->b->pieces[row / piece_rows]->offset + row % piece_rows * ROW;
    uint64_t begin = at / BLOCK * BLOCK;
    size_t n = at + ROW > begin + BLOCK ? 2 * BLOCK : BLOCK;
    ssize_t got = pread(d->fd, d->blocks[i], n, (off_t)begin);
    return got >= (ssize_t)(at + ROW - begin) ? FN_OK : fn_fail(err, FN_E_IO, "direct read");
}

static void choose_rows(bench *b, size_t done, size_t n) {
    for (size_t i = 0; i < n; i++) {
        b->rows[i] = (int64_t)(fn_hash_mix(done + i + 77) % b->n_rows);
    }
}

typedef struct figures {
    uint64_t bytes, rss;
    double start;
} figures;

static figures begin_measuring(const bench *b) {
    forget(b->path);
    return (figures){.bytes = read_bytes(), .rss = resident(), .start = fn_clock_seconds()};
}

static void report(const bench *b, const figures *f, const char *through, size_t threads,
                   size_t batch, uint64_t most_resident) {
    double seconds = fn_clock_seconds() - f->start;
    uint64_t bytes = read_bytes() - f->bytes;
    printf("{\"through\": \"%s\", \"threads\": %zu, \"batch\": %zu, \"rows\": %zu, "
           "\"rows_per_second\": %.0f, \"read_bytes_per_row\": %.1f, \"rss_growth\": %llu}\n",
           through, threads, batch, b->wanted, (double)b->wanted / seconds,
           (double)bytes / (double)b->wanted,
           (unsigned long long)(most_resident > f->rss ? most_resident - f->rss : 0));
    (void)fflush(stdout);
}

static void run_table(bench *b, size_t threads, size_t batch) {
    fn_error err = {0};
    fn_read_pool *pool = NULL;
    fn_ngram_table *table = NULL;
    uint64_t most = 0;
    need(fn_read_pool_create(threads, &pool, &err), &err);
    fn_ngram_table_options options = {
        .pieces = b->pieces, .n_pieces = PIECES, .width = WIDTH, .pool = pool};
    need(fn_ngram_table_open(b->checkpoint, &options, &table, &err), &err);
    figures f = begin_measuring(b);
    for (size_t done = 0; done < b->wanted; done += batch) {
        fn_ngram_gather g;
        size_t n = b->wanted - done < batch ? b->wanted - done : batch;
        choose_rows(b, done, n);
        need(fn_ngram_gather_start(table, b->rows, n, b->wants, b->dst, &g, &err), &err);
        need(fn_ngram_gather_finish(&g, &err), &err);
        if (done % (1 << 12) < batch) {
            uint64_t now = resident();
            most = now > most ? now : most;
        }
    }
    report(b, &f, "table", threads, batch, most);
    fn_ngram_table_close(table);
    fn_read_pool_destroy(pool);
}

static void run_direct(bench *b, size_t threads, size_t batch) {
    fn_error err = {0};
    fn_read_pool *pool = NULL;
    direct d = {.b = b, .fd = open(b->path, O_RDONLY | O_DIRECT)};
    void *blocks = NULL;
    if (d.fd < 0) {
        return; /* not every file system can */
    }
    if (posix_memalign(&blocks, BLOCK, (size_t)CHUNK * 2 * BLOCK) != 0) {
        fail("memory");
    }
    d.blocks = blocks;
    need(fn_read_pool_create(threads, &pool, &err), &err);
    figures f = begin_measuring(b);
    for (size_t done = 0; done < b->wanted; done += batch) {
        size_t n = b->wanted - done < batch ? b->wanted - done : batch;
        fn_read_batch reads = {.job = read_direct, .ctx = &d, .n = n, .run = 1};
        choose_rows(b, done, n);
        fn_read_pool_start(pool, &reads);
        need(fn_read_pool_wait(pool, &reads, &err), &err);
    }
    report(b, &f, "direct", threads, batch, resident());
    fn_read_pool_destroy(pool);
    free(blocks);
    (void)close(d.fd);
}

int main(int argc, char **argv) {
    static const size_t threads[] = {1, 4, 8, 16, 32, 64};
    static bench b;
    fn_error err = {0};
    char path[1000];
    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: ngram_bench DIR [GIB] [ROWS]\n");
        return 2;
    }
    double gib = argc > 2 ? strtod(argv[2], NULL) : 4.0;
    b.wanted = argc > 3 ? strtoul(argv[3], NULL, 10) : 100000;
    (void)snprintf(path, sizeof path, "%s/ngram_bench.safetensors", argv[1]);
    uint64_t piece_rows = (uint64_t)(gib * (double)(1 << 30)) / (ROW * PIECES);
    write_table(path, piece_rows);
    need(fn_checkpoint_open_file(path, &b.checkpoint, &err), &err);

    b.path = fn_checkpoint_file_path(b.checkpoint, 0);
    b.n_rows = piece_rows * PIECES;
    b.dst = calloc((size_t)CHUNK * WIDTH, sizeof *b.dst);
    for (size_t i = 0; i < PIECES; i++) {
        char name[20];
        (void)snprintf(name, sizeof name, "shard_%zu", i);
        b.pieces[i] = fn_checkpoint_find(b.checkpoint, name);
    }
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        run_table(&b, threads[i], CHUNK);
        run_direct(&b, threads[i], CHUNK);
    }
    run_table(&b, 16, HEADS);
    run_direct(&b, 16, HEADS);
    (void)unlink(path);
    fn_checkpoint_close(b.checkpoint);
    free(b.dst);
    return 0;
}
