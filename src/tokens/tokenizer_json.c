/* tokenizer.json -> fn_tokenizer. Everything that would change ids is either done as the reference
 * does it or refused; what cannot change them here (padding, truncation, leftovers of training) is
 * not read. */
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "tokens/byte_alphabet.h"
#include "tokens/nfc.h"
#include "tokens/tokenizer_parts.h"
#include "tokens/tokenizer_pipeline.h"
#include "tokens/tokenizer_tables.h"
#include "tokens/utf8.h"

/* Far above any vocabulary; keeps a damaged file from asking for gigabytes. */
#define MAX_ID ((json_int_t)1 << 24)

enum { SHOWN_BYTES = 60 };

/* A token for a message: cut at a character's end, control characters as '?'. */
typedef struct shown {
    char text[SHOWN_BYTES + 4];
} shown;

static shown show(const char *text, size_t n) {
    shown s = {0};
    size_t keep = n;
    if (n > SHOWN_BYTES) {
        keep = SHOWN_BYTES;
        while (keep > 0 && ((unsigned char)text[keep] & 0xC0u) == 0x80u) {
            keep--;
        }
    }
    for (size_t i = 0; i < keep; i++) {
        s.text[i] = text[i];
        if ((unsigned char)text[i] < 0x20) {
            s.text[i] = '?';
        }
    }
    memcpy(s.text + keep, "...", keep < n ? 3 : 0);
    return s;
}

static shown show_string(const json_t *string) {
    return show(json_string_value(string), json_string_length(string));
}

/* The bytes a vocabulary entry stands for. One that has characters outside of the byte alphabet
 * (a special token listed among the others) stands for its own text. */
static fn_status set_entry(fn_tokenizer *t, int32_t id, const char *key, size_t n, char *room,
                           fn_error *err) {
    size_t n_bytes = 0;
    if (fn_bytes_unspell(key, n, room, &n_bytes)) {
        return fn_vocabulary_set(&t->vocabulary, id, room, n_bytes, 0, err);
    }
    return fn_vocabulary_set(&t->vocabulary, id, key, n, 0, err);
}

static fn_status read_entry(fn_tokenizer *t, const fn_vocab_entry *entry, fn_text_buffer *room,
                            fn_error *err) {
    if (entry->id < 0 || entry->id >= MAX_ID) {
        shown name = show(entry->text, entry->n);
        return fn_fail(err, FN_E_MODEL, "model.vocab: \"%s\": id %lld, expected 0 to %lld",
                       name.text, (long long)entry->id, (long long)MAX_ID - 1);
    }
    int32_t id = (int32_t)entry->id;
    if (fn_vocabulary_flags(&t->vocabulary, id) != 0) {
        size_t m = 0;
        const char *other = fn_vocabulary_bytes(&t->vocabulary, id, &m);
        shown name = show(entry->text, entry->n);
        shown second = show(other, m);
        return fn_fail(err, FN_E_MODEL,
                       "model.vocab: id %lld belongs to \"%s\" and to the entry for \"%s\"",
                       (long long)id, name.text, second.text);
    }
    room->count = 0;
    fn_status status = fn_text_buffer_reserve(room, entry->n, err);
    return status == FN_OK ? set_entry(t, id, entry->text, entry->n, room->bytes, err) : status;
}

static fn_status read_vocab(fn_tokenizer *t, const fn_tokenizer_tables *tables, fn_error *err) {
    fn_text_buffer room = {0};
    fn_status status = FN_OK;
    for (size_t i = 0; i < tables->n_vocab && status == FN_OK; i++) {
        status = read_entry(t, &tables->vocab[i], &room, err);
    }
    fn_text_buffer_free(&room);
    return status;
}

static fn_status make_bpe(fn_tokenizer *t, const fn_tokenizer_tables *tables, size_t n_merges,
                          fn_error *err) {
    int32_t ids[256];
    for (unsigned b = 0; b < 256; b++) {
        unsigned char spelling[4];
        size_t n = fn_utf8_put(fn_byte_spelling((unsigned char)b), spelling);
        ids[b] = (int32_t)fn_tokenizer_tables_find(tables, (const char *)spelling, n);
        if (ids[b] < 0) {
            return fn_fail(err, FN_E_MODEL,
                           "model.vocab: no entry for byte 0x%02X (\"%.*s\"), expected all 256", b,
                           (int)n, (const char *)spelling);
        }
    }
    return fn_bpe_create(ids, n_merges, &t->bpe, err);
}

