/* Prompts through one forward, answers through another at the same time, while threads change sides: the bits of each
 * alone. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "support/check_error.h"
#include "support/model_case.h"

#define CONTEXT 150
#define ROWS 64
#define THREADS 3
#define PROMPTS 2
#define ANSWERS 3
#define LENGTH 40

typedef struct dice {
    uint64_t state;
} dice;

static size_t roll(dice *d, size_t n) {
    d->state = fn_hash_mix(d->state + 1);
    return (size_t)(d->state >> 33) % n;
}

typedef struct sequence {
    int32_t ids[LENGTH];
    fn_state *alone, *here;
    size_t at;
    float *want, *got; /* [LENGTH, V]: alone, id by id; after rows that wanted logits here */
    uint8_t wants[LENGTH];
} sequence;

static fn_state *new_state(fn_engine *engine) {
    fn_state *state = NULL;
    assert_int_equal(fn_state_create(engine->states, CONTEXT, &state, NULL), FN_OK);
    return state;
}

static void start(fn_engine *engine, sequence *q, uint64_t seed) {
    static const uint8_t wants[1] = {1};
    size_t vocab = engine->shape.vocab;
    *q = (sequence){.alone = new_state(engine), .here = new_state(engine)};
    q->want = malloc(LENGTH * vocab * sizeof *q->want);
    q->got = malloc(LENGTH * vocab * sizeof *q->got);
    assert_non_null(q->want);
    assert_non_null(q->got);
    make_ids(engine, seed, q->ids, LENGTH);
    for (size_t i = 0; i < LENGTH; i++) {
        fn_segment one = {.state = q->alone, .ids = q->ids + i, .n = 1, .wants = wants};
        assert_int_equal(fn_forward_run(engine->forward, &one, 1, q->want + i * vocab, NULL, NULL),
                         FN_OK);
    }
}

static void finish(sequence *q) {
    fn_state_destroy(q->alone);
    fn_state_destroy(q->here);
    free(q->want);
    free(q->got);
}

/* A lane: sequences that one forward reads in pieces of up to `most` rows. */
typedef struct lane {
    fn_forward *forward;
    sequence *sequences;
    size_t n, most, vocab;
    dice d;
    fn_status status;
    fn_error error;
    float *logits; /* [n, V] */
} lane;

static void run_piece(lane *l) {
    fn_segment segments[ANSWERS + PROMPTS];
    sequence *who[ANSWERS + PROMPTS];
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) {
        sequence *q = &l->sequences[i];
        size_t rows = roll(&l->d, l->most + 1);
        rows = rows < LENGTH - q->at ? rows : LENGTH - q->at;
        if (rows > 0) {
            q->wants[q->at + rows - 1] = 1;
            segments[n] = (fn_segment){
                .state = q->here, .ids = q->ids + q->at, .n = rows, .wants = q->wants + q->at};
            q->at += rows;
            who[n++] = q;
        }
    }
    if (n > 0 && l->status == FN_OK) {
        l->status = fn_forward_run(l->forward, segments, n, l->logits, NULL, &l->error);
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(who[i]->got + (who[i]->at - 1) * l->vocab, l->logits + i * l->vocab,
               l->vocab * sizeof(float));
    }
}

static bool all_read(const lane *l) {
    bool read = true;
    for (size_t i = 0; i < l->n; i++) {
        read = read && l->sequences[i].at == LENGTH;
    }
    return read;
}

static void *read_lane(void *arg) {
    lane *l = arg;
    while (!all_read(l) && l->status == FN_OK) {
        run_piece(l);
    }
    return NULL;
}

static lane make_lane(fn_engine *engine, fn_forward *forward, size_t n, size_t most,
                      uint64_t seed) {
    lane l = {.forward = forward, .n = n, .most = most, .vocab = engine->shape.vocab, .d = {seed}};
    l.sequences = malloc(n * sizeof *l.sequences);
    l.logits = malloc(n * l.vocab * sizeof *l.logits);
    assert_non_null(l.sequences);
    assert_non_null(l.logits);
    for (size_t i = 0; i < n; i++) {
        start(engine, &l.sequences[i], 10 * seed + i);
    }
    return l;
}

