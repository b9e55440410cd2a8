/* Rows of the n-gram table: vectors for the published constants, document boundaries, and history
 * carried from piece to piece. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "ngram/ngram_hash.h"
#include "support/make_checkpoint.h"

enum { HEADS = 16, EOS = 248044 };

static fn_ngram_constants published(void) {
    fn_shape s = made_real_shape();
    fn_ngram_constants hash;
    fn_ngram_constants_init(&s, 0, &hash);
    return hash;
}

typedef struct vector {
    int32_t ids[5];
    size_t n, at; /* the rows of position `at` */
    int64_t rows[HEADS];
} vector;

static const vector vectors[] = {
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
    {{100, EOS, 200, 300},
     4,
     2,
     {15114226, 39594710, 55572462, 70127295, 80775559, 118455748, 125723378, 143475569, 177805529,
      191773675, 200937106, 235341796, 255204161, 276293028, 290261926, 302150093}},
    {{100, EOS, 200, 300},
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

static void published_vectors_come_out(void **state) {
    (void)state;
    static const int32_t history[2] = {EOS, EOS};
    fn_ngram_constants hash = published();
    int64_t rows[5 * HEADS];
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        fn_ngram_hash_rows(&hash, history, vectors[i].ids, vectors[i].n, rows);
        assert_memory_equal(rows + vectors[i].at * HEADS, vectors[i].rows, sizeof vectors[i].rows);
    }
}

static void seed_0_gives_other_rows(void **state) {
    (void)state;
    static const int32_t history[2] = {EOS, EOS};
    fn_shape s = made_real_shape();
    fn_ngram_constants hash;
    int64_t rows[HEADS];
    s.ngram_seed = 0;
    fn_ngram_constants_init(&s, 0, &hash);
    fn_ngram_hash_rows(&hash, history, vectors[0].ids, 1, rows);
    for (size_t h = 0; h < HEADS; h++) {
        assert_true(rows[h] != vectors[0].rows[h]);
    }
}

/* The reference's way: whole history, the position of the last EOS before each token, a gather
 * that is allowed only within the token's own document. */
static void slow_rows(const fn_ngram_constants *hash, const int32_t *ids, size_t n, size_t at,
                      int64_t *rows) {
    int64_t last_end = -1;
    for (size_t i = 0; i < at; i++) {
        last_end = ids[i] == hash->eos_id ? (int64_t)i : last_end;
    }
    assert_true(at < n);
    for (size_t order = 2; order <= hash->ngram_size; order++) {
        int64_t mixed = 0;
        for (size_t s = 0; s < order; s++) {
            int64_t in_document = (int64_t)at - (last_end + 1);
            int64_t token = hash->eos_id;
            if (s == 0 || (in_document >= (int64_t)s && at >= s)) {
                token = ids[at - s];
            }
            mixed ^= token * hash->multipliers[s];
        }
        for (size_t k = 0; k < hash->heads_per_ngram; k++) {
            size_t h = (order - 2) * hash->heads_per_ngram + k;
            rows[h] = mixed % hash->primes[h] + hash->offsets[h];
        }
    }
}

static fn_ngram_constants constants_of_order(size_t order) {
    fn_shape s = made_tiny_shape();
    fn_ngram_constants hash;
    s.ngram_size = order;
    s.vocab = 5; /* ends of text every few tokens */
    fn_ngram_constants_init(&s, order % 3, &hash);
    return hash;
}

enum { LENGTH = 400, MAX_ROWS = LENGTH * 14 };

static void fill_ids(int32_t *ids, size_t n) {
    uint32_t x = 7;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525 + 1013904223;
        ids[i] = (int32_t)((x >> 16) % 5);
    }
}

static void ends_of_text_cut_as_in_the_reference(void **state) {
    (void)state;
    static int64_t rows[MAX_ROWS];
    int32_t ids[LENGTH];
    int32_t history[FN_MAX_NGRAM];
    fill_ids(ids, LENGTH);
    for (size_t order = 2; order <= FN_MAX_NGRAM; order++) {
        fn_ngram_constants hash = constants_of_order(order);
        for (size_t i = 0; i < order - 1; i++) {
            history[i] = hash.eos_id;
        }
        fn_ngram_hash_rows(&hash, history, ids, LENGTH, rows);
        for (size_t i = 0; i < LENGTH; i++) {
            int64_t slow[14];
            slow_rows(&hash, ids, LENGTH, i, slow);
            assert_memory_equal(rows + i * hash.heads, slow, hash.heads * sizeof slow[0]);
        }
    }
}

/* Pieces of 1, 2, 3, ... tokens, each with the ids before it as history, give the rows of one. */
static void carried_history_equals_the_whole(void **state) {
    (void)state;
    static int64_t whole[MAX_ROWS];
    static int64_t piece[MAX_ROWS];
    int32_t padded[FN_MAX_NGRAM + LENGTH];
    for (size_t order = 2; order <= FN_MAX_NGRAM; order++) {
        fn_ngram_constants hash = constants_of_order(order);
        size_t before = order - 1;
        int32_t *ids = padded + before;
        for (size_t i = 0; i < before; i++) {
            padded[i] = hash.eos_id;
        }
        fill_ids(ids, LENGTH);
        fn_ngram_hash_rows(&hash, padded, ids, LENGTH, whole);
        for (size_t at = 0, n = 1; at < LENGTH; at += n, n++) {
            n = n < LENGTH - at ? n : LENGTH - at;
            fn_ngram_hash_rows(&hash, ids + at - before, ids + at, n, piece);
            assert_memory_equal(piece, whole + at * hash.heads, n * hash.heads * sizeof piece[0]);
        }
    }
}

