/* Expressions (jinja_eval.h). */
#include <string.h>

#include "tokens/jinja_eval.h"
#include "tokens/jinja_lexer.h"
#include "tokens/jinja_number.h"
#include "tokens/jinja_repr.h"

static fn_jval eval_name(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    fn_jval v = *fn_jact_slot(act, node->place);
    return v.type == FN_J_MISSING ? fn_j_undefined_name(run, node->name) : v;
}

static fn_jval eval_sequence(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    fn_jval *items = fn_jrun_array(run, node->items.n, sizeof *items);
    if (items == NULL) {
        return fn_j_fail();
    }
    for (size_t i = 0; i < node->items.n; i++) {
        items[i] = fn_jeval(run, act, node->items.items[i]);
        if (fn_j_failed(items[i])) {
            return items[i];
        }
    }
    return fn_j_seq(run, node->kind == FN_JN_LIST ? FN_JSEQ_LIST : FN_JSEQ_TUPLE, items,
                    node->items.n);
}

static fn_jval eval_dict(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    fn_jdict *dict = fn_jdict_new(run);
    if (dict == NULL) {
        return fn_j_fail();
    }
    for (size_t i = 0; i + 1 < node->items.n; i += 2) {
        fn_jval key = fn_jeval(run, act, node->items.items[i]);
        if (fn_j_failed(key)) {
            return key;
        }
        fn_jval value = fn_jeval(run, act, node->items.items[i + 1]);
        if (fn_j_failed(value) || !fn_jdict_set(run, dict, key, value)) {
            return fn_j_fail();
        }
    }
    return (fn_jval){.type = FN_J_DICT, .as.dict = dict};
}

static fn_jval eval_condition(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    fn_jval test = fn_jeval(run, act, node->a);
    if (fn_j_failed(test)) {
        return test;
    }
    if (fn_j_truth(test)) {
        return fn_jeval(run, act, node->b);
    }
    if (node->c != NULL) {
        return fn_jeval(run, act, node->c);
    }
    return fn_j_undefined_hint(run,
                               "the inline if-expression on line %d evaluated to false and no else "
                               "section was defined.",
                               node->line);
}

static fn_jval eval_logic(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    fn_jval a = fn_jeval(run, act, node->a);
    if (fn_j_failed(a) || fn_j_truth(a) == (node->kind == FN_JN_OR)) {
        return a;
    }
    return fn_jeval(run, act, node->b);
}

static fn_jval eval_unary(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    fn_jval a = fn_jeval(run, act, node->a);
    if (fn_j_failed(a)) {
        return a;
    }
    if (node->kind == FN_JN_NOT) {
        return fn_j_bool(!fn_j_truth(a));
    }
    if (a.type == FN_J_UNDEFINED) {
        return fn_j_undefined_error(run, a);
    }
    if (!fn_j_is_number(a)) {
        return fn_jrun_error(run, "bad operand type for unary %c: '%s'",
                             node->kind == FN_JN_NEG ? '-' : '+', fn_j_type_name(a));
    }
    if (node->kind == FN_JN_NEG) {
        return fn_jnum_negate(run, a);
    }
    return a.type == FN_J_BOOL ? fn_j_int(a.as.b ? 1 : 0) : a;
}

static fn_jval eval_binary(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    fn_jval a = fn_jeval(run, act, node->a);
    if (fn_j_failed(a)) {
        return a;
    }
    fn_jval b = fn_jeval(run, act, node->b);
    if (fn_j_failed(b)) {
        return b;
    }
    run->line = node->line;
    return fn_j_binary(run, node->op, a, b);
}

static fn_jval eval_concat(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    fn_jbuf buf = {0};
    for (size_t i = 0; i < node->items.n; i++) {
        fn_jval v = fn_jeval(run, act, node->items.items[i]);
        if (fn_j_failed(v)) {
            return v;
        }
        fn_j_write_str(run, &buf, v);
    }
    return fn_jbuf_take(run, &buf);
}

static fn_jval eval_compare(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    fn_jval left = fn_jeval(run, act, node->a);
    fn_jval result = left;
    for (size_t i = 0; i < node->items.n && !fn_j_failed(left); i++) {
        const fn_jnode *operand = node->items.items[i];
        fn_jval right = fn_jeval(run, act, operand->a);
        if (fn_j_failed(right)) {
            return right;
        }
        run->line = node->line;
        result = fn_j_compare(run, operand->op, left, right);
        if (fn_j_failed(result) || !fn_j_truth(result)) {
            return result;
        }
        left = right;
    }
    return result;
}

