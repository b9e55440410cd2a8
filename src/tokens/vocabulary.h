/* tokens/vocabulary.h - which id stands for which bytes.
 *
 * Path:    tokenizer_json fills it -> [this] -> tokenizer look-ups, detokenize
 * Threads: a finished vocabulary never changes.
 * Memory:  one block for all bytes, one for the ids, one for the index. */
#ifndef FN_TOKENS_VOCABULARY_H
#define FN_TOKENS_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tokens/text_buffer.h"

#define FN_TOKEN_PRESENT 1u
#define FN_TOKEN_ADDED 2u
#define FN_TOKEN_SPECIAL 4u

typedef struct fn_vocabulary_entry {
    size_t offset; /* into bytes */
    uint32_t length;
    uint32_t flags; /* FN_TOKEN_, 0: no token has this id */
} fn_vocabulary_entry;

/* {0} is an empty one. */
typedef struct fn_vocabulary {
    fn_text_buffer bytes;
    fn_vocabulary_entry *entries; /* [size] */
    size_t size;
    size_t capacity;
    uint32_t *index; /* [index_mask + 1] 1 + id, 0: empty; by bytes */
    size_t index_mask;
} fn_vocabulary;

/* Gives id >= 0 these bytes, in place of what it had. Fails with FN_E_NOMEM. */
FN_NODISCARD fn_status fn_vocabulary_set(fn_vocabulary *v, int32_t id, const char *bytes, size_t n,
                                         unsigned flags, fn_error *err);

/* Call when all ids are set. Of several ids with the same bytes the added one is found, else the
 * lowest. Fails with FN_E_NOMEM. */
FN_NODISCARD fn_status fn_vocabulary_index(fn_vocabulary *v, fn_error *err);

/* The id of these bytes; -1 if none. */
int32_t fn_vocabulary_find(const fn_vocabulary *v, const char *bytes, size_t n);

/* The bytes [*n] of an id, with a 0 behind them; NULL if none. */
const char *fn_vocabulary_bytes(const fn_vocabulary *v, int32_t id, size_t *n);

/* FN_TOKEN_ flags; 0 for ids without a token. */
unsigned fn_vocabulary_flags(const fn_vocabulary *v, int32_t id);

void fn_vocabulary_free(fn_vocabulary *v);

#endif