/* The turn's end is no end of text: 248046 does not cut, 248044 does. */
static void only_the_end_of_text_cuts(void **state) {
    (void)state;
    static const int32_t turn[3] = {100, 248046, 200};
    static const int32_t text[3] = {100, EOS, 200};
    static const int32_t history[2] = {EOS, EOS};
    fn_ngram_constants hash = published();
    int64_t a[3 * HEADS];
    int64_t b[3 * HEADS];
    int64_t fresh[HEADS];
    fn_ngram_hash_rows(&hash, history, turn, 3, a);
    fn_ngram_hash_rows(&hash, history, text, 3, b);
    fn_ngram_hash_rows(&hash, history, turn + 2, 1, fresh);
    assert_memory_equal(b + (size_t)2 * HEADS, fresh, sizeof fresh);
    assert_memory_not_equal(a + (size_t)2 * HEADS, fresh, sizeof fresh);
}

static void rows_lie_in_their_heads_part_of_the_table(void **state) {
    (void)state;
    static int64_t rows[MAX_ROWS];
    static const int32_t history[2] = {EOS, EOS};
    fn_ngram_constants hash = published();
    int32_t ids[LENGTH];
    uint32_t x = 3;
    for (size_t i = 0; i < LENGTH; i++) {
        x = x * 1664525 + 1013904223;
        ids[i] = (int32_t)(x % 248320);
    }
    fn_ngram_hash_rows(&hash, history, ids, MAX_ROWS / HEADS < LENGTH ? MAX_ROWS / HEADS : LENGTH,
                       rows);
    for (size_t i = 0; i < (MAX_ROWS / HEADS < LENGTH ? MAX_ROWS / HEADS : LENGTH); i++) {
        for (size_t h = 0; h < HEADS; h++) {
            int64_t row = rows[i * HEADS + h] - hash.offsets[h];
            assert_true(row >= 0 && row < hash.primes[h]);
        }
    }
}

static void *read_whole(const fn_checkpoint *c, const fn_tensor *t) {
    fn_error err = {0};
    void *bytes = malloc((size_t)t->bytes);
    assert_non_null(bytes);
    assert_int_equal(fn_tensor_read(c, t, 0, bytes, (size_t)t->bytes, &err), FN_OK);
    return bytes;
}

/* What the official classes hashed: ids [B, T] -> ngram_rows [P, B, T, heads]. */
static void check_golden(const char *folder) {
    char path[400];
    fn_config config;
    fn_shape shape;
    fn_checkpoint *c = NULL;
    fn_error err = {0};
    (void)snprintf(path, sizeof path, "%s/checkpoint/config.json", folder);
    assert_int_equal(fn_config_read(path, &config, &err), FN_OK);
    assert_int_equal(fn_shape_from_config(&config, &shape, &err), FN_OK);
    fn_config_free(&config);
    (void)snprintf(path, sizeof path, "%s/golden.safetensors", folder);
    assert_int_equal(fn_checkpoint_open_file(path, &c, &err), FN_OK);
    const fn_tensor *ids_view = fn_checkpoint_find(c, "ids");
    const fn_tensor *rows_view = fn_checkpoint_find(c, "ngram_rows");
    assert_true(ids_view->dtype == FN_DTYPE_I32 && rows_view->dtype == FN_DTYPE_I64);
    assert_int_equal(rows_view->dims[0], shape.n_ple);
    int32_t *ids = read_whole(c, ids_view);
    int64_t *want = read_whole(c, rows_view);
    size_t length = (size_t)ids_view->dims[1];
    size_t row = length * fn_shape_ngram_heads(&shape);
    int64_t *got = malloc(row * sizeof *got);
    for (size_t p = 0, at = 0; p < shape.n_ple; p++) {
        fn_ngram_constants hash;
        int32_t history[FN_MAX_NGRAM];
        fn_ngram_constants_init(&shape, p, &hash);
        for (size_t i = 0; i < FN_MAX_NGRAM; i++) {
            history[i] = hash.eos_id;
        }
        for (size_t b = 0; b < ids_view->dims[0]; b++, at += row) {
            fn_ngram_hash_rows(&hash, history, ids + b * length, length, got);
            assert_memory_equal(got, want + at, row * sizeof *got);
        }
    }
    free(got);
    free(want);
    free(ids);
    fn_checkpoint_close(c);
}

static void official_rows_come_out(void **state) {
    (void)state;
    static const char *const ours[] = {"mini-bf16", "mini-f32", "mini-tied"};
    static const char *const shared[] = {"tiny-text", "tiny-stacked", "tiny-bf16", "mtp"};
    char folder[300];
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        (void)snprintf(folder, sizeof folder, "%s/tests/data/%s", FN_SOURCE_DIR, ours[i]);
        check_golden(folder);
    }
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        (void)snprintf(folder, sizeof folder, "%s/../shared/fixtures/%s", FN_SOURCE_DIR, shared[i]);
        if (fn_file_exists(folder)) {
            check_golden(folder);
        } else {
            print_message("no %s: skipped\n", folder);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors_come_out),
        cmocka_unit_test(seed_0_gives_other_rows),
        cmocka_unit_test(official_rows_come_out),
        cmocka_unit_test(ends_of_text_cut_as_in_the_reference),
        cmocka_unit_test(carried_history_equals_the_whole),
        cmocka_unit_test(only_the_end_of_text_cuts),
        cmocka_unit_test(rows_lie_in_their_heads_part_of_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
