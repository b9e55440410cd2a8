#include "tokens/jinja_scope.h"

#include <string.h>

#include "tokens/jinja_builtin.h"
#include "tokens/jinja_walk.h"

typedef struct function {
    const struct function *parent;
    uint32_t n_slots;
} function;

/* What a scope holds of a name; kept apart from the name's slot so that branches can be compared. */
typedef struct holding {
    fn_jload load;
    bool stored;
    fn_jplace from;
} holding;

typedef struct scope {
    struct scope *parent;
    function *function;
    const char **names;
    uint32_t *slots;
    holding *symbols;
    size_t n;
    size_t capacity;
} scope;

typedef struct name_list {
    const char **names;
    int *lines;
    size_t n;
    size_t capacity;
} name_list;

typedef struct resolver {
    fn_jrun *run;
    scope *scope;
    size_t loops;      /* around here, in this function */
    size_t loops_seen; /* around here, in any */
    bool as_parameter; /* names that are stored are given by who enters */
    bool loop_target;  /* ... by a for loop */
    name_list stored;
    name_list tested;
    name_list called;
} resolver;

/* "name: line N: what 'which'"; `which` may be NULL. */
static bool fail(resolver *r, int line, const char *what, const char *which) {
    if (r->run->status == FN_OK) {
        const char *quote = which != NULL ? "'" : "";
        r->run->status =
            fn_fail(r->run->err, FN_E_MODEL, "%s: line %d: %s%s%s%s%s", r->run->name, line, what,
                    which != NULL ? " " : "", quote, which != NULL ? which : "", quote);
        r->run->error_line = line;
    }
    return false;
}

static bool loop_is_taken(resolver *r, int line) {
    return fail(r, line, "Can't assign to special loop variable in for-loop target", NULL);
}

static bool remember(resolver *r, name_list *list, const char *name, int line) {
    void *names = list->names;
    void *lines = list->lines;
    size_t room = list->capacity;
    if (!fn_jrun_reserve(r->run, &names, &room, list->n + 1, sizeof *list->names) ||
        !fn_jrun_reserve(r->run, &lines, &list->capacity, list->n + 1, sizeof *list->lines)) {
        return false;
    }
    list->names = names;
    list->lines = lines;
    list->names[list->n] = name;
    list->lines[list->n++] = line;
    return true;
}

static bool remembered(const name_list *list, const char *name) {
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static size_t entry_of(const scope *s, const char *name) {
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(s->names[i], name) == 0) {
            return i;
        }
    }
    return s->n;
}

/* Where `name` lives as seen from s; false when no scope knows it. */
static bool find_place(const scope *s, const char *name, fn_jplace *place) {
    uint32_t up = 0;
    for (const scope *at = s; at != NULL; at = at->parent) {
        size_t i = entry_of(at, name);
        if (i < at->n && at->symbols[i].load != FN_JLOAD_NONE) {
            *place = (fn_jplace){.up = up, .slot = at->slots[i]};
            return true;
        }
        if (at->parent != NULL && at->parent->function != at->function) {
            up++;
        }
    }
    return false;
}

/* The same from the scope outside s, counted from s. */
static bool find_outer(const scope *s, const char *name, fn_jplace *place) {
    if (s->parent == NULL || !find_place(s->parent, name, place)) {
        return false;
    }
    place->up += s->parent->function != s->function ? 1 : 0;
    return true;
}

