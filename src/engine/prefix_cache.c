#include "engine/prefix_cache.h"

#include <string.h>

#include "base/mem.h"

#define MAX_FETCHES 3

/* The ids from the root to a node are the beginning that it stands for. A node holds a state, a file, both,
 * or (where beginnings part) neither. */
typedef struct node {
    struct node *parent, *child, *sibling;
    int32_t *edge; /* [n_edge] ids behind the parent's */
    size_t n_edge;
    size_t length;               /* ids from the root */
    fn_state *state;             /* or NULL */
    struct node *newer, *older;  /* among those with a state */
    uint64_t file_bytes;         /* 0: no file */
    bool fetching;               /* its file is being read */
    int64_t file_used;           /* larger: later */
    struct node *file_next;      /* among those with a file */
    struct node **file_previous; /* what points here */
} node;

struct fn_prefix_cache {
    fn_engine *engine;
    fn_cache_files *files;
    uint64_t max_bytes;
    uint64_t tree_bytes; /* nodes, ids, page tables */
    node root;
    node *newest, *oldest;
    node *on_disk;
    int64_t last_used;
    fn_prefix_cache_counts counts;
};

/* ---- the tree ---- */

static size_t node_bytes(const node *n) {
    return sizeof *n + n->n_edge * sizeof *n->edge;
}

/* Page tables that a state of that length has. */
static uint64_t table_bytes(const fn_prefix_cache *c, size_t length) {
    return c->engine->layout.n_tables * (length / FN_PAGE_ROWS + 1) * sizeof(void *);
}

static node *child_with(const node *parent, int32_t id) {
    node *n = parent->child;
    while (n != NULL && n->edge[0] != id) {
        n = n->sibling;
    }
    return n;
}

static size_t common(const int32_t *a, const int32_t *b, size_t n) {
    size_t i = 0;
    while (i < n && a[i] == b[i]) {
        i++;
    }
    return i;
}

static void unlink_child(node *n) {
    node **at = &n->parent->child;
    while (*at != n) {
        at = &(*at)->sibling;
    }
    *at = n->sibling;
}

static node *new_node(fn_prefix_cache *c, node *parent, const int32_t *edge, size_t n_edge) {
    node *n = fn_alloc_zero(1, sizeof *n);
    int32_t *copy = fn_alloc(n_edge, sizeof *copy);
    if (n == NULL || copy == NULL) {
        fn_free(n);
        fn_free(copy);
        return NULL;
    }
    memcpy(copy, edge, n_edge * sizeof *copy);
    *n = (node){.parent = parent,
                .sibling = parent->child,
                .edge = copy,
                .n_edge = n_edge,
                .length = parent->length + n_edge};
    parent->child = n;
    c->tree_bytes += node_bytes(n);
    return n;
}

/* Cuts a node's edge: a new node takes its first `keep` ids, and it becomes that one's child. */
static node *split(fn_prefix_cache *c, node *n, size_t keep) {
    node *upper = new_node(c, n->parent, n->edge, keep);
    if (upper == NULL) {
        return NULL;
    }
    unlink_child(n);
    n->parent = upper;
    n->sibling = NULL;
    upper->child = n;
    n->n_edge -= keep;
    memmove(n->edge, n->edge + keep, n->n_edge * sizeof *n->edge);
    c->tree_bytes -= keep * sizeof *n->edge;
    return upper;
}

/* The node of exactly ids [n], made where it is missing; NULL when out of memory. */
static node *node_of(fn_prefix_cache *c, const int32_t *ids, size_t n) {
    node *at = &c->root;
    while (at->length < n) {
        size_t left = n - at->length;
        const int32_t *rest = ids + at->length;
        node *next = child_with(at, rest[0]);
        if (next == NULL) {
            return new_node(c, at, rest, left);
        }
        size_t same = common(next->edge, rest, left < next->n_edge ? left : next->n_edge);
        at = same == next->n_edge ? next : split(c, next, same);
        if (at == NULL) {
            return NULL;
        }
    }
    return at;
}

/* The node of exactly ids [n]; NULL: there is none. */
static node *exactly(const fn_prefix_cache *c, const int32_t *ids, size_t n) {
    node *at = c->root.child;
    size_t done = 0;
    while (at != NULL) {
        const int32_t *rest = ids + done;
        while (at != NULL && (done == n || at->edge[0] != rest[0])) {
            at = at->sibling;
        }
        if (at == NULL || at->n_edge > n - done ||
            common(at->edge, rest, at->n_edge) < at->n_edge) {
            return NULL;
        }
        done += at->n_edge;
        if (done == n) {
            return at;
        }
        at = at->child;
    }
    return NULL;
}

