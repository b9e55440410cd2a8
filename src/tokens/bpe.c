#include "tokens/bpe.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

enum {
    SHORT_PIECE = 48,  /* up to here a scan for the lowest rank beats a heap */
    LONG_PIECE = 1024, /* from here sweeps come before the heap */
};

#define NO_RANK UINT32_MAX
#define NOWHERE UINT32_MAX

typedef struct merge {
    int32_t left; /* -1: an empty slot */
    int32_t right;
    uint32_t rank;
    int32_t result;
} merge;

struct fn_bpe {
    int32_t byte_ids[256];
    merge *slots; /* [mask + 1], open addressing, at most half full */
    size_t mask;
};

static const merge no_merge = {.left = -1, .right = -1, .rank = NO_RANK, .result = -1};

fn_status fn_bpe_create(const int32_t byte_ids[256], size_t n_merges, fn_bpe **out, fn_error *err) {
    size_t n_slots = 16;
    *out = NULL;
    while (n_slots / 2 < n_merges && n_slots <= SIZE_MAX / 4) {
        n_slots *= 2;
    }
    fn_bpe *bpe = fn_alloc(1, sizeof *bpe);
    merge *slots = fn_alloc(n_slots, sizeof *slots);
    if (bpe == NULL || slots == NULL) {
        fn_free(bpe);
        fn_free(slots);
        return fn_fail_nomem(err, "merges", n_slots * sizeof *slots);
    }
    memcpy(bpe->byte_ids, byte_ids, sizeof bpe->byte_ids);
    for (size_t i = 0; i < n_slots; i++) {
        slots[i] = no_merge;
    }
    bpe->slots = slots;
    bpe->mask = n_slots - 1;
    *out = bpe;
    return FN_OK;
}

void fn_bpe_free(fn_bpe *bpe) {
    if (bpe != NULL) {
        fn_free(bpe->slots);
        fn_free(bpe);
    }
}

void fn_bpe_scratch_free(fn_bpe_scratch *scratch) {
    fn_free(scratch->before);
    fn_free(scratch->behind);
    fn_free(scratch->heap);
    *scratch = (fn_bpe_scratch){0};
}

/* The slot of the pair, or the empty one where it would go. */
static merge *find(const fn_bpe *bpe, int32_t left, int32_t right) {
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t at = (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) ^ (size_t)(key >> 32);
    at = (at * UINT64_C(0xD6E8FEB86659FD93)) >> 20 & bpe->mask;
    while (bpe->slots[at].left >= 0 &&
           (bpe->slots[at].left != left || bpe->slots[at].right != right)) {
        at = (at + 1) & bpe->mask;
    }
    return &bpe->slots[at];
}

bool fn_bpe_add(fn_bpe *bpe, int32_t left, int32_t right, uint32_t *rank, int32_t result) {
    merge *slot = find(bpe, left, right);
    if (slot->left >= 0) {
        *rank = slot->rank;
        return false;
    }
    *slot = (merge){.left = left, .right = right, .rank = *rank, .result = result};
    return true;
}

/* ids [n] -> fewer ids in place; returns how many. */
static size_t merge_short(const fn_bpe *bpe, int32_t *ids, size_t n) {
    const merge *pairs[SHORT_PIECE]; /* of ids[i], ids[i + 1] */
    for (size_t i = 0; i + 1 < n; i++) {
        pairs[i] = find(bpe, ids[i], ids[i + 1]);
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++) {
            best = pairs[i]->rank < pairs[best]->rank ? i : best;
        }
        if (pairs[best]->rank == NO_RANK) {
            break;
        }
        ids[best] = pairs[best]->result;
        n--;
        memmove(ids + best + 1, ids + best + 2, (n - best - 1) * sizeof *ids);
        if (best + 1 < n) {
            memmove(pairs + best + 1, pairs + best + 2, (n - best - 2) * sizeof *pairs);
            pairs[best] = find(bpe, ids[best], ids[best + 1]);
        }
        if (best > 0) {
            pairs[best - 1] = find(bpe, ids[best - 1], ids[best]);
        }
    }
    return n;
}

typedef struct heap {
    uint64_t *items; /* [count], smallest first */
    size_t count;
} heap;

static void sift_down(const heap *h, size_t at) {
    uint64_t value = h->items[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= h->count) {
            break;
        }
        if (child + 1 < h->count && h->items[child + 1] < h->items[child]) {
            child++;
        }
        if (h->items[child] >= value) {
            break;
        }
        h->items[at] = h->items[child];
        at = child;
    }
    h->items[at] = value;
}