/* A part of a slice: none given is MISSING. */
static fn_jval slice_part(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    return node != NULL ? fn_jeval(run, act, node) : (fn_jval){.type = FN_J_MISSING};
}

static fn_jval eval_item(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    fn_jval object = fn_jeval(run, act, node->a);
    if (fn_j_failed(object)) {
        return object;
    }
    if (node->b->kind != FN_JN_SLICE) {
        fn_jval key = fn_jeval(run, act, node->b);
        run->line = node->line;
        return fn_j_failed(key) ? key : fn_jitem_get(run, object, key);
    }
    fn_jval start = slice_part(run, act, node->b->a);
    fn_jval stop = fn_j_failed(start) ? start : slice_part(run, act, node->b->b);
    fn_jval step = fn_j_failed(stop) ? stop : slice_part(run, act, node->b->c);
    run->line = node->line;
    return fn_j_failed(step) ? step : fn_jslice_get(run, object, start, stop, step);
}

static fn_jval eval_call(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    fn_jval callee = fn_jeval(run, act, node->a);
    fn_jval missing = {.type = FN_J_MISSING};
    fn_jargs args;
    if (fn_j_failed(callee) || !fn_jcall_args(run, act, node->args, missing, missing, &args)) {
        return fn_j_fail();
    }
    run->line = node->line;
    return fn_jcall(run, callee, &args);
}

fn_jval fn_jeval_filter(fn_jrun *run, fn_jact *act, const fn_jnode *node, fn_jval block) {
    fn_jval value = block;
    if (node->a != NULL) {
        bool chained = node->a->kind == FN_JN_FILTER;
        value = chained ? fn_jeval_filter(run, act, node->a, block) : fn_jeval(run, act, node->a);
    }
    fn_jargs args;
    if (fn_j_failed(value) ||
        !fn_jcall_args(run, act, node->args, value, (fn_jval){.type = FN_J_MISSING}, &args)) {
        return fn_j_fail();
    }
    run->line = node->line;
    return fn_jbuiltin_call(run, node->builtin, &args);
}

static fn_jval eval_test(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    fn_jval value = fn_jeval(run, act, node->a);
    fn_jargs args;
    if (fn_j_failed(value) ||
        !fn_jcall_args(run, act, node->args, value, (fn_jval){.type = FN_J_MISSING}, &args)) {
        return fn_j_fail();
    }
    run->line = node->line;
    return fn_jbuiltin_call(run, node->builtin, &args);
}

static fn_jval eval_attribute(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    fn_jval object = fn_jeval(run, act, node->a);
    run->line = node->line;
    return fn_j_failed(object) ? object : fn_jattr_get(run, object, node->value);
}

static fn_jval eval_node(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    switch (node->kind) {
    case FN_JN_CONST:
        return node->value;
    case FN_JN_NAME:
        return eval_name(run, act, node);
    case FN_JN_TUPLE:
    case FN_JN_LIST:
        return eval_sequence(run, act, node);
    case FN_JN_DICT:
        return eval_dict(run, act, node);
    case FN_JN_COND:
        return eval_condition(run, act, node);
    case FN_JN_AND:
    case FN_JN_OR:
        return eval_logic(run, act, node);
    case FN_JN_NOT:
    case FN_JN_NEG:
    case FN_JN_POS:
        return eval_unary(run, act, node);
    case FN_JN_BINARY:
        return eval_binary(run, act, node);
    case FN_JN_CONCAT:
        return eval_concat(run, act, node);
    case FN_JN_COMPARE:
        return eval_compare(run, act, node);
    case FN_JN_GETATTR:
        return eval_attribute(run, act, node);
    case FN_JN_GETITEM:
        return eval_item(run, act, node);
    case FN_JN_CALL:
        return eval_call(run, act, node);
    case FN_JN_FILTER:
        return fn_jeval_filter(run, act, node, (fn_jval){.type = FN_J_MISSING});
    case FN_JN_TEST:
        return eval_test(run, act, node);
    case FN_JN_SLICE:
        return fn_jrun_error(run, "unhashable type: 'slice'");
    default:
        return fn_jrun_error(run, "a statement where an expression should be");
    }
}

fn_jval fn_jeval(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    if (!fn_jrun_step(run, 1)) {
        return fn_j_fail();
    }
    if (++run->nest > FN_JINJA_MAX_NEST) {
        return fn_jrun_limit(run, "blocks and expressions nested more than %d deep",
                             FN_JINJA_MAX_NEST);
    }
    fn_jval v = eval_node(run, act, node);
    run->nest--;
    return v;
}
