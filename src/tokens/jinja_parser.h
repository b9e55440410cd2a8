/* tokens/jinja_parser.h - tokens -> syntax tree, by jinja2's grammar.
 *
 * Statements (jinja_parser.c) and expressions (jinja_parser_expr.c) share this state. A failure is
 * reported once as "name: line N: what" and then every function returns NULL. */
#ifndef FN_TOKENS_JINJA_PARSER_H
#define FN_TOKENS_JINJA_PARSER_H

#include "tokens/jinja_ast.h"
#include "tokens/jinja_lexer.h"
#include "tokens/jinja_run.h"

/* Nested brackets and blocks, and the height of a tree: bound every recursion over it. */
#define FN_JPARSE_MAX_DEPTH 120
#define FN_JPARSE_MAX_HEIGHT 400

typedef struct fn_jparser {
    fn_jrun *run;
    const fn_jtok *tokens;
    size_t at;
    size_t depth;
    const char *tags[FN_JPARSE_MAX_DEPTH + 1]; /* open blocks, for messages */
    size_t n_tags;
    const char *const *end_tags; /* what the innermost block waits for, NULL-terminated */
} fn_jparser;

/* The whole template. */
bool fn_jparse(fn_jrun *run, const fn_jtoks *tokens, fn_jtemplate *out)
    __attribute__((warn_unused_result));

/* Shared between the two files. */
const fn_jtok *fn_jparse_look(const fn_jparser *p, size_t ahead);
void fn_jparse_next(fn_jparser *p);
bool fn_jparse_is_name(const fn_jparser *p, const char *name);
bool fn_jparse_is_op(const fn_jparser *p, char op);
bool fn_jparse_skip_name(fn_jparser *p, const char *name);
bool fn_jparse_skip_op(fn_jparser *p, char op);
bool fn_jparse_expect_op(fn_jparser *p, char op);
const char *fn_jparse_expect_name(fn_jparser *p); /* any name; NULL after a report */
const char *fn_jparse_describe(fn_jparser *p, const fn_jtok *token);
void *fn_jparse_fail(fn_jparser *p, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool fn_jparse_enter(fn_jparser *p);
fn_jnode *fn_jparse_node(fn_jparser *p, fn_jkind kind, int line);
/* Gives node the height of its children; NULL when that is too much. */
fn_jnode *fn_jparse_done(fn_jparser *p, fn_jnode *node);
bool fn_jparse_push(fn_jparser *p, fn_jnodes *nodes, fn_jnode *node);

typedef struct fn_jtuple_rule {
    bool simplified;    /* names and literals only (targets) */
    bool no_condition;  /* no inline if */
    bool parenthesised; /* may be empty */
    bool namespaces;    /* ns.attr may be a target */
    const char *stop;   /* a name that ends it, or NULL */
} fn_jtuple_rule;

fn_jnode *fn_jparse_tuple(fn_jparser *p, fn_jtuple_rule rule);
fn_jnode *fn_jparse_expression(fn_jparser *p);
/* Filters behind `node`; with start_inline the first stands without a |. NULL node: a block's text. */
fn_jnode *fn_jparse_filters(fn_jparser *p, fn_jnode *node, bool start_inline);
fn_jnode *fn_jparse_target(fn_jparser *p, fn_jtuple_rule rule);

#endif