static holding *define(resolver *r, const char *name, fn_jload load) {
    scope *s = r->scope;
    size_t i = entry_of(s, name);
    if (i == s->n) {
        size_t room[3] = {s->capacity, s->capacity, s->capacity};
        void *names = s->names;
        void *slots = s->slots;
        void *symbols = s->symbols;
        if (!fn_jrun_reserve(r->run, &names, &room[0], s->n + 1, sizeof *s->names) ||
            !fn_jrun_reserve(r->run, &slots, &room[1], s->n + 1, sizeof *s->slots) ||
            !fn_jrun_reserve(r->run, &symbols, &room[2], s->n + 1, sizeof *s->symbols)) {
            return NULL;
        }
        s->names = names;
        s->slots = slots;
        s->symbols = symbols;
        s->capacity = room[0];
        s->names[i] = name;
        s->slots[i] = s->function->n_slots++;
        s->symbols[i] = (holding){.load = load};
        s->n++;
    }
    s->symbols[i].load = load;
    return &s->symbols[i];
}

static bool declare(resolver *r, const char *name) {
    holding *symbol = define(r, name, FN_JLOAD_PARAMETER);
    if (symbol != NULL) {
        symbol->stored = true;
    }
    return symbol != NULL && remember(r, &r->stored, name, 0);
}

static bool store(resolver *r, const char *name, int line) {
    if (r->loops_seen > 0 && strcmp(name, "loop") == 0) {
        return loop_is_taken(r, line);
    }
    size_t i = entry_of(r->scope, name);
    bool known = i < r->scope->n && r->scope->symbols[i].load != FN_JLOAD_NONE;
    if (!known) {
        fn_jplace outer = {0};
        bool alias = find_outer(r->scope, name, &outer);
        holding *symbol = define(r, name, alias ? FN_JLOAD_ALIAS : FN_JLOAD_UNDEFINED);
        if (symbol == NULL) {
            return false;
        }
        symbol->from = outer;
    }
    r->scope->symbols[entry_of(r->scope, name)].stored = true;
    return remember(r, &r->stored, name, line);
}

static bool load(resolver *r, const char *name) {
    fn_jplace place;
    if (!fn_jrun_step(r->run, r->scope->n / 8 + 1)) {
        return false;
    }
    return find_place(r->scope, name, &place) || define(r, name, FN_JLOAD_RESOLVE) != NULL;
}

/* ---- first look at a scope: what it stores and reads, without the scopes inside it ---- */

static bool look(void *context, fn_jnode *node);

static bool look_target(resolver *r, fn_jnode *target) {
    if (target->kind == FN_JN_NSREF) {
        return load(r, target->name);
    }
    if (target->kind == FN_JN_NAME) {
        if (r->loop_target && strcmp(target->name, "loop") == 0) {
            return loop_is_taken(r, target->line);
        }
        return r->as_parameter ? declare(r, target->name) : store(r, target->name, target->line);
    }
    for (size_t i = 0; i < target->items.n; i++) {
        if (!look_target(r, target->items.items[i])) {
            return false;
        }
    }
    return true;
}

static bool look_parameter(resolver *r, fn_jnode *target) {
    r->as_parameter = true;
    bool ok = look_target(r, target);
    r->as_parameter = false;
    return ok;
}

static holding *copy_symbols(resolver *r, size_t *n) {
    *n = r->scope->n;
    if (!fn_jrun_step(r->run, *n / 8 + 1)) {
        return NULL;
    }
    holding *copy = fn_jrun_array(r->run, *n, sizeof *copy);
    if (copy != NULL && *n > 0) {
        memcpy(copy, r->scope->symbols, *n * sizeof *copy);
    }
    return copy;
}

/* Names that one of the branches stores to and that had no store before: which branch runs is not
 * known, so the variable starts as the outer one or from the context. */
static bool settle_branches(resolver *r, const holding *before, size_t n_before,
                            const bool *branch_stores) {
    scope *s = r->scope;
    for (size_t i = 0; i < s->n; i++) {
        bool stored_before = i < n_before && before[i].stored;
        if (!branch_stores[i] || stored_before) {
            continue;
        }
        fn_jplace outer = {0};
        bool alias = find_outer(s, s->names[i], &outer);
        s->symbols[i].load = alias ? FN_JLOAD_ALIAS : FN_JLOAD_RESOLVE;
        s->symbols[i].from = outer;
    }
    return true;
}

