/* Calls and macros (jinja_eval.h). */
#include <string.h>

#include "tokens/jinja_eval.h"

typedef struct arg_lists {
    fn_jlist positional;
    fn_jkeyword *keywords;
    size_t n;
    size_t capacity;
} arg_lists;

static bool add_keyword(fn_jrun *run, arg_lists *lists, fn_jval name, fn_jval value) {
    for (size_t i = 0; i < lists->n; i++) {
        if (fn_j_equal(run, lists->keywords[i].name, name)) {
            (void)fn_jrun_error(run, "got multiple values for keyword argument '%.*s'",
                                (int)name.as.s->n, name.as.s->p);
            return false;
        }
    }
    void *keywords = lists->keywords;
    if (!fn_jrun_reserve(run, &keywords, &lists->capacity, lists->n + 1, sizeof *lists->keywords)) {
        return false;
    }
    lists->keywords = keywords;
    lists->keywords[lists->n++] = (fn_jkeyword){.name = name, .value = value};
    return true;
}

static bool add_rest(fn_jrun *run, arg_lists *lists, fn_jval rest) {
    const fn_jval *items = NULL;
    size_t n = 0;
    if (fn_j_failed(rest) || !fn_j_items(run, rest, &items, &n)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!fn_jlist_push(run, &lists->positional, items[i])) {
            return false;
        }
    }
    return true;
}

static bool add_rest_keywords(fn_jrun *run, arg_lists *lists, fn_jval rest) {
    if (fn_j_failed(rest)) {
        return false;
    }
    if (rest.type != FN_J_DICT) {
        (void)fn_jrun_error(run, "argument after ** must be a mapping, not %s",
                            fn_j_type_name(rest));
        return false;
    }
    for (size_t i = 0; i < rest.as.dict->n; i++) {
        const fn_jentry *entry = &rest.as.dict->entries[i];
        if (entry->key.type != FN_J_STRING) {
            (void)fn_jrun_error(run, "keywords must be strings");
            return false;
        }
        if (!add_keyword(run, lists, entry->key, entry->value)) {
            return false;
        }
    }
    return true;
}

static bool evaluate(fn_jrun *run, fn_jact *act, const fn_jcallargs *from, arg_lists *lists) {
    for (size_t i = 0; i < from->positional.n; i++) {
        fn_jval v = fn_jeval(run, act, from->positional.items[i]);
        if (!fn_jlist_push(run, &lists->positional, v)) {
            return false;
        }
    }
    if (from->rest != NULL && !add_rest(run, lists, fn_jeval(run, act, from->rest))) {
        return false;
    }
    for (size_t i = 0; i < from->n_keywords; i++) {
        fn_jval name = fn_jstr_text(run, from->keywords[i].name);
        fn_jval v = fn_j_failed(name) ? name : fn_jeval(run, act, from->keywords[i].value);
        if (fn_j_failed(v) || !add_keyword(run, lists, name, v)) {
            return false;
        }
    }
    return from->rest_keywords == NULL ||
           add_rest_keywords(run, lists, fn_jeval(run, act, from->rest_keywords));
}

bool fn_jcall_args(fn_jrun *run, fn_jact *act, const fn_jcallargs *from, fn_jval first,
                   fn_jval caller, fn_jargs *out) {
    arg_lists lists = {0};
    *out = (fn_jargs){0};
    if (first.type != FN_J_MISSING && !fn_jlist_push(run, &lists.positional, first)) {
        return false;
    }
    if (from != NULL && !evaluate(run, act, from, &lists)) {
        return false;
    }
    if (caller.type != FN_J_MISSING &&
        !add_keyword(run, &lists, fn_jstr_text(run, "caller"), caller)) {
        return false;
    }
    *out = (fn_jargs){.positional = lists.positional.items,
                      .n = lists.positional.n,
                      .keywords = lists.keywords,
                      .n_keywords = lists.n};
    return true;
}

