/* ngram/ngram_hash.h - token history -> rows of the n-gram table.
 *
 * Source:  Qwen4ExpTextNGramEmbedding of the reference. For head h of order n (2 .. ngram_size):
 *            row = ((t0*m0) xor (t1*m1) ... xor (t_{n-1}*m_{n-1})) mod prime_h + offset_h
 *          t0 the token, t_s its s-th predecessor; t_s counts as EOS when there is none or when an
 * EOS stands anywhere between t_s (inclusive) and t0 (exclusive). Path:    segment ids + carried
 * history -> [this] -> ngram/ngram_table.h. */
#ifndef FN_NGRAM_NGRAM_HASH_H
#define FN_NGRAM_NGRAM_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "shape/ngram_constants.h"

/* rows [n, heads] for ids [n]; history [ngram_size - 1] holds the ids before them, oldest first
 * (EOS where there are none). */
void fn_ngram_hash_rows(const fn_ngram_constants *hash, const int32_t *history, const int32_t *ids,
                        size_t n, int64_t *rows);

#endif
