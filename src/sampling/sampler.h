/* sampling/sampler.h - one request's choice of the next id from the logits.
 *
 * Path:    forward's logits [V] -> [this: bias, penalties, temperature, top-k, top-p, min-p, argmax
 *          of log-probability + noise] -> the id, for the session and dialogue/.
 * Rules:   bias: added. Repetition penalty: ids of prompt and answer, once each; logits above 0 are
 *          divided, others multiplied. Presence and frequency: ids of the answer only. Temperature
 *          0: the best logit after bias and penalties. Top-k keeps exactly k. Top-p keeps the
 *          smallest set whose probabilities (of what top-k left) sum to >= p, at least one. Min-p
 *          keeps what has >= min_p times the largest probability. Ties: higher score, then lower
 *          id. If some logits are +inf they share all probability.
 * Bits:    the id depends on settings, counts, logits and position alone, on any machine.
 * Threads: a sampler belongs to one thread at a time.
 * Memory:  all of it at creation, 17 bytes an id; nothing afterwards. */
#ifndef FN_SAMPLING_SAMPLER_H
#define FN_SAMPLING_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct fn_sampler fn_sampler;

/* Fails with FN_E_USAGE, naming the setting, what was found and what is allowed. */
FN_NODISCARD fn_status fn_sampling_check(const fn_sampling *settings, size_t vocab, fn_error *err);

/* Checks and copies the settings (the bias list too). The caller owns *out. */
FN_NODISCARD fn_status fn_sampler_create(const fn_sampling *settings, size_t vocab,
                                         fn_sampler **out, fn_error *err);
void fn_sampler_destroy(fn_sampler *s); /* NULL is allowed */

/* A second sampler with the same settings and counts. (A saved session needs no more than its ids:
 * the counts follow from the prompt's and the answer's, the noise from the position.) */
FN_NODISCARD fn_status fn_sampler_copy(const fn_sampler *s, fn_sampler **out, fn_error *err);

/* Counts ids [n] as seen in the prompt. Ids outside of the vocabulary are ignored. */
void fn_sampler_see_prompt(fn_sampler *s, const int32_t *ids, size_t n);

/* Counts id as chosen. Choosing alone counts nothing, so that a draft can be tried and dropped. */
void fn_sampler_accept(fn_sampler *s, int32_t id);

/* Counts id as chosen until fn_sampler_forget, which forgets all such ids: what stands before a guess, and may
 * never be accepted. At most FN_MAX_DRAFTS + 1 of them. */
void fn_sampler_suppose(fn_sampler *s, int32_t id);
void fn_sampler_forget(fn_sampler *s);

/* How often id was accepted; whether prompt or answer had it. */
uint32_t fn_sampler_count(const fn_sampler *s, int32_t id);
bool fn_sampler_has_seen(const fn_sampler *s, int32_t id);

/* Chooses the id at `position` (of the sequence: the number of ids before it) from logits [V],
 * which stay as they are. banned [n_banned] ids are not eligible (NULL when 0); those outside of
 * the vocabulary are ignored. Fails with FN_E_NUMERIC if a logit is NaN or no id is eligible. */
FN_NODISCARD fn_status fn_sampler_choose(fn_sampler *s, const float *logits, size_t position,
                                         const int32_t *banned, size_t n_banned, int32_t *id,
                                         fn_error *err);

/* The filtered distribution that choose draws from, best first, as natural log-probabilities into
 * out [V]; *n says how many. Temperature 0 gives one. For tests and for showing it. */
FN_NODISCARD fn_status fn_sampler_distribution(fn_sampler *s, const float *logits,
                                               const int32_t *banned, size_t n_banned,
                                               fn_token_logprob *out, size_t *n, fn_error *err);

#endif
