/* tokens/jinja_eval.h - running a syntax tree.
 *
 * Path:     compiled tree + context -> [this] -> text in the run's output
 * Threads:  the tree is only read; a run belongs to one thread.
 *
 * jinja_eval.c runs statements, jinja_expr.c computes expressions, jinja_call.c calls, jinja_loop.c
 * keeps loops, jinja_operator.c and jinja_attr.c do what Python does with two values or a name. */
#ifndef FN_TOKENS_JINJA_EVAL_H
#define FN_TOKENS_JINJA_EVAL_H

#include "tokens/jinja_ast.h"
#include "tokens/jinja_builtin.h"
#include "tokens/jinja_run.h"
#include "tokens/jinja_string.h"

/* One call of a function: its variables, and the call of the function around it. */
typedef struct fn_jact {
    struct fn_jact *up;
    fn_jval *slots;
} fn_jact;

struct fn_jmacro {
    const fn_jmacro_def *def;
    fn_jact *closure;
};

struct fn_jloop {
    const fn_jnode *node; /* FOR */
    fn_jact *act;         /* where body and test run */
    fn_jact *outside;     /* where a recursive loop was met */
    const fn_jval *items;
    size_t n;
    size_t next;
    bool filtered; /* items still go through the loop's `if` */
    int64_t index0;
    int64_t length; /* -1: not asked for yet */
    int64_t depth0;
    fn_jval before, current, after; /* after: peeked at, or MISSING */
    fn_jval changed;                /* what changed() saw last */
};

typedef enum fn_jflow { FN_JFLOW_NEXT, FN_JFLOW_BREAK, FN_JFLOW_CONTINUE, FN_JFLOW_FAIL } fn_jflow;

/* Renders a whole template into run->output. */
bool fn_jeval_template(fn_jrun *run, const fn_jtemplate *t) __attribute__((warn_unused_result));

fn_jflow fn_jeval_body(fn_jrun *run, fn_jact *act, const fn_jnodes *body);
/* The text of body; *flow says how it ended. */
fn_jval fn_jeval_capture(fn_jrun *run, fn_jact *act, const fn_jnodes *body, fn_jflow *flow);
fn_jval fn_jeval(fn_jrun *run, fn_jact *act, const fn_jnode *node);
/* A filter node applied to what stands in its place (jinja's name for it: the block's text). */
fn_jval fn_jeval_filter(fn_jrun *run, fn_jact *act, const fn_jnode *node, fn_jval block);

/* A new activation; NULL after a report. */
fn_jact *fn_jact_new(fn_jrun *run, fn_jact *up, uint32_t n_slots);
bool fn_jact_enter(fn_jrun *run, fn_jact *act, const fn_jframe *frame)
    __attribute__((warn_unused_result));
fn_jval *fn_jact_slot(fn_jact *act, fn_jplace place);
/* Gives v to a target: a name, ns.attr, or a tuple of targets. */
bool fn_jact_assign(fn_jrun *run, fn_jact *act, const fn_jnode *target, fn_jval v)
    __attribute__((warn_unused_result));

/* A variable of the context, or a global function; MISSING when there is none. */
fn_jval fn_jeval_resolve(fn_jrun *run, const char *name);

fn_jval fn_jcall(fn_jrun *run, fn_jval callee, const fn_jargs *args);
fn_jval fn_jcall_macro(fn_jrun *run, const fn_jmacro *macro, const fn_jargs *args);
fn_jval fn_jmacro_new(fn_jrun *run, const fn_jmacro_def *def, fn_jact *act);
/* Evaluates arguments; `first` (unless MISSING) goes before them, `caller` after the keywords. */
bool fn_jcall_args(fn_jrun *run, fn_jact *act, const fn_jcallargs *from, fn_jval first,
                   fn_jval caller, fn_jargs *out) __attribute__((warn_unused_result));

/* A loop over what iterable gives; NULL after a report. */
fn_jloop *fn_jloop_new(fn_jrun *run, const fn_jnode *node, fn_jact *act, fn_jval iterable);
/* Moves to the next item; false at the end and after a failure (run->status tells). */
bool fn_jloop_next(fn_jrun *run, fn_jloop *loop);
fn_jval fn_jloop_attribute(fn_jrun *run, fn_jloop *loop, const fn_jstr *name);
/* A recursive loop's text for another iterable. */
fn_jval fn_jloop_render(fn_jrun *run, const fn_jnode *node, fn_jact *outside, fn_jval iterable,
                        int64_t depth0);
bool fn_jloop_run(fn_jrun *run, const fn_jnode *node, fn_jloop *loop, fn_jflow *flow)
    __attribute__((warn_unused_result));

/* object.name, object[key], object[start:stop:step] (MISSING parts: none given). */
fn_jval fn_jattr_get(fn_jrun *run, fn_jval object, fn_jval name);
fn_jval fn_jitem_get(fn_jrun *run, fn_jval object, fn_jval key);
fn_jval fn_jslice_get(fn_jrun *run, fn_jval object, fn_jval start, fn_jval stop, fn_jval step);

/* op as in jinja_lexer.h */
fn_jval fn_j_binary(fn_jrun *run, char op, fn_jval a, fn_jval b);
fn_jval fn_j_compare(fn_jrun *run, char op, fn_jval a, fn_jval b);
fn_jval fn_j_contains(fn_jrun *run, fn_jval container, fn_jval item);

#endif
