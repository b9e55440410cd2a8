#include "state/state.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "state/pool.h"

/* Pages of one part of one layer, in order. */
typedef struct table {
    fn_block **pages; /* [capacity] */
    size_t count, capacity;
} table;

struct fn_state {
    fn_state_pool *pool;
    const fn_state_layout *layout;
    table *tables;          /* [layout->n_tables] */
    fn_block *current;      /* the recurrent block after the last row */
    size_t length;          /* rows that count */
    size_t mtp_length;      /* true pairs in the MTP head's parts */
    size_t context;         /* room in tokens */
    size_t promised_tokens; /* what was promised to this state, in tokens; 0 for snapshots */
    size_t promised_rows;   /* recurrent blocks promised for rows that are kept */
    int32_t position_offset;
    size_t pending;   /* rows of the forward that runs; 0: none */
    fn_block **fresh; /* [fresh_capacity]: blocks after rows of the running or last forward */
    size_t n_fresh, fresh_capacity;
    bool keeps_rows;
    bool kept;        /* counted by the pool (fn_state_keep) */
    size_t kept_base; /* length before the rows whose blocks are kept */
};

static size_t rows_in(const fn_state_layout *layout, fn_storage storage, size_t tokens) {
    return storage == FN_STORE_BLOCKS ? tokens / layout->index_ratio : tokens;
}

static size_t pages_for(size_t rows) {
    return (rows + FN_PAGE_ROWS - 1) / FN_PAGE_ROWS;
}

static bool is_mtp(size_t part) {
    return part == FN_PART_MTP_KEYS || part == FN_PART_MTP_VALUES || part == FN_PART_MTP_POOLED;
}

/* Rows of a paged part that count. */
static size_t valid_rows(const fn_state *s, size_t part) {
    return rows_in(s->layout, s->layout->part[part].storage,
                   is_mtp(part) ? s->mtp_length : s->length);
}

static void unpromise(fn_state *s, size_t n_parts) {
    for (size_t i = 0; i < n_parts; i++) {
        const fn_part_layout *p = &s->layout->part[i];
        if (p->storage != FN_STORE_RECURRENT) {
            fn_pool_unpromise(s->pool, i,
                              p->layers * pages_for(rows_in(s->layout, p->storage, s->context)));
        }
    }
}

static fn_status promise(fn_state *s, fn_error *err) {
    for (size_t i = 0; i < FN_PARTS; i++) {
        const fn_part_layout *p = &s->layout->part[i];
        size_t n = p->layers * pages_for(rows_in(s->layout, p->storage, s->context));
        if (p->storage == FN_STORE_RECURRENT || n == 0) {
            continue;
        }
        fn_status status = fn_pool_promise(s->pool, i, n, err);
        if (status != FN_OK) {
            unpromise(s, i);
            return status;
        }
    }
    fn_status status = fn_pool_promise(s->pool, FN_CLASS_RECURRENT, 2, err);
    if (status != FN_OK) {
        unpromise(s, FN_PARTS);
        return status;
    }
    s->promised_tokens = s->context;
    return FN_OK;
}

static fn_status make_tables(fn_state *s, size_t tokens, fn_error *err) {
    s->tables = fn_alloc_zero(s->layout->n_tables, sizeof *s->tables);
    bool ok = s->tables != NULL;
    for (size_t i = 0; ok && i < FN_PARTS; i++) {
        const fn_part_layout *p = &s->layout->part[i];
        size_t capacity = pages_for(rows_in(s->layout, p->storage, tokens));
        for (size_t l = 0; ok && p->storage != FN_STORE_RECURRENT && l < p->layers; l++) {
            table *t = &s->tables[p->table + l];
            t->pages = fn_alloc_zero(capacity, sizeof *t->pages);
            t->capacity = capacity;
            ok = t->pages != NULL;
        }
    }
    return ok ? FN_OK : fn_fail_nomem(err, "a sequence's page tables", tokens / FN_PAGE_ROWS);
}

