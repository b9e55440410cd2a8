#include "state/pool.h"

#include <pthread.h>

#include "base/mem.h"

typedef struct slab {
    struct slab *next;
    uint8_t *data;
    size_t data_bytes;
    size_t n_blocks;
    fn_block blocks[]; /* as many as it was made for */
} slab;

struct fn_state_pool {
    fn_state_layout layout;
    pthread_mutex_t mutex;
    size_t block_bytes[FN_CLASSES];
    size_t total[FN_CLASSES];    /* blocks in slabs */
    size_t promised[FN_CLASSES]; /* blocks that states may hold at once */
    fn_block *free[FN_CLASSES];  /* used before: there is memory behind them */
    fn_block *fresh[FN_CLASSES]; /* not since they came, or since it was given back */
    bool trimmed;                /* and nothing was taken since: no huge pages are asked for */
    uint64_t kept_bytes;
    slab *slabs;
};

fn_status fn_state_pool_create(const fn_state_layout *layout, fn_state_pool **out, fn_error *err) {
    *out = fn_alloc_zero(1, sizeof **out);
    if (*out == NULL) {
        return fn_fail_nomem(err, "the state pool", sizeof **out);
    }
    fn_state_pool *pool = *out;
    pool->layout = *layout;
    pthread_mutex_init(&pool->mutex, NULL);
    for (size_t i = 0; i < FN_PARTS; i++) {
        if (layout->part[i].storage != FN_STORE_RECURRENT) {
            pool->block_bytes[i] = (layout->part[i].row_bytes * FN_PAGE_ROWS + 63) / 64 * 64;
        }
    }
    pool->block_bytes[FN_CLASS_RECURRENT] = layout->recurrent_bytes;
    return FN_OK;
}

void fn_state_pool_destroy(fn_state_pool *pool) {
    if (pool == NULL) {
        return;
    }
    while (pool->slabs != NULL) {
        slab *next = pool->slabs->next;
        fn_pages_free(pool->slabs->data, pool->slabs->data_bytes);
        fn_free(pool->slabs);
        pool->slabs = next;
    }
    pthread_mutex_destroy(&pool->mutex);
    fn_free(pool);
}

const fn_state_layout *fn_state_pool_layout(const fn_state_pool *pool) {
    return &pool->layout;
}

size_t fn_block_bytes(const fn_state_pool *pool, size_t class_index) {
    return pool->block_bytes[class_index];
}

/* Under the mutex. */
static fn_status grow(fn_state_pool *pool, size_t class_index, size_t n, fn_error *err) {
    size_t bytes = 0;
    slab *s = fn_alloc_zero(1, sizeof *s + n * sizeof s->blocks[0]);
    if (s == NULL || __builtin_mul_overflow(n, pool->block_bytes[class_index], &bytes) ||
        (s->data = fn_pages_alloc(bytes)) == NULL) {
        fn_free(s);
        return fn_fail_nomem(err, "sequence states", bytes);
    }
    s->data_bytes = bytes;
    s->n_blocks = n;
    for (size_t i = 0; i < n; i++) {
        s->blocks[i] = (fn_block){.data = s->data + i * pool->block_bytes[class_index],
                                  .class_index = class_index,
                                  .next = pool->fresh[class_index]};
        pool->fresh[class_index] = &s->blocks[i];
    }
    s->next = pool->slabs;
    pool->slabs = s;
    pool->total[class_index] += n;
    return FN_OK;
}

fn_status fn_pool_promise(fn_state_pool *pool, size_t class_index, size_t more, fn_error *err) {
    fn_status status = FN_OK;
    pthread_mutex_lock(&pool->mutex);
    size_t need = pool->promised[class_index] + more;
    if (need > pool->total[class_index]) {
        status = grow(pool, class_index, need - pool->total[class_index], err);
    }
    if (status == FN_OK) {
        pool->promised[class_index] = need;
    }
    pthread_mutex_unlock(&pool->mutex);
    return status;
}

void fn_pool_unpromise(fn_state_pool *pool, size_t class_index, size_t less) {
    pthread_mutex_lock(&pool->mutex);
    pool->promised[class_index] -= less;
    pthread_mutex_unlock(&pool->mutex);
}

static void ask_huge(fn_state_pool *pool, bool huge) {
    for (const slab *s = pool->slabs; s != NULL && pool->trimmed == huge; s = s->next) {
        fn_pages_ask_huge(s->data, s->data_bytes, huge);
    }
    pool->trimmed = !huge;
}

