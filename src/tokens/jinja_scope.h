/* tokens/jinja_scope.h - which variable a name means: jinja2's scoping, decided when compiling.
 *
 * Path:     jinja_parser.h -> [this: places, frames, slots] -> evaluator
 *
 * As in jinja2: a scope is the template, a macro, a call block, a loop's body (and its else part and
 * its filter), a block set, a filter block, a with block. `if` opens none. A name that a scope stores
 * to anywhere is that scope's own variable from its start, first holding the outer one's value; a
 * name that is only read is the outer one, or comes from context and globals. */
#ifndef FN_TOKENS_JINJA_SCOPE_H
#define FN_TOKENS_JINJA_SCOPE_H

#include "tokens/jinja_ast.h"
#include "tokens/jinja_run.h"

/* Fills places, frames and slot counts of the whole tree, and checks what can be checked before
 * rendering: break outside a loop, calls of functions that cannot exist. */
bool fn_jscope_resolve(fn_jrun *run, fn_jtemplate *t) __attribute__((warn_unused_result));

#endif
