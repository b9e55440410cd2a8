/* What others got wrong with this model's numerics, each as a test. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "flashnext.h"
#include "support/model_case.h"

#define N 200
#define BF16_MODEL 1

static uint8_t *writable(const fn_matrix *m) {
    return (uint8_t *)(uintptr_t)m->tiles;
}

typedef struct selections {
    size_t context;
    uint8_t *mask; /* [attention layers, n, n] */
} selections;

static void note_selection(void *ud, fn_trace_kind kind, size_t layer, size_t first_row,
                           size_t rows, size_t width, const void *data) {
    selections *s = ud;
    const int32_t *keys = data;
    (void)rows;
    for (size_t i = 0; kind == FN_TRACE_SELECTED && i < width; i++) {
        s->mask[(layer * s->context + first_row) * s->context + (size_t)keys[i]] = 1;
    }
}

/* Racy or unspecified order of equal scores made output change from run to run. */
static void equal_block_scores_choose_the_lowest_blocks_every_time(void **unused) {
    (void)unused;
    float *first = NULL;
    for (size_t run = 0; run < 21; run++) {
        static const size_t threads[] = {1, 2, 8};
        fn_engine *engine = open_model(model_dirs[BF16_MODEL], threads[run % 3], N, 2 * N);
        size_t vocab = engine->shape.vocab;
        for (size_t l = 0; l < engine->shape.n_layers; l++) {
            fn_matrix *m = &engine->weights->layers[l].attention.index_qk;
            if (engine->shape.layer_kind[l] == FN_LAYER_ATTENTION) {
                memset(writable(m), 0, fn_matrix_tiles(m->rows) * m->tile_bytes);
            }
        }
        int32_t ids[N];
        uint8_t wants[N];
        make_ids(engine, 100, ids, N);
        memset(wants, 1, sizeof wants);
        size_t layers = engine->shape.n_attention;
        selections s = {N, calloc(layers * N * N, 1)};
        float *logits = malloc(N * vocab * sizeof *logits);
        fn_state *state = NULL;
        assert_true(s.mask != NULL && logits != NULL);
        assert_int_equal(fn_state_create(engine->states, N, &state, NULL), FN_OK);
        fn_segment segment = {.state = state, .ids = ids, .n = N, .wants = wants};
        fn_trace trace = {.emit = note_selection, .ud = &s};
        assert_int_equal(fn_forward_run(engine->forward, &segment, 1, logits, &trace, NULL), FN_OK);
        size_t ratio = engine->shape.index_ratio;
        for (size_t i = 0; i < layers * N; i++) {
            size_t visible = i % N + 1;
            size_t blocks = visible / ratio;
            size_t most = engine->shape.index_budget / ratio;
            for (size_t k = 0; k < N; k++) {
                bool lowest = k < (blocks < most ? blocks : most) * ratio;
                bool open = k >= blocks * ratio && k < visible;
                assert_int_equal(s.mask[i * N + k], lowest || open);
            }
        }
        if (first != NULL) {
            assert_memory_equal(logits, first, N * vocab * sizeof *logits);
            free(logits);
        } else {
            first = logits;
        }
        free(s.mask);
        fn_state_destroy(state);
        fn_engine_close(engine);
    }
    free(first);
}

static void prompt_chunks_of_odd_sizes_change_no_bit(void **unused) {
    static const size_t chunks[] = {1, 2, 3, 63, 64, 65, N};
    float *first = NULL;
    (void)unused;
    for (size_t c = 0; c < sizeof chunks / sizeof chunks[0]; c++) {
        fn_engine *engine = open_model(model_dirs[BF16_MODEL], 2, chunks[c], N);
        int32_t ids[N];
        const float *logits = NULL;
        fn_session *s = NULL;
        make_ids(engine, 110, ids, N);
        assert_int_equal(fn_session_create(engine, &s, NULL), FN_OK);
        assert_int_equal(fn_session_append(s, ids, N, NULL), FN_OK);
        assert_int_equal(fn_session_logits(s, &logits, NULL), FN_OK);
        if (first == NULL) {
            first = malloc(engine->shape.vocab * sizeof *first);
            assert_non_null(first);
            memcpy(first, logits, engine->shape.vocab * sizeof *first);
        }
        assert_same_floats(logits, first, engine->shape.vocab, "chunk", chunks[c]);
        fn_session_destroy(s);
        fn_engine_close(engine);
    }
    free(first);
}

/* Large values overflowed elsewhere and answers turned into token 0 ("!"). */
static void large_values_stay_finite(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[0], 2, 64, N);
    const fn_shape *shape = &engine->shape;
    for (size_t l = 0; l < shape->n_layers; l++) {
        fn_layer_weights *w = &engine->weights->layers[l];
        const fn_matrix *m =
            shape->layer_kind[l] == FN_LAYER_ATTENTION ? &w->attention.v : &w->delta.in_qkv;
        assert_int_equal(m->kind, FN_MATRIX_F32);
        float *values = (float *)(void *)writable(m);
        for (size_t i = 0; i < fn_matrix_tiles(m->rows) * m->tile_bytes / sizeof *values; i++) {
            values[i] *= 1e4f;
        }
    }
    int32_t ids[100];
    make_ids(engine, 120, ids, 100);
    float *all = stepwise_logits(engine, ids, 100);
    for (size_t i = 0; i < 100 * shape->vocab; i++) {
        assert_true(isfinite(all[i]));
    }
    free(all);
    fn_engine_close(engine);
}

/* Work per token that grew with the context (a scan for predecessors) made decoding slow: the n-gram history is
 * the last ids, whatever the length, and nothing before an EOS is seen. */
static void the_ngram_history_is_carried_not_searched(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[0], 1, 64, N);
    const fn_part_layout *part = &engine->layout.part[FN_PART_NGRAM_IDS];
    fn_session *s = NULL;
    int32_t ids[N];
    make_ids(engine, 130, ids, N);
    assert_int_equal(part->row_bytes, (engine->shape.ngram_size - 1) * sizeof(int32_t));
    assert_int_equal(fn_session_create(engine, &s, NULL), FN_OK);
    for (size_t i = 0; i < 40; i++) {
        assert_int_equal(fn_session_append(s, ids + i, 1, NULL), FN_OK);
        const int32_t *history =
            fn_recurrent_view(&engine->layout, fn_state_before(s->state), FN_PART_NGRAM_IDS, 0);
        for (size_t k = 0; k < part->values; k++) {
            size_t back = part->values - k;
            int32_t want = i + 1 >= back ? ids[i + 1 - back] : engine->shape.eos_id;
            assert_int_equal(history[k], want);
        }
    }
    fn_session_destroy(s);
    fn_engine_close(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_block_scores_choose_the_lowest_blocks_every_time),
        cmocka_unit_test(prompt_chunks_of_odd_sizes_change_no_bit),
        cmocka_unit_test(large_values_stay_finite),
        cmocka_unit_test(the_ngram_history_is_carried_not_searched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
