/* Encoding: the ids of the reference tokenizer, and the edges others fell over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/mem.h"
#include "support/alloc_fail.h"
#include "support/check_error.h"
#include "support/sanitized.h"
#include "support/token_data.h"
#include "tokens/nfc.h"
#include "tokens/tokenizer.h"

static void check_texts(const char *name) {
    json_t *cases = token_json("cases.json");
    fn_tokenizer *t = token_load(name);
    const json_t *texts = json_object_get(cases, "texts");
    const json_t *ids = json_object_get(json_object_get(cases, name), "ids");
    size_t failures = 0;
    assert_true(json_array_size(texts) > 200 && json_array_size(ids) == json_array_size(texts));
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *text = json_array_get(texts, i);
        fn_ids got = encode(t, json_string_value(text), json_string_length(text), true);
        failures += !same_ids(&got, json_array_get(ids, i), name, i);
        fn_ids_free(&got);
    }
    assert_int_equal(failures, 0);
    fn_tokenizer_free(t);
    json_decref(cases);
}

static void nfc_tokenizer_gives_the_reference_ids(void **state) {
    (void)state;
    check_texts("tokenizer.json");
}

static void plain_tokenizer_with_all_flags_gives_the_reference_ids(void **state) {
    (void)state;
    check_texts("plain.json");
}

static size_t from_hex(const char *hex, char *out) {
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        char two[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        out[i] = (char)(unsigned char)strtoul(two, NULL, 16);
    }
    return n;
}

static void invalid_bytes_are_replacement_characters_as_in_python(void **state) {
    (void)state;
    json_t *cases = token_json("cases.json");
    const json_t *broken = json_object_get(cases, "broken");
    static const char *const names[] = {"tokenizer.json", "plain.json"};
    assert_true(json_array_size(broken) > 10);
    for (size_t k = 0; k < 2; k++) {
        fn_tokenizer *t = token_load(names[k]);
        const json_t *want = json_object_get(json_object_get(cases, names[k]), "broken_ids");
        for (size_t i = 0; i < json_array_size(broken); i++) {
            char bytes[256];
            size_t n = from_hex(json_string_value(json_array_get(broken, i)), bytes);
            char *exact = fn_alloc(n, 1); /* its own block, so that reading on is seen */
            assert_non_null(exact);
            memcpy(exact, bytes, n);
            fn_ids got = encode(t, exact, n, true);
            assert_true(same_ids(&got, json_array_get(want, i), "broken", i));
            fn_ids_free(&got);
            fn_free(exact);
        }
        fn_tokenizer_free(t);
    }
    json_decref(cases);
}

static void published_vocabulary_gives_the_published_ids(void **state) {
    (void)state;
    const char *folder = "../shared/tokenizers/qwen-151k/";
    char path[128];
    fn_error err = {0};
    fn_tokenizer *t = NULL;
    json_t *cases = NULL;
    (void)snprintf(path, sizeof path, "%scases.json", folder);
    if (!fn_file_exists(path)) {
        print_message("skipped: no %s\n", path);
        skip();
    }
    assert_int_equal(fn_json_read_file(path, (size_t)1 << 24, &cases, &err), FN_OK);
    (void)snprintf(path, sizeof path, "%stokenizer.json", folder);
    assert_int_equal(fn_tokenizer_load(path, &t, &err), FN_OK);
    size_t failures = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *item = json_array_get(cases, i);
        const json_t *text = json_object_get(item, "text");
        const json_t *decoded = json_object_get(item, "decoded");
        fn_text_buffer back = {0};
        fn_ids ids = encode(t, json_string_value(text), json_string_length(text), true);
        failures += !same_ids(&ids, json_object_get(item, "ids"), "published", i);
        assert_int_equal(fn_tokenizer_decode(t, ids.items, ids.count, false, &back, &err), FN_OK);
        failures +=
            back.count != json_string_length(decoded) ||
            (back.count > 0 && memcmp(back.bytes, json_string_value(decoded), back.count) != 0);
        fn_text_buffer_free(&back);
        fn_ids_free(&ids);
    }
    assert_true(json_array_size(cases) > 100);
    assert_int_equal(failures, 0);
    fn_tokenizer_free(t);
    json_decref(cases);
}

