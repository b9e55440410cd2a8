/* Perplexity of a text, and how far a run strays from a saved one (KL divergence, same best id). */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/new_file.h"
#include "engine/engine.h"
#include "flashnext_tools.h"

#define MAX_LOGIT_BYTES ((size_t)64 << 20) /* of one forward; smaller pieces give the same bits */
#define MAGIC "FNLOGIT"
#define VERSION 1

typedef struct reference_header {
    char magic[8];
    uint32_t version, by_document;
    uint64_t vocab, window, n_ids, ids_digest;
} reference_header;

typedef struct scorer {
    fn_engine *engine;
    const fn_perplexity_options *options;
    size_t window;
    fn_new_file save;
    FILE *reference;
    float *logits;        /* [rows, V] of one forward */
    float *reference_row; /* [V] */
    uint8_t *wants;
    size_t max_rows;
    double nll, nll_squares, kl, kl_max, same, reference_nll, logit_error, logit_error_max;
    size_t positions;
} scorer;

/* ln of the sum of exponentials, in double, in ascending id. *best: the largest logit, lowest id first. */
static double log_sum(const float *x, size_t n, size_t *best) {
    size_t top = 0;
    double sum = 0.0;
    for (size_t i = 1; i < n; i++) {
        top = x[i] > x[top] ? i : top;
    }
    for (size_t i = 0; i < n; i++) {
        sum += exp((double)x[i] - (double)x[top]);
    }
    *best = top;
    return (double)x[top] + log(sum);
}

static fn_status compare(scorer *s, const float *logits, double sum, size_t best, size_t next,
                         fn_error *err) {
    const float *p = s->reference_row;
    size_t vocab = s->engine->shape.vocab;
    size_t p_best = 0;
    double p_sum = log_sum(p, vocab, &p_best);
    double kl = 0.0;
    double error = 0.0;
    for (size_t i = 0; i < vocab; i++) {
        if (!isfinite(p[i])) {
            return fn_fail(err, FN_E_MODEL,
                           "%s: prediction %zu, token %zu: found a logit that is not finite",
                           s->options->reference_path, s->positions, i);
        }
        double ln_p = (double)p[i] - p_sum;
        double ln_q = (double)logits[i] - sum;
        double off = fabs((double)p[i] - (double)logits[i]);
        kl += exp(ln_p) * (ln_p - ln_q);
        error += off;
        s->logit_error_max = off > s->logit_error_max ? off : s->logit_error_max;
    }
    kl = kl > 0.0 ? kl : 0.0; /* rounding of equal distributions */
    s->kl += kl;
    s->kl_max = kl > s->kl_max ? kl : s->kl_max;
    s->same += best == p_best;
    s->reference_nll += p_sum - (double)p[next];
    s->logit_error += error / (double)vocab;
    return FN_OK;
}

static fn_status score_row(scorer *s, const float *logits, int32_t next, fn_error *err) {
    size_t vocab = s->engine->shape.vocab;
    size_t best = 0;
    double sum = log_sum(logits, vocab, &best);
    double nll = sum - (double)logits[next];
    if (!isfinite(nll)) {
        return fn_fail(err, FN_E_NUMERIC, "prediction %zu: the logits are not finite",
                       s->positions);
    }
    s->nll += nll;
    s->nll_squares += nll * nll;
    s->positions++;
    if (s->save.file != NULL) {
        fn_status status = fn_new_file_write(&s->save, logits, vocab * sizeof *logits, err);
        if (status != FN_OK) {
            return status;
        }
    }
    if (s->reference != NULL) {
        if (fread(s->reference_row, sizeof *logits, vocab, s->reference) != vocab) {
            return fn_fail(err, FN_E_MODEL, "%s: the reference ends early, at prediction %zu",
                           s->options->reference_path, s->positions);
        }
        return compare(s, logits, sum, best, (size_t)next, err);
    }
    return FN_OK;
}

