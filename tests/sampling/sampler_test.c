/* The choice of the next id: filters, penalties, ties, draws. The filtered distributions come from
 * tools/make_sampling_cases.py, which runs transformers' logits processors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "sampling/logprobs.h"
#include "sampling/sampler.h"
#include "support/alloc_fail.h"

#define MAX_VOCAB 64

static fn_sampling settings_off(void) {
    return (fn_sampling){
        .temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = 1, .bias = NULL};
}

static fn_sampler *sampler_of(const fn_sampling *settings, size_t vocab) {
    fn_error err = {0};
    fn_sampler *s = NULL;
    if (fn_sampler_create(settings, vocab, &s, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    return s;
}

static int32_t choose(fn_sampler *s, const float *logits, size_t position) {
    fn_error err = {0};
    int32_t id = -1;
    if (fn_sampler_choose(s, logits, position, NULL, 0, &id, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    return id;
}

/* ---- against transformers ---- */

static float setting(const json_t *settings, const char *name, double none) {
    const json_t *value = json_object_get(settings, name);
    return (float)(value != NULL ? json_number_value(value) : none);
}

static size_t read_bias(const json_t *settings, fn_logit_bias *bias) {
    const json_t *list = json_object_get(settings, "bias");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        bias[i].id = (int32_t)json_integer_value(json_array_get(entry, 0));
        bias[i].bias = (float)json_number_value(json_array_get(entry, 1));
    }
    return json_array_size(list);
}

static fn_sampler *sampler_of_case(const json_t *test) {
    const json_t *set = json_object_get(test, "settings");
    fn_logit_bias bias[8];
    fn_sampling s = settings_off();
    s.temperature = setting(set, "temperature", 1);
    s.top_k = (int32_t)setting(set, "top_k", 0);
    s.top_p = setting(set, "top_p", 1);
    s.min_p = setting(set, "min_p", 0);
    s.repetition_penalty = setting(set, "repetition", 1);
    s.presence_penalty = setting(set, "presence", 0);
    s.frequency_penalty = setting(set, "frequency", 0);
    s.n_bias = read_bias(set, bias);
    s.bias = bias;
    fn_sampler *sampler = sampler_of(&s, json_array_size(json_object_get(test, "logits")));
    const json_t *ids = json_object_get(test, "prompt");
    for (size_t i = 0; i < json_array_size(ids); i++) {
        int32_t id = (int32_t)json_integer_value(json_array_get(ids, i));
        fn_sampler_see_prompt(sampler, &id, 1);
    }
    ids = json_object_get(test, "answer");
    for (size_t i = 0; i < json_array_size(ids); i++) {
        fn_sampler_accept(sampler, (int32_t)json_integer_value(json_array_get(ids, i)));
    }
    return sampler;
}

static void check_case(const json_t *test, size_t number) {
    float logits[MAX_VOCAB];
    fn_token_logprob out[MAX_VOCAB];
    fn_error err = {0};
    size_t n = 0;
    const json_t *values = json_object_get(test, "logits");
    for (size_t i = 0; i < json_array_size(values); i++) {
        logits[i] = (float)json_number_value(json_array_get(values, i));
    }
    fn_sampler *s = sampler_of_case(test);
    assert_int_equal(fn_sampler_distribution(s, logits, NULL, 0, out, &n, &err), FN_OK);
    const json_t *kept = json_object_get(test, "kept");
    if (n != json_array_size(kept)) {
        fail_msg("case %zu: %zu ids kept, expected %zu", number, n, json_array_size(kept));
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *entry = json_array_get(kept, i);
        double expected = json_number_value(json_array_get(entry, 1));
        assert_int_equal(out[i].id, json_integer_value(json_array_get(entry, 0)));
        if (fabs((double)out[i].logprob - expected) > 3e-6) {
            fail_msg("case %zu, id %d: %.9f, expected %.9f", number, out[i].id,
                     (double)out[i].logprob, expected);
        }
    }
    fn_sampler_destroy(s);
}