static void set_empty(fn_state *s) {
    uint8_t *block = s->current->data;
    const fn_part_layout *ids = &s->layout->part[FN_PART_NGRAM_IDS];
    memset(block, 0, s->layout->recurrent_bytes);
    for (size_t l = 0; l < ids->layers; l++) {
        int32_t *history = fn_recurrent_part(s->layout, block, FN_PART_NGRAM_IDS, l);
        for (size_t i = 0; i < ids->values; i++) {
            history[i] = s->layout->eos_id; /* before a sequence there is nothing: EOS */
        }
    }
    s->length = 0;
    s->mtp_length = 0;
    s->position_offset = 0;
}

fn_status fn_state_create(fn_state_pool *pool, size_t context, fn_state **out, fn_error *err) {
    *out = NULL;
    fn_state *s = fn_alloc_zero(1, sizeof *s);
    if (s == NULL) {
        return fn_fail_nomem(err, "a sequence", sizeof *s);
    }
    *s = (fn_state){.pool = pool, .layout = fn_state_pool_layout(pool), .context = context};
    fn_status status = make_tables(s, context, err);
    if (status == FN_OK) {
        status = promise(s, err);
    }
    if (status == FN_OK) {
        status = fn_block_take(pool, FN_CLASS_RECURRENT, &s->current, err);
    }
    if (status == FN_OK && !fn_grow((void **)&s->fresh, &s->fresh_capacity, 8, sizeof *s->fresh)) {
        status = fn_fail_nomem(err, "a sequence", 8 * sizeof *s->fresh);
    }
    if (status != FN_OK) {
        fn_state_destroy(s);
        return status;
    }
    set_empty(s);
    *out = s;
    return FN_OK;
}

/* Takes back what fn_state_keep counted: the first n_tables tables, and the block where asked. */
static void unkeep(fn_state *s, size_t n_tables, bool block) {
    for (size_t i = 0; i < n_tables; i++) {
        fn_blocks_unkeep(s->pool, s->tables[i].pages, s->tables[i].count);
    }
    if (block) {
        fn_blocks_unkeep(s->pool, &s->current, 1);
    }
}

fn_status fn_state_keep(fn_state *s, fn_error *err) {
    FN_ASSERT(!s->kept && s->promised_tokens == 0 && s->n_fresh == 0);
    fn_status status = fn_blocks_keep(s->pool, &s->current, 1, err);
    for (size_t i = 0; i < s->layout->n_tables && status == FN_OK; i++) {
        status = fn_blocks_keep(s->pool, s->tables[i].pages, s->tables[i].count, err);
        if (status != FN_OK) {
            unkeep(s, i, true);
        }
    }
    s->kept = status == FN_OK;
    return status;
}

static void drop_pages(fn_state *s) {
    for (size_t i = 0; s->tables != NULL && i < s->layout->n_tables; i++) {
        for (size_t j = 0; j < s->tables[i].count; j++) {
            fn_block_drop(s->pool, s->tables[i].pages[j]);
        }
        s->tables[i].count = 0;
    }
}

void fn_state_destroy(fn_state *s) {
    if (s == NULL) {
        return;
    }
    fn_state_drop_kept(s);
    if (s->kept) {
        unkeep(s, s->layout->n_tables, true);
    }
    drop_pages(s);
    for (size_t i = 0; s->tables != NULL && i < s->layout->n_tables; i++) {
        fn_free(s->tables[i].pages);
    }
    fn_block_drop(s->pool, s->current);
    if (s->promised_tokens > 0) {
        unpromise(s, FN_PARTS);
        fn_pool_unpromise(s->pool, FN_CLASS_RECURRENT, 2 + s->promised_rows);
    }
    fn_free(s->tables);
    fn_free(s->fresh);
    fn_free(s);
}

fn_status fn_state_clear(fn_state *s, fn_error *err) {
    fn_block *block = NULL;
    fn_status status = fn_block_take(s->pool, FN_CLASS_RECURRENT, &block, err);
    if (status != FN_OK) {
        return status;
    }
    fn_state_drop_kept(s);
    drop_pages(s);
    fn_block_drop(s->pool, s->current);
    s->current = block;
    set_empty(s);
    return FN_OK;
}