static fn_status note_spelling(fn_tokenizer *t, int32_t id, int32_t left, int32_t right,
                               fn_error *err) {
    void *spellings = t->spellings;
    if (!fn_grow(&spellings, &t->spellings_capacity, t->n_spellings + 1, sizeof *t->spellings)) {
        return fn_fail_nomem(err, "merges", sizeof *t->spellings);
    }
    t->spellings = spellings;
    t->spellings[t->n_spellings++] = (fn_spelling){id, left, right};
    return FN_OK;
}

static fn_status read_merge(fn_tokenizer *t, const fn_tokenizer_tables *tables, size_t i,
                            fn_text_buffer *room, fn_error *err) {
    const fn_merge_entry *m = &tables->merges[i];
    room->count = 0;
    fn_status status = fn_text_buffer_append(room, m->left, m->n_left, err);
    if (status == FN_OK) {
        status = fn_text_buffer_append(room, m->right, m->n_right, err);
    }
    if (status != FN_OK) {
        return status;
    }
    int32_t left = (int32_t)fn_tokenizer_tables_find(tables, m->left, m->n_left);
    int32_t right = (int32_t)fn_tokenizer_tables_find(tables, m->right, m->n_right);
    int32_t result = (int32_t)fn_tokenizer_tables_find(tables, room->bytes, room->count);
    if (left < 0 || right < 0 || result < 0) {
        shown s = left < 0    ? show(m->left, m->n_left)
                  : right < 0 ? show(m->right, m->n_right)
                              : show(room->bytes, room->count);
        return fn_fail(err, FN_E_MODEL, "model.merges[%zu]: %s \"%s\" is not in model.vocab", i,
                       left < 0    ? "its left part"
                       : right < 0 ? "its right part"
                                   : "what it makes,",
                       s.text);
    }
    uint32_t rank = (uint32_t)i;
    if (!fn_bpe_add(t->bpe, left, right, &rank, result)) {
        shown a = show(m->left, m->n_left);
        shown b = show(m->right, m->n_right);
        return fn_fail(err, FN_E_MODEL, "model.merges[%zu]: \"%s\" + \"%s\" is merges[%u] already",
                       i, a.text, b.text, rank);
    }
    bool added = (fn_vocabulary_flags(&t->vocabulary, result) & FN_TOKEN_ADDED) != 0;
    return added ? note_spelling(t, result, left, right, err) : FN_OK;
}

static fn_status read_merges(fn_tokenizer *t, const fn_tokenizer_tables *tables, fn_error *err) {
    fn_text_buffer room = {0};
    fn_status status = FN_OK;
    for (size_t i = 0; i < tables->n_merges && status == FN_OK; i++) {
        status = read_merge(t, tables, i, &room, err);
    }
    fn_text_buffer_free(&room);
    return status;
}

/* ---- the tables of a tree -------------------------------------------------------------------- */

static fn_status list_vocab(json_t *vocab, fn_tokenizer_tables *tables, fn_error *err) {
    bool twice = false; /* the reader of JSON has refused it */
    if (!json_is_object(vocab)) {
        return fn_fail(err, FN_E_MODEL, "model.vocab: expected an object, found %s",
                       vocab != NULL ? fn_json_type_name(vocab) : "nothing");
    }
    for (void *it = json_object_iter(vocab); it != NULL; it = json_object_iter_next(vocab, it)) {
        const json_t *id = json_object_iter_value(it);
        fn_vocab_entry entry = {.text = json_object_iter_key(it),
                                .n = json_object_iter_key_len(it),
                                .id = json_integer_value(id)};
        if (!json_is_integer(id)) {
            shown name = show(entry.text, entry.n);
            return fn_fail(err, FN_E_MODEL, "model.vocab: \"%s\": expected an integer, found %s",
                           name.text, fn_json_type_name(id));
        }
        fn_status status = fn_tokenizer_tables_add(tables, &entry, err);
        if (status != FN_OK) {
            return status;
        }
    }
    return fn_tokenizer_tables_index(tables, &twice, err);
}

