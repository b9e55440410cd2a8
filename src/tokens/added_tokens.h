/* tokens/added_tokens.h - finds added tokens ("<|im_end|>", "<think>", ...) in a text.
 *
 * Path:    text -> [this: parts, each an added token or text to encode] -> tokenizer
 * Rule:    the leftmost match, of several the longest; then the next behind it. A match that a
 *          word touches does not count for single_word tokens; lstrip and rstrip take the white
 *          space beside the match along. No match contains a byte of a marked span.
 * Threads: a filled set never changes.
 * Memory:  the set copies what it needs. */
#ifndef FN_TOKENS_ADDED_TOKENS_H
#define FN_TOKENS_ADDED_TOKENS_H

#include <stdbool.h>

#include "tokens/marked_text.h"

typedef struct fn_added_token {
    int32_t id;
    bool single_word;
    bool lstrip;
    bool rstrip;
} fn_added_token;

/* {0} is an empty set. */
typedef struct fn_added_set {
    struct fn_added_node *nodes; /* a trie; [0] is no node */
    size_t n_nodes;
    size_t nodes_capacity;
    fn_added_token *tokens;
    size_t n_tokens;
    size_t tokens_capacity;
    uint32_t first[256]; /* the node of a first byte; 0 if none */
} fn_added_set;

/* Adds a token spelt text [n], n > 0. A text that is there already keeps its first token. Fails
 * with FN_E_NOMEM. */
FN_NODISCARD fn_status fn_added_set_insert(fn_added_set *set, const char *text, size_t n,
                                           const fn_added_token *token, fn_error *err);
void fn_added_set_free(fn_added_set *set);

/* Bytes [begin, end) of the text: the added token `id`, or text if id < 0. */
typedef struct fn_added_part {
    size_t begin;
    size_t end;
    int32_t id;
} fn_added_part;

typedef struct fn_added_walk {
    const fn_added_set *set;
    const fn_marked_text *text;
    size_t at;             /* where to look next */
    size_t done;           /* up to here parts were given out */
    size_t span;           /* the first span that does not end before `at` */
    fn_added_part pending; /* a match behind the text part that was given out last */
    bool has_pending;
} fn_added_walk;

/* Starts a walk over a valid UTF-8 text; both are lent. */
fn_added_walk fn_added_walk_start(const fn_added_set *set, const fn_marked_text *text);

/* The next part; false at the end. */
bool fn_added_walk_next(fn_added_walk *w, fn_added_part *part);

#endif
