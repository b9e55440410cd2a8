/* The n-gram constants of the published checkpoint, which its I64 tensors hold, and the formula's
 * corners. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shape/ngram_constants.h"
#include "support/make_checkpoint.h"

static void published_constants_follow_from_the_formula(void **state) {
    (void)state;
    static const int64_t multipliers[] = {23703573157769, 20109073645365, 8052911324071};
    static const int64_t primes[] = {20000003, 20000023, 20000033, 20000047, 20000059, 20000063,
                                     20000069, 20000077, 20000081, 20000093, 20000107, 20000147,
                                     20000153, 20000159, 20000161, 20000171};
    static const int64_t offsets[] = {
        0,         20000003,  40000026,  60000059,  80000106,  100000165, 120000228, 140000297,
        160000374, 180000455, 200000548, 220000655, 240000802, 260000955, 280001114, 300001275};
    fn_shape s = made_real_shape();
    fn_ngram_constants hash;
    fn_ngram_constants_init(&s, 0, &hash);
    assert_int_equal(hash.heads, 16);
    assert_int_equal(hash.eos_id, 248044);
    assert_memory_equal(hash.multipliers, multipliers, sizeof multipliers);
    assert_memory_equal(hash.primes, primes, sizeof primes);
    assert_memory_equal(hash.offsets, offsets, sizeof offsets);
    assert_int_equal(hash.rows, 320001446);
    assert_int_equal(hash.padded_rows, 320001536);
    assert_int_equal(hash.padded_rows, 128 * 2500012);
}

/* A port that took 0 for an absent seed rebuilt these. */
static void seed_0_gives_other_multipliers(void **state) {
    (void)state;
    static const int64_t multipliers[] = {4788054244585, 5075510189727, 24189832309785};
    fn_shape s = made_real_shape();
    fn_ngram_constants hash;
    s.ngram_seed = 0;
    fn_ngram_constants_init(&s, 0, &hash);
    assert_memory_equal(hash.multipliers, multipliers, sizeof multipliers);
}

static int slow_is_prime(int64_t value) {
    for (int64_t d = 2; d * d <= value; d++) {
        if (value % d == 0) {
            return 0;
        }
    }
    return value > 1;
}

/* Layer p's heads go on where those of layer p - 1 stopped; none is left out. */
static void heads_take_consecutive_primes_across_layers(void **state) {
    (void)state;
    static const size_t bases[] = {2, 3, 4, 5, 24, 97, 100, 1009, 65521, 2147483629, 2147483647};
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        fn_shape s = made_tiny_shape();
        s.ngram_base = bases[i];
        int64_t at = (int64_t)bases[i];
        for (size_t p = 0; p < 3; p++) {
            fn_ngram_constants hash;
            int64_t rows = 0;
            fn_ngram_constants_init(&s, p, &hash);
            for (size_t h = 0; h < hash.heads; h++) {
                while (!slow_is_prime(at)) {
                    at++;
                }
                assert_int_equal(hash.primes[h], at);
                assert_int_equal(hash.offsets[h], rows);
                rows += at;
                at++;
            }
            assert_int_equal(hash.rows, rows);
            assert_true(hash.padded_rows >= rows && hash.padded_rows < rows + 16);
            assert_int_equal(hash.padded_rows % 16, 0);
        }
    }
}

/* The primes from 0 to 100,000 are 9,592: a base walks over all of them. */
static void no_composite_passes_for_a_prime(void **state) {
    (void)state;
    fn_shape s = made_tiny_shape();
    fn_ngram_constants hash;
    size_t n = 0;
    s.ngram_size = 2;
    s.heads_per_ngram = 256;
    s.ngram_base = 2;
    for (size_t p = 0; n < 9592; p++) {
        fn_ngram_constants_init(&s, p, &hash);
        for (size_t h = 0; h < hash.heads && hash.primes[h] < 100000; h++) {
            assert_true(slow_is_prime(hash.primes[h]));
            n++;
        }
    }
    assert_int_equal(n, 9592);
}

static void products_of_ids_stay_below_2_to_63(void **state) {
    (void)state;
    static const size_t vocabs[] = {1, 2, 40, 248320, (size_t)1 << 26};
    for (size_t i = 0; i < sizeof vocabs / sizeof vocabs[0]; i++) {
        for (size_t p = 0; p < 4; p++) {
            fn_shape s = made_real_shape();
            fn_ngram_constants hash;
            s.vocab = vocabs[i];
            s.ngram_seed = UINT64_MAX - i; /* wraps */
            fn_ngram_constants_init(&s, p, &hash);
            for (size_t k = 0; k < 3; k++) {
                int64_t product;
                assert_int_equal(hash.multipliers[k] & 1, 1);
                assert_true(hash.multipliers[k] > 0);
                assert_false(
                    __builtin_mul_overflow(hash.multipliers[k], (int64_t)s.vocab - 1, &product));
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_constants_follow_from_the_formula),
        cmocka_unit_test(seed_0_gives_other_multipliers),
        cmocka_unit_test(heads_take_consecutive_primes_across_layers),
        cmocka_unit_test(no_composite_passes_for_a_prime),
        cmocka_unit_test(products_of_ids_stay_below_2_to_63),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
