#include "tokens/jinja_eval.h"

#include <string.h>

#include "tokens/jinja_repr.h"

fn_jact *fn_jact_new(fn_jrun *run, fn_jact *up, uint32_t n_slots) {
    fn_jact *act = fn_jrun_alloc(run, sizeof *act);
    if (act == NULL) {
        return NULL;
    }
    act->up = up;
    act->slots = fn_jrun_array(run, n_slots, sizeof *act->slots); /* zeros: all MISSING */
    return act->slots != NULL ? act : NULL;
}

fn_jval *fn_jact_slot(fn_jact *act, fn_jplace place) {
    for (uint32_t i = 0; i < place.up && act->up != NULL; i++) {
        act = act->up;
    }
    return &act->slots[place.slot];
}

fn_jval fn_jeval_resolve(fn_jrun *run, const char *name) {
    size_t n = strlen(name);
    fn_jval v = fn_jdict_get_text(run->context, name, n);
    if (v.type != FN_J_MISSING) {
        return v;
    }
    const fn_jfunction *function = fn_jglobal_find(name, n);
    if (function == NULL) {
        return (fn_jval){.type = FN_J_MISSING};
    }
    return (fn_jval){.type = FN_J_FUNCTION, .as.function = function};
}

bool fn_jact_enter(fn_jrun *run, fn_jact *act, const fn_jframe *frame) {
    for (size_t i = 0; i < frame->n; i++) {
        const fn_jinit *init = &frame->inits[i];
        fn_jval v = {.type = FN_J_MISSING};
        if (init->load == FN_JLOAD_ALIAS) {
            v = *fn_jact_slot(act, init->from);
        } else if (init->load == FN_JLOAD_RESOLVE) {
            v = fn_jeval_resolve(run, init->name);
        }
        act->slots[init->slot] = v;
    }
    return run->status == FN_OK;
}

static bool assign_tuple(fn_jrun *run, fn_jact *act, const fn_jnode *target, fn_jval v) {
    const fn_jval *items = NULL;
    size_t n = 0;
    size_t want = target->items.n;
    if (v.type != FN_J_UNDEFINED && v.type != FN_J_STRING && v.type != FN_J_SEQ &&
        v.type != FN_J_DICT && v.type != FN_J_ITER) {
        (void)fn_jrun_error(run, "cannot unpack non-iterable %s object", fn_j_type_name(v));
        return false;
    }
    if (!fn_j_items(run, v, &items, &n)) {
        return false;
    }
    if (n < want) {
        (void)fn_jrun_error(run, "not enough values to unpack (expected %zu, got %zu)", want, n);
        return false;
    }
    if (n > want) {
        (void)fn_jrun_error(run, "too many values to unpack (expected %zu)", want);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!fn_jact_assign(run, act, target->items.items[i], items[i])) {
            return false;
        }
    }
    return true;
}

static bool assign_attribute(fn_jrun *run, fn_jact *act, const fn_jnode *target, fn_jval v) {
    fn_jval object = *fn_jact_slot(act, target->place);
    if (object.type != FN_J_NAMESPACE) {
        (void)fn_jrun_error(run, "cannot assign attribute on non-namespace object");
        return false;
    }
    if (target->attribute[0] == '_') {
        (void)fn_jrun_error(run,
                            "Chat templates cannot store underscore-prefixed attributes on a "
                            "namespace, but got '%s'. Please rename the attribute.",
                            target->attribute);
        return false;
    }
    fn_jval key = fn_jstr_text(run, target->attribute);
    return fn_jdict_set(run, object.as.dict, key, v);
}

bool fn_jact_assign(fn_jrun *run, fn_jact *act, const fn_jnode *target, fn_jval v) {
    if (fn_j_failed(v)) {
        return false;
    }
    if (target->kind == FN_JN_TUPLE) {
        return assign_tuple(run, act, target, v);
    }
    if (target->kind == FN_JN_NSREF) {
        return assign_attribute(run, act, target, v);
    }
    *fn_jact_slot(act, target->place) = v;
    return true;
}

fn_jval fn_jeval_capture(fn_jrun *run, fn_jact *act, const fn_jnodes *body, fn_jflow *flow) {
    fn_jbuf buf = {0};
    fn_jbuf *outer = run->output;
    run->output = &buf;
    *flow = fn_jeval_body(run, act, body);
    run->output = outer;
    return *flow == FN_JFLOW_FAIL ? fn_j_fail() : fn_jbuf_take(run, &buf);
}

static fn_jflow write(fn_jrun *run, fn_jval v) {
    if (fn_j_failed(v)) {
        return FN_JFLOW_FAIL;
    }
    fn_j_write_str(run, run->output, v);
    return run->status == FN_OK ? FN_JFLOW_NEXT : FN_JFLOW_FAIL;
}

static fn_jflow run_if(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    fn_jval test = fn_jeval(run, act, node->a);
    if (fn_j_failed(test)) {
        return FN_JFLOW_FAIL;
    }
    if (fn_j_truth(test)) {
        return fn_jeval_body(run, act, &node->body);
    }
    for (size_t i = 0; i < node->items.n; i++) {
        const fn_jnode *other = node->items.items[i];
        run->line = other->line;
        test = fn_jeval(run, act, other->a);
        if (fn_j_failed(test)) {
            return FN_JFLOW_FAIL;
        }
        if (fn_j_truth(test)) {
            return fn_jeval_body(run, act, &other->body);
        }
    }
    return fn_jeval_body(run, act, &node->other);
}