/* Digits stand alone and Han characters do not: the same ids under both vocabularies' rule, and the
 * published ones where the vocabulary is at hand (2026 -> 17 15 17 21). */
static void digits_are_single_pieces(void **state) {
    (void)state;
    fn_tokenizer *t = token_load("tokenizer.json");
    fn_ids ids = encode(t, "3.14159", 7, true);
    assert_int_equal(ids.count, 7);
    fn_ids_free(&ids);
    ids = encode(t, "2026", 4, true);
    assert_int_equal(ids.count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(ids.items[i], fn_tokenizer_id(t, &"2026"[i], 1));
    }
    fn_ids_free(&ids);
    fn_tokenizer_free(t);
}

static void check_equal(const fn_tokenizer *t, const char *a, const char *b) {
    fn_ids x = encode(t, a, strlen(a), true);
    fn_ids y = encode(t, b, strlen(b), true);
    assert_int_equal(x.count, y.count);
    assert_memory_equal(x.items, y.items, x.count * sizeof *x.items);
    fn_ids_free(&x);
    fn_ids_free(&y);
}

static void composed_and_decomposed_text_is_the_same_prompt(void **state) {
    (void)state;
    fn_tokenizer *t = token_load("tokenizer.json");
    check_equal(t, "\xC3\x85 \xC3\xA9 \xC3\xB4", "A\xCC\x8A e\xCC\x81 o\xCC\x82");
    check_equal(t, "\xED\x95\x9C\xEA\xB8\x80",
                "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB\xE1\x84\x80\xE1\x85\xB3\xE1\x86\xAF");
    check_equal(t, "q\xCC\x87\xCC\xA3", "q\xCC\xA3\xCC\x87");
    fn_tokenizer_free(t);
}

static void nul_bytes_do_not_end_a_text(void **state) {
    (void)state;
    fn_tokenizer *t = token_load("tokenizer.json");
    fn_error err = {0};
    fn_text_buffer back = {0};
    fn_ids ids = encode(t, "a\0b\0\0c", 6, true);
    assert_int_equal(fn_tokenizer_decode(t, ids.items, ids.count, false, &back, &err), FN_OK);
    assert_int_equal(back.count, 6);
    assert_memory_equal(back.bytes, "a\0b\0\0c", 6);
    fn_text_buffer_free(&back);
    fn_ids_free(&ids);
    fn_tokenizer_free(t);
}

typedef struct long_job {
    const fn_tokenizer *t;
    const char *text;
    size_t n;
    fn_ids ids;
    fn_status status;
    double seconds; /* of CPU */
} long_job;

static void *encode_long(void *arg) {
    long_job *job = arg;
    struct timespec used;
    job->status = fn_tokenizer_encode(job->t, job->text, job->n, true, &job->ids, NULL);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    job->seconds = (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
    return NULL;
}

static double seconds_for(const fn_tokenizer *t, const char *unit, size_t n, size_t stack) {
    size_t unit_bytes = strlen(unit);
    char *text = fn_alloc(n, 1);
    assert_non_null(text);
    for (size_t i = 0; i < n; i++) {
        text[i] = unit[i % unit_bytes];
    }
    long_job job = {.t = t, .text = text, .n = n / unit_bytes * unit_bytes};
    pthread_attr_t attr;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, stack), 0);
    assert_int_equal(pthread_create(&thread, &attr, encode_long, &job), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)pthread_attr_destroy(&attr);
    assert_int_equal(job.status, FN_OK);
    fn_text_buffer back = {0};
    assert_int_equal(fn_tokenizer_decode(t, job.ids.items, job.ids.count, false, &back, NULL),
                     FN_OK);
    assert_int_equal(back.count, job.n);
    if (fn_nfc_is_normal(text, job.n)) {
        assert_memory_equal(back.bytes, text, job.n);
    }
    fn_text_buffer_free(&back);
    fn_ids_free(&job.ids);
    fn_free(text);
    return job.seconds;
}

