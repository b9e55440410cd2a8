/* Perplexity against the official logits of the test models, and against what two saved runs hold. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "flashnext_tools.h"
#include "support/check_error.h"
#include "support/model_case.h"

#define HEADER_BYTES 48

/* last: the tensor's last dimension. */
static double *read_golden(const char *dir, const char *name, size_t *last) {
    char path[300];
    fn_tensor_file *file = NULL;
    fn_tensor_view view;
    (void)snprintf(path, sizeof path, "%.*s/golden.safetensors", (int)(strrchr(dir, '/') - dir),
                   dir);
    assert_int_equal(fn_tensor_file_open(path, &file, NULL), FN_OK);
    assert_true(fn_tensor_file_find(file, name, &view));
    size_t n = 1;
    for (size_t d = 0; d < view.n_dims; d++) {
        n *= (size_t)view.dims[d];
    }
    *last = (size_t)view.dims[view.n_dims - 1];
    double *values = malloc(n * sizeof *values);
    assert_non_null(values);
    assert_int_equal(fn_tensor_file_read(file, name, values, NULL), FN_OK);
    fn_tensor_file_close(file);
    return values;
}

static double log_softmax_at(const double *x, size_t n, size_t at) {
    double top = x[0];
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        top = x[i] > top ? x[i] : top;
    }
    for (size_t i = 0; i < n; i++) {
        sum += exp(x[i] - top);
    }
    return x[at] - top - log(sum);
}

static void mean_loss_is_that_of_the_official_logits(void **unused) {
    (void)unused;
    for (size_t m = 0; m < n_model_dirs; m++) {
        fn_engine *engine = open_model(model_dirs[m], 2, 7, 300);
        size_t vocab = engine->shape.vocab;
        size_t length = 0;
        size_t width = 0;
        double *golden_ids = read_golden(model_dirs[m], "ids", &length);
        double *logits = read_golden(model_dirs[m], "logits", &width);
        assert_int_equal(width, vocab);
        /* Batch row 0: the first rows of the logits. */
        int32_t *ids = malloc(length * sizeof *ids);
        assert_non_null(ids);
        double want = 0.0;
        for (size_t t = 0; t < length; t++) {
            ids[t] = (int32_t)golden_ids[t];
        }
        for (size_t t = 0; t + 1 < length; t++) {
            want -= log_softmax_at(logits + t * vocab, vocab, (size_t)ids[t + 1]);
        }
        want /= (double)(length - 1);
        fn_perplexity out;
        fn_perplexity_options options = {.ids = ids, .n = length};
        assert_int_equal(fn_perplexity_run(engine, &options, &out, NULL), FN_OK);
        assert_int_equal(out.positions, length - 1);
        assert_true(fabs(out.nll - want) < 2e-5);
        free(ids);
        free(golden_ids);
        free(logits);
        fn_engine_close(engine);
    }
}

/* Positions and loss of a text with two end tokens are those of its three documents. */
static void documents_end_with_the_end_token(void **unused) {
    (void)unused;
    static const size_t ends[] = {0, 14, 15, 40};
    int32_t ids[40];
    fn_engine *engine = open_model(model_dirs[0], 2, 16, 64);
    make_ids(engine, 7, ids, 40);
    for (size_t i = 0; i < 40; i++) {
        ids[i] = ids[i] == engine->shape.eos_id ? ids[i] + 1 : ids[i];
    }
    ids[13] = ids[14] = engine->shape.eos_id;
    fn_perplexity whole;
    fn_perplexity_options options = {.ids = ids, .n = 40, .window = 16, .by_document = true};
    assert_int_equal(fn_perplexity_run(engine, &options, &whole, NULL), FN_OK);
    assert_int_equal(whole.positions, 13 + 0 + 15 + 8);
    double sum = 0.0;
    for (size_t d = 0; d < 3; d += 2) {
        fn_perplexity part;
        options.ids = ids + ends[d];
        options.n = ends[d + 1] - ends[d];
        assert_int_equal(fn_perplexity_run(engine, &options, &part, NULL), FN_OK);
        sum += part.nll * (double)part.positions;
    }
    assert_true(fabs(sum / 36.0 - whole.nll) < 1e-12);
    fn_error err = {0};
    ids[12] = engine->shape.eos_id;
    options = (fn_perplexity_options){.ids = ids + 12, .n = 3, .by_document = true};
    check_error(fn_perplexity_run(engine, &options, &whole, &err), &err, FN_E_USAGE, "3 tokens",
                "nothing to predict");
    fn_engine_close(engine);
}

