/* Text -> repaired UTF-8 -> parts between added tokens -> NFC -> parts between normalised added
 * tokens -> pieces -> ids: the order of the reference tokenizer, where a part is a text of its own
 * for the normaliser and for the split rule. */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "tokens/nfc.h"
#include "tokens/tokenizer_parts.h"
#include "tokens/utf8.h"

enum { CACHED_PIECE = 24, MAX_CACHE_LOG2 = 15 };

/* A piece seen before and where its ids stand in the output; the bytes are padded with zeros. */
typedef struct cached {
    uint64_t bytes[CACHED_PIECE / 8];
    uint32_t at;
    uint8_t length; /* 0: empty */
    uint8_t n_ids;
} cached;

typedef struct encoder {
    const fn_tokenizer *t;
    fn_ids *out;
    size_t first; /* out->count at the start */
    bool allow_added;
    fn_bpe_scratch scratch;
    cached *cache; /* [cache_mask + 1] of this call only; NULL for short texts */
    size_t cache_mask;
    fn_text_buffer repaired;
    fn_text_buffer normal;
    fn_text_span *room; /* four times the number of spans: repaired, part, normal, inner part */
    fn_text_span no_room;
    fn_error *err;
} encoder;

static fn_status reserve_ids(encoder *e, size_t n) {
    void *items = e->out->items;
    if (n > SIZE_MAX / 8 ||
        !fn_grow(&items, &e->out->capacity, e->out->count + n, sizeof *e->out->items)) {
        return fn_fail_nomem(e->err, "token ids", n * sizeof *e->out->items);
    }
    e->out->items = items;
    return FN_OK;
}

/* Replaces every added id behind `from` by the two it was merged from, until none is left. */
static fn_status spell_added(encoder *e, size_t from) {
    for (size_t i = from; i < e->out->count;) {
        const fn_spelling *found = NULL;
        for (size_t k = 0; k < e->t->n_spellings && found == NULL; k++) {
            found = e->t->spellings[k].id == e->out->items[i] ? &e->t->spellings[k] : NULL;
        }
        if (found == NULL) {
            i++;
            continue;
        }
        fn_status status = reserve_ids(e, 1);
        if (status != FN_OK) {
            return status;
        }
        int32_t *at = e->out->items + i;
        memmove(at + 2, at + 1, (e->out->count - i - 1) * sizeof *at);
        at[0] = found->left;
        at[1] = found->right;
        e->out->count++;
    }
    return FN_OK;
}

static fn_status merge_piece(encoder *e, const char *piece, size_t n) {
    size_t n_ids = 0;
    fn_status status = reserve_ids(e, n);
    if (status == FN_OK) {
        status = fn_bpe_encode(e->t->bpe, (const unsigned char *)piece, n, &e->scratch,
                               e->out->items + e->out->count, &n_ids, e->err);
    }
    if (status == FN_OK) {
        e->out->count += n_ids;
    }
    return status;
}

static fn_status cached_piece(encoder *e, const char *piece, size_t n) {
    uint64_t key[CACHED_PIECE / 8] = {0};
    memcpy(key, piece, n);
    uint64_t hash = fn_hash_mix(key[0] ^ fn_hash_mix(key[1] ^ (key[2] + n) * FN_HASH_START));
    cached *slot = &e->cache[hash & e->cache_mask];
    size_t start = e->out->count - e->first;
    if (slot->length == n && memcmp(slot->bytes, key, sizeof key) == 0) {
        fn_status status = reserve_ids(e, slot->n_ids);
        if (status == FN_OK) {
            memcpy(e->out->items + e->out->count, e->out->items + e->first + slot->at,
                   slot->n_ids * sizeof *e->out->items);
            e->out->count += slot->n_ids;
        }
        return status;
    }
    fn_status status = merge_piece(e, piece, n);
    if (status == FN_OK && start <= UINT32_MAX) {
        memcpy(slot->bytes, key, sizeof key);
        slot->at = (uint32_t)start;
        slot->length = (uint8_t)n;
        slot->n_ids = (uint8_t)(e->out->count - e->first - start);
    }
    return status;
}

/* A text without added tokens; with marked spans their pieces spell added tokens out. */
static fn_status encode_plain(encoder *e, const fn_marked_text *text) {
    size_t span = 0;
    fn_status status = FN_OK;
    bool spell = e->t->n_spellings > 0;
    for (size_t at = 0; at < text->n && status == FN_OK;) {
        const char *piece = text->bytes + at;
        size_t n = fn_split_next(e->t->rule, piece, text->n - at);
        size_t before = e->out->count;
        if (e->cache != NULL && n <= CACHED_PIECE && !spell) {
            status = cached_piece(e, piece, n);
        } else {
            status = merge_piece(e, piece, n);
        }
        if (status == FN_OK && spell) {
            while (span < text->n_spans && text->spans[span].end <= at) {
                span++;
            }
            bool marked = span < text->n_spans && text->spans[span].begin < at + n;
            status = marked || !e->allow_added ? spell_added(e, before) : FN_OK;
        }
        at += n;
    }
    return status;
}

static fn_status append_id(encoder *e, int32_t id) {
    fn_status status = reserve_ids(e, 1);
    if (status == FN_OK) {
        e->out->items[e->out->count++] = id;
    }
    return status;
}