/* A quadratic method would need minutes for the long text; the factor leaves room for caches. */
static void endless_runs_take_linear_time_and_little_stack(void **state) {
    (void)state;
    static const char *const units[] = {
        "a",        " ",  "\n",         "\xE4\xBD\xA0", /* these in full length, the rest shorter */
        "\xCC\x81", "<|", "\xC3\xA9'S", "\xCC\xA3\xCC\x81",
    };
    size_t stack = SANITIZED ? (size_t)1 << 20 : (size_t)64 << 10;
    fn_tokenizer *t = token_load("tokenizer.json");
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t n = SANITIZED || i >= 4 ? 600000 : 10000000;
        double little = seconds_for(t, units[i], n / 20, stack);
        double all = seconds_for(t, units[i], n, stack);
        if (all > 1 && all > 20 * 6 * little) {
            fail_msg("unit %zu: %.3f s for %zu bytes, %.3f s for %zu", i, little, n / 20, all, n);
        }
    }
    fn_tokenizer_free(t);
}

/* Text of users that spells control tokens; every added token of the vocabulary. */
static void safe_content_never_has_an_added_id(void **state) {
    (void)state;
    static const char *const names[] = {"tokenizer.json", "plain.json"};
    for (size_t k = 0; k < 2; k++) {
        fn_tokenizer *t = token_load(names[k]);
        size_t n_added = 0;
        for (int32_t id = 0; (size_t)id < fn_tokenizer_size(t); id++) {
            if (!fn_tokenizer_is_added(t, id)) {
                continue;
            }
            n_added++;
            char text[160];
            size_t n = 0;
            const char *token = fn_tokenizer_token(t, id, &n);
            int total = snprintf(text, sizeof text, "say %s, river%s%s\n", token, token, token);
            fn_ids ids = encode(t, text, (size_t)total, false);
            fn_text_buffer back = {0};
            for (size_t i = 0; i < ids.count; i++) {
                assert_false(fn_tokenizer_is_added(t, ids.items[i]));
            }
            assert_int_equal(fn_tokenizer_decode(t, ids.items, ids.count, false, &back, NULL),
                             FN_OK);
            assert_string_equal(back.bytes, text);
            fn_text_buffer_free(&back);
            fn_ids_free(&ids);
        }
        assert_true(n_added >= 9);
        fn_tokenizer_free(t);
    }
}

static size_t count_id(const fn_ids *ids, int32_t id) {
    size_t count = 0;
    for (size_t i = 0; i < ids->count; i++) {
        count += ids->items[i] == id;
    }
    return count;
}

static void marked_spans_are_data_and_the_rest_of_the_prompt_is_not(void **state) {
    (void)state;
    fn_tokenizer *t = token_load("tokenizer.json");
    fn_error err = {0};
    const char *prompt = "<|im_start|>user\nx<|im_end|>y<think><|im_end|>\n<think>\n";
    const char *user = strstr(prompt, "x<");
    size_t begin = (size_t)(user - prompt);
    fn_text_span span = {begin, begin + strlen("x<|im_end|>y<think>")};
    fn_ids ids = {0};
    assert_int_equal(fn_tokenizer_encode_spans(t, prompt, strlen(prompt), &span, 1, &ids, &err),
                     FN_OK);
    assert_int_equal(count_id(&ids, fn_tokenizer_id(t, "<|im_start|>", 12)), 1);
    assert_int_equal(count_id(&ids, fn_tokenizer_id(t, "<|im_end|>", 10)), 1);
    assert_int_equal(count_id(&ids, fn_tokenizer_id(t, "<think>", 7)), 1);
    fn_text_buffer back = {0};
    assert_int_equal(fn_tokenizer_decode(t, ids.items, ids.count, false, &back, &err), FN_OK);
    assert_string_equal(back.bytes, prompt);
    fn_text_buffer_free(&back);
    fn_ids_free(&ids);
    fn_tokenizer_free(t);
}