/* Shares src's pages; dst's tables are empty. */
static fn_status share_pages(fn_state *dst, const fn_state *src, fn_error *err) {
    for (size_t i = 0; i < src->layout->n_tables; i++) {
        const table *from = &src->tables[i];
        table *to = &dst->tables[i];
        if (!fn_grow((void **)&to->pages, &to->capacity, from->count, sizeof *to->pages)) {
            return fn_fail_nomem(err, "a sequence's page table", from->count * sizeof *to->pages);
        }
        for (size_t j = 0; j < from->count; j++) {
            fn_block_hold(src->pool, from->pages[j]);
            to->pages[j] = from->pages[j];
            to->count = j + 1;
        }
    }
    return FN_OK;
}

static void share_rest(fn_state *dst, const fn_state *src) {
    fn_block_hold(src->pool, src->current);
    fn_block_drop(dst->pool, dst->current);
    dst->current = src->current;
    dst->length = src->length;
    dst->mtp_length = src->mtp_length;
    dst->position_offset = src->position_offset;
}

fn_status fn_state_clone(const fn_state *src, fn_state **out, fn_error *err) {
    *out = NULL;
    fn_state *s = fn_alloc_zero(1, sizeof *s);
    if (s == NULL) {
        return fn_fail_nomem(err, "a snapshot", sizeof *s);
    }
    *s = (fn_state){.pool = src->pool, .layout = src->layout, .context = src->context};
    fn_status status = make_tables(s, 0, err);
    if (status == FN_OK) {
        status = share_pages(s, src, err);
    }
    if (status != FN_OK) {
        fn_state_destroy(s);
        return status;
    }
    share_rest(s, src);
    *out = s;
    return FN_OK;
}

fn_status fn_state_assign(fn_state *dst, const fn_state *src, fn_error *err) {
    if (dst == src) {
        return FN_OK;
    }
    if (src->length > dst->context) {
        return fn_fail(err, FN_E_RANGE, "a state of %zu tokens does not fit a context of %zu",
                       src->length, dst->context);
    }
    for (size_t i = 0; i < src->layout->n_tables; i++) {
        table *to = &dst->tables[i];
        if (!fn_grow((void **)&to->pages, &to->capacity, src->tables[i].count, sizeof *to->pages)) {
            return fn_fail_nomem(err, "a sequence's page table", src->tables[i].count);
        }
    }
    fn_state_drop_kept(dst);
    drop_pages(dst);
    fn_status status = share_pages(dst, src, err); /* tables are large enough: cannot fail */
    share_rest(dst, src);
    return status;
}

size_t fn_state_length(const fn_state *s) {
    return s->length;
}

size_t fn_state_pairs(const fn_state *s) {
    return s->mtp_length;
}

size_t fn_state_context(const fn_state *s) {
    return s->context;
}

int32_t fn_state_position_offset(const fn_state *s) {
    return s->position_offset;
}

void fn_state_set_position_offset(fn_state *s, int32_t offset) {
    s->position_offset = offset;
}

/* ---- a forward's rows ---- */

/* Pages [from row's page, up to rows) of one table exist and are ours alone. */
static fn_status own_pages(fn_state *s, size_t part, table *t, size_t from, size_t rows,
                           fn_error *err) {
    size_t need = pages_for(rows);
    if (!fn_grow((void **)&t->pages, &t->capacity, need, sizeof *t->pages)) {
        return fn_fail_nomem(err, "a sequence's page table", need * sizeof *t->pages);
    }
    for (size_t i = from / FN_PAGE_ROWS; i < need; i++) {
        fn_block *mine = NULL;
        if (i < t->count && !fn_block_shared(s->pool, t->pages[i])) {
            continue;
        }
        fn_status status = fn_block_take(s->pool, part, &mine, err);
        if (status != FN_OK) {
            return status;
        }
        if (i < t->count) {
            memcpy(mine->data, t->pages[i]->data, fn_block_bytes(s->pool, part));
            fn_block_drop(s->pool, t->pages[i]);
        } else {
            t->count = i + 1;
        }
        t->pages[i] = mine;
    }
    return FN_OK;
}

