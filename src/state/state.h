/* state/state.h - everything the model remembers of one sequence.
 *
 * Path:    forward/ reads and writes it; engine/ forks, snapshots, saves it.
 * Parts:   one table (FN_STATE_PARTS) lists them; creating, cloning, comparing, saving, loading and the
 *          memory plan all walk that table, so no part can be forgotten. Two kinds of storage:
 *          paged      grow with the sequence, row by row; never change once written; rolled back by
 *                     length. Pages of FN_PAGE_ROWS rows, reference-counted, copied before a shared one
 *                     is written.
 *          recurrent  one fixed-size block for all of them, replaced by a fresh block at every forward;
 *                     reference-counted. So a clone costs no copy of either kind.
 * Rows:    a forward over n rows may keep the recurrent block after each row; fn_state_roll_back then
 *          goes back to any of them by swapping a pointer.
 * Threads: a state belongs to one thread at a time; states of one pool may be used by several threads.
 * Memory:  pages and blocks come from the pool; once a state's room is reserved, a forward allocates
 *          nothing.
 * MTP:     the head's pairs are (streams at t, token t + 1), so a sequence of n tokens has n - 1 of them; what
 *          lies beyond in its pages is scratch of drafts. */
#ifndef FN_STATE_STATE_H
#define FN_STATE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "shape/shape.h"

#define FN_PAGE_ROWS 64

typedef enum fn_storage { FN_STORE_TOKENS, FN_STORE_BLOCKS, FN_STORE_RECURRENT } fn_storage;

/* NAME, text, storage, layers that have it, heads, values per head (a row is heads x values; pages are
 * head-major: [heads, FN_PAGE_ROWS, values]), bytes of a value. s is the shape, m tells whether the MTP head
 * is loaded, kv is what a key's or value's number takes: float32 (4) in exact precision, BF16 (2) in fast. */
#define FN_STATE_PARTS(X)                                                                          \
    X(KEYS, "keys", TOKENS, s->n_attention, s->n_kv_heads, s->head_dim, kv)                        \
    X(VALUES, "values", TOKENS, s->n_attention, s->n_kv_heads, s->head_dim, kv)                    \
    X(POOLED, "pooled index keys", BLOCKS, FN_INDEXED(s->n_attention), 1, s->index_dim, kv)        \
    X(MTP_KEYS, "MTP keys", TOKENS, m, s->n_kv_heads, s->head_dim, kv)                             \
    X(MTP_VALUES, "MTP values", TOKENS, m, s->n_kv_heads, s->head_dim, kv)                         \
    X(MTP_POOLED, "MTP pooled index keys", BLOCKS, FN_INDEXED(m), 1, s->index_dim, kv)             \
    X(RAW_KEYS, "raw index keys of the open block", RECURRENT, FN_INDEXED(s->n_attention),         \
      s->index_ratio, s->index_dim, 4)                                                             \
    X(MTP_RAW_KEYS, "MTP raw index keys of the open block", RECURRENT, FN_INDEXED(m),              \
      s->index_ratio, s->index_dim, 4)                                                             \
    X(MTP_POSITIONS, "positions of the MTP head's open block and of the next pair", RECURRENT, m,  \
      s->has_indexer ? s->index_ratio : 1, 3, 4)                                                   \
    X(DELTA, "delta-rule states", RECURRENT, s->n_delta, s->delta_v_heads,                         \
      s->delta_k_dim * s->delta_v_dim, 4)                                                          \
    X(CONV, "delta-net conv tails", RECURRENT, s->n_delta, s->conv_kernel - 1, fn_shape_conv(s),   \
      4)                                                                                           \
    X(PLE_CONV, "PLE conv tails", RECURRENT, s->n_ple, FN_PLED(fn_shape_ple_tail(s)),              \
      fn_shape_streams(s), 4)                                                                      \
    X(NGRAM_IDS, "n-gram history", RECURRENT, FN_PLED(1), 1, s->ngram_size - 1, 4)                 \
    X(STREAMS, "last streams", RECURRENT, 1, s->hc, s->hidden, 4)                                  \
    X(OPEN_POSITIONS, "positions of the open block", RECURRENT, FN_INDEXED(1), s->index_ratio, 3, 4)
#define FN_INDEXED(n) (s->has_indexer ? (size_t)(n) : 0)
#define FN_PLED(n) (s->n_ple > 0 ? (size_t)(n) : 0)

typedef enum fn_part {
#define FN_PART_ENUM(name, text, storage, layers, heads, values, bytes) FN_PART_##name,
    FN_STATE_PARTS(FN_PART_ENUM)
#undef FN_PART_ENUM
        FN_PARTS
} fn_part;

typedef struct fn_part_layout {
    const char *text;
    fn_storage storage;
    size_t layers, heads, values;
    size_t value_bytes;
    size_t row_bytes; /* heads * values * value_bytes: a row (paged), a layer's share (recurrent) */
    size_t offset;    /* of layer 0 in the recurrent block */
    size_t stride;    /* to the next layer there; a multiple of 64 */
    size_t table;     /* index of layer 0 among the state's page tables */
} fn_part_layout;

typedef struct fn_state_layout {
    fn_part_layout part[FN_PARTS];
    size_t index_ratio; /* tokens in a block (1 without indexer, so that it divides) */
    bool mtp;           /* the MTP head is loaded */
    size_t n_tables;    /* page tables of a state */
    size_t recurrent_bytes;
    fn_precision precision;
    int32_t eos_id;
} fn_state_layout;

void fn_state_layout_init(const fn_shape *shape, bool mtp_loaded, fn_precision precision,
                          fn_state_layout *out);