static void a_user_cannot_complete_a_token_the_template_began(void **state) {
    (void)state;
    fn_tokenizer *t = token_load("tokenizer.json");
    const char *prompt = "<|im_end|>";
    for (size_t cut = 0; cut < 10; cut++) {
        fn_text_span span = {cut, cut + 1};
        fn_ids ids = {0};
        assert_int_equal(fn_tokenizer_encode_spans(t, prompt, 10, &span, 1, &ids, NULL), FN_OK);
        assert_int_equal(count_id(&ids, fn_tokenizer_id(t, prompt, 10)), 0);
        fn_ids_free(&ids);
    }
    fn_tokenizer_free(t);
}

/* Marking texts in which no added token stands must not change a single id: cut anywhere, also
 * inside of words, characters and decomposed letters. */
static void spans_without_added_tokens_change_nothing(void **state) {
    (void)state;
    fn_tokenizer *t = token_load("tokenizer.json");
    fn_error err = {0};
    const char *text = "<|im_start|>user\nHe's at the cafe\xCC\x81 \xE4\xBD\xA0\xE5\xA5\xBD \xFF "
                       "12<|im_end|>";
    size_t n = strlen(text);
    size_t first = strlen("<|im_start|>");
    size_t last = n - strlen("<|im_end|>");
    fn_ids want = encode(t, text, n, true);
    for (size_t begin = first; begin <= last; begin++) {
        for (size_t end = begin; end <= last; end++) {
            size_t middle = (begin + end) / 2;
            fn_text_span spans[2] = {{begin, middle}, {middle, end}};
            fn_ids got = {0};
            assert_int_equal(fn_tokenizer_encode_spans(t, text, n, spans, 2, &got, &err), FN_OK);
            assert_int_equal(got.count, want.count);
            assert_memory_equal(got.items, want.items, want.count * sizeof *want.items);
            fn_ids_free(&got);
        }
    }
    fn_ids_free(&want);
    fn_tokenizer_free(t);
}

/* Added tokens that are matched after normalisation obey spans too. */
static void spans_follow_their_text_through_repair_and_normalisation(void **state) {
    (void)state;
    fn_tokenizer *t = token_load("plain.json");
    const char *one = "\xC3\x85ngstr\xC3\xB6m";
    char text[64];
    int n = snprintf(text, sizeof text, "\xFF %s %s.", one, one);
    int32_t id = fn_tokenizer_id(t, one, strlen(one));
    fn_ids ids = encode(t, text, (size_t)n, true);
    assert_true(id >= 0);
    assert_int_equal(count_id(&ids, id), 2);
    fn_ids_free(&ids);
    for (size_t which = 0; which < 2; which++) {
        size_t begin = 2 + which * (strlen(one) + 1) + 3;
        fn_text_span span = {begin, begin + 2};
        assert_int_equal(fn_tokenizer_encode_spans(t, text, (size_t)n, &span, 1, &ids, NULL),
                         FN_OK);
        assert_int_equal(count_id(&ids, id), 1);
        fn_ids_free(&ids);
    }
    fn_tokenizer_free(t);
}