/* A node that stands for nothing any more goes, and its parent if that was all it was for. */
static void prune(fn_prefix_cache *c, node *n) {
    while (n->parent != NULL && n->state == NULL && n->file_bytes == 0 && n->child == NULL) {
        node *parent = n->parent;
        unlink_child(n);
        c->tree_bytes -= node_bytes(n);
        fn_free(n->edge);
        fn_free(n);
        n = parent;
    }
}

/* ---- states in memory ---- */

static void unlist(fn_prefix_cache *c, node *n) {
    *(n->newer != NULL ? &n->newer->older : &c->newest) = n->older;
    *(n->older != NULL ? &n->older->newer : &c->oldest) = n->newer;
    n->newer = NULL;
    n->older = NULL;
}

static void list_newest(fn_prefix_cache *c, node *n) {
    n->older = c->newest;
    *(c->newest != NULL ? &c->newest->newer : &c->oldest) = n;
    c->newest = n;
}

static void drop_state(fn_prefix_cache *c, node *n) {
    unlist(c, n);
    fn_state_destroy(n->state);
    n->state = NULL;
    c->tree_bytes -= table_bytes(c, n->length);
    c->counts.states--;
}

static uint64_t bytes_now(const fn_prefix_cache *c) {
    return fn_state_pool_kept_bytes(c->engine->states) + c->tree_bytes;
}

static void shrink(fn_prefix_cache *c) {
    while (c->oldest != NULL && bytes_now(c) > c->max_bytes) {
        node *n = c->oldest;
        drop_state(c, n);
        prune(c, n);
        c->counts.evictions++;
    }
}

/* ---- files ---- */

static void forget_file(fn_prefix_cache *c, node *n) {
    *n->file_previous = n->file_next;
    if (n->file_next != NULL) {
        n->file_next->file_previous = n->file_previous;
    }
    c->counts.disk_bytes -= n->file_bytes;
    c->counts.disk_states--;
    n->file_bytes = 0;
    n->fetching = false;
}

static fn_status know_file(void *ud, const int32_t *ids, size_t n_ids, uint64_t bytes, int64_t used,
                           fn_error *err) {
    fn_prefix_cache *c = ud;
    node *n = node_of(c, ids, n_ids);
    if (n == NULL) {
        return fn_fail_nomem(err, "the prefix cache", n_ids * sizeof *ids);
    }
    if (n->file_bytes > 0) {
        forget_file(c, n);
    }
    n->file_bytes = bytes;
    n->file_used = used;
    n->file_next = c->on_disk;
    n->file_previous = &c->on_disk;
    if (c->on_disk != NULL) {
        c->on_disk->file_previous = &n->file_next;
    }
    c->on_disk = n;
    c->last_used = used > c->last_used ? used : c->last_used;
    c->counts.disk_bytes += bytes;
    c->counts.disk_states++;
    return FN_OK;
}

/* Writes a node's ids to out [length]. */
static void ids_of(const node *n, int32_t *out) {
    for (; n->parent != NULL; n = n->parent) {
        memcpy(out + n->length - n->n_edge, n->edge, n->n_edge * sizeof *out);
    }
}

static void remove_file(fn_prefix_cache *c, node *n) {
    int32_t *ids = fn_alloc(n->length, sizeof *ids);
    if (ids != NULL) {
        ids_of(n, ids);
        fn_cache_files_remove(c->files, ids, n->length);
        fn_free(ids);
    }
    forget_file(c, n);
    prune(c, n);
}

static void shrink_files(fn_prefix_cache *c) {
    while (c->on_disk != NULL && c->counts.disk_bytes > fn_cache_files_limit(c->files)) {
        node *stalest = c->on_disk;
        for (node *n = stalest; n != NULL; n = n->file_next) {
            stalest = n->file_used < stalest->file_used ? n : stalest;
        }
        remove_file(c, stalest);
    }
}

/* ---- life ---- */

fn_status fn_prefix_cache_create(fn_engine *engine, uint64_t max_bytes, fn_cache_files *files,
                                 fn_prefix_cache **out, fn_error *err) {
    *out = NULL;
    fn_prefix_cache *c = fn_alloc_zero(1, sizeof *c);
    if (c == NULL) {
        fn_cache_files_close(files);
        return fn_fail_nomem(err, "the prefix cache", sizeof *c);
    }
    c->engine = engine;
    c->max_bytes = max_bytes;
    c->files = files;
    fn_status status = files != NULL ? fn_cache_files_scan(files, know_file, c, err) : FN_OK;
    if (status != FN_OK) {
        fn_prefix_cache_destroy(c);
        return status;
    }
    if (files != NULL) {
        shrink_files(c);
    }
    *out = c;
    return FN_OK;
}

