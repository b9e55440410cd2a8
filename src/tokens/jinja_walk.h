/* tokens/jinja_walk.h - the children of a syntax tree's node, in the order of the text. */
#ifndef FN_TOKENS_JINJA_WALK_H
#define FN_TOKENS_JINJA_WALK_H

#include "tokens/jinja_ast.h"

typedef bool (*fn_jwalk_visit)(void *context, fn_jnode *child);

/* Calls visit for each child until it says false; then false. */
bool fn_jwalk_children(const fn_jnode *node, fn_jwalk_visit visit, void *context);
bool fn_jwalk_list(const fn_jnodes *nodes, fn_jwalk_visit visit, void *context);

/* Is `name` read below these nodes before anything stores to it? */
bool fn_jwalk_reads(const fn_jnodes *nodes, const char *name);

#endif
