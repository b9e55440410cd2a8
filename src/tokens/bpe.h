/* tokens/bpe.h - byte-pair encoding of one piece: the merge of lowest rank first, leftmost first.
 *
 * Path:    pieces of pretokenize.h -> [this] -> ids
 * Time:    O(n log n) in the piece's length, whatever the text.
 * Threads: a built table never changes; each thread brings its own scratch.
 * Memory:  the table owns its slots; scratch grows with the longest piece (about 24 bytes a byte)
 *          and is the caller's. No recursion, under 1 KB of stack. */
#ifndef FN_TOKENS_BPE_H
#define FN_TOKENS_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct fn_bpe fn_bpe;

/* {0} is an empty one. */
typedef struct fn_bpe_scratch {
    uint32_t *before; /* [n] position of the symbol before and behind each symbol */
    uint32_t *behind;
    size_t before_capacity;
    size_t behind_capacity;
    uint64_t *heap; /* rank << 32 | position */
    size_t heap_capacity;
} fn_bpe_scratch;

/* A table for n_merges merges over the ids of the 256 bytes. Fails with FN_E_NOMEM. */
FN_NODISCARD fn_status fn_bpe_create(const int32_t byte_ids[256], size_t n_merges, fn_bpe **out,
                                     fn_error *err);

/* Adds left + right -> result; at most n_merges times. False, and *rank is the earlier one's, if
 * the pair is there already. */
bool fn_bpe_add(fn_bpe *bpe, int32_t left, int32_t right, uint32_t *rank, int32_t result);

/* Writes the ids of piece [n], n > 0, to out [n] and their number to *n_out. Fails with FN_E_NOMEM,
 * FN_E_RANGE (n over 2^31). */
FN_NODISCARD fn_status fn_bpe_encode(const fn_bpe *bpe, const unsigned char *piece, size_t n,
                                     fn_bpe_scratch *scratch, int32_t *out, size_t *n_out,
                                     fn_error *err);

void fn_bpe_free(fn_bpe *bpe); /* NULL is allowed */
void fn_bpe_scratch_free(fn_bpe_scratch *scratch);

#endif