void fn_prefix_cache_destroy(fn_prefix_cache *c) {
    if (c == NULL) {
        return;
    }
    fn_cache_files_close(c->files);
    while (c->on_disk != NULL) {
        node *n = c->on_disk;
        forget_file(c, n);
        prune(c, n);
    }
    while (c->newest != NULL) {
        node *n = c->newest;
        drop_state(c, n);
        prune(c, n);
    }
    fn_free(c);
}

/* ---- use ---- */

/* The deepest node with a state, or a file where these count, on the way along ids [n]. */
static node *deepest(fn_prefix_cache *c, const int32_t *ids, size_t n, bool files) {
    node *best = NULL;
    node *at = &c->root;
    while (at != NULL && at->length < n) {
        size_t left = n - at->length;
        const int32_t *rest = ids + at->length;
        at = child_with(at, rest[0]);
        if (at == NULL || at->n_edge > left || common(at->edge, rest, at->n_edge) < at->n_edge) {
            break;
        }
        best = at->state != NULL || (files && at->file_bytes > 0) ? at : best;
    }
    return best;
}

static void set_state(fn_prefix_cache *c, node *n, fn_state *state) {
    n->state = state;
    c->tree_bytes += table_bytes(c, n->length);
    c->counts.states++;
    list_newest(c, n);
}

/* Brings a node's state back from its file; where that failed the file is gone. */
static void take_fetched(void *ud, const int32_t *ids, size_t n_ids, fn_state *state) {
    fn_prefix_cache *c = ud;
    node *n = exactly(c, ids, n_ids);
    if (n == NULL || !n->fetching) {
        fn_state_destroy(state); /* its file was forgotten meanwhile */
        return;
    }
    n->fetching = false;
    if (n->state != NULL || (state != NULL && fn_state_keep(state, NULL) != FN_OK)) {
        fn_state_destroy(state);
        return;
    }
    if (state == NULL) {
        forget_file(c, n);
        prune(c, n);
        return;
    }
    n->file_used = ++c->last_used;
    set_state(c, n, state);
    c->counts.disk_hits++;
    shrink(c); /* it is the newest: it goes only where it alone is too large */
    if (n->state == NULL) {
        remove_file(c, n);
    }
}

/* Is the file being read, from now on if not before? */
static bool fetches(fn_prefix_cache *c, node *n, const int32_t *ids, fn_cache_wait *wait) {
    if (!n->fetching) {
        n->fetching = fn_cache_files_fetch(c->files, ids, n->length);
        wait->fetches++;
    }
    return n->fetching;
}

const fn_state *fn_prefix_cache_find(fn_prefix_cache *c, const int32_t *ids, size_t n,
                                     fn_cache_wait *wait) {
    bool files = wait != NULL && wait->fetches < MAX_FETCHES;
    if (c->files != NULL) {
        fn_cache_files_collect(c->files, know_file, take_fetched, c);
        shrink_files(c);
    }
    node *best = deepest(c, ids, n, files);
    if (wait != NULL) {
        wait->waiting = best != NULL && best->state == NULL && fetches(c, best, ids, wait);
        if (wait->waiting) {
            return NULL;
        }
    }
    if (best != NULL && best->state == NULL) {
        best = deepest(c, ids, n, false);
    }
    c->counts.lookups++;
    if (best == NULL) {
        return NULL;
    }
    unlist(c, best);
    list_newest(c, best);
    c->counts.hits++;
    return best->state;
}

fn_status fn_prefix_cache_add(fn_prefix_cache *c, const int32_t *ids, const fn_state *state,
                              bool lasting, fn_error *err) {
    size_t length = fn_state_length(state);
    if (length == 0) {
        return FN_OK;
    }
    node *n = node_of(c, ids, length);
    if (n == NULL) {
        return fn_fail_nomem(err, "the prefix cache", length * sizeof *ids);
    }
    if (n->state != NULL) {
        unlist(c, n);
        list_newest(c, n);
        return FN_OK;
    }
    fn_state *copy = NULL;
    fn_status status = fn_state_clone(state, &copy, err);
    status = status == FN_OK ? fn_state_keep(copy, err) : status;
    if (status != FN_OK) {
        fn_state_destroy(copy);
        prune(c, n);
        return status;
    }
    set_state(c, n, copy);
    if (c->files != NULL && lasting && n->file_bytes == 0) {
        status = fn_cache_files_write(c->files, ids, copy, err);
    }
    shrink(c);
    return status;
}

bool fn_prefix_cache_has(const fn_prefix_cache *c, const int32_t *ids, size_t n) {
    const node *found = exactly(c, ids, n);
    return found != NULL && found->state != NULL;
}

fn_prefix_cache_counts fn_prefix_cache_get_counts(const fn_prefix_cache *c) {
    fn_prefix_cache_counts counts = c->counts;
    counts.bytes = bytes_now(c);
    return counts;
}
