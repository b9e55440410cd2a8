#include "ngram/ngram_hash.h"

/* The s-th predecessor of position i, from the segment or from what came before it. */
static int32_t token_before(const int32_t *history, const int32_t *ids, size_t i, size_t s,
                            size_t n_history) {
    return s <= i ? ids[i - s] : history[n_history - (s - i)];
}

static void hash_position(const fn_ngram_constants *hash, const int32_t *history,
                          const int32_t *ids, size_t i, int64_t *rows) {
    uint64_t mixed = (uint64_t)ids[i] * (uint64_t)hash->multipliers[0];
    bool cut = false; /* an EOS hides itself and all that is older */
    for (size_t s = 1; s < hash->ngram_size; s++) {
        int32_t token = hash->eos_id;
        if (!cut) {
            token = token_before(history, ids, i, s, hash->ngram_size - 1);
            cut = token == hash->eos_id;
        }
        mixed ^= (uint64_t)token * (uint64_t)hash->multipliers[s];
        for (size_t k = 0; k < hash->heads_per_ngram; k++) { /* the heads of order s + 1 */
            size_t h = (s - 1) * hash->heads_per_ngram + k;
            rows[h] = (int64_t)(mixed % (uint64_t)hash->primes[h]) + hash->offsets[h];
        }
    }
}

void fn_ngram_hash_rows(const fn_ngram_constants *hash, const int32_t *history, const int32_t *ids,
                        size_t n, int64_t *rows) {
    for (size_t i = 0; i < n; i++) {
        hash_position(hash, history, ids, i, rows + i * hash->heads);
    }
}
