#include "tokens/jinja_walk.h"

#include <string.h>

bool fn_jwalk_list(const fn_jnodes *nodes, fn_jwalk_visit visit, void *context) {
    for (size_t i = 0; i < nodes->n; i++) {
        if (!visit(context, nodes->items[i])) {
            return false;
        }
    }
    return true;
}

static bool walk_one(fn_jnode *node, fn_jwalk_visit visit, void *context) {
    return node == NULL || visit(context, node);
}

static bool walk_args(const fn_jcallargs *args, fn_jwalk_visit visit, void *context) {
    if (args == NULL) {
        return true;
    }
    if (!fn_jwalk_list(&args->positional, visit, context)) {
        return false;
    }
    for (size_t i = 0; i < args->n_keywords; i++) {
        if (!visit(context, args->keywords[i].value)) {
            return false;
        }
    }
    return walk_one(args->rest, visit, context) && walk_one(args->rest_keywords, visit, context);
}

bool fn_jwalk_children(const fn_jnode *node, fn_jwalk_visit visit, void *context) {
    if (node->kind == FN_JN_SET) { /* the value comes before the target */
        return walk_one(node->b, visit, context) && walk_one(node->a, visit, context);
    }
    bool ok = walk_one(node->a, visit, context) && walk_one(node->b, visit, context) &&
              walk_one(node->c, visit, context) && walk_args(node->args, visit, context) &&
              fn_jwalk_list(&node->items, visit, context);
    if (ok && node->kind == FN_JN_IF) {
        return fn_jwalk_list(&node->body, visit, context) &&
               fn_jwalk_list(&node->other, visit, context);
    }
    if (ok && node->macro != NULL) {
        ok = fn_jwalk_list(&node->macro->params, visit, context) &&
             fn_jwalk_list(&node->macro->defaults, visit, context) &&
             fn_jwalk_list(&node->macro->body, visit, context);
    }
    return ok && fn_jwalk_list(&node->other, visit, context) &&
           fn_jwalk_list(&node->body, visit, context);
}

typedef struct reads {
    const char *name;
    bool found;
} reads;

static bool stores_name(const fn_jnode *target, const char *name) {
    if (target == NULL) {
        return false;
    }
    if (target->kind == FN_JN_TUPLE) {
        for (size_t i = 0; i < target->items.n; i++) {
            if (stores_name(target->items.items[i], name)) {
                return true;
            }
        }
        return false;
    }
    return target->kind == FN_JN_NAME && strcmp(target->name, name) == 0;
}

static bool look_for(void *context, fn_jnode *node) {
    reads *r = context;
    bool is_target =
        node->kind == FN_JN_FOR || node->kind == FN_JN_SET || node->kind == FN_JN_BLOCK_SET;
    if (node->kind == FN_JN_NAME && strcmp(node->name, r->name) == 0) {
        r->found = true;
        return false;
    }
    if (node->kind == FN_JN_SET && !look_for(r, node->b)) {
        return false;
    }
    if (is_target && stores_name(node->a, r->name)) {
        return false;
    }
    return fn_jwalk_children(node, look_for, context);
}

bool fn_jwalk_reads(const fn_jnodes *nodes, const char *name) {
    reads r = {.name = name};
    (void)fn_jwalk_list(nodes, look_for, &r);
    return r.found;
}