/* ids [n] from an empty state; every prediction but the last (whose next id is not there) is scored. */
static fn_status score_window(scorer *s, fn_state *state, const int32_t *ids, size_t n,
                              fn_error *err) {
    fn_engine *e = s->engine;
    fn_status status = fn_state_clear(state, err);
    for (size_t at = 0; at < n && status == FN_OK;) {
        size_t rows = n - at < s->max_rows ? n - at : s->max_rows;
        fn_segment segment = {.state = state, .ids = ids + at, .n = rows, .wants = s->wants};
        pthread_mutex_lock(&e->mutex);
        status = fn_forward_run(e->forward, &segment, 1, s->logits, NULL, err);
        pthread_mutex_unlock(&e->mutex);
        for (size_t r = 0; r < rows && at + r + 1 < n && status == FN_OK; r++) {
            status = score_row(s, s->logits + r * e->shape.vocab, ids[at + r + 1], err);
        }
        at += rows;
    }
    return status;
}

/* Where the document that begins at `at` ends: where asked behind the next end-of-text token, else with the text. */
static size_t document_end(const scorer *s, size_t at) {
    const fn_perplexity_options *o = s->options;
    while (at < o->n && !(o->by_document && o->ids[at] == s->engine->shape.eos_id)) {
        at++;
    }
    return at < o->n ? at + 1 : o->n;
}

static fn_status score_document(scorer *s, fn_state *state, size_t begin, size_t end,
                                fn_error *err) {
    const fn_perplexity_options *o = s->options;
    fn_engine *e = s->engine;
    fn_status status = FN_OK;
    for (size_t at = begin; at + 1 < end && status == FN_OK; at += s->window) {
        size_t n = end - at < s->window ? end - at : s->window;
        status = score_window(s, state, o->ids + at, n, err);
        if (status == FN_OK && e->progress != NULL &&
            !e->progress(e->progress_ud, "text", at + n, o->n)) {
            status = fn_fail(err, FN_E_CANCELLED, "scoring was cancelled");
        }
    }
    return status;
}

static fn_status score_all(scorer *s, fn_state *state, fn_error *err) {
    fn_status status = FN_OK;
    for (size_t at = 0; at < s->options->n && status == FN_OK;) {
        size_t end = document_end(s, at);
        status = score_document(s, state, at, end, err);
        at = end;
    }
    if (status == FN_OK && s->positions == 0) {
        status = fn_fail(err, FN_E_USAGE,
                         "the text has %zu tokens and nothing to predict: no "
                         "document of two or more",
                         s->options->n);
    }
    return status;
}

/* ---- the reference ---- */

static reference_header make_header(const scorer *s) {
    const fn_perplexity_options *o = s->options;
    reference_header h = {.magic = MAGIC,
                          .version = VERSION,
                          .by_document = s->options->by_document,
                          .vocab = s->engine->shape.vocab,
                          .window = s->window,
                          .n_ids = o->n};
    h.ids_digest = fn_hash_bytes(FN_HASH_START, o->ids, o->n * sizeof *o->ids);
    return h;
}

static fn_status open_reference(scorer *s, fn_error *err) {
    const char *path = s->options->reference_path;
    reference_header found;
    reference_header want = make_header(s);
    s->reference = fopen(path, "rb");
    if (s->reference == NULL) {
        return fn_fail(err, FN_E_IO, "%s: cannot open: %s", path, strerror(errno));
    }
    if (fread(&found, 1, sizeof found, s->reference) != sizeof found ||
        memcmp(found.magic, want.magic, sizeof found.magic) != 0 || found.version != want.version) {
        return fn_fail(err, FN_E_MODEL, "%s: not a reference run of version %d", path, VERSION);
    }
    if (found.vocab != want.vocab || found.window != want.window || found.n_ids != want.n_ids) {
        return fn_fail(
            err, FN_E_MODEL,
            "%s: a reference of %llu ids in windows of %llu with %llu logits; this run has "
            "%llu, %llu and %llu",
            path, (unsigned long long)found.n_ids, (unsigned long long)found.window,
            (unsigned long long)found.vocab, (unsigned long long)want.n_ids,
            (unsigned long long)want.window, (unsigned long long)want.vocab);
    }
    if (found.by_document != want.by_document) {
        return fn_fail(err, FN_E_MODEL, "%s: a reference of a text read %s, not %s", path,
                       found.by_document ? "by document" : "as one",
                       want.by_document ? "by document" : "as one");
    }
    if (found.ids_digest != want.ids_digest) {
        return fn_fail(err, FN_E_MODEL, "%s: a reference of another text", path);
    }
    return FN_OK;
}