fn_status fn_block_take(fn_state_pool *pool, size_t class_index, fn_block **out, fn_error *err) {
    fn_status status = FN_OK;
    *out = NULL;
    pthread_mutex_lock(&pool->mutex);
    ask_huge(pool, true);
    fn_block **list = &pool->free[class_index];
    list = *list != NULL ? list : &pool->fresh[class_index];
    if (*list == NULL) {
        /* Snapshots hold what was promised to sequences: a few more, so that this stays rare. */
        status = grow(pool, class_index, class_index == FN_CLASS_RECURRENT ? 1 : 8, err);
    }
    if (status == FN_OK) {
        *out = *list;
        *list = (*out)->next;
        (*out)->refs = 1;
        (*out)->kept = 0;
    }
    pthread_mutex_unlock(&pool->mutex);
    return status;
}

void fn_block_hold(fn_state_pool *pool, fn_block *block) {
    pthread_mutex_lock(&pool->mutex);
    block->refs++;
    pthread_mutex_unlock(&pool->mutex);
}

void fn_block_drop(fn_state_pool *pool, fn_block *block) {
    if (block == NULL) {
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    if (--block->refs == 0) {
        block->next = pool->free[block->class_index];
        pool->free[block->class_index] = block;
    }
    pthread_mutex_unlock(&pool->mutex);
}

bool fn_block_shared(fn_state_pool *pool, const fn_block *block) {
    pthread_mutex_lock(&pool->mutex);
    bool shared = block->refs > 1;
    pthread_mutex_unlock(&pool->mutex);
    return shared;
}

/* ---- giving back ---- */

/* Moves what is free behind the first `spare` of a class to those that have no memory. */
static void freshen(fn_state_pool *pool, size_t class_index, size_t spare) {
    fn_block **end = &pool->free[class_index];
    for (size_t i = 0; i < spare && *end != NULL; i++) {
        (*end)->spared = true;
        end = &(*end)->next;
    }
    while (*end != NULL) {
        fn_block *block = *end;
        *end = block->next;
        block->next = pool->fresh[class_index];
        pool->fresh[class_index] = block;
    }
}

/* Stretches of blocks that nobody has, as long as possible, since their edges are no page's. */
static void give_back(const slab *s) {
    size_t bytes = s->data_bytes / s->n_blocks;
    for (size_t i = 0; i < s->n_blocks; i++) {
        size_t from = i;
        while (i < s->n_blocks && s->blocks[i].refs == 0 && !s->blocks[i].spared) {
            i++;
        }
        fn_pages_give_back(s->data + from * bytes, (i - from) * bytes);
    }
}

void fn_state_pool_trim(fn_state_pool *pool, size_t spare_recurrent) {
    pthread_mutex_lock(&pool->mutex);
    for (size_t i = 0; i < FN_CLASSES; i++) {
        freshen(pool, i, i == FN_CLASS_RECURRENT ? spare_recurrent : 0);
    }
    for (const slab *s = pool->slabs; s != NULL; s = s->next) {
        give_back(s);
    }
    for (fn_block *b = pool->free[FN_CLASS_RECURRENT]; b != NULL; b = b->next) {
        b->spared = false;
    }
    ask_huge(pool, false);
    pthread_mutex_unlock(&pool->mutex);
}

/* ---- kept states ---- */

static size_t not_kept_yet(fn_block *const *blocks, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        count += blocks[i]->kept == 0;
    }
    return count;
}

fn_status fn_blocks_keep(fn_state_pool *pool, fn_block *const *blocks, size_t n, fn_error *err) {
    if (n == 0) {
        return FN_OK;
    }
    fn_status status = FN_OK;
    size_t class_index = blocks[0]->class_index;
    pthread_mutex_lock(&pool->mutex);
    size_t fresh = not_kept_yet(blocks, n);
    size_t need = pool->promised[class_index] + fresh;
    if (need > pool->total[class_index]) {
        /* Pages grow in large steps, as every step is a mapping of its own. */
        size_t ahead = class_index == FN_CLASS_RECURRENT ? 0 : pool->total[class_index] / 4;
        status = grow(pool, class_index, need - pool->total[class_index] + ahead, err);
    }
    if (status == FN_OK) {
        pool->promised[class_index] = need;
        pool->kept_bytes += fresh * pool->block_bytes[class_index];
        for (size_t i = 0; i < n; i++) {
            blocks[i]->kept++;
        }
    }
    pthread_mutex_unlock(&pool->mutex);
    return status;
}

void fn_blocks_unkeep(fn_state_pool *pool, fn_block *const *blocks, size_t n) {
    pthread_mutex_lock(&pool->mutex);
    for (size_t i = 0; i < n; i++) {
        if (--blocks[i]->kept == 0) {
            pool->promised[blocks[i]->class_index]--;
            pool->kept_bytes -= pool->block_bytes[blocks[i]->class_index];
        }
    }
    pthread_mutex_unlock(&pool->mutex);
}

uint64_t fn_state_pool_kept_bytes(fn_state_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    uint64_t bytes = pool->kept_bytes;
    pthread_mutex_unlock(&pool->mutex);
    return bytes;
}
