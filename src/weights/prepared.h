/* weights/prepared.h - the manifest of a prepared checkpoint: what it was made from, how, and what it holds.
 *
 * Path:    DIR/flashnext-prepared.json -> [this] -> weights/model_files.h (opening), weights/prepare.h (which
 *          writes it last: a directory without it is not finished).
 * Format:  one line of JSON, keys in this order; digests are 16 hexadecimal digits of base/hash.h:
 *            format       "flashnext prepared checkpoint"
 *            version      1
 *            source       digest of the source's names, types, shapes, places and of its config.json
 *            settings     {expert_bits, dense_bits, group_size, ngram}; bits 0 = as the source stores them; ngram
 *                         "copy", "link", "omit" or "int8"
 *            files        [{name, bytes, header, data}]: header is the digest of a safetensors file's JSON, absent
 *                         for other files; data that of all behind it, or of the whole other file
 *            links        [{path, prefix, bytes, header}]: files elsewhere that hold the n-gram tables under names
 *                         that begin with prefix
 *            digest       of every byte of the line before this value
 * Threads: read only once parsed. Memory:  owns its JSON, strings point into it. */
#ifndef FN_WEIGHTS_PREPARED_H
#define FN_WEIGHTS_PREPARED_H

#include <jansson.h>

#include "checkpoint/checkpoint.h"
#include "weights/settings.h"

#define FN_PREPARED_MANIFEST "flashnext-prepared.json"
#define FN_PREPARED_UNFINISHED "flashnext-prepared.unfinished" /* there until the manifest is */
#define FN_PREPARED_FORMAT "flashnext prepared checkpoint"
#define FN_PREPARED_VERSION 1

/* enum, word */
#define FN_PREPARED_NGRAM_MAP(X)                                                                   \
    X(COPY, "copy")                                                                                \
    X(LINK, "link")                                                                                \
    X(OMIT, "omit")                                                                                \
    X(INT8, "int8")

typedef enum fn_prepared_ngram {
#define FN_PREPARED_ENUM(name, word) FN_PREPARED_NGRAM_##name,
    FN_PREPARED_NGRAM_MAP(FN_PREPARED_ENUM)
#undef FN_PREPARED_ENUM
        FN_PREPARED_NGRAMS
} fn_prepared_ngram;

const char *fn_prepared_ngram_word(fn_prepared_ngram ngram);
/* FN_PREPARED_NGRAMS for a word that is none. */
fn_prepared_ngram fn_prepared_ngram_parse(const char *word);

typedef struct fn_prepared_file {
    const char *name;
    uint64_t bytes, header, data;
    bool tensors; /* a safetensors file: header counts */
} fn_prepared_file;

typedef struct fn_prepared {
    fn_weight_settings settings;
    fn_prepared_ngram ngram;
    uint64_t source;
    uint64_t digest; /* of the manifest */
    fn_prepared_file *files;
    size_t n_files;
    fn_linked_file *links;
    uint64_t *link_bytes, *link_headers; /* [n_links] */
    size_t n_links;
    json_t *root;
    char *dir;
} fn_prepared;

/* The manifest of dir; *out is NULL when dir has none and is no prepared directory. Fails with FN_E_MODEL: not
 * finished, damaged, of another version. */
FN_NODISCARD fn_status fn_prepared_read(const char *dir, fn_prepared **out, fn_error *err);
/* The text of a manifest; dir is for messages. */
FN_NODISCARD fn_status fn_prepared_parse(const char *text, size_t n, const char *dir,
                                         fn_prepared **out, fn_error *err);
void fn_prepared_free(fn_prepared *prepared);

/* Whether the opened files are those of the manifest: names, sizes, headers. FN_E_MODEL names what differs. */
FN_NODISCARD fn_status fn_prepared_check(const fn_prepared *prepared, const fn_checkpoint *c,
                                         fn_error *err);

/* Whether the directory's config.json is what was written: the meaning of its weights hangs on it, and so do saved
 * states. FN_E_MODEL if it was changed. */
FN_NODISCARD fn_status fn_prepared_check_config(const fn_prepared *prepared, fn_error *err);

/* Whether settings ask for what was prepared: bits 0 and group 0 ask for nothing. FN_E_USAGE says what differs. */
FN_NODISCARD fn_status fn_prepared_agrees(const fn_prepared *prepared,
                                          const fn_weight_settings *settings, fn_error *err);

/* Reads every byte and compares it with the manifest. progress may be NULL; false from it cancels. */
FN_NODISCARD fn_status fn_prepared_check_data(const fn_prepared *prepared,
                                              bool (*progress)(void *ud, uint64_t done,
                                                               uint64_t total),
                                              void *ud, fn_error *err);

#endif
