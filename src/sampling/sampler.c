#include "sampling/sampler.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "sampling/noise.h"
#include "sampling/portable_math.h"
#include "sampling/select.h"

struct fn_sampler {
    fn_sampling settings; /* its bias list is ours */
    fn_logit_bias *bias;
    size_t vocab;
    float *scores;                /* [V] logits after bias and penalties */
    fn_token_logprob *candidates; /* [V] what the filters have left */
    uint32_t *counts;             /* [V] in the answer */
    bool *seen;                   /* [V] in prompt or answer */
    struct supposed {
        int32_t id;
        uint32_t count;
        bool seen;
    } supposed[FN_MAX_DRAFTS + 1]; /* [n_supposed], and what was counted of each before */
    size_t n_supposed;
};

/* ---- settings ------------------------------------------------------------------------------- */

static fn_status check_bias(const fn_sampling *settings, size_t vocab, fn_error *err) {
    if (settings->n_bias > 0 && settings->bias == NULL) {
        return fn_fail(err, FN_E_USAGE, "logit_bias: %zu entries, but no list", settings->n_bias);
    }
    for (size_t i = 0; i < settings->n_bias; i++) {
        fn_logit_bias b = settings->bias[i];
        if (b.id < 0 || (size_t)b.id >= vocab) {
            return fn_fail(err, FN_E_USAGE, "logit_bias: id %d, expected 0 to %zu", b.id,
                           vocab - 1);
        }
        if (!isfinite(b.bias)) {
            return fn_fail(err, FN_E_USAGE, "logit_bias: %g for id %d, expected a finite number",
                           (double)b.bias, b.id);
        }
    }
    return FN_OK;
}

fn_status fn_sampling_check(const fn_sampling *settings, size_t vocab, fn_error *err) {
    const struct {
        const char *name;
        float value;
        bool good;
        const char *expected;
    } fields[] = {
        {"temperature", settings->temperature, settings->temperature >= 0, "0 or more"},
        {"top_p", settings->top_p, settings->top_p > 0 && settings->top_p <= 1,
         "above 0, at most 1"},
        {"min_p", settings->min_p, settings->min_p >= 0 && settings->min_p <= 1, "0 to 1"},
        {"repetition_penalty", settings->repetition_penalty, settings->repetition_penalty > 0,
         "above 0"},
        {"presence_penalty", settings->presence_penalty, true, "a finite number"},
        {"frequency_penalty", settings->frequency_penalty, true, "a finite number"},
    };
    if (vocab == 0 || vocab > INT32_MAX) {
        return fn_fail(err, FN_E_USAGE, "vocabulary of %zu ids, expected 1 to %d", vocab,
                       INT32_MAX);
    }
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (!fields[i].good || !isfinite(fields[i].value)) {
            return fn_fail(err, FN_E_USAGE, "%s: %g, expected %s", fields[i].name,
                           (double)fields[i].value, fields[i].expected);
        }
    }
    if (settings->top_k < 0) {
        return fn_fail(err, FN_E_USAGE, "top_k: %d, expected 0 (off) or more", settings->top_k);
    }
    return check_bias(settings, vocab, err);
}

/* ---- life ----------------------------------------------------------------------------------- */

fn_status fn_sampler_create(const fn_sampling *settings, size_t vocab, fn_sampler **out,
                            fn_error *err) {
    *out = NULL;
    fn_status status = fn_sampling_check(settings, vocab, err);
    if (status != FN_OK) {
        return status;
    }
    fn_sampler *s = fn_alloc_zero(1, sizeof *s);
    if (s == NULL) {
        return fn_fail_nomem(err, "a sampler", sizeof *s);
    }
    s->settings = *settings;
    s->vocab = vocab;
    s->bias = fn_alloc(settings->n_bias, sizeof *s->bias);
    s->scores = fn_alloc(vocab, sizeof *s->scores);
    s->candidates = fn_alloc(vocab, sizeof *s->candidates);
    s->counts = fn_alloc_zero(vocab, sizeof *s->counts);
    s->seen = fn_alloc_zero(vocab, sizeof *s->seen);
    if (s->bias == NULL || s->scores == NULL || s->candidates == NULL || s->counts == NULL ||
        s->seen == NULL) {
        fn_sampler_destroy(s);
        return fn_fail_nomem(err, "a sampler", vocab * 17);
    }
    if (settings->n_bias > 0) {
        memcpy(s->bias, settings->bias, settings->n_bias * sizeof *s->bias);
    }
    s->settings.bias = s->bias;
    *out = s;
    return FN_OK;
}

void fn_sampler_destroy(fn_sampler *s) {
    if (s != NULL) {
        fn_free(s->bias);
        fn_free(s->scores);
        fn_free(s->candidates);
        fn_free(s->counts);
        fn_free(s->seen);
        fn_free(s);
    }
}