/* Merges are "left right", or [left, right] since spaces are allowed in tokens. */
static bool split_merge(const json_t *item, fn_merge_entry *m) {
    if (json_is_array(item) && json_array_size(item) == 2) {
        const json_t *left = json_array_get(item, 0);
        const json_t *right = json_array_get(item, 1);
        *m = (fn_merge_entry){.left = json_string_value(left),
                              .n_left = json_string_length(left),
                              .right = json_string_value(right),
                              .n_right = json_string_length(right)};
        return json_is_string(left) && json_is_string(right);
    }
    return json_is_string(item) &&
           fn_merge_split(json_string_value(item), json_string_length(item), m);
}

static fn_status list_merges(const json_t *merges, fn_tokenizer_tables *tables, fn_error *err) {
    if (!json_is_array(merges) || json_array_size(merges) >= UINT32_MAX) {
        return fn_fail(err, FN_E_MODEL, "model.merges: expected an array, found %s",
                       merges != NULL ? fn_json_type_name(merges) : "nothing");
    }
    fn_status status = FN_OK;
    for (size_t i = 0; i < json_array_size(merges) && status == FN_OK; i++) {
        const json_t *item = json_array_get(merges, i);
        fn_merge_entry entry;
        if (!split_merge(item, &entry)) {
            shown s = json_is_string(item) ? show_string(item) : show(fn_json_type_name(item), 8);
            return fn_fail(err, FN_E_MODEL,
                           "model.merges[%zu]: expected \"left right\" or [left, right], found %s",
                           i, s.text);
        }
        status = fn_tokenizer_tables_add_merge(tables, &entry, err);
    }
    return status;
}

/* ---- added tokens ---------------------------------------------------------------------------- */

/* One member of added_tokens. */
typedef struct added_entry {
    const char *text;
    size_t n;
    json_int_t id;
    int single_word, lstrip, rstrip, normalized, special;
} added_entry;

static fn_status unpack_added(json_t *item, size_t i, added_entry *a, fn_error *err) {
    json_error_t detail;
    *a = (added_entry){0};
    if (json_unpack_ex(item, &detail, 0, "{s:I, s:s%, s:b, s:b, s:b, s:b, s:b}", "id", &a->id,
                       "content", &a->text, &a->n, "single_word", &a->single_word, "lstrip",
                       &a->lstrip, "rstrip", &a->rstrip, "normalized", &a->normalized, "special",
                       &a->special) != 0) {
        return fn_fail(err, FN_E_MODEL,
                       "added_tokens[%zu]: %s; expected id, content, single_word, lstrip, rstrip, "
                       "normalized, special",
                       i, detail.text);
    }
    if (a->n == 0) {
        return fn_fail(err, FN_E_MODEL, "added_tokens[%zu].content: empty, expected a text", i);
    }
    return FN_OK;
}

/* The reference gives an added token the id of the vocabulary entry of that name, else the next
 * free one, whatever the file says; where the two differ nobody could know what the model
 * learnt. */
static fn_status check_added_id(const fn_tokenizer *t, const fn_tokenizer_tables *tables,
                                const added_entry *a, size_t i, int64_t next, fn_error *err) {
    shown name = show(a->text, a->n);
    int64_t expected = fn_tokenizer_tables_find(tables, a->text, a->n);
    bool listed = expected >= 0;
    expected = listed ? expected : next;
    if (a->id != expected || a->id >= MAX_ID) {
        return fn_fail(err, FN_E_MODEL, "added_tokens[%zu] (\"%s\"): id %lld, expected %lld, %s", i,
                       name.text, (long long)a->id, (long long)expected,
                       listed ? "the id of the entry in model.vocab" : "the next free id");
    }
    unsigned flags = fn_vocabulary_flags(&t->vocabulary, (int32_t)a->id);
    if ((flags & FN_TOKEN_ADDED) != 0 || (flags != 0 && !listed)) {
        return fn_fail(err, FN_E_MODEL, "added_tokens[%zu] (\"%s\"): id %lld is taken already", i,
                       name.text, (long long)a->id);
    }
    return FN_OK;
}