/* Branches start from the same symbols; what they define is put together, the last one winning. */
static bool look_branches(resolver *r, const fn_jnodes *const branches[3]) {
    size_t n_before = 0;
    holding *before = copy_symbols(r, &n_before);
    holding *merged = NULL;
    size_t n_merged = 0;
    for (size_t b = 0; b < 3 && before != NULL; b++) {
        for (size_t i = 0; i < r->scope->n; i++) {
            r->scope->symbols[i] = i < n_before ? before[i] : (holding){.load = FN_JLOAD_NONE};
        }
        if (!fn_jwalk_list(branches[b], look, r)) {
            return false;
        }
        size_t n_now = 0;
        holding *now = copy_symbols(r, &n_now);
        if (now == NULL) {
            return false;
        }
        for (size_t i = 0; i < n_merged; i++) {
            bool stored = now[i].stored || merged[i].stored;
            now[i] = now[i].load == FN_JLOAD_NONE ? merged[i] : now[i];
            now[i].stored = stored;
        }
        merged = now;
        n_merged = n_now;
    }
    bool *stores = fn_jrun_array(r->run, n_merged, sizeof *stores);
    if (before == NULL || stores == NULL) {
        return false;
    }
    for (size_t i = 0; i < n_merged; i++) {
        r->scope->symbols[i] = merged[i];
        stores[i] = merged[i].stored;
    }
    return settle_branches(r, before, n_before, stores);
}

static bool look(void *context, fn_jnode *node) {
    resolver *r = context;
    switch (node->kind) {
    case FN_JN_NAME:
    case FN_JN_NSREF:
        return load(r, node->name);
    case FN_JN_IF:
        return look(r, node->a) && look_branches(r, (const fn_jnodes *const[3]){
                                                        &node->body, &node->items, &node->other});
    case FN_JN_MACRO:
        return store(r, node->name, node->line);
    case FN_JN_SET:
        return look(r, node->b) && look_target(r, node->a);
    case FN_JN_BLOCK_SET:
        return look_target(r, node->a);
    case FN_JN_FOR:
        return look(r, node->b);
    case FN_JN_CALL_BLOCK:
        return look(r, node->a);
    case FN_JN_FILTER_BLOCK:
        return look(r, node->b);
    case FN_JN_WITH:
        return fn_jwalk_list(&node->other, look, r);
    case FN_JN_GENERATION:
        return true;
    default:
        return fn_jwalk_children(node, look, r);
    }
}

/* ---- second pass: places of names, and the scopes inside ---- */

static bool settle(void *context, fn_jnode *node);

static bool write_frame(resolver *r, fn_jframe *frame) {
    const scope *s = r->scope;
    frame->inits = fn_jrun_array(r->run, s->n, sizeof *frame->inits);
    if (frame->inits == NULL) {
        return false;
    }
    for (size_t i = 0; i < s->n; i++) {
        const holding *symbol = &s->symbols[i];
        if (symbol->load != FN_JLOAD_NONE && symbol->load != FN_JLOAD_PARAMETER) {
            frame->inits[frame->n++] = (fn_jinit){.load = symbol->load,
                                                  .slot = s->slots[i],
                                                  .from = symbol->from,
                                                  .name = s->names[i]};
        }
    }
    return true;
}

static scope inner(const resolver *r) {
    return (scope){.parent = r->scope, .function = r->scope->function};
}

static bool settle_for_body(resolver *r, fn_jnode *node) {
    scope body = inner(r);
    r->scope = &body;
    r->loops++;
    r->loops_seen++;
    r->loop_target = true;
    bool ok = declare(r, "loop") && look_parameter(r, node->a);
    r->loop_target = false;
    ok = ok && fn_jwalk_list(&node->body, look, r) && settle(r, node->a) &&
         fn_jwalk_list(&node->body, settle, r) && write_frame(r, &node->frame);
    node->loop_slot = body.n > 0 ? body.slots[0] : 0;
    r->loops--;
    r->loops_seen--;
    r->scope = body.parent;
    return ok;
}