static fn_jflow run_for(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    fn_jval iterable = fn_jeval(run, act, node->b);
    if (fn_j_failed(iterable)) {
        return FN_JFLOW_FAIL;
    }
    if (node->recursive) {
        return write(run, fn_jloop_render(run, node, act, iterable, 0));
    }
    fn_jloop *loop = fn_jloop_new(run, node, act, iterable);
    fn_jflow flow = FN_JFLOW_FAIL;
    if (loop == NULL || !fn_jloop_run(run, node, loop, &flow)) {
        return FN_JFLOW_FAIL;
    }
    return flow;
}

static fn_jflow run_block(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    if (!fn_jact_enter(run, act, &node->frame)) {
        return FN_JFLOW_FAIL;
    }
    fn_jflow flow = FN_JFLOW_NEXT;
    fn_jval text = fn_jeval_capture(run, act, &node->body, &flow);
    if (flow != FN_JFLOW_NEXT) {
        return flow;
    }
    if (node->b != NULL && !fn_j_failed(text)) {
        text = fn_jeval_filter(run, act, node->b, text);
    }
    if (node->kind == FN_JN_FILTER_BLOCK) {
        return write(run, text);
    }
    return fn_jact_assign(run, act, node->a, text) ? FN_JFLOW_NEXT : FN_JFLOW_FAIL;
}

static fn_jflow run_with(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    if (!fn_jact_enter(run, act, &node->frame)) {
        return FN_JFLOW_FAIL;
    }
    for (size_t i = 0; i < node->items.n; i++) {
        fn_jval v = fn_jeval(run, act, node->other.items[i]);
        if (!fn_jact_assign(run, act, node->items.items[i], v)) {
            return FN_JFLOW_FAIL;
        }
    }
    return fn_jeval_body(run, act, &node->body);
}

static fn_jflow run_call_block(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    fn_jval caller = fn_jmacro_new(run, node->macro, act);
    if (fn_j_failed(caller)) {
        return FN_JFLOW_FAIL;
    }
    if (node->kind == FN_JN_GENERATION) {
        return write(run, fn_jcall_macro(run, caller.as.macro, &(fn_jargs){0}));
    }
    fn_jval callee = fn_jeval(run, act, node->a->a);
    fn_jargs args;
    if (fn_j_failed(callee) ||
        !fn_jcall_args(run, act, node->a->args, (fn_jval){.type = FN_J_MISSING}, caller, &args)) {
        return FN_JFLOW_FAIL;
    }
    run->line = node->line;
    return write(run, fn_jcall(run, callee, &args));
}

static fn_jflow run_statement(fn_jrun *run, fn_jact *act, const fn_jnode *node) {
    switch (node->kind) {
    case FN_JN_TEXT:
        return write(run, node->value);
    case FN_JN_OUTPUT:
        return write(run, fn_jeval(run, act, node->a));
    case FN_JN_IF:
        return run_if(run, act, node);
    case FN_JN_FOR:
        return run_for(run, act, node);
    case FN_JN_SET:
        return fn_jact_assign(run, act, node->a, fn_jeval(run, act, node->b)) ? FN_JFLOW_NEXT
                                                                              : FN_JFLOW_FAIL;
    case FN_JN_BLOCK_SET:
    case FN_JN_FILTER_BLOCK:
        return run_block(run, act, node);
    case FN_JN_MACRO:
        *fn_jact_slot(act, node->place) = fn_jmacro_new(run, node->macro, act);
        return run->status == FN_OK ? FN_JFLOW_NEXT : FN_JFLOW_FAIL;
    case FN_JN_CALL_BLOCK:
    case FN_JN_GENERATION:
        return run_call_block(run, act, node);
    case FN_JN_WITH:
        return run_with(run, act, node);
    case FN_JN_BREAK:
        return FN_JFLOW_BREAK;
    case FN_JN_CONTINUE:
        return FN_JFLOW_CONTINUE;
    case FN_JN_GROUP:
        return fn_jeval_body(run, act, &node->body);
    default:
        (void)fn_jrun_error(run, "an expression where a statement should be");
        return FN_JFLOW_FAIL;
    }
}

fn_jflow fn_jeval_body(fn_jrun *run, fn_jact *act, const fn_jnodes *body) {
    if (++run->nest > FN_JINJA_MAX_NEST) {
        (void)fn_jrun_limit(run, "blocks and expressions nested more than %d deep",
                            FN_JINJA_MAX_NEST);
        return FN_JFLOW_FAIL;
    }
    fn_jflow flow = FN_JFLOW_NEXT;
    for (size_t i = 0; i < body->n && flow == FN_JFLOW_NEXT; i++) {
        const fn_jnode *node = body->items[i];
        run->line = node->line;
        flow = fn_jrun_step(run, 1) ? run_statement(run, act, node) : FN_JFLOW_FAIL;
    }
    run->nest--;
    return flow;
}

bool fn_jeval_template(fn_jrun *run, const fn_jtemplate *t) {
    fn_jact *act = fn_jact_new(run, NULL, t->n_slots);
    if (act == NULL || !fn_jact_enter(run, act, &t->frame)) {
        return false;
    }
    return fn_jeval_body(run, act, &t->body) != FN_JFLOW_FAIL && run->status == FN_OK;
}