/* Normalised tokens are looked for in normalised text, so their own text is normalised too. Where
 * two become one text the first in the file is found (the reference picks either, by chance). */
static fn_status insert_added(fn_tokenizer *t, const added_entry *a, fn_error *err) {
    fn_added_token token = {.id = (int32_t)a->id,
                            .single_word = a->single_word != 0,
                            .lstrip = a->lstrip != 0,
                            .rstrip = a->rstrip != 0};
    if (a->normalized == 0) {
        return fn_added_set_insert(&t->plain, a->text, a->n, &token, err);
    }
    if (!t->nfc) {
        return fn_added_set_insert(&t->normalized, a->text, a->n, &token, err);
    }
    fn_text_buffer normal = {0};
    fn_status status =
        fn_nfc_append(&(fn_marked_text){.bytes = a->text, .n = a->n}, &normal, NULL, err);
    if (status == FN_OK) {
        status = fn_added_set_insert(&t->normalized, normal.bytes, normal.count, &token, err);
    }
    fn_text_buffer_free(&normal);
    return status;
}

static fn_status read_added(fn_tokenizer *t, const fn_tokenizer_tables *tables, const json_t *list,
                            fn_error *err) {
    if (list == NULL || json_is_null(list)) {
        return FN_OK;
    }
    if (!json_is_array(list)) {
        return fn_fail(err, FN_E_MODEL, "added_tokens: expected an array, found %s",
                       fn_json_type_name(list));
    }
    int64_t next = (int64_t)tables->n_vocab;
    for (size_t i = 0; i < json_array_size(list); i++) {
        added_entry a;
        fn_status status = unpack_added(json_array_get(list, i), i, &a, err);
        if (status == FN_OK) {
            status = check_added_id(t, tables, &a, i, next, err);
        }
        if (status == FN_OK) {
            unsigned special = a.special != 0 ? FN_TOKEN_SPECIAL : 0;
            status = fn_vocabulary_set(&t->vocabulary, (int32_t)a.id, a.text, a.n,
                                       FN_TOKEN_ADDED | special, err);
        }
        if (status == FN_OK) {
            status = insert_added(t, &a, err);
        }
        if (status != FN_OK) {
            return status;
        }
        next = a.id + 1 > next ? a.id + 1 : next;
    }
    return FN_OK;
}

static fn_status refuse_twins(const fn_tokenizer *t, fn_error *err) {
    for (int32_t id = 0; (size_t)id < t->vocabulary.size; id++) {
        size_t n = 0;
        const char *text = fn_vocabulary_bytes(&t->vocabulary, id, &n);
        if (text == NULL || (fn_vocabulary_flags(&t->vocabulary, id) & FN_TOKEN_ADDED) == 0) {
            continue;
        }
        int32_t first = fn_vocabulary_find(&t->vocabulary, text, n);
        if (first != id) {
            shown name = show(text, n);
            return fn_fail(err, FN_E_MODEL, "added_tokens: \"%s\" is there twice, as %d and as %d",
                           name.text, first, id);
        }
    }
    return FN_OK;
}

fn_status fn_tokenizer_read_json(const json_t *root, fn_tokenizer_tables *tables, fn_tokenizer *t,
                                 fn_error *err) {
    fn_status status = fn_tokenizer_read_pipeline(root, t, err);
    const json_t *model = json_object_get(root, "model");
    const json_t *merges = json_object_get(model, "merges");
    bool listed = tables->taken_out;
    if (status == FN_OK && !listed) {
        status = list_vocab(json_object_get(model, "vocab"), tables, err);
    }
    if (status == FN_OK) {
        status = read_vocab(t, tables, err);
    }
    if (status == FN_OK) {
        status = make_bpe(t, tables, listed ? tables->n_merges : json_array_size(merges), err);
    }
    if (status == FN_OK) {
        status = read_added(t, tables, json_object_get(root, "added_tokens"), err);
    }
    if (status == FN_OK && !listed) {
        status = list_merges(merges, tables, err);
    }
    if (status == FN_OK) {
        status = read_merges(t, tables, err);
    }
    if (status == FN_OK) {
        status = fn_vocabulary_index(&t->vocabulary, err);
    }
    return status == FN_OK ? refuse_twins(t, err) : status;
}