static void spans_out_of_order_or_range_are_refused(void **state) {
    (void)state;
    fn_tokenizer *t = token_load("tokenizer.json");
    const fn_text_span bad[][2] = {{{0, 2}, {1, 3}}, {{2, 1}, {3, 3}}, {{0, 1}, {2, 99}}};
    for (size_t i = 0; i < 3; i++) {
        fn_ids ids = {0};
        fn_error err = {0};
        fn_status status = fn_tokenizer_encode_spans(t, "abc", 3, bad[i], 2, &ids, &err);
        check_error(status, &err, FN_E_RANGE, "span");
        assert_int_equal(ids.count, 0);
        fn_ids_free(&ids);
    }
    fn_tokenizer_free(t);
}

static void look_ups_know_bytes_and_added_texts(void **state) {
    (void)state;
    fn_tokenizer *t = token_load("tokenizer.json");
    size_t n = 1;
    int32_t the = fn_tokenizer_id(t, " the", 4);
    int32_t end = fn_tokenizer_id(t, "<|im_end|>", 10);
    int32_t think = fn_tokenizer_id(t, "<think>", 7);
    assert_true(the >= 0 && end >= 0 && think >= 0);
    assert_string_equal(fn_tokenizer_token(t, the, &n), " the");
    assert_int_equal(n, 4);
    assert_string_equal(fn_tokenizer_token(t, end, &n), "<|im_end|>");
    assert_true(fn_tokenizer_is_special(t, end) && fn_tokenizer_is_added(t, end));
    assert_true(!fn_tokenizer_is_special(t, think) && fn_tokenizer_is_added(t, think));
    assert_true(!fn_tokenizer_is_special(t, the) && !fn_tokenizer_is_added(t, the));
    assert_int_equal(fn_tokenizer_id(t, "no such token", 13), -1);
    assert_null(fn_tokenizer_token(t, -1, &n));
    assert_null(fn_tokenizer_token(t, INT32_MAX, &n));
    assert_int_equal(n, 0);
    for (unsigned byte = 0; byte < 256; byte++) {
        char one = (char)(unsigned char)byte;
        int32_t id = fn_tokenizer_id(t, &one, 1);
        assert_true(id >= 0);
        assert_memory_equal(fn_tokenizer_token(t, id, &n), &one, 1);
    }
    fn_tokenizer_free(t);
}

static void ids_are_appended(void **state) {
    (void)state;
    fn_tokenizer *t = token_load("tokenizer.json");
    fn_ids ids = encode(t, "one", 3, true);
    size_t first = ids.count;
    assert_int_equal(fn_tokenizer_encode(t, " two", 4, true, &ids, NULL), FN_OK);
    fn_ids two = encode(t, " two", 4, true);
    assert_int_equal(ids.count, first + two.count);
    assert_memory_equal(ids.items + first, two.items, two.count * sizeof *two.items);
    fn_ids_free(&two);
    fn_ids_free(&ids);
    fn_tokenizer_free(t);
}

/* The piece cache of long texts must not show: the same words again and again, against the ids of
 * each line alone. */
static void long_texts_give_the_ids_of_their_lines(void **state) {
    (void)state;
    json_t *cases = token_json("cases.json");
    const json_t *texts = json_object_get(cases, "texts");
    fn_tokenizer *t = token_load("tokenizer.json");
    fn_text_buffer all = {0};
    fn_ids want = {0};
    for (size_t i = 0; i < 40 * json_array_size(texts); i++) {
        const json_t *text = json_array_get(texts, i * 7 % json_array_size(texts));
        size_t n = json_string_length(text);
        assert_int_equal(fn_text_buffer_append(&all, json_string_value(text), n, NULL), FN_OK);
        assert_int_equal(fn_text_buffer_append(&all, "<|im_end|>", 10, NULL), FN_OK);
        assert_int_equal(fn_tokenizer_encode(t, json_string_value(text), n, true, &want, NULL),
                         FN_OK);
        assert_int_equal(fn_tokenizer_encode(t, "<|im_end|>", 10, true, &want, NULL), FN_OK);
    }
    fn_ids got = encode(t, all.bytes, all.count, true);
    assert_int_equal(got.count, want.count);
    assert_memory_equal(got.items, want.items, want.count * sizeof *want.items);
    fn_ids_free(&got);
    fn_ids_free(&want);
    fn_text_buffer_free(&all);
    fn_tokenizer_free(t);
    json_decref(cases);
}

