/* The published table at its real size: 320,001,536 rows of 160 BF16 values in 128 shards of 131 files (sparse: 95 GiB
 * that take no room), scattered as published. Rows are planted where the published hashes of known tokens must find
 * them; everything around them is zero. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/half.h"
#include "ngram/ngram_hash.h"
#include "ngram/ngram_table.h"
#include "support/make_checkpoint.h"
#include "weights/bind.h"

enum { HEADS = 16, WIDTH = 160, SHARD_ROWS = 2500012, CASES = 5 };

/* Ids, the position of interest, and its rows as public ports of the formula give them. */
static const struct {
    int32_t ids[5];
    size_t n, at;
    int64_t rows[HEADS];
} known[CASES] = {
    {{9707},
     1,
     0,
     {16410909, 39682429, 55103279, 60931720, 87006904, 116506179, 131512017, 152932897, 169641436,
      182022480, 209277433, 237891023, 256841529, 277007269, 290665954, 300984276}},
    {{9707, 11, 1879},
     3,
     2,
     {6380558, 26411572, 56460672, 78566983, 94693008, 106742196, 124822692, 148942556, 164226950,
      190352573, 210933682, 238908951, 242182004, 265475238, 299910982, 312121804}},
    {{100, 248044, 200, 300},
     4,
     2,
     {15114226, 39594710, 55572462, 70127295, 80775559, 118455748, 125723378, 143475569, 177805529,
      191773675, 200937106, 235341796, 255204161, 276293028, 290261926, 302150093}},
    {{100, 248044, 200, 300},
     4,
     3,
     {6129193, 20484628, 57667260, 77728366, 86357215, 109234597, 123551585, 149309416, 160807097,
      181150422, 210033058, 220469929, 244412116, 268713397, 296893783, 318393237}},
    {{248053, 248056, 248056, 248056, 248054},
     5,
     3,
     {16982399, 34740182, 54733895, 75973670, 98195745, 119174304, 120865008, 143535541, 168080783,
      195121389, 200991716, 226494397, 242070342, 277842220, 296476407, 309972988}},
};

/* The first and last row of the table and of shards, and the last that a head can reach. */
static const int64_t edges[] = {0,         SHARD_ROWS - 1,        SHARD_ROWS, 64L * SHARD_ROWS,
                                320001445, 127L * SHARD_ROWS - 1, 320001535};
enum { EDGES = sizeof edges / sizeof edges[0] };

/* Number i of row r: small integers, which BF16 holds; never all zero. */
static float planted(int64_t row, size_t i) {
    return (float)((row / (int64_t)(i % 5 + 1) + (int64_t)i) % 127 + 1);
}

/* Where the shard begins in its file, found in the file's own header. */
static uint64_t shard_offset(const char *path, const char *name) {
    FILE *f = fopen(path, "rb");
    uint64_t length = 0;
    static char header[200000];
    unsigned long long begin = 0;
    char quoted[200];
    assert_non_null(f);
    assert_int_equal(fread(&length, 8, 1, f), 1);
    assert_true(length < sizeof header);
    assert_int_equal(fread(header, length, 1, f), 1);
    header[length] = '\0';
    (void)fclose(f);
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", name);
    const char *at = strstr(header, quoted);
    assert_non_null(at);
    at = strstr(at, "data_offsets");
    assert_non_null(at);
    at = strchr(at, '[');
    assert_true(at != NULL && sscanf(at + 1, "%llu", &begin) == 1);
    return 8 + length + begin;
}

static void plant(const made_model *m, int64_t row) {
    char ending[40];
    char path[400];
    char name[200];
    uint16_t bits[WIDTH];
    (void)snprintf(ending, sizeof ending, "shard_%lld.weight", (long long)(row / SHARD_ROWS));
    made_model copy = *m;
    const made_tensor *t = made_find(&copy, ending);
    made_file_name(m, t->file, name, sizeof name);
    made_path(m, name, path, sizeof path);
    uint64_t offset = shard_offset(path, t->name) + (uint64_t)(row % SHARD_ROWS) * WIDTH * 2;
    for (size_t i = 0; i < WIDTH; i++) {
        bits[i] = fn_float_to_bf16(planted(row, i));
    }
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bits, sizeof bits, (off_t)offset), sizeof bits);
    assert_int_equal(close(fd), 0);
}