/* Predictions and no more: a reference with another one behind it is not this run's. */
static fn_status check_reference_end(const scorer *s, fn_error *err) {
    if (s->reference != NULL && fgetc(s->reference) != EOF) {
        return fn_fail(err, FN_E_MODEL, "%s: bytes follow the reference's %zu predictions",
                       s->options->reference_path, s->positions);
    }
    return FN_OK;
}

static fn_status open_save(scorer *s, fn_error *err) {
    reference_header h = make_header(s);
    fn_status status = fn_new_file_open(s->options->save_path, &s->save, err);
    return status == FN_OK ? fn_new_file_write(&s->save, &h, sizeof h, err) : status;
}

/* ---- the call ---- */

static fn_status check(scorer *s, fn_error *err) {
    const fn_perplexity_options *o = s->options;
    size_t context = s->engine->context;
    s->window = o->window > 0 ? o->window : context < 512 ? context : 512;
    if (s->window < 2 || s->window > context) {
        return fn_fail(err, FN_E_USAGE, "window: found %zu, expected 2 to %zu (the context)",
                       s->window, context);
    }
    if (o->n < 2) {
        return fn_fail(err, FN_E_USAGE, "the text has %zu tokens, expected at least 2", o->n);
    }
    for (size_t i = 0; i < o->n; i++) {
        if (o->ids[i] < 0 || (size_t)o->ids[i] >= s->engine->shape.vocab) {
            return fn_fail(err, FN_E_RANGE, "token id at index %zu: found %d, expected 0 to %zu", i,
                           (int)o->ids[i], s->engine->shape.vocab - 1);
        }
    }
    return FN_OK;
}

static fn_status reserve(scorer *s, fn_error *err) {
    size_t row_bytes = s->engine->shape.vocab * sizeof(float);
    size_t rows = MAX_LOGIT_BYTES / row_bytes > 0 ? MAX_LOGIT_BYTES / row_bytes : 1;
    s->max_rows = rows < s->engine->chunk ? rows : s->engine->chunk;
    s->logits = fn_alloc_aligned(s->max_rows, row_bytes);
    s->reference_row = fn_alloc_aligned(1, row_bytes);
    s->wants = fn_alloc(s->max_rows, 1);
    if (s->logits == NULL || s->reference_row == NULL || s->wants == NULL) {
        return fn_fail_nomem(err, "logits", s->max_rows * row_bytes);
    }
    memset(s->wants, 1, s->max_rows);
    return FN_OK;
}

static void summarise(const scorer *s, fn_perplexity *out) {
    double n = (double)s->positions;
    double mean = s->nll / n;
    double variance = s->nll_squares / n - mean * mean;
    *out = (fn_perplexity){.positions = s->positions,
                           .nll = mean,
                           .nll_error = sqrt((variance > 0.0 ? variance : 0.0) / n),
                           .kl = s->kl / n,
                           .kl_max = s->kl_max,
                           .same_top = s->same / n,
                           .reference_nll = s->reference_nll / n,
                           .logit_error = s->logit_error / n,
                           .logit_error_max = s->logit_error_max};
}

fn_status fn_perplexity_run(fn_engine *engine, const fn_perplexity_options *options,
                            fn_perplexity *out, fn_error *err) {
    scorer s = {.engine = engine, .options = options};
    fn_state *state = NULL;
    *out = (fn_perplexity){0};
    fn_status status = check(&s, err);
    status = status == FN_OK ? reserve(&s, err) : status;
    if (status == FN_OK && options->reference_path != NULL) {
        status = open_reference(&s, err);
    }
    if (status == FN_OK && options->save_path != NULL) {
        status = open_save(&s, err);
    }
    status = status == FN_OK ? fn_state_create(engine->states, s.window, &state, err) : status;
    status = status == FN_OK ? score_all(&s, state, err) : status;
    status = status == FN_OK ? check_reference_end(&s, err) : status;
    if (status == FN_OK && s.save.file != NULL) {
        status = fn_new_file_finish(&s.save, err);
    }
    fn_new_file_abandon(&s.save);
    if (s.reference != NULL) {
        (void)fclose(s.reference);
    }
    if (status == FN_OK) {
        summarise(&s, out);
    }
    fn_state_destroy(state);
    fn_free(s.logits);
    fn_free(s.reference_row);
    fn_free(s.wants);
    return status;
}
