/* tests/support/model_case.h - small models with their ids, for tests of forward, state and engine. */
#ifndef FN_TESTS_MODEL_CASE_H
#define FN_TESTS_MODEL_CASE_H

#include "engine/engine.h"

/* Folders under tests/data, F32 and BF16, and how many. */
extern const char *const model_dirs[];
extern const size_t n_model_dirs;

/* Setups for cmocka: from here on models open in that precision. Without them: exact. */
int in_exact_precision(void **unused);
int in_fast_precision(void **unused);
fn_precision precision_of_case(void);
#define IN_EACH_PRECISION(test)                                                                    \
    cmocka_unit_test_setup(test, in_exact_precision),                                              \
        cmocka_unit_test_setup(test, in_fast_precision)

fn_engine *open_model(const char *dir, size_t threads, size_t chunk, size_t context);
fn_engine *open_model_as(const char *dir, size_t threads, size_t chunk, size_t context,
                         int expert_bits, int dense_bits);

/* The same models and kinds of weights beside theirs: INT4, INT8, FP8, NVFP4. */
typedef struct weight_case {
    const char *dir;
    int expert_bits, dense_bits;
} weight_case;
extern const weight_case weight_cases[];
extern const size_t n_weight_cases;

/* ids [n] within the vocabulary from a seed; every 17th is the EOS that resets the n-gram history. */
void make_ids(const fn_engine *engine, uint64_t seed, int32_t *ids, size_t n);

/* Logits after each of ids [n], read one by one: [n, V]. The caller frees them. */
float *stepwise_logits(fn_engine *engine, const int32_t *ids, size_t n);

void assert_same_floats(const float *a, const float *b, size_t n, const char *what, size_t at);

#endif
