#include "tokens/added_tokens.h"

#include "base/mem.h"
#include "tokens/unicode_tables.h"
#include "tokens/utf8.h"

typedef struct fn_added_node {
    uint32_t child;   /* the first of the next bytes' nodes; 0 if none */
    uint32_t sibling; /* the next node of the same position; 0 if none */
    uint32_t token;   /* 1 + the token that ends here; 0 if none */
    unsigned char byte;
} fn_added_node;

static uint32_t find_sibling(const fn_added_set *set, uint32_t node, unsigned char byte) {
    while (node != 0 && set->nodes[node].byte != byte) {
        node = set->nodes[node].sibling;
    }
    return node;
}

/* The node for `byte` below parent (0: at the start), made if there is none. */
static uint32_t child_of(fn_added_set *set, uint32_t parent, unsigned char byte) {
    uint32_t list = parent != 0 ? set->nodes[parent].child : set->first[byte];
    uint32_t node = find_sibling(set, list, byte);
    if (node == 0) {
        node = (uint32_t)set->n_nodes++;
        set->nodes[node] = (fn_added_node){.byte = byte};
        if (parent == 0) {
            set->first[byte] = node;
        } else {
            set->nodes[node].sibling = set->nodes[parent].child;
            set->nodes[parent].child = node;
        }
    }
    return node;
}

fn_status fn_added_set_insert(fn_added_set *set, const char *text, size_t n,
                              const fn_added_token *token, fn_error *err) {
    void *nodes = set->nodes;
    void *tokens = set->tokens;
    size_t need = (set->n_nodes > 0 ? set->n_nodes : 1) + n;
    bool ok = fn_grow(&nodes, &set->nodes_capacity, need, sizeof *set->nodes);
    set->nodes = nodes;
    ok = ok && fn_grow(&tokens, &set->tokens_capacity, set->n_tokens + 1, sizeof *set->tokens);
    set->tokens = tokens;
    if (!ok || need > UINT32_MAX) {
        return fn_fail_nomem(err, "added tokens", need * sizeof *set->nodes);
    }
    if (set->n_nodes == 0) {
        set->nodes[set->n_nodes++] = (fn_added_node){0};
    }
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        node = child_of(set, node, (unsigned char)text[i]);
    }
    if (set->nodes[node].token == 0) {
        set->tokens[set->n_tokens++] = *token;
        set->nodes[node].token = (uint32_t)set->n_tokens;
    }
    return FN_OK;
}

void fn_added_set_free(fn_added_set *set) {
    fn_free(set->nodes);
    fn_free(set->tokens);
    *set = (fn_added_set){0};
}

fn_added_walk fn_added_walk_start(const fn_added_set *set, const fn_marked_text *text) {
    return (fn_added_walk){.set = set, .text = text};
}

/* The longest token that starts at `at` and ends by `limit`; 0 if none, else 1 + its number. */
static uint32_t longest(const fn_added_set *set, const unsigned char *s, size_t at, size_t limit,
                        size_t *end) {
    uint32_t best = 0;
    uint32_t node = set->first[s[at]];
    while (node != 0) {
        at++;
        if (set->nodes[node].token != 0) {
            best = set->nodes[node].token;
            *end = at;
        }
        node = at < limit ? find_sibling(set, set->nodes[node].child, s[at]) : 0;
    }
    return best;
}

/* Does the span not matter from `at` on? Empty ones never do. */
static bool is_behind(const fn_text_span *span, size_t at) {
    return span->end <= at || span->begin == span->end;
}

/* The next match at or behind w->at that no span touches. */
static const fn_added_token *next_match(fn_added_walk *w, size_t *begin, size_t *end) {
    const fn_marked_text *text = w->text;
    const unsigned char *s = (const unsigned char *)text->bytes;
    while (w->at < text->n) {
        while (w->span < text->n_spans && is_behind(&text->spans[w->span], w->at)) {
            w->span++;
        }
        size_t limit = w->span < text->n_spans ? text->spans[w->span].begin : text->n;
        if (w->at >= limit) {
            w->at = text->spans[w->span].end;
            continue;
        }
        while (w->at < limit && w->set->first[s[w->at]] == 0) {
            w->at++;
        }
        uint32_t found = w->at < limit ? longest(w->set, s, w->at, limit, end) : 0;
        if (found != 0) {
            *begin = w->at;
            w->at = *end;
            return &w->set->tokens[found - 1];
        }
        w->at += w->at < limit ? 1 : 0;
    }
    return NULL;
}

static bool is_class(const unsigned char *s, size_t at, unsigned class, size_t *length) {
    return (fn_unicode_class(fn_utf8_get(s + at, length)) & class) != 0;
}

static bool touches_word(const fn_marked_text *text, size_t begin, size_t end) {
    const unsigned char *s = (const unsigned char *)text->bytes;
    size_t length = 0;
    return (begin > 0 && is_class(s, fn_utf8_before(s, begin), FN_UC_WORD, &length)) ||
           (end < text->n && is_class(s, end, FN_UC_WORD, &length));
}

/* Takes the white space before (lstrip, not further than w->done) and behind (rstrip) along. */
static void strip(const fn_added_walk *w, const fn_added_token *token, size_t *begin, size_t *end) {
    const unsigned char *s = (const unsigned char *)w->text->bytes;
    size_t length = 0;
    while (token->lstrip && *begin > w->done) {
        size_t before = fn_utf8_before(s, *begin);
        if (!is_class(s, before, FN_UC_SPACE, &length)) {
            break;
        }
        *begin = before;
    }
    while (token->rstrip && *end < w->text->n && is_class(s, *end, FN_UC_SPACE, &length)) {
        *end += length;
    }
}

bool fn_added_walk_next(fn_added_walk *w, fn_added_part *part) {
    if (w->has_pending) {
        *part = w->pending;
        w->has_pending = false;
        return true;
    }
    size_t begin = 0;
    size_t end = 0;
    for (;;) {
        const fn_added_token *token = next_match(w, &begin, &end);
        if (token == NULL) {
            break;
        }
        if (token->single_word && touches_word(w->text, begin, end)) {
            continue;
        }
        strip(w, token, &begin, &end);
        /* A match inside white space that the token before took along counts too, as in the
         * reference, unless it would take that white space itself and finds none; what follows
         * it is text once more. */
        size_t done = w->done;
        w->done = end;
        if (begin >= end || (token->lstrip && done >= end)) {
            continue;
        }
        *part = (fn_added_part){.begin = begin, .end = end, .id = token->id};
        if (done < begin) {
            w->pending = *part;
            w->has_pending = true;
            *part = (fn_added_part){.begin = done, .end = begin, .id = -1};
        }
        return true;
    }
    *part = (fn_added_part){.begin = w->done, .end = w->text->n, .id = -1};
    w->done = w->text->n;
    return part->begin < part->end;
}