static void two_threads_share_one_tokenizer(void **state) {
    (void)state;
    fn_tokenizer *t = token_load("tokenizer.json");
    const char *text = "The river isn't wide<|im_end|> caf\xC3\xA9 2026 \xE4\xBD\xA0\xE5\xA5\xBD\n";
    fn_text_buffer all = {0};
    for (size_t i = 0; i < 200; i++) {
        assert_int_equal(fn_text_buffer_append(&all, text, strlen(text), NULL), FN_OK);
    }
    long_job jobs[2] = {{.t = t, .text = all.bytes, .n = all.count},
                        {.t = t, .text = all.bytes, .n = all.count}};
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, encode_long, &jobs[i]), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(jobs[i].status, FN_OK);
    }
    assert_int_equal(jobs[0].ids.count, jobs[1].ids.count);
    assert_memory_equal(jobs[0].ids.items, jobs[1].ids.items,
                        jobs[0].ids.count * sizeof *jobs[0].ids.items);
    fn_ids_free(&jobs[0].ids);
    fn_ids_free(&jobs[1].ids);
    fn_text_buffer_free(&all);
    fn_tokenizer_free(t);
}

static void failing_allocations_leave_the_output_as_it_was(void **state) {
    (void)state;
    fn_tokenizer *t = token_load("plain.json");
    char text[900];
    size_t n = 0;
    while (n + 60 < sizeof text) {
        n += (size_t)snprintf(text + n, 60, "e\xCC\x81\xFF \xC3\x85ngstr\xC3\xB6m<|l|> %zu", n);
    }
    memset(text + n, 'a', sizeof text - n); /* a piece long enough for the heap */
    fn_text_span span = {3, 400};
    fn_status status = FN_E_NOMEM;
    for (long fail = 0; status != FN_OK; fail++) {
        fn_ids ids = {0};
        fn_error err = {0};
        fn_alloc_fail_at(fail);
        status = fn_tokenizer_encode_spans(t, text, sizeof text, &span, 1, &ids, &err);
        fn_alloc_fail_at(-1);
        assert_true(status == FN_OK || (status == FN_E_NOMEM && ids.count == 0));
        assert_int_equal(err.code, status);
        fn_ids_free(&ids);
    }
    fn_tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nfc_tokenizer_gives_the_reference_ids),
        cmocka_unit_test(plain_tokenizer_with_all_flags_gives_the_reference_ids),
        cmocka_unit_test(invalid_bytes_are_replacement_characters_as_in_python),
        cmocka_unit_test(published_vocabulary_gives_the_published_ids),
        cmocka_unit_test(digits_are_single_pieces),
        cmocka_unit_test(composed_and_decomposed_text_is_the_same_prompt),
        cmocka_unit_test(nul_bytes_do_not_end_a_text),
        cmocka_unit_test(endless_runs_take_linear_time_and_little_stack),
        cmocka_unit_test(safe_content_never_has_an_added_id),
        cmocka_unit_test(marked_spans_are_data_and_the_rest_of_the_prompt_is_not),
        cmocka_unit_test(a_user_cannot_complete_a_token_the_template_began),
        cmocka_unit_test(spans_without_added_tokens_change_nothing),
        cmocka_unit_test(spans_follow_their_text_through_repair_and_normalisation),
        cmocka_unit_test(spans_out_of_order_or_range_are_refused),
        cmocka_unit_test(look_ups_know_bytes_and_added_texts),
        cmocka_unit_test(ids_are_appended),
        cmocka_unit_test(long_texts_give_the_ids_of_their_lines),
        cmocka_unit_test(two_threads_share_one_tokenizer),
        cmocka_unit_test(failing_allocations_leave_the_output_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