static fn_status own_all_pages(fn_state *s, size_t n, fn_error *err) {
    for (size_t i = 0; i < FN_PARTS; i++) {
        const fn_part_layout *p = &s->layout->part[i];
        if (p->storage == FN_STORE_RECURRENT) {
            continue;
        }
        size_t from = valid_rows(s, i);
        size_t rows = rows_in(s->layout, p->storage, s->length + n);
        for (size_t l = 0; l < p->layers; l++) {
            fn_status status = own_pages(s, i, &s->tables[p->table + l], from, rows, err);
            if (status != FN_OK) {
                return status;
            }
        }
    }
    return FN_OK;
}

fn_status fn_state_begin(fn_state *s, size_t n, bool keep_rows, fn_error *err) {
    FN_ASSERT(s->pending == 0);
    if (n > s->context || s->length > s->context - n) {
        return fn_fail(err, FN_E_RANGE,
                       "context is full: %zu tokens are there, %zu more do not fit %zu", s->length,
                       n, s->context);
    }
    fn_state_drop_kept(s);
    size_t blocks = keep_rows ? n : 1;
    if (!fn_grow((void **)&s->fresh, &s->fresh_capacity, blocks, sizeof *s->fresh)) {
        return fn_fail_nomem(err, "kept rows", blocks * sizeof *s->fresh);
    }
    fn_status status = own_all_pages(s, n, err);
    while (status == FN_OK && s->n_fresh < blocks) {
        status = fn_block_take(s->pool, FN_CLASS_RECURRENT, &s->fresh[s->n_fresh], err);
        s->n_fresh += status == FN_OK;
    }
    if (status != FN_OK) {
        fn_state_abort(s);
        return status;
    }
    s->pending = n;
    s->keeps_rows = keep_rows;
    return FN_OK;
}

fn_status fn_state_begin_drafts(fn_state *s, size_t n, fn_error *err) {
    FN_ASSERT(s->pending == 0 && s->layout->mtp);
    if (n > s->context || s->mtp_length > s->context - n) {
        return fn_fail(err, FN_E_RANGE, "context is full: %zu drafts do not fit %zu", n,
                       s->context);
    }
    for (size_t i = 0; i < FN_PARTS; i++) {
        const fn_part_layout *p = &s->layout->part[i];
        for (size_t l = 0; is_mtp(i) && l < p->layers; l++) {
            size_t rows = rows_in(s->layout, p->storage, s->mtp_length + n);
            fn_status status =
                own_pages(s, i, &s->tables[p->table + l], valid_rows(s, i), rows, err);
            if (status != FN_OK) {
                return status;
            }
        }
    }
    return FN_OK;
}

fn_status fn_state_reserve_kept(fn_state *s, size_t n, fn_error *err) {
    size_t more = n > 1 ? n - 1 : 0; /* one fresh block is promised already */
    if (!fn_grow((void **)&s->fresh, &s->fresh_capacity, n, sizeof *s->fresh)) {
        return fn_fail_nomem(err, "kept rows", n * sizeof *s->fresh);
    }
    if (more <= s->promised_rows) {
        return FN_OK;
    }
    fn_status status = fn_pool_promise(s->pool, FN_CLASS_RECURRENT, more - s->promised_rows, err);
    s->promised_rows = status == FN_OK ? more : s->promised_rows;
    return status;
}

void fn_state_commit(fn_state *s) {
    fn_block *last = s->fresh[s->n_fresh - 1];
    fn_block_drop(s->pool, s->current);
    s->current = last;
    s->kept_base = s->length;
    s->length += s->pending;
    s->mtp_length = s->layout->mtp ? s->length - 1 : 0;
    s->pending = 0;
    if (s->keeps_rows) {
        fn_block_hold(s->pool, last); /* one reference as current, one as the last kept row */
    } else {
        s->n_fresh = 0;
    }
}