static void heap_push(heap *h, uint64_t value) {
    size_t at = h->count++;
    while (at > 0 && h->items[(at - 1) / 2] > value) {
        h->items[at] = h->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    h->items[at] = value;
}

static uint64_t heap_pop(heap *h) {
    uint64_t top = h->items[0];
    h->items[0] = h->items[--h->count];
    if (h->count > 0) {
        sift_down(h, 0);
    }
    return top;
}

static void push_pair(const fn_bpe *bpe, const int32_t *ids, heap *h, uint32_t at, uint32_t next) {
    uint32_t rank = find(bpe, ids[at], ids[next])->rank;
    if (rank != NO_RANK) {
        heap_push(h, (uint64_t)rank << 32 | at);
    }
}

/* One sweep merges the pairs of lowest rank from left to right, in ids [n] and the ranks [n] of
 * their pairs; returns how many ids are left. It ends early when a merge makes a pair of lower
 * rank, whose turn it is then. */
static size_t sweep(const fn_bpe *bpe, int32_t *ids, uint32_t *ranks, size_t n) {
    uint32_t lowest = NO_RANK;
    for (size_t i = 0; i + 1 < n; i++) {
        lowest = ranks[i] < lowest ? ranks[i] : lowest;
    }
    bool open = lowest != NO_RANK;
    size_t kept = 0;
    for (size_t i = 0; i < n; kept++) {
        if (!open || i + 1 >= n || ranks[i] != lowest) {
            ids[kept] = ids[i];
            ranks[kept] = ranks[i];
            i++;
            continue;
        }
        ids[kept] = find(bpe, ids[i], ids[i + 1])->result;
        ranks[kept] = i + 2 < n ? find(bpe, ids[kept], ids[i + 2])->rank : NO_RANK;
        open = ranks[kept] > lowest;
        if (kept > 0) {
            ranks[kept - 1] = find(bpe, ids[kept - 1], ids[kept])->rank;
            open = open && ranks[kept - 1] > lowest;
        }
        i += 2;
    }
    return kept;
}

/* Long runs of the same few characters shrink by sweeps at once; other texts hardly, and are left
 * to the heap. */
static size_t merge_runs(const fn_bpe *bpe, int32_t *ids, uint32_t *ranks, size_t n) {
    for (size_t i = 0; i < n; i++) {
        ranks[i] = i + 1 < n ? find(bpe, ids[i], ids[i + 1])->rank : NO_RANK;
    }
    for (;;) {
        size_t kept = sweep(bpe, ids, ranks, n);
        bool worth_it = n - kept > n / 16;
        n = kept;
        if (!worth_it) {
            return n;
        }
    }
}

/* The same for long pieces: symbols in a linked list, pairs in a heap. A merged symbol's id is -1;
 * pairs that a merge has changed stay in the heap and are recognised by their rank. */
static void merge_long(const fn_bpe *bpe, int32_t *ids, size_t n, fn_bpe_scratch *scratch) {
    heap h = {.items = scratch->heap};
    uint32_t *before = scratch->before;
    uint32_t *behind = scratch->behind;
    for (size_t i = 0; i < n; i++) {
        before[i] = i > 0 ? (uint32_t)(i - 1) : NOWHERE;
        behind[i] = i + 1 < n ? (uint32_t)(i + 1) : NOWHERE;
        if (i + 1 < n) {
            uint32_t rank = find(bpe, ids[i], ids[i + 1])->rank;
            h.items[h.count] = (uint64_t)rank << 32 | i;
            h.count += rank != NO_RANK ? 1 : 0;
        }
    }
    for (size_t i = h.count / 2; i-- > 0;) {
        sift_down(&h, i);
    }
    while (h.count > 0) {
        uint64_t top = heap_pop(&h);
        uint32_t at = (uint32_t)top;
        uint32_t next = behind[at];
        if (ids[at] < 0 || next == NOWHERE) {
            continue;
        }
        const merge *pair = find(bpe, ids[at], ids[next]);
        if (pair->rank != (uint32_t)(top >> 32)) {
            continue;
        }
        ids[at] = pair->result;
        ids[next] = -1;
        behind[at] = behind[next];
        if (behind[at] != NOWHERE) {
            before[behind[at]] = at;
            push_pair(bpe, ids, &h, at, behind[at]);
        }
        if (before[at] != NOWHERE) {
            push_pair(bpe, ids, &h, before[at], at);
        }
    }
}

static bool grow_u32(uint32_t **items, size_t *capacity, size_t n) {
    void *grown = *items;
    bool ok = fn_grow(&grown, capacity, n, sizeof **items);
    *items = grown;
    return ok;
}

/* merge_long with room for it; ids that were merged away are taken out. */
static fn_status merge_rest(const fn_bpe *bpe, int32_t *ids, size_t n, fn_bpe_scratch *s,
                            size_t *n_out, fn_error *err) {
    void *heap_items = s->heap;
    bool ok = grow_u32(&s->before, &s->before_capacity, n) &&
              grow_u32(&s->behind, &s->behind_capacity, n);
    /* A merge takes one pair out and puts at most two in, and there are fewer than n merges. */
    ok = ok && fn_grow(&heap_items, &s->heap_capacity, 2 * n, sizeof *s->heap);
    s->heap = heap_items;
    if (!ok) {
        return fn_fail_nomem(err, "a long piece of text", n * 24);
    }
    merge_long(bpe, ids, n, s);
    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= 0) {
            ids[(*n_out)++] = ids[i];
        }
    }
    return FN_OK;
}

fn_status fn_bpe_encode(const fn_bpe *bpe, const unsigned char *piece, size_t n,
                        fn_bpe_scratch *scratch, int32_t *out, size_t *n_out, fn_error *err) {
    for (size_t i = 0; i < n; i++) {
        out[i] = bpe->byte_ids[piece[i]];
    }
    if (n <= SHORT_PIECE) {
        *n_out = merge_short(bpe, out, n);
        return FN_OK;
    }
    *n_out = 0;
    if (n > (size_t)1 << 31) {
        return fn_fail(err, FN_E_RANGE,
                       "a piece of text of %zu bytes without a break, at most 2^31", n);
    }
    if (n >= LONG_PIECE) {
        if (!grow_u32(&scratch->before, &scratch->before_capacity, n)) {
            return fn_fail_nomem(err, "a long piece of text", n * sizeof *scratch->before);
        }
        n = merge_runs(bpe, out, scratch->before, n);
    }
    return merge_rest(bpe, out, n, scratch, n_out, err);
}