static float *read_saved(const char *path, size_t n) {
    FILE *f = fopen(path, "rb");
    float *values = malloc(n * sizeof *values);
    assert_true(f != NULL && values != NULL);
    assert_int_equal(fseek(f, HEADER_BYTES, SEEK_SET), 0);
    assert_int_equal(fread(values, sizeof *values, n, f), n);
    assert_int_equal(fgetc(f), EOF);
    fclose(f);
    return values;
}

/* KL divergence from the two runs' logits, the plain way. */
static double divergence(const float *p, const float *q, size_t rows, size_t vocab) {
    double sum = 0.0;
    double *a = malloc(vocab * sizeof *a);
    double *b = malloc(vocab * sizeof *b);
    assert_true(a != NULL && b != NULL);
    for (size_t r = 0; r < rows; r++) {
        for (size_t i = 0; i < vocab; i++) {
            a[i] = (double)p[r * vocab + i];
            b[i] = (double)q[r * vocab + i];
        }
        for (size_t i = 0; i < vocab; i++) {
            double ln_p = log_softmax_at(a, vocab, i);
            sum += exp(ln_p) * (ln_p - log_softmax_at(b, vocab, i));
        }
    }
    free(a);
    free(b);
    return sum / (double)rows;
}

static void divergence_is_that_of_the_two_saved_runs(void **unused) {
    (void)unused;
    char first[] = "/tmp/fn-run-XXXXXX";
    char second[] = "/tmp/fn-run-XXXXXX";
    close(mkstemp(first));
    close(mkstemp(second));
    int32_t ids[50];
    fn_perplexity out;
    fn_engine *engine = open_model(model_dirs[0], 2, 16, 64);
    size_t vocab = engine->shape.vocab;
    make_ids(engine, 200, ids, 50);
    fn_perplexity_options options = {.ids = ids, .n = 50, .window = 20, .save_path = first};
    assert_int_equal(fn_perplexity_run(engine, &options, &out, NULL), FN_OK);
    assert_int_equal(out.positions, 47); /* 19 + 19 + 9 */

    options = (fn_perplexity_options){.ids = ids, .n = 50, .window = 20, .reference_path = first};
    assert_int_equal(fn_perplexity_run(engine, &options, &out, NULL), FN_OK);
    assert_true(out.kl == 0.0 && out.same_top == 1.0 && out.logit_error_max == 0.0);
    assert_true(out.reference_nll == out.nll);

    float *norm = (float *)(uintptr_t)engine->weights->mixer.norm; /* another model */
    norm[3] += 0.5f;
    options.save_path = second;
    assert_int_equal(fn_perplexity_run(engine, &options, &out, NULL), FN_OK);
    float *p = read_saved(first, 47 * vocab);
    float *q = read_saved(second, 47 * vocab);
    double want = divergence(p, q, 47, vocab);
    assert_true(want > 1e-6);
    assert_true(fabs(out.kl - want) < 1e-9);
    assert_true(out.kl_max >= out.kl);

    fn_error err = {0};
    options.window = 25;
    options.save_path = NULL;
    check_error(fn_perplexity_run(engine, &options, &out, &err), &err, FN_E_MODEL, "20", "25");
    options.window = 20;
    ids[7] = (ids[7] + 1) % (int32_t)vocab;
    err = (fn_error){0};
    check_error(fn_perplexity_run(engine, &options, &out, &err), &err, FN_E_MODEL, "another text");
    ids[7] = (ids[7] + (int32_t)vocab - 1) % (int32_t)vocab;
    assert_int_equal(truncate(first, HEADER_BYTES + 1000), 0);
    err = (fn_error){0};
    check_error(fn_perplexity_run(engine, &options, &out, &err), &err, FN_E_MODEL, "ends early");
    options.n = 1;
    err = (fn_error){0};
    check_error(fn_perplexity_run(engine, &options, &out, &err), &err, FN_E_USAGE, "at least 2");
    free(p);
    free(q);
    unlink(first);
    unlink(second);
    fn_engine_close(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mean_loss_is_that_of_the_official_logits),
        cmocka_unit_test(documents_end_with_the_end_token),
        cmocka_unit_test(divergence_is_that_of_the_two_saved_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