fn_jval fn_jmacro_new(fn_jrun *run, const fn_jmacro_def *def, fn_jact *act) {
    fn_jmacro *macro = fn_jrun_alloc(run, sizeof *macro);
    if (macro == NULL) {
        return fn_j_fail();
    }
    *macro = (fn_jmacro){.def = def, .closure = act};
    return (fn_jval){.type = FN_J_MACRO, .as.macro = macro};
}

static const fn_jkeyword *keyword_named(const fn_jargs *args, const char *name) {
    for (size_t i = 0; i < args->n_keywords; i++) {
        if (fn_j_is_text(args->keywords[i].name, name)) {
            return &args->keywords[i];
        }
    }
    return NULL;
}

/* Is this keyword one of the parameters that no positional argument filled? */
static bool is_open_param(const fn_jmacro_def *def, const fn_jargs *args, fn_jval name) {
    for (size_t i = args->n; i < def->params.n; i++) {
        if (fn_j_is_text(name, def->params.items[i]->name)) {
            return true;
        }
    }
    return false;
}

static const char *macro_label(fn_jrun *run, const fn_jmacro_def *def) {
    return def->name != NULL ? fn_jrun_format(run, "'%s'", def->name) : "None";
}

static bool refuse_keyword(fn_jrun *run, const fn_jmacro_def *def, const fn_jstr *name) {
    const char *label = macro_label(run, def);
    if (fn_j_is_text(fn_j_str(name), "caller")) {
        (void)fn_jrun_error(run,
                            "macro %s was invoked with two values for the special caller argument. "
                            "This is most likely a bug.",
                            label);
    } else {
        (void)fn_jrun_error(run, "macro %s takes no keyword argument '%.*s'", label, (int)name->n,
                            name->p);
    }
    return false;
}

/* The keywords that belong to no parameter: kwargs, or an error. */
static bool bind_keywords(fn_jrun *run, const fn_jmacro_def *def, const fn_jargs *args,
                          fn_jact *act) {
    fn_jdict *rest = fn_jdict_new(run);
    bool takes_caller = def->uses_caller && !def->explicit_caller;
    for (size_t i = 0; rest != NULL && i < args->n_keywords; i++) {
        fn_jval name = args->keywords[i].name;
        if (is_open_param(def, args, name) || (takes_caller && fn_j_is_text(name, "caller"))) {
            continue;
        }
        if (!def->uses_kwargs) {
            return refuse_keyword(run, def, name.as.s);
        }
        if (!fn_jdict_set(run, rest, name, args->keywords[i].value)) {
            return false;
        }
    }
    if (def->uses_kwargs) {
        act->slots[def->kwargs_slot] = (fn_jval){.type = FN_J_DICT, .as.dict = rest};
    }
    return rest != NULL;
}

static bool bind_special(fn_jrun *run, const fn_jmacro_def *def, const fn_jargs *args,
                         fn_jact *act) {
    if (def->uses_caller && !def->explicit_caller) {
        const fn_jkeyword *caller = keyword_named(args, "caller");
        act->slots[def->caller_slot] = caller != NULL && caller->value.type != FN_J_NONE
                                           ? caller->value
                                           : fn_j_undefined_hint(run, "No caller defined");
    }
    if (!bind_keywords(run, def, args, act)) {
        return false;
    }
    size_t extra = args->n > def->params.n ? args->n - def->params.n : 0;
    if (def->uses_varargs) {
        act->slots[def->varargs_slot] = fn_j_seq(
            run, FN_JSEQ_TUPLE, extra > 0 ? args->positional + def->params.n : NULL, extra);
    } else if (extra > 0) {
        (void)fn_jrun_error(run, "macro %s takes not more than %zu argument(s)",
                            macro_label(run, def), def->params.n);
    }
    return run->status == FN_OK;
}

static bool bind_params(fn_jrun *run, const fn_jmacro_def *def, const fn_jargs *args,
                        fn_jact *act) {
    for (size_t i = 0; i < def->params.n; i++) {
        const fn_jnode *param = def->params.items[i];
        const fn_jkeyword *keyword = i < args->n ? NULL : keyword_named(args, param->name);
        fn_jval v = {.type = FN_J_MISSING};
        if (i < args->n) {
            v = args->positional[i];
        } else if (keyword != NULL) {
            v = keyword->value;
        }
        act->slots[param->place.slot] = v;
    }
    return bind_special(run, def, args, act);
}