static void filters_and_penalties_equal_transformers(void **state) {
    (void)state;
    fn_error err = {0};
    json_t *cases = NULL;
    if (fn_json_read_file("tests/data/sampling/filters.json", 1 << 20, &cases, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    assert_true(json_array_size(cases) >= 50);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        check_case(json_array_get(cases, i), i);
    }
    json_decref(cases);
}

/* ---- draws ---- */

/* 50,000 draws against the exact probabilities: chi-square with 19 degrees of freedom is above
 * 43.82 once in 1,000. */
static void draws_follow_the_distribution(void **state) {
    (void)state;
    enum { VOCAB = 60, K = 20, DRAWS = 50000 };
    float logits[VOCAB];
    fn_token_logprob out[VOCAB];
    size_t seen[VOCAB] = {0};
    size_t n = 0;
    fn_error err = {0};
    for (size_t i = 0; i < VOCAB; i++) {
        logits[i] = 1.5F * sinf((float)i * 1.7F) + 0.3F * cosf((float)i * 0.31F);
    }
    fn_sampling set = settings_off();
    set.top_k = K;
    fn_sampler *s = sampler_of(&set, VOCAB);
    for (size_t t = 0; t < DRAWS; t++) {
        seen[choose(s, logits, t)] += 1;
    }
    assert_int_equal(fn_sampler_distribution(s, logits, NULL, 0, out, &n, &err), FN_OK);
    assert_int_equal(n, K);
    double chi = 0;
    size_t total = 0;
    for (size_t i = 0; i < n; i++) {
        double expected = DRAWS * exp((double)out[i].logprob);
        double difference = (double)seen[out[i].id] - expected;
        chi += difference * difference / expected;
        total += seen[out[i].id];
    }
    assert_int_equal(total, DRAWS);
    if (chi > 43.82) {
        fail_msg("chi-square %.2f, expected at most 43.82", chi);
    }
    fn_sampler_destroy(s);
}

static void write_text(uint64_t seed, int32_t *ids, size_t n) {
    enum { VOCAB = 500 };
    static float logits[VOCAB];
    fn_sampling set = settings_off();
    set.seed = seed;
    set.top_p = 0.95F;
    fn_sampler *s = sampler_of(&set, VOCAB);
    for (size_t t = 0; t < n; t++) {
        for (size_t i = 0; i < VOCAB; i++) {
            logits[i] = 2 * sinf((float)(i * 7 + t * 13));
        }
        ids[t] = choose(s, logits, t);
        fn_sampler_accept(s, ids[t]);
    }
    fn_sampler_destroy(s);
}

static void one_seed_gives_one_text_and_the_next_seed_another(void **state) {
    (void)state;
    int32_t a[100];
    int32_t b[100];
    int32_t c[100];
    write_text(42, a, 100);
    write_text(42, b, 100);
    write_text(43, c, 100);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
}

/* The choice at a position does not depend on what was asked before. */
static void a_position_can_be_drawn_again(void **state) {
    (void)state;
    float logits[60];
    fn_sampling set = settings_off();
    for (size_t i = 0; i < 60; i++) {
        logits[i] = sinf((float)i);
    }
    fn_sampler *s = sampler_of(&set, 60);
    int32_t at_7 = choose(s, logits, 7);
    for (size_t t = 0; t < 50; t++) {
        (void)choose(s, logits, t);
    }
    assert_int_equal(choose(s, logits, 7), at_7);
    fn_sampler_destroy(s);
}

/* ---- counting ---- */

static void eighty_repeats_are_penalised_once(void **state) {
    (void)state;
    enum { VOCAB = 3 };
    const float logits[VOCAB] = {3.0F, 2.0F, -1.0F};
    fn_token_logprob out[VOCAB];
    size_t n = 0;
    fn_error err = {0};
    const int32_t prompt = 0;
    fn_sampling set = settings_off();
    set.repetition_penalty = 1.2F;
    fn_sampler *s = sampler_of(&set, VOCAB);
    for (size_t i = 0; i < 40; i++) {
        fn_sampler_see_prompt(s, &prompt, 1);
        fn_sampler_accept(s, 0);
    }
    assert_int_equal(fn_sampler_distribution(s, logits, NULL, 0, out, &n, &err), FN_OK);
    assert_int_equal(out[0].id, 0);
    assert_float_equal(out[0].logprob - out[1].logprob, 3.0F / 1.2F - 2.0F, 1e-6F);
    fn_sampler_destroy(s);
}

static void presence_and_frequency_count_the_answer_only(void **state) {
    (void)state;
    enum { VOCAB = 3 };
    const float logits[VOCAB] = {2.0F, 2.0F, 2.0F};
    fn_token_logprob out[VOCAB];
    size_t n = 0;
    fn_error err = {0};
    const int32_t prompt[] = {0, 0, 0};
    fn_sampling set = settings_off();
    set.presence_penalty = 0.5F;
    set.frequency_penalty = 0.25F;
    fn_sampler *s = sampler_of(&set, VOCAB);
    fn_sampler_see_prompt(s, prompt, 3);
    fn_sampler_accept(s, 1);
    fn_sampler_accept(s, 1);
    assert_true(fn_sampler_has_seen(s, 0));
    assert_int_equal(fn_sampler_count(s, 0), 0);
    assert_int_equal(fn_sampler_count(s, 1), 2);
    assert_int_equal(fn_sampler_distribution(s, logits, NULL, 0, out, &n, &err), FN_OK);
    assert_int_equal(out[0].id, 0);
    assert_int_equal(out[1].id, 2);
    assert_int_equal(out[2].id, 1);
    assert_float_equal(out[0].logprob - out[2].logprob, 0.5F + 2 * 0.25F, 1e-6F);
    fn_sampler_destroy(s);
}

/* A draft that was tried and dropped leaves no trace. */
static void choosing_alone_counts_nothing(void **state) {
    (void)state;
    const float logits[4] = {1, 2, 3, 4};
    fn_sampling set = settings_off();
    set.repetition_penalty = 2;
    set.presence_penalty = 1;
    fn_sampler *s = sampler_of(&set, 4);
    int32_t first = choose(s, logits, 0);
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(choose(s, logits, 0), first);
    }
    for (int32_t id = 0; id < 4; id++) {
        assert_false(fn_sampler_has_seen(s, id));
    }
    fn_sampler_destroy(s);
}