static void check_lane(lane *l, const char *what) {
    assert_int_equal(l->status, FN_OK);
    for (size_t i = 0; i < l->n; i++) {
        sequence *q = &l->sequences[i];
        char text[200];
        const char *difference = fn_state_difference(q->alone, q->here, text, sizeof text);
        if (difference != NULL) {
            fail_msg("%s: %s", what, difference);
        }
        for (size_t t = 0; t < LENGTH; t++) {
            if (q->wants[t]) {
                assert_same_floats(q->got + t * l->vocab, q->want + t * l->vocab, l->vocab, what,
                                   t);
            }
        }
        finish(q);
    }
    free(l->sequences);
    free(l->logits);
}

static void read_both(fn_engine *engine, fn_forward *forward, fn_pool *pool, uint64_t seed,
                      const char *what) {
    lane prompts = make_lane(engine, engine->forward, PROMPTS, ROWS / PROMPTS, seed);
    lane answers = make_lane(engine, forward, ANSWERS, 3, seed + 1000);
    dice d = {seed};
    pthread_t thread;
    fn_pool_cut(engine->pool, 1 + roll(&d, 9));
    assert_int_equal(pthread_create(&thread, NULL, read_lane, &prompts), 0);
    while (!all_read(&answers) && answers.status == FN_OK) {
        size_t own = 1 + roll(&d, THREADS);
        fn_pool_limit(engine->pool, THREADS - own); /* none at times: it stands still */
        fn_pool_limit(pool, own);
        run_piece(&answers);
        fn_pool_limit(engine->pool, THREADS);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    fn_pool_cut(engine->pool, 0);
    check_lane(&prompts, what);
    check_lane(&answers, what);
}

static void two_forwards_at_once_have_the_bits_of_each_alone(void **unused) {
    (void)unused;
    for (size_t m = 0; m < n_weight_cases; m++) {
        const weight_case *c = &weight_cases[m];
        fn_engine *engine =
            open_model_as(c->dir, THREADS, ROWS, CONTEXT, c->expert_bits, c->dense_bits);
        fn_pool *pool = NULL;
        fn_forward *forward = NULL;
        assert_int_equal(fn_pool_create(THREADS, &pool, NULL), FN_OK);
        fn_model model = fn_engine_model(engine, pool);
        assert_int_equal(fn_forward_create(&model, 16, CONTEXT, &forward, NULL), FN_OK);
        for (uint64_t seed = 1; seed <= 5; seed++) {
            read_both(engine, forward, pool, seed, c->dir);
        }
        fn_forward_destroy(forward);
        fn_pool_destroy(pool);
        fn_engine_close(engine);
    }
}

/* More rows than a forward has room for are refused, and change nothing; the next call goes on. */
static void each_forward_has_its_own_room(void **unused) {
    (void)unused;
    fn_engine *engine = open_model(model_dirs[0], 2, ROWS, CONTEXT);
    fn_model model = fn_engine_model(engine, engine->pool);
    fn_forward *small = NULL;
    fn_error err = {0};
    sequence q;
    start(engine, &q, 17);
    assert_int_equal(fn_forward_create(&model, 16, CONTEXT, &small, NULL), FN_OK);
    fn_segment segment = {.state = q.here, .ids = q.ids, .n = 17};
    check_error(fn_forward_run(small, &segment, 1, NULL, NULL, &err), &err, FN_E_RANGE, "16 rows");
    assert_int_equal(fn_state_length(q.here), 0);
    assert_int_equal(fn_forward_run(engine->forward, &segment, 1, NULL, NULL, NULL), FN_OK);
    assert_int_equal(fn_state_length(q.here), 17);
    finish(&q);
    fn_forward_destroy(small);
    fn_engine_close(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_EACH_PRECISION(two_forwards_at_once_have_the_bits_of_each_alone),
        IN_EACH_PRECISION(each_forward_has_its_own_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
