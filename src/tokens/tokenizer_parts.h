/* tokens/tokenizer_parts.h - what a loaded tokenizer consists of; for tokenizer_*.c only.
 *
 * Path:    tokenizer_json.c fills it -> [this] -> tokenizer.c (look-ups), tokenizer_encode.c */
#ifndef FN_TOKENS_TOKENIZER_PARTS_H
#define FN_TOKENS_TOKENIZER_PARTS_H

#include <jansson.h>

#include "tokens/added_tokens.h"
#include "tokens/bpe.h"
#include "tokens/pretokenize.h"
#include "tokens/tokenizer.h"
#include "tokens/tokenizer_tables.h"
#include "tokens/vocabulary.h"

/* An added token that merges can make as well: left + right spell it without its id. */
typedef struct fn_spelling {
    int32_t id;
    int32_t left;
    int32_t right;
} fn_spelling;

struct fn_tokenizer {
    fn_vocabulary vocabulary;
    fn_bpe *bpe;
    bool nfc;
    fn_split_rule rule;
    fn_added_set plain;      /* matched in the text as it is */
    fn_added_set normalized; /* matched in what the normaliser makes of the text between those */
    fn_spelling *spellings;  /* [n_spellings] */
    size_t n_spellings;
    size_t spellings_capacity;
};

/* Fills an empty tokenizer from a parsed tokenizer.json, and from its tables where they were taken out of it; else
 * they are filled from the tree. Messages do not name the file. */
FN_NODISCARD fn_status fn_tokenizer_read_json(const json_t *root, fn_tokenizer_tables *tables,
                                              fn_tokenizer *t, fn_error *err);

#endif