void fn_state_abort(fn_state *s) {
    s->pending = 0;
    fn_state_drop_kept(s);
}

const uint8_t *fn_state_before(const fn_state *s) {
    return s->current->data;
}

uint8_t *fn_state_after(const fn_state *s, size_t i) {
    if (s->keeps_rows) {
        return s->fresh[i]->data;
    }
    return i + 1 == s->pending ? s->fresh[0]->data : NULL;
}

void *fn_state_page(const fn_state *s, fn_part part, size_t layer, size_t index) {
    return s->tables[s->layout->part[part].table + layer].pages[index]->data;
}

/* ---- going back ---- */

size_t fn_state_kept_rows(const fn_state *s) {
    return s->pending == 0 ? s->n_fresh : 0;
}

void fn_state_drop_kept(fn_state *s) {
    for (size_t i = 0; i < s->n_fresh; i++) {
        fn_block_drop(s->pool, s->fresh[i]);
    }
    s->n_fresh = 0;
}

fn_status fn_state_roll_back(fn_state *s, size_t j, fn_error *err) {
    if (j < 1 || j > fn_state_kept_rows(s)) {
        return fn_fail(err, FN_E_RANGE, "cannot keep %zu rows: %zu rows have their state kept", j,
                       fn_state_kept_rows(s));
    }
    fn_block_hold(s->pool, s->fresh[j - 1]);
    fn_block_drop(s->pool, s->current);
    s->current = s->fresh[j - 1];
    s->length = s->kept_base + j;
    s->mtp_length = s->mtp_length < s->length ? s->mtp_length : s->length - 1;
    fn_state_drop_kept(s);
    return FN_OK;
}

fn_status fn_state_truncate(fn_state *s, size_t n, fn_error *err) {
    if (n == s->length) {
        return FN_OK;
    }
    return fn_fail(
        err, FN_E_UNSUPPORTED,
        "a state of %zu tokens cannot be cut to %zu: the delta-rule states are a recurrence; "
        "restore a snapshot taken at %zu instead",
        s->length, n, n);
}

/* ---- walking the valid bytes ---- */

/* Calls visit for each run of valid bytes, part after part; stops at the first failure. */
typedef fn_status (*visit_run)(void *ud, size_t part, size_t layer, size_t at, size_t bytes,
                               fn_error *err);

static fn_status walk_pages(const fn_state *s, size_t part, size_t layer, visit_run visit, void *ud,
                            fn_error *err) {
    const fn_part_layout *p = &s->layout->part[part];
    size_t rows = valid_rows(s, part);
    size_t head_bytes = p->values * p->value_bytes;
    for (size_t first = 0; first < rows; first += FN_PAGE_ROWS) {
        size_t n = rows - first < FN_PAGE_ROWS ? rows - first : FN_PAGE_ROWS;
        for (size_t h = 0; h < p->heads; h++) {
            size_t at = first * p->row_bytes + h * FN_PAGE_ROWS * head_bytes;
            fn_status status = visit(ud, part, layer, at, n * head_bytes, err);
            if (status != FN_OK) {
                return status;
            }
        }
    }
    return FN_OK;
}

static fn_status walk_valid(const fn_state *s, visit_run visit, void *ud, fn_error *err) {
    fn_status status = FN_OK;
    for (size_t i = 0; i < FN_PARTS; i++) {
        const fn_part_layout *p = &s->layout->part[i];
        for (size_t l = 0; l < p->layers && status == FN_OK; l++) {
            status = p->storage == FN_STORE_RECURRENT ? visit(ud, i, l, 0, p->row_bytes, err)
                                                      : walk_pages(s, i, l, visit, ud, err);
        }
    }
    return status;
}