/* Defaults are computed in order, each seeing the parameters before it. */
static bool fill_defaults(fn_jrun *run, const fn_jmacro_def *def, fn_jact *act) {
    size_t first_default = def->params.n - def->defaults.n;
    for (size_t i = 0; i < def->params.n; i++) {
        const fn_jnode *param = def->params.items[i];
        fn_jval *slot = &act->slots[param->place.slot];
        if (slot->type != FN_J_MISSING) {
            continue;
        }
        fn_jval v = i < first_default
                        ? fn_j_undefined_hint(run, "parameter '%s' was not provided", param->name)
                        : fn_jeval(run, act, def->defaults.items[i - first_default]);
        if (fn_j_failed(v)) {
            return false;
        }
        *slot = v;
    }
    return true;
}

fn_jval fn_jcall_macro(fn_jrun *run, const fn_jmacro *macro, const fn_jargs *args) {
    const fn_jmacro_def *def = macro->def;
    if (++run->depth > run->limits.depth) {
        return fn_jrun_limit(run, "macros nested more than %u deep", (unsigned)run->limits.depth);
    }
    fn_jact *act = fn_jact_new(run, macro->closure, def->n_slots);
    if (act == NULL || !bind_params(run, def, args, act) || !fn_jact_enter(run, act, &def->frame) ||
        !fill_defaults(run, def, act)) {
        return fn_j_fail();
    }
    fn_jflow flow = FN_JFLOW_NEXT;
    fn_jval text = fn_jeval_capture(run, act, &def->body, &flow);
    run->depth--;
    return text;
}

static fn_jval call_loop(fn_jrun *run, const fn_jloop *loop, const fn_jargs *args) {
    if (!loop->node->recursive) {
        return fn_jrun_error(run,
                             "The loop must have the 'recursive' marker to be called recursively.");
    }
    if (args->n != 1 || args->n_keywords > 0) {
        return fn_jrun_error(run, "loop() takes exactly one argument");
    }
    return fn_jloop_render(run, loop->node, loop->outside, args->positional[0], loop->depth0 + 1);
}

static fn_jval call_joiner(fn_jrun *run, fn_jiter *joiner) {
    bool first = joiner->next == 0;
    joiner->next = 1;
    return first ? fn_jstr_text(run, "") : joiner->items[0];
}

fn_jval fn_jcall(fn_jrun *run, fn_jval callee, const fn_jargs *args) {
    switch (callee.type) {
    case FN_J_FUNCTION:
        return fn_jbuiltin_call(run, &callee.as.function->builtin, args);
    case FN_J_MACRO:
        return fn_jcall_macro(run, callee.as.macro, args);
    case FN_J_LOOP:
        return call_loop(run, callee.as.loop, args);
    case FN_J_JOINER:
        return call_joiner(run, callee.as.iter);
    case FN_J_UNDEFINED:
        return fn_j_undefined_error(run, callee);
    case FN_J_METHOD:
        break;
    default:
        return fn_jrun_error(run, "'%s' object is not callable", fn_j_type_name(callee));
    }
    fn_jval *positional = fn_jrun_array(run, args->n + 1, sizeof *positional);
    if (positional == NULL) {
        return fn_j_fail();
    }
    positional[0] = callee.as.method->object;
    if (args->n > 0) {
        memcpy(positional + 1, args->positional, args->n * sizeof *positional);
    }
    fn_jargs bound = {.positional = positional,
                      .n = args->n + 1,
                      .keywords = args->keywords,
                      .n_keywords = args->n_keywords};
    fn_jval result = fn_jbuiltin_call(run, callee.as.method->builtin, &bound);
    bool markup = result.type == FN_J_STRING && positional[0].type == FN_J_STRING &&
                  positional[0].as.s->markup && !result.as.s->markup;
    return markup ? fn_jstr_markup(run, result.as.s, true) : result;
}