/* Bytes of one state: recurrent blocks (two: the one read and the one written) and pages for n tokens. */
size_t fn_state_recurrent_bytes(const fn_state_layout *layout);
size_t fn_state_paged_bytes(const fn_state_layout *layout, size_t n_tokens);

/* ---- the pool of pages and blocks ---- */

typedef struct fn_state_pool fn_state_pool;
FN_NODISCARD fn_status fn_state_pool_create(const fn_state_layout *layout, fn_state_pool **out,
                                            fn_error *err);
void fn_state_pool_destroy(fn_state_pool *pool);
const fn_state_layout *fn_state_pool_layout(const fn_state_pool *pool);
/* Gives memory of free pages and blocks back to the system, but for so many recurrent blocks. */
void fn_state_pool_trim(fn_state_pool *pool, size_t spare_recurrent);
/* Bytes of pages and blocks that kept states hold (fn_state_keep). */
uint64_t fn_state_pool_kept_bytes(fn_state_pool *pool);

/* ---- one sequence ---- */

typedef struct fn_state fn_state;

/* Empty, with room for `context` tokens reserved. */
FN_NODISCARD fn_status fn_state_create(fn_state_pool *pool, size_t context, fn_state **out,
                                       fn_error *err);
void fn_state_destroy(fn_state *state);
/* Empty again, with its room. Fails with FN_E_NOMEM (the block is shared and no other can be had). */
FN_NODISCARD fn_status fn_state_clear(fn_state *state, fn_error *err);
/* A state that goes on from here on its own; shares everything that was written. */
FN_NODISCARD fn_status fn_state_clone(const fn_state *state, fn_state **out, fn_error *err);
/* dst becomes what src is (of the same pool); keeps dst's room. */
FN_NODISCARD fn_status fn_state_assign(fn_state *dst, const fn_state *src, fn_error *err);

/* A clone that stays: what it holds counts in fn_state_pool_kept_bytes, each page and block once however many
 * kept states share it, until it is destroyed. It must not be written any more. */
FN_NODISCARD fn_status fn_state_keep(fn_state *state, fn_error *err);

size_t fn_state_length(const fn_state *state);
/* True pairs in the MTP head's parts. */
size_t fn_state_pairs(const fn_state *state);
size_t fn_state_context(const fn_state *state);
/* What is added to a text token's index to give its position (images take fewer positions than tokens). */
int32_t fn_state_position_offset(const fn_state *state);
void fn_state_set_position_offset(fn_state *state, int32_t offset);

/* ---- for forward/ and layers/ ---- */

/* Makes room for n more rows: pages that exist and belong to this state alone, n_blocks fresh recurrent
 * blocks (1, or n when each row's is kept). Fails with FN_E_RANGE (context) or FN_E_NOMEM; nothing changed. */
FN_NODISCARD fn_status fn_state_begin(fn_state *state, size_t n, bool keep_rows, fn_error *err);
/* Makes the MTP head's pages behind the true pairs this state's alone, for a chain of n drafts. Fails with
 * FN_E_RANGE (context) or FN_E_NOMEM. */
FN_NODISCARD fn_status fn_state_begin_drafts(fn_state *state, size_t n, fn_error *err);
/* Reserves blocks for forwards that keep up to n rows, until the state is destroyed; never fewer than
 * before. */
FN_NODISCARD fn_status fn_state_reserve_kept(fn_state *state, size_t n, fn_error *err);

/* The forward is done: the rows count. */
void fn_state_commit(fn_state *state);
/* It failed: the fresh blocks go back. */
void fn_state_abort(fn_state *state);

/* The block before the forward's first row (read only) and the one after its row i (row n - 1 always). A
 * row whose block is not kept gives NULL. */
const uint8_t *fn_state_before(const fn_state *state);
uint8_t *fn_state_after(const fn_state *state, size_t i);

/* A layer's share of a recurrent block. */
static inline void *fn_recurrent_part(const fn_state_layout *layout, uint8_t *block, fn_part part,
                                      size_t layer) {
    return block + layout->part[part].offset + layer * layout->part[part].stride;
}
static inline const void *fn_recurrent_view(const fn_state_layout *layout, const uint8_t *block,
                                            fn_part part, size_t layer) {
    return block + layout->part[part].offset + layer * layout->part[part].stride;
}

/* Page `index` of a paged part: [heads, FN_PAGE_ROWS, values]. */
void *fn_state_page(const fn_state *state, fn_part part, size_t layer, size_t index);

/* ---- rolling back, comparing, saving ---- */

/* After a forward of n rows that kept each row: keeps the first j (1 <= j <= n), drops the rest. */
FN_NODISCARD fn_status fn_state_roll_back(fn_state *state, size_t j, fn_error *err);
size_t fn_state_kept_rows(const fn_state *state);
void fn_state_drop_kept(fn_state *state);

/* Any other shortening: FN_E_UNSUPPORTED with a message that says to restore a snapshot. */
FN_NODISCARD fn_status fn_state_truncate(fn_state *state, size_t n, fn_error *err);

/* The first part that differs, as text ("delta-rule states, layer 3"), or NULL when all bits are equal. */
const char *fn_state_difference(const fn_state *a, const fn_state *b, char *text, size_t n);

/* Streams out / in every valid byte of every part, in table order. */
typedef fn_status (*fn_state_sink)(void *ud, const void *bytes, size_t n, fn_error *err);
typedef fn_status (*fn_state_source)(void *ud, void *bytes, size_t n, fn_error *err);
FN_NODISCARD fn_status fn_state_write(const fn_state *state, fn_state_sink sink, void *ud,
                                      fn_error *err);
/* Into an empty state of the same layout; on failure the state is empty again. */
FN_NODISCARD fn_status fn_state_read(fn_state *state, fn_state_source source, void *ud,
                                     fn_error *err);

#endif