static void a_copy_goes_on_alone(void **state) {
    (void)state;
    const float logits[3] = {1, 1.4F, 1};
    fn_error err = {0};
    fn_sampler *copy = NULL;
    const fn_logit_bias bias[] = {{.id = 0, .bias = 0.5F}};
    fn_sampling set = settings_off();
    set.temperature = 0;
    set.presence_penalty = 1;
    set.bias = bias;
    set.n_bias = 1;
    fn_sampler *s = sampler_of(&set, 3);
    fn_sampler_accept(s, 0);
    assert_int_equal(fn_sampler_copy(s, &copy, &err), FN_OK);
    fn_sampler_accept(s, 1);
    fn_sampler_destroy(s);
    assert_int_equal(fn_sampler_count(copy, 0), 1);
    assert_int_equal(fn_sampler_count(copy, 1), 0);
    assert_int_equal(choose(copy, logits, 0), 1);
    fn_sampler_destroy(copy);
}

/* ---- ties, edges ---- */

static void ties_go_to_the_lowest_id(void **state) {
    (void)state;
    const float logits[6] = {1, 3, 2, 3, 3, 2};
    fn_token_logprob out[6];
    fn_error err = {0};
    size_t n = 0;
    fn_sampling set = settings_off();
    set.temperature = 0;
    fn_sampler *s = sampler_of(&set, 6);
    assert_int_equal(choose(s, logits, 0), 1);
    fn_sampler_destroy(s);
    set.temperature = 1;
    set.top_k = 1;
    s = sampler_of(&set, 6);
    for (size_t t = 0; t < 100; t++) {
        assert_int_equal(choose(s, logits, t), 1);
    }
    fn_sampler_destroy(s);
    set.top_k = 4;
    s = sampler_of(&set, 6);
    assert_int_equal(fn_sampler_distribution(s, logits, NULL, 0, out, &n, &err), FN_OK);
    assert_int_equal(n, 4);
    const int32_t expected[] = {1, 3, 4, 2};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(out[i].id, expected[i]);
    }
    fn_sampler_destroy(s);
}

