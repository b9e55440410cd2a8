#include "tokens/vocabulary.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

fn_status fn_vocabulary_set(fn_vocabulary *v, int32_t id, const char *bytes, size_t n,
                            unsigned flags, fn_error *err) {
    size_t at = (size_t)id;
    if (n >= UINT32_MAX) {
        return fn_fail(err, FN_E_MODEL, "token %d has %zu bytes, expected fewer than 2^32", id, n);
    }
    void *entries = v->entries;
    if (!fn_grow(&entries, &v->capacity, at + 1, sizeof *v->entries)) {
        return fn_fail_nomem(err, "vocabulary", (at + 1) * sizeof *v->entries);
    }
    v->entries = entries;
    for (; v->size <= at; v->size++) {
        v->entries[v->size] = (fn_vocabulary_entry){0};
    }
    size_t offset = v->bytes.count;
    fn_status status = fn_text_buffer_append(&v->bytes, bytes, n, err);
    if (status == FN_OK) {
        status = fn_text_buffer_append(&v->bytes, "", 1, err);
    }
    if (status == FN_OK) {
        v->entries[at] = (fn_vocabulary_entry){
            .offset = offset, .length = (uint32_t)n, .flags = flags | FN_TOKEN_PRESENT};
    }
    return status;
}

static uint32_t *find_slot(const fn_vocabulary *v, const char *bytes, size_t n) {
    size_t at = (size_t)fn_hash_bytes(FN_HASH_START, bytes, n) & v->index_mask;
    while (v->index[at] != 0) {
        size_t length = 0;
        const char *there = fn_vocabulary_bytes(v, (int32_t)(v->index[at] - 1), &length);
        if (there != NULL && length == n && memcmp(there, bytes, n) == 0) {
            break;
        }
        at = (at + 1) & v->index_mask;
    }
    return &v->index[at];
}

fn_status fn_vocabulary_index(fn_vocabulary *v, fn_error *err) {
    size_t n_slots = 16;
    while (n_slots / 2 < v->size) {
        n_slots *= 2;
    }
    v->index = fn_alloc_zero(n_slots, sizeof *v->index);
    if (v->index == NULL) {
        return fn_fail_nomem(err, "vocabulary", n_slots * sizeof *v->index);
    }
    v->index_mask = n_slots - 1;
    for (unsigned pass = 0; pass < 2; pass++) {
        for (size_t id = 0; id < v->size; id++) {
            const fn_vocabulary_entry *e = &v->entries[id];
            bool added = (e->flags & FN_TOKEN_ADDED) != 0;
            if (e->flags == 0 || added != (pass == 0)) {
                continue;
            }
            uint32_t *slot = find_slot(v, v->bytes.bytes + e->offset, e->length);
            *slot = *slot == 0 ? (uint32_t)id + 1 : *slot;
        }
    }
    return FN_OK;
}

int32_t fn_vocabulary_find(const fn_vocabulary *v, const char *bytes, size_t n) {
    return (int32_t)*find_slot(v, bytes, n) - 1;
}

const char *fn_vocabulary_bytes(const fn_vocabulary *v, int32_t id, size_t *n) {
    *n = 0;
    if (fn_vocabulary_flags(v, id) == 0) {
        return NULL;
    }
    *n = v->entries[id].length;
    return v->bytes.bytes + v->entries[id].offset;
}

unsigned fn_vocabulary_flags(const fn_vocabulary *v, int32_t id) {
    return id >= 0 && (size_t)id < v->size ? v->entries[id].flags : 0;
}

void fn_vocabulary_free(fn_vocabulary *v) {
    fn_text_buffer_free(&v->bytes);
    fn_free(v->entries);
    fn_free(v->index);
    *v = (fn_vocabulary){0};
}
