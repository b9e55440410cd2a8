/* The scheduler: what it computes together is what each request gets alone; it stops, refuses and fails one
 * request without the others. The other way to compute an answer is a session of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/alloc_fail.h"
#include "support/check_error.h"
#include "support/model_case.h"
#include "support/requests.h"

#define CONTEXT 256
#define MAX_REQUESTS 24

static fn_scheduler *new_scheduler(fn_engine *engine, fn_scheduler_options options) {
    fn_scheduler *s = NULL;
    fn_error err = {0};
    if (fn_scheduler_create(engine, &options, &s, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    return s;
}

/* Lengths, limits, sampling, log-probabilities: all mixed. */
static asked make_asked(const fn_engine *engine, size_t i, float temperature) {
    asked a = {.n = 3 + 29 * i % 90, .generation = fn_generation_default(fn_engine_text(engine))};
    make_ids(engine, 100 + i, a.ids, a.n);
    a.generation.sampling.temperature = temperature;
    a.generation.sampling.top_k = i % 3 == 0 ? 0 : 5 + (int32_t)i;
    a.generation.sampling.top_p = i % 4 == 1 ? 0.9F : 1.0F;
    a.generation.sampling.min_p = 0;
    a.generation.sampling.repetition_penalty = i % 5 == 2 ? 1.3F : 1.0F;
    a.generation.sampling.seed = 7 * i;
    a.generation.max_tokens = 5 + 7 * i % 40;
    a.generation.ignore_end = i % 2 == 0;
    a.generation.n_logprobs = i % 3;
    return a;
}

static void sixteen_at_once_equal_each_alone(void **unused) {
    (void)unused;
    for (size_t m = 0; m < n_model_dirs; m++) {
        fn_engine *engine = open_model(model_dirs[m], 2, 40, CONTEXT);
        for (int warm = 0; warm < 2; warm++) {
            fn_scheduler_options options = {.max_running = 16,
                                            .state_bytes = 1 << 28,
                                            .cache_bytes = warm ? 1 << 26 : 0,
                                            .cache_spacing = 20};
            fn_scheduler *s = new_scheduler(engine, options);
            asked all[16];
            told alone[16];
            told together[16];
            for (size_t i = 0; i < 16; i++) {
                all[i] = make_asked(engine, i, i % 2 == 0 ? 0.0F : 1.0F);
                told_alone(engine, &all[i], &alone[i]);
            }
            for (int again = 0; again <= warm; again++) {
                for (size_t i = 0; i < 16; i++) {
                    told_start(s, &all[i], NULL, &together[i]);
                }
                for (size_t i = 0; i < 16; i++) {
                    told_wait(&together[i]);
                    assert_same_told(&together[i], &alone[i]);
                    told_free(&together[i]);
                }
            }
            for (size_t i = 0; i < 16; i++) {
                told_free(&alone[i]);
            }
            fn_scheduler_destroy(s);
        }
        fn_engine_close(engine);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixteen_at_once_equal_each_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