static bool settle_for_rest(resolver *r, fn_jnode *node) {
    scope other = inner(r);
    r->scope = &other;
    bool ok = fn_jwalk_list(&node->other, look, r) && fn_jwalk_list(&node->other, settle, r) &&
              write_frame(r, &node->else_frame);
    r->scope = other.parent;
    if (!ok || node->c == NULL) {
        return ok;
    }
    scope test = inner(r);
    r->scope = &test;
    ok = look_parameter(r, node->d) && look(r, node->c) && settle(r, node->d) &&
         settle(r, node->c) && write_frame(r, &node->test_frame);
    r->scope = test.parent;
    return ok;
}

static bool settle_for(resolver *r, fn_jnode *node) {
    if (!settle(r, node->b)) {
        return false;
    }
    if (!node->recursive) {
        return settle_for_body(r, node) && settle_for_rest(r, node);
    }
    function own = {.parent = r->scope->function};
    scope outer = {.parent = r->scope, .function = &own};
    r->scope = &outer;
    bool ok = settle_for_body(r, node) && settle_for_rest(r, node);
    node->n_slots = own.n_slots;
    r->scope = outer.parent;
    return ok;
}

static bool declare_special(resolver *r, fn_jmacro_def *macro, const char *name, bool *uses,
                            uint32_t *slot) {
    for (size_t i = 0; i < macro->params.n; i++) {
        if (strcmp(macro->params.items[i]->name, name) == 0) {
            return true;
        }
    }
    *uses = fn_jwalk_reads(&macro->body, name);
    if (!*uses || !declare(r, name)) {
        return !*uses;
    }
    *slot = r->scope->slots[entry_of(r->scope, name)];
    return true;
}

static bool explicit_caller(resolver *r, fn_jmacro_def *macro, int line) {
    for (size_t i = 0; i < macro->params.n; i++) {
        if (strcmp(macro->params.items[i]->name, "caller") != 0 ||
            !fn_jwalk_reads(&macro->body, "caller")) {
            continue;
        }
        macro->uses_caller = true;
        macro->explicit_caller = true;
        if (i + macro->defaults.n < macro->params.n) {
            return fail(r, line,
                        "When defining macros or call blocks the special argument must be omitted "
                        "or be given a default:",
                        "caller");
        }
    }
    return true;
}

static bool settle_macro(resolver *r, fn_jnode *node) {
    fn_jmacro_def *macro = node->macro;
    function own = {.parent = r->scope->function};
    scope body = {.parent = r->scope, .function = &own};
    size_t loops = r->loops;
    r->scope = &body;
    r->loops = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < macro->params.n; i++) {
        ok = look_parameter(r, macro->params.items[i]);
    }
    ok = ok && explicit_caller(r, macro, node->line) &&
         declare_special(r, macro, "caller",
                         macro->explicit_caller ? &(bool){false} : &macro->uses_caller,
                         &macro->caller_slot) &&
         declare_special(r, macro, "kwargs", &macro->uses_kwargs, &macro->kwargs_slot) &&
         declare_special(r, macro, "varargs", &macro->uses_varargs, &macro->varargs_slot) &&
         fn_jwalk_list(&macro->defaults, look, r) && fn_jwalk_list(&macro->body, look, r) &&
         fn_jwalk_list(&macro->params, settle, r) && fn_jwalk_list(&macro->defaults, settle, r) &&
         fn_jwalk_list(&macro->body, settle, r) && write_frame(r, &macro->frame);
    macro->n_slots = own.n_slots;
    r->scope = body.parent;
    r->loops = loops;
    return ok;
}

