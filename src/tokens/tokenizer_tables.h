/* tokens/tokenizer_tables.h - the two long tables of a tokenizer.json, vocabulary and merges, as plain lists.
 *
 * Path:    tokenizer.json -> [this: lists, and the JSON around them] -> tokenizer_json.c
 * Rule:    the lists are taken out of the text itself only where every byte of them is as usual (texts, whole
 *          numbers, pairs). All else is left to the JSON library, which says what is wrong and where. A tree of
 *          half a million values takes several times as long as the rest of loading.
 * Memory:  texts in the lists are those of the JSON text, or of whoever added them, which must stay. */
#ifndef FN_TOKENS_TOKENIZER_TABLES_H
#define FN_TOKENS_TOKENIZER_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* A token as the file spells it. */
typedef struct fn_vocab_entry {
    const char *text; /* [n] */
    size_t n;
    int64_t id;
} fn_vocab_entry;

typedef struct fn_merge_entry {
    const char *left; /* [n_left] */
    const char *right;
    size_t n_left;
    size_t n_right;
} fn_merge_entry;

/* {0} is empty. */
typedef struct fn_tokenizer_tables {
    fn_vocab_entry *vocab; /* [n_vocab], in the file's order */
    size_t n_vocab;
    size_t vocab_capacity;
    fn_merge_entry *merges; /* [n_merges] */
    size_t n_merges;
    size_t merges_capacity;
    bool taken_out; /* of the text: rest [n_rest] is what is left of it, with both tables empty */
    char *rest;
    size_t n_rest;
    char *unescaped; /* texts that the JSON spells with escapes */
    uint32_t *index; /* [index_mask + 1] 1 + place in vocab, 0: empty; by text */
    size_t index_mask;
} fn_tokenizer_tables;

/* Takes model.vocab and model.merges out of json [n], indexed. Where anything of them is unusual or wrong the tables
 * stay empty, which is no failure. Fails with FN_E_NOMEM. */
FN_NODISCARD fn_status fn_tokenizer_tables_take(const char *json, size_t n,
                                                fn_tokenizer_tables *out, fn_error *err);

/* Appends to a list. Fail with FN_E_NOMEM. */
FN_NODISCARD fn_status fn_tokenizer_tables_add(fn_tokenizer_tables *t, const fn_vocab_entry *entry,
                                               fn_error *err);
FN_NODISCARD fn_status fn_tokenizer_tables_add_merge(fn_tokenizer_tables *t,
                                                     const fn_merge_entry *entry, fn_error *err);

/* Cuts "left right" at its space; false if it has none or several. */
bool fn_merge_split(const char *text, size_t n, fn_merge_entry *out);

/* Call when the vocabulary is complete; *twice says whether a text is there twice. Fails with FN_E_NOMEM. */
FN_NODISCARD fn_status fn_tokenizer_tables_index(fn_tokenizer_tables *t, bool *twice,
                                                 fn_error *err);

/* The id of a text, -1 if there is none; needs the index. */
int64_t fn_tokenizer_tables_find(const fn_tokenizer_tables *t, const char *text, size_t n);

void fn_tokenizer_tables_free(fn_tokenizer_tables *t);

#endif