fn_status fn_sampler_copy(const fn_sampler *s, fn_sampler **out, fn_error *err) {
    fn_status status = fn_sampler_create(&s->settings, s->vocab, out, err);
    if (status == FN_OK) {
        memcpy((*out)->counts, s->counts, s->vocab * sizeof *s->counts);
        memcpy((*out)->seen, s->seen, s->vocab * sizeof *s->seen);
    }
    return status;
}

/* ---- counts --------------------------------------------------------------------------------- */

static bool in_vocab(const fn_sampler *s, int32_t id) {
    return id >= 0 && (size_t)id < s->vocab;
}

void fn_sampler_see_prompt(fn_sampler *s, const int32_t *ids, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (in_vocab(s, ids[i])) {
            s->seen[ids[i]] = true;
        }
    }
}

void fn_sampler_accept(fn_sampler *s, int32_t id) {
    if (in_vocab(s, id)) {
        s->seen[id] = true;
        s->counts[id] += s->counts[id] < UINT32_MAX;
    }
}

void fn_sampler_suppose(fn_sampler *s, int32_t id) {
    if (in_vocab(s, id)) {
        FN_ASSERT(s->n_supposed <= FN_MAX_DRAFTS);
        s->supposed[s->n_supposed++] = (struct supposed){id, s->counts[id], s->seen[id]};
        fn_sampler_accept(s, id);
    }
}

void fn_sampler_forget(fn_sampler *s) {
    while (s->n_supposed > 0) {
        const struct supposed *last = &s->supposed[--s->n_supposed];
        s->counts[last->id] = last->count;
        s->seen[last->id] = last->seen;
    }
}

uint32_t fn_sampler_count(const fn_sampler *s, int32_t id) {
    return in_vocab(s, id) ? s->counts[id] : 0;
}

bool fn_sampler_has_seen(const fn_sampler *s, int32_t id) {
    return in_vocab(s, id) && s->seen[id];
}

/* ---- scores --------------------------------------------------------------------------------- */

static void penalise(fn_sampler *s) {
    const fn_sampling *set = &s->settings;
    if (set->repetition_penalty != 1.0F) {
        for (size_t i = 0; i < s->vocab; i++) {
            if (s->seen[i]) {
                s->scores[i] = s->scores[i] > 0 ? s->scores[i] / set->repetition_penalty
                                                : s->scores[i] * set->repetition_penalty;
            }
        }
    }
    if (set->presence_penalty != 0.0F || set->frequency_penalty != 0.0F) {
        for (size_t i = 0; i < s->vocab; i++) {
            if (s->counts[i] > 0) {
                s->scores[i] -= set->frequency_penalty * (float)s->counts[i];
                s->scores[i] -= set->presence_penalty;
            }
        }
    }
}

/* The best score's id; what is +inf shares all probability, so then it alone stays, as 0. */
static fn_status find_best(fn_sampler *s, size_t *best, fn_error *err) {
    float max = -INFINITY;
    *best = s->vocab;
    for (size_t i = 0; i < s->vocab; i++) {
        if (isnan(s->scores[i])) {
            return fn_fail(err, FN_E_NUMERIC, "score of id %zu is not a number after penalties", i);
        }
        if (s->scores[i] > max) {
            max = s->scores[i];
            *best = i;
        }
    }
    if (*best == s->vocab) {
        return fn_fail(err, FN_E_NUMERIC, "no id is eligible: every logit is -inf or banned");
    }
    if (isinf(max)) {
        for (size_t i = 0; i < s->vocab; i++) {
            s->scores[i] = s->scores[i] == max ? 0 : -INFINITY;
        }
    }
    return FN_OK;
}

static fn_status score(fn_sampler *s, const float *logits, const int32_t *banned, size_t n_banned,
                       size_t *best, fn_error *err) {
    for (size_t i = 0; i < s->vocab; i++) {
        if (isnan(logits[i])) {
            return fn_fail(err, FN_E_NUMERIC, "logit of id %zu is not a number", i);
        }
        s->scores[i] = logits[i];
    }
    for (size_t i = 0; i < s->settings.n_bias; i++) {
        s->scores[s->bias[i].id] += s->bias[i].bias;
    }
    penalise(s);
    for (size_t i = 0; i < n_banned; i++) {
        if (in_vocab(s, banned[i])) {
            s->scores[banned[i]] = -INFINITY;
        }
    }
    return find_best(s, best, err);
}

/* ---- filters -------------------------------------------------------------------------------- */

/* log-probability up to what all share; <= 0, finite in double for any two floats. */
static double scaled(const fn_sampler *s, float x, float max) {
    return ((double)x - (double)max) / (double)s->settings.temperature;
}