/* Four equal ids at top-p 0.5: the first two, and exactly those. */
static void top_p_keeps_the_smallest_set(void **state) {
    (void)state;
    const float logits[5] = {1, 1, 1, 1, -INFINITY};
    fn_token_logprob out[5];
    fn_error err = {0};
    size_t n = 0;
    fn_sampling set = settings_off();
    set.top_p = 0.5F;
    for (int32_t k = 0; k < 5; k += 4) { /* with and without a list sorted by top-k */
        set.top_k = k;
        fn_sampler *s = sampler_of(&set, 5);
        assert_int_equal(fn_sampler_distribution(s, logits, NULL, 0, out, &n, &err), FN_OK);
        assert_int_equal(n, 2);
        assert_int_equal(out[0].id, 0);
        assert_int_equal(out[1].id, 1);
        fn_sampler_destroy(s);
    }
}

static void banned_ids_are_never_chosen(void **state) {
    (void)state;
    const float logits[4] = {9, 1, 8, 1};
    const int32_t banned[] = {0, 2, 77, -1};
    fn_error err = {0};
    int32_t id = 0;
    for (int greedy = 0; greedy < 2; greedy++) {
        fn_sampling set = settings_off();
        set.temperature = greedy ? 0.0F : 1.0F;
        fn_sampler *s = sampler_of(&set, 4);
        for (size_t t = 0; t < 100; t++) {
            assert_int_equal(fn_sampler_choose(s, logits, t, banned, 4, &id, &err), FN_OK);
            assert_true(id == 1 || id == 3);
        }
        fn_sampler_destroy(s);
    }
}

static void infinite_logits_share_all_probability(void **state) {
    (void)state;
    const float logits[5] = {1, INFINITY, 5, INFINITY, -INFINITY};
    size_t seen[5] = {0};
    fn_sampling set = settings_off();
    set.top_p = 0.95F;
    fn_sampler *s = sampler_of(&set, 5);
    for (size_t t = 0; t < 1000; t++) {
        seen[choose(s, logits, t)] += 1;
    }
    assert_int_equal(seen[1] + seen[3], 1000);
    assert_true(seen[1] > 400 && seen[3] > 400);
    fn_sampler_destroy(s);
    set.temperature = 0;
    s = sampler_of(&set, 5);
    assert_int_equal(choose(s, logits, 0), 1);
    fn_sampler_destroy(s);
}

static void expect_numeric(const float *logits, size_t n, const int32_t *banned, size_t n_banned) {
    for (int greedy = 0; greedy < 2; greedy++) {
        fn_error err = {0};
        int32_t id = 0;
        fn_sampling set = settings_off();
        set.temperature = greedy ? 0.0F : 1.0F;
        fn_sampler *s = sampler_of(&set, n);
        assert_int_equal(fn_sampler_choose(s, logits, 0, banned, n_banned, &id, &err),
                         FN_E_NUMERIC);
        assert_int_equal(id, -1);
        assert_true(err.text[0] != '\0');
        fn_sampler_destroy(s);
    }
}

static void nan_and_nothing_eligible_are_errors_not_id_0(void **state) {
    (void)state;
    const float all_nan[3] = {NAN, NAN, NAN};
    const float one_nan[3] = {9, 1, NAN};
    const float nothing[3] = {-INFINITY, -INFINITY, -INFINITY};
    const float usual[3] = {1, 2, 3};
    const int32_t all[] = {0, 1, 2};
    expect_numeric(all_nan, 3, NULL, 0);
    expect_numeric(one_nan, 3, NULL, 0);
    expect_numeric(nothing, 3, NULL, 0);
    expect_numeric(usual, 3, all, 3);
}

/* ---- settings ---- */

static void expect_refused(fn_sampling set, const char *name) {
    fn_error err = {0};
    fn_sampler *s = NULL;
    assert_int_equal(fn_sampler_create(&set, 10, &s, &err), FN_E_USAGE);
    assert_null(s);
    if (strstr(err.text, name) == NULL) {
        fail_msg("\"%s\" does not name %s", err.text, name);
    }
}