static void read_rows(const fn_ngram_table *table, const int64_t *rows, size_t n, float *dst) {
    static fn_ngram_want wants[400];
    fn_ngram_gather g;
    fn_error err = {0};
    fn_status status = fn_ngram_gather_start(table, rows, n, wants, dst, &g, &err);
    status = status == FN_OK ? fn_ngram_gather_finish(&g, &err) : status;
    if (status != FN_OK) {
        fail_msg("%s", err.text);
    }
}

static void check_planted(const fn_ngram_table *table, const int64_t *rows, size_t n) {
    static float dst[100 * WIDTH];
    read_rows(table, rows, n, dst);
    for (size_t i = 0; i < n * WIDTH; i++) {
        if (dst[i] != planted(rows[i / WIDTH], i % WIDTH)) {
            fail_msg("row %lld, value %zu: found %g, expected %g", (long long)rows[i / WIDTH],
                     i % WIDTH, (double)dst[i], (double)planted(rows[i / WIDTH], i % WIDTH));
        }
    }
}

static void check_empty(const fn_ngram_table *table, int64_t row) {
    float dst[WIDTH];
    read_rows(table, &row, 1, dst);
    for (size_t i = 0; i < WIDTH; i++) {
        assert_true(dst[i] == 0.0f);
    }
}

static void check_all(const fn_ngram_table *table, const fn_shape *shape) {
    fn_ngram_constants hash;
    int32_t history[FN_MAX_NGRAM];
    fn_ngram_constants_init(shape, 0, &hash);
    for (size_t i = 0; i < FN_MAX_NGRAM; i++) {
        history[i] = shape->eos_id;
    }
    for (size_t k = 0; k < CASES; k++) {
        int64_t rows[5 * HEADS];
        fn_ngram_hash_rows(&hash, history, known[k].ids, known[k].n, rows);
        assert_memory_equal(rows + known[k].at * HEADS, known[k].rows, sizeof known[k].rows);
        check_planted(table, rows + known[k].at * HEADS, HEADS);
        for (size_t h = 0; h < HEADS; h++) {
            check_empty(table, known[k].rows[h] + 1);
        }
    }
    check_planted(table, edges, EDGES);
    check_empty(table, 1);
    check_empty(table, SHARD_ROWS + 1);
    check_empty(table, 320001534);
}

static void planted_rows_come_back_through_the_published_hashes(void **unused) {
    (void)unused;
    made_model m;
    char path[400];
    fn_error err = {0};
    fn_config config = {.root = NULL};
    fn_checkpoint *c = NULL;
    fn_bound *bound = NULL;
    fn_shape shape = made_real_shape();
    fn_read_pool *pool = NULL;
    fn_ngram_table *table = NULL;
    made_model_init(&m, &shape, made_real_layout());
    made_write(&m);
    for (size_t k = 0; k < CASES; k++) {
        for (size_t h = 0; h < HEADS; h++) {
            plant(&m, known[k].rows[h]);
        }
    }
    for (size_t i = 0; i < EDGES; i++) {
        plant(&m, edges[i]);
    }
    made_path(&m, "config.json", path, sizeof path);
    fn_status status = fn_checkpoint_open(m.dir, &c, &err);
    status = status == FN_OK ? fn_config_read(path, &config, &err) : status;
    status = status == FN_OK ? fn_shape_from_config(&config, &shape, &err) : status;
    status = status == FN_OK ? fn_bind(c, &shape, &bound, &err) : status;
    status = status == FN_OK ? fn_read_pool_create(16, &pool, &err) : status;
    if (status != FN_OK) {
        fail_msg("%s", err.text);
    }
    const fn_bound_ple *ple = bound->layers[1].ple;
    fn_ngram_table_options options = {.pieces = (const fn_tensor *const *)ple->pieces,
                                      .n_pieces = ple->n_pieces,
                                      .width = WIDTH,
                                      .pool = pool};
    assert_int_equal(ple->n_pieces, 128);
    if (fn_ngram_table_open(c, &options, &table, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(fn_ngram_table_bytes(table), UINT64_C(102400491520));
    check_all(table, &shape);
    fn_ngram_table_close(table);
    fn_read_pool_destroy(pool);
    fn_bound_free(bound);
    fn_config_free(&config);
    fn_checkpoint_close(c);
    made_model_free(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_rows_come_back_through_the_published_hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