/* Byte `at` of a part: of its pages laid end to end, or of a layer's share of the recurrent block. */
static uint8_t *bytes_at(const fn_state *s, size_t part, size_t layer, size_t at) {
    const fn_part_layout *p = &s->layout->part[part];
    if (p->storage == FN_STORE_RECURRENT) {
        return s->current->data + p->offset + layer * p->stride + at;
    }
    size_t page_bytes = p->row_bytes * FN_PAGE_ROWS;
    uint8_t *page = fn_state_page(s, (fn_part)part, layer, at / page_bytes);
    return page + at % page_bytes;
}

typedef struct comparison {
    const fn_state *a, *b;
    char *text;
    size_t n;
} comparison;

static fn_status compare_run(void *ud, size_t part, size_t layer, size_t at, size_t bytes,
                             fn_error *err) {
    comparison *c = ud;
    (void)err;
    if (memcmp(bytes_at(c->a, part, layer, at), bytes_at(c->b, part, layer, at), bytes) == 0) {
        return FN_OK;
    }
    (void)snprintf(c->text, c->n, "%s, layer %zu of those that have it",
                   c->a->layout->part[part].text, layer);
    return FN_E_FAILED;
}

const char *fn_state_difference(const fn_state *a, const fn_state *b, char *text, size_t n) {
    if (a->length != b->length || a->mtp_length != b->mtp_length) {
        (void)snprintf(text, n, "length: %zu and %zu", a->length, b->length);
        return text;
    }
    if (a->position_offset != b->position_offset) {
        (void)snprintf(text, n, "position offset: %d and %d", (int)a->position_offset,
                       (int)b->position_offset);
        return text;
    }
    comparison c = {a, b, text, n};
    return walk_valid(a, compare_run, &c, NULL) == FN_OK ? NULL : text;
}

/* ---- saving ---- */

typedef struct saved_scalars {
    uint64_t length, mtp_length;
    int64_t position_offset;
} saved_scalars;

typedef struct stream {
    const fn_state *state;
    fn_state_sink sink;
    fn_state_source source;
    void *ud;
} stream;

static fn_status write_run(void *ud, size_t part, size_t layer, size_t at, size_t bytes,
                           fn_error *err) {
    stream *w = ud;
    return w->sink(w->ud, bytes_at(w->state, part, layer, at), bytes, err);
}

static fn_status read_run(void *ud, size_t part, size_t layer, size_t at, size_t bytes,
                          fn_error *err) {
    stream *r = ud;
    return r->source(r->ud, bytes_at(r->state, part, layer, at), bytes, err);
}

fn_status fn_state_write(const fn_state *s, fn_state_sink sink, void *ud, fn_error *err) {
    saved_scalars scalars = {s->length, s->mtp_length, s->position_offset};
    fn_status status = sink(ud, &scalars, sizeof scalars, err);
    stream w = {.state = s, .sink = sink, .ud = ud};
    return status == FN_OK ? walk_valid(s, write_run, &w, err) : status;
}

fn_status fn_state_read(fn_state *s, fn_state_source source, void *ud, fn_error *err) {
    saved_scalars scalars;
    fn_status status = source(ud, &scalars, sizeof scalars, err);
    if (status != FN_OK) {
        return status;
    }
    if (scalars.length > s->context || scalars.mtp_length > scalars.length) {
        return fn_fail(err, FN_E_RANGE,
                       "a saved state of %llu tokens does not fit a context of %zu",
                       (unsigned long long)scalars.length, s->context);
    }
    status = fn_state_begin(s, (size_t)scalars.length, false, err);
    if (status != FN_OK) {
        return status;
    }
    s->pending = 0;
    fn_state_drop_kept(s);
    s->length = (size_t)scalars.length;
    s->mtp_length = (size_t)scalars.mtp_length;
    s->position_offset = (int32_t)scalars.position_offset;
    stream r = {.state = s, .source = source, .ud = ud};
    status = walk_valid(s, read_run, &r, err);
    if (status != FN_OK) {
        drop_pages(s);
        set_empty(s);
    }
    return status;
}