static void wrong_settings_are_refused_by_name(void **state) {
    (void)state;
    const fn_logit_bias beyond = {.id = 10, .bias = 1};
    const fn_logit_bias nan_bias = {.id = 1, .bias = NAN};
    const struct {
        const char *name;
        size_t offset;
        float values[5];
        size_t n;
    } wrong[] = {
        {"temperature", offsetof(fn_sampling, temperature), {-1, NAN, INFINITY}, 3},
        {"top_p", offsetof(fn_sampling, top_p), {0, -0.1F, 1.1F, NAN}, 4},
        {"min_p", offsetof(fn_sampling, min_p), {-0.1F, 1.1F, NAN}, 3},
        {"repetition_penalty",
         offsetof(fn_sampling, repetition_penalty),
         {0, -1, NAN, INFINITY},
         4},
        {"presence_penalty", offsetof(fn_sampling, presence_penalty), {NAN, INFINITY}, 2},
        {"frequency_penalty", offsetof(fn_sampling, frequency_penalty), {NAN, -INFINITY}, 2},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        for (size_t j = 0; j < wrong[i].n; j++) {
            fn_sampling set = settings_off();
            memcpy((char *)&set + wrong[i].offset, &wrong[i].values[j], sizeof(float));
            expect_refused(set, wrong[i].name);
        }
    }
    fn_sampling set = settings_off();
    set.top_k = -1;
    expect_refused(set, "top_k");
    set = settings_off();
    set.n_bias = 1;
    expect_refused(set, "logit_bias");
    set.bias = &beyond;
    expect_refused(set, "logit_bias");
    set.bias = &nan_bias;
    expect_refused(set, "logit_bias");
}

/* ---- memory ---- */

static void choosing_allocates_nothing(void **state) {
    (void)state;
    float logits[60];
    fn_sampling set = settings_off();
    set.top_k = 20;
    set.top_p = 0.9F;
    set.presence_penalty = 1;
    for (size_t i = 0; i < 60; i++) {
        logits[i] = sinf((float)i);
    }
    fn_sampler *s = sampler_of(&set, 60);
    fn_alloc_fail_at(-1);
    for (size_t t = 0; t < 20; t++) {
        fn_sampler_accept(s, choose(s, logits, t));
    }
    assert_int_equal(fn_alloc_calls(), 0);
    fn_sampler_destroy(s);
}

static void creation_survives_lost_memory(void **state) {
    (void)state;
    fn_sampling set = settings_off();
    for (long n = 0;; n++) {
        fn_error err = {0};
        fn_sampler *s = NULL;
        fn_alloc_fail_at(n);
        fn_status status = fn_sampler_create(&set, 100, &s, &err);
        fn_alloc_fail_at(-1);
        if (status == FN_OK) {
            assert_true(n >= 5);
            fn_sampler_destroy(s);
            break;
        }
        assert_int_equal(status, FN_E_NOMEM);
        assert_null(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_and_penalties_equal_transformers),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(one_seed_gives_one_text_and_the_next_seed_another),
        cmocka_unit_test(a_position_can_be_drawn_again),
        cmocka_unit_test(eighty_repeats_are_penalised_once),
        cmocka_unit_test(presence_and_frequency_count_the_answer_only),
        cmocka_unit_test(choosing_alone_counts_nothing),
        cmocka_unit_test(a_copy_goes_on_alone),
        cmocka_unit_test(ties_go_to_the_lowest_id),
        cmocka_unit_test(top_p_keeps_the_smallest_set),
        cmocka_unit_test(banned_ids_are_never_chosen),
        cmocka_unit_test(infinite_logits_share_all_probability),
        cmocka_unit_test(nan_and_nothing_eligible_are_errors_not_id_0),
        cmocka_unit_test(wrong_settings_are_refused_by_name),
        cmocka_unit_test(choosing_allocates_nothing),
        cmocka_unit_test(creation_survives_lost_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