/* A part between added tokens: normalised, then searched for those that are matched so late. */
static fn_status encode_part(encoder *e, const fn_marked_text *part, fn_text_span *room) {
    fn_marked_text text = *part;
    fn_status status = FN_OK;
    if (e->t->nfc && !fn_nfc_is_normal(text.bytes, text.n)) {
        e->normal.count = 0;
        status = fn_nfc_append(part, &e->normal, room, e->err);
        text = (fn_marked_text){e->normal.bytes, e->normal.count, room, part->n_spans};
    }
    if (!e->allow_added || e->t->normalized.n_tokens == 0) {
        return status == FN_OK ? encode_plain(e, &text) : status;
    }
    fn_added_walk walk = fn_added_walk_start(&e->t->normalized, &text);
    fn_added_part found;
    while (status == FN_OK && fn_added_walk_next(&walk, &found)) {
        if (found.id >= 0) {
            status = append_id(e, found.id);
            continue;
        }
        fn_marked_text inner = fn_marked_slice(&text, found.begin, found.end, room + part->n_spans);
        status = encode_plain(e, &inner);
    }
    return status;
}

static fn_status encode_text(encoder *e, const fn_marked_text *text, fn_text_span *room) {
    if (!e->allow_added) {
        return encode_part(e, text, room);
    }
    fn_added_walk walk = fn_added_walk_start(&e->t->plain, text);
    fn_added_part found;
    fn_status status = FN_OK;
    while (status == FN_OK && fn_added_walk_next(&walk, &found)) {
        if (found.id >= 0) {
            status = append_id(e, found.id);
            continue;
        }
        fn_marked_text part = fn_marked_slice(text, found.begin, found.end, room);
        status = encode_part(e, &part, room + text->n_spans);
    }
    return status;
}

static fn_status check_spans(const fn_marked_text *text, fn_error *err) {
    size_t at = 0;
    for (size_t i = 0; i < text->n_spans; i++) {
        if (text->spans[i].begin < at || text->spans[i].end < text->spans[i].begin ||
            text->spans[i].end > text->n) {
            return fn_fail(
                err, FN_E_RANGE,
                "span %zu of a text is [%zu, %zu), expected it behind %zu and within %zu", i,
                text->spans[i].begin, text->spans[i].end, at, text->n);
        }
        at = text->spans[i].end;
    }
    return FN_OK;
}

/* A cache for texts in which pieces come back; its size follows the text's. */
static fn_status make_cache(encoder *e, size_t n) {
    unsigned log2 = 0;
    while (log2 < MAX_CACHE_LOG2 && (size_t)8 << log2 < n) {
        log2++;
    }
    if (log2 < 6) {
        return FN_OK;
    }
    e->cache_mask = ((size_t)1 << log2) - 1;
    e->cache = fn_alloc_zero(e->cache_mask + 1, sizeof *e->cache);
    return e->cache != NULL
               ? FN_OK
               : fn_fail_nomem(e->err, "piece cache", (e->cache_mask + 1) * sizeof *e->cache);
}

static fn_status encode(encoder *e, const fn_marked_text *source) {
    fn_marked_text text = *source;
    fn_status status = check_spans(source, e->err);
    if (status == FN_OK && text.n_spans > 0) {
        fn_text_span *room = fn_alloc(text.n_spans, 4 * sizeof *room);
        status = room != NULL ? FN_OK : fn_fail_nomem(e->err, "spans", text.n_spans * 4);
        e->room = room != NULL ? room : e->room;
    }
    if (status == FN_OK) {
        status = make_cache(e, text.n);
    }
    if (status != FN_OK || text.n == 0) {
        return status;
    }
    if (fn_utf8_valid_prefix((const unsigned char *)text.bytes, text.n) < text.n) {
        status = fn_marked_repair(source, &e->repaired, e->room, e->err);
        text.bytes = e->repaired.bytes;
        text.n = e->repaired.count;
        text.spans = e->room;
    }
    return status == FN_OK ? encode_text(e, &text, e->room + text.n_spans) : status;
}

static fn_status run(encoder *e, const fn_marked_text *text) {
    e->first = e->out->count;
    e->room = &e->no_room;
    fn_status status = encode(e, text);
    if (status != FN_OK) {
        e->out->count = e->first;
    }
    fn_bpe_scratch_free(&e->scratch);
    fn_free(e->cache);
    fn_text_buffer_free(&e->repaired);
    fn_text_buffer_free(&e->normal);
    fn_free(e->room != &e->no_room ? e->room : NULL);
    return status;
}

fn_status fn_tokenizer_encode(const fn_tokenizer *t, const char *text, size_t n, bool allow_added,
                              fn_ids *out, fn_error *err) {
    encoder e = {.t = t, .out = out, .allow_added = allow_added, .err = err};
    return run(&e, &(fn_marked_text){.bytes = text, .n = n});
}

fn_status fn_tokenizer_encode_spans(const fn_tokenizer *t, const char *text, size_t n,
                                    const fn_text_span *spans, size_t n_spans, fn_ids *out,
                                    fn_error *err) {
    encoder e = {.t = t, .out = out, .allow_added = true, .err = err};
    return run(&e, &(fn_marked_text){text, n, spans, n_spans});
}