/* The smallest set with the asked share of the mass of candidates [n], a heap or sorted; puts it in
 * front, best first. */
static size_t keep_top_p(fn_sampler *s, size_t n, bool sorted, float max) {
    double mass = 0;
    double sum = 0;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        mass += fn_portable_exp(scaled(s, s->candidates[i].logprob, max));
    }
    while (kept < n && (kept == 0 || sum < (double)s->settings.top_p * mass)) {
        size_t at = kept;
        if (!sorted) {
            at = n - 1 - kept;
            fn_select_pop(s->candidates, n - kept);
        }
        sum += fn_portable_exp(scaled(s, s->candidates[at].logprob, max));
        kept += 1;
    }
    for (size_t i = 0; !sorted && i < kept && i < n / 2; i++) {
        fn_token_logprob front = s->candidates[i];
        s->candidates[i] = s->candidates[n - 1 - i];
        s->candidates[n - 1 - i] = front;
    }
    return kept;
}

static size_t keep_min_p(fn_sampler *s, size_t n, float max) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        fn_token_logprob c = s->candidates[i];
        if (fn_portable_exp(scaled(s, c.logprob, max)) >= (double)s->settings.min_p) {
            s->candidates[kept++] = c;
        }
    }
    return kept;
}

/* Fills candidates from scores; the best one is always among them. */
static size_t filter(fn_sampler *s, float max) {
    const fn_sampling *set = &s->settings;
    bool sorted = set->top_k > 0 && (size_t)set->top_k < s->vocab;
    size_t n = sorted ? fn_select_top(s->scores, s->vocab, (size_t)set->top_k, s->candidates)
                      : fn_select_heap(s->scores, s->vocab, s->candidates);
    if (set->top_p < 1.0F) {
        n = keep_top_p(s, n, sorted, max);
    }
    return set->min_p > 0 ? keep_min_p(s, n, max) : n;
}

/* ---- choice --------------------------------------------------------------------------------- */

static int32_t draw(const fn_sampler *s, size_t n, size_t position, size_t best, float max) {
    fn_noise noise = fn_noise_at(s->settings.seed, position);
    int32_t id = (int32_t)best;
    float chosen = max;
    double value = fn_noise_gumbel(&noise, id);
    for (size_t i = 0; i < n; i++) {
        fn_token_logprob c = s->candidates[i];
        double log_p = scaled(s, c.logprob, max);
        if (log_p + FN_NOISE_MAX < value) {
            continue; /* no noise could lift it */
        }
        double v = log_p + fn_noise_gumbel(&noise, c.id);
        bool wins_tie = c.logprob > chosen || (c.logprob == chosen && c.id < id);
        if (v > value || (v == value && wins_tie)) {
            value = v;
            id = c.id;
            chosen = c.logprob;
        }
    }
    return id;
}

fn_status fn_sampler_choose(fn_sampler *s, const float *logits, size_t position,
                            const int32_t *banned, size_t n_banned, int32_t *id, fn_error *err) {
    size_t best = 0;
    *id = -1;
    fn_status status = score(s, logits, banned, n_banned, &best, err);
    if (status != FN_OK) {
        return status;
    }
    if (s->settings.temperature == 0.0F) {
        *id = (int32_t)best;
        return FN_OK;
    }
    float max = s->scores[best];
    *id = draw(s, filter(s, max), position, best, max);
    return FN_OK;
}

fn_status fn_sampler_distribution(fn_sampler *s, const float *logits, const int32_t *banned,
                                  size_t n_banned, fn_token_logprob *out, size_t *n,
                                  fn_error *err) {
    size_t best = 0;
    double mass = 0;
    *n = 0;
    fn_status status = score(s, logits, banned, n_banned, &best, err);
    if (status != FN_OK) {
        return status;
    }
    if (s->settings.temperature == 0.0F) {
        out[0] = (fn_token_logprob){.id = (int32_t)best, .logprob = 0};
        *n = 1;
        return FN_OK;
    }
    float max = s->scores[best];
    size_t kept = filter(s, max);
    for (size_t i = 0; i < s->vocab; i++) {
        s->scores[i] = -INFINITY;
    }
    for (size_t i = 0; i < kept; i++) {
        s->scores[s->candidates[i].id] = s->candidates[i].logprob;
        mass += fn_portable_exp(scaled(s, s->candidates[i].logprob, max));
    }
    *n = fn_select_top(s->scores, s->vocab, kept, out);
    for (size_t i = 0; i < *n; i++) {
        out[i].logprob = (float)(scaled(s, out[i].logprob, max) - fn_portable_log(mass));
    }
    return FN_OK;
}