/* Block set, filter block: a body with a scope of its own, and a filter that is looked up there. */
static bool settle_block(resolver *r, fn_jnode *node) {
    if (node->kind == FN_JN_BLOCK_SET && !settle(r, node->a)) {
        return false;
    }
    scope body = inner(r);
    r->scope = &body;
    bool ok = (node->b == NULL || look(r, node->b)) && fn_jwalk_list(&node->body, look, r) &&
              (node->b == NULL || settle(r, node->b)) && fn_jwalk_list(&node->body, settle, r) &&
              write_frame(r, &node->frame);
    r->scope = body.parent;
    return ok;
}

static bool settle_with(resolver *r, fn_jnode *node) {
    if (!fn_jwalk_list(&node->other, settle, r)) {
        return false;
    }
    scope body = inner(r);
    r->scope = &body;
    bool ok = true;
    for (size_t i = 0; ok && i < node->items.n; i++) {
        ok = look_parameter(r, node->items.items[i]);
    }
    ok = ok && fn_jwalk_list(&node->body, look, r) && fn_jwalk_list(&node->items, settle, r) &&
         fn_jwalk_list(&node->body, settle, r) && write_frame(r, &node->frame);
    r->scope = body.parent;
    return ok;
}

static bool settle_name(resolver *r, fn_jnode *node) {
    if (!find_place(r->scope, node->name, &node->place)) {
        return fail(r, node->line, "cannot tell what this name means:", node->name);
    }
    return true;
}

static bool settle(void *context, fn_jnode *node) {
    resolver *r = context;
    switch (node->kind) {
    case FN_JN_NAME:
    case FN_JN_NSREF:
        return settle_name(r, node);
    case FN_JN_FOR:
        return settle_for(r, node);
    case FN_JN_MACRO:
        return settle_name(r, node) && settle_macro(r, node);
    case FN_JN_CALL_BLOCK:
        return settle(r, node->a) && settle_macro(r, node);
    case FN_JN_GENERATION:
        return settle_macro(r, node);
    case FN_JN_BLOCK_SET:
    case FN_JN_FILTER_BLOCK:
        return settle_block(r, node);
    case FN_JN_WITH:
        return settle_with(r, node);
    case FN_JN_BREAK:
    case FN_JN_CONTINUE:
        return r->loops > 0 ||
               fail(r, node->line,
                    "outside a loop:", node->kind == FN_JN_BREAK ? "break" : "continue");
    case FN_JN_CALL:
        if (node->a->kind == FN_JN_NAME && !remember(r, &r->called, node->a->name, node->line)) {
            return false;
        }
        return fn_jwalk_children(node, settle, r);
    case FN_JN_TEST:
        if (node->a->kind == FN_JN_NAME && !remember(r, &r->tested, node->a->name, node->line)) {
            return false;
        }
        return fn_jwalk_children(node, settle, r);
    default:
        return fn_jwalk_children(node, settle, r);
    }
}

/* A context holds data only: what is called by a bare name must be a global or the template's own.
 * A template that asks `is defined` first knows how to go on without. */
static bool check_calls(resolver *r) {
    for (size_t i = 0; i < r->called.n; i++) {
        const char *name = r->called.names[i];
        if (!fn_jrun_step(r->run, (r->stored.n + r->tested.n) / 8 + 1)) {
            return false;
        }
        if (fn_jglobal_find(name, strlen(name)) == NULL && !remembered(&r->stored, name) &&
            !remembered(&r->tested, name)) {
            return fail(r, r->called.lines[i], "no function named", name);
        }
    }
    return true;
}

bool fn_jscope_resolve(fn_jrun *run, fn_jtemplate *t) {
    function root = {0};
    scope top = {.function = &root};
    resolver r = {.run = run, .scope = &top};
    bool ok = fn_jwalk_list(&t->body, look, &r) && fn_jwalk_list(&t->body, settle, &r) &&
              write_frame(&r, &t->frame) && check_calls(&r);
    t->n_slots = root.n_slots;
    return ok && run->status == FN_OK;
}
