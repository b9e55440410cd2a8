/* Attributes, elements and slices (jinja_eval.h), as the immutable sandbox gives them. */
#include <string.h>

#include "tokens/jinja_eval.h"

static bool is_mutator(fn_jval object, const fn_jstr *name) {
    static const char *const of_list[] = {"append", "clear", "pop",    "reverse",
                                          "insert", "sort",  "extend", "remove"};
    static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update"};
    bool list = object.type == FN_J_SEQ && object.as.seq->kind == FN_JSEQ_LIST;
    const char *const *names = list ? of_list : of_dict;
    size_t n = list ? 8 : object.type == FN_J_DICT ? 5 : 0;
    for (size_t i = 0; i < n; i++) {
        if (fn_j_is_text(fn_j_str(name), names[i])) {
            return true;
        }
    }
    return false;
}

/* Python's own attributes that every object has. */
static bool is_internal(const fn_jstr *name) {
    static const char *const names[] = {
        "__class__",   "__init__",   "__new__",          "__doc__",          "__repr__",
        "__str__",     "__hash__",   "__eq__",           "__ne__",           "__lt__",
        "__le__",      "__gt__",     "__ge__",           "__getattribute__", "__setattr__",
        "__delattr__", "__dir__",    "__format__",       "__reduce__",       "__reduce_ex__",
        "__len__",     "__iter__",   "__getitem__",      "__contains__",     "__add__",
        "__mul__",     "__sizeof__", "__subclasshook__", "__init_subclass__"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (fn_j_is_text(fn_j_str(name), names[i])) {
            return true;
        }
    }
    return false;
}

static fn_jval method(fn_jrun *run, fn_jval object, const fn_jbuiltin *builtin) {
    if (builtin == NULL) {
        return (fn_jval){.type = FN_J_MISSING};
    }
    fn_jmethod *bound = fn_jrun_alloc(run, sizeof *bound);
    if (bound == NULL) {
        return fn_j_fail();
    }
    *bound = (fn_jmethod){.object = object, .builtin = builtin};
    return (fn_jval){.type = FN_J_METHOD, .as.method = bound};
}

static fn_jval macro_attribute(fn_jrun *run, const fn_jmacro_def *def, const fn_jstr *name) {
    fn_jval key = fn_j_str(name);
    if (fn_j_is_text(key, "name")) {
        return def->name != NULL ? fn_jstr_text(run, def->name) : fn_j_none();
    }
    if (fn_j_is_text(key, "catch_kwargs")) {
        return fn_j_bool(def->uses_kwargs);
    }
    if (fn_j_is_text(key, "catch_varargs")) {
        return fn_j_bool(def->uses_varargs);
    }
    if (fn_j_is_text(key, "caller")) {
        return fn_j_bool(def->uses_caller);
    }
    if (!fn_j_is_text(key, "arguments")) {
        return (fn_jval){.type = FN_J_MISSING};
    }
    fn_jval *names = fn_jrun_array(run, def->params.n, sizeof *names);
    if (names == NULL) {
        return fn_j_fail();
    }
    for (size_t i = 0; i < def->params.n; i++) {
        names[i] = fn_jstr_text(run, def->params.items[i]->name);
    }
    return fn_j_seq(run, FN_JSEQ_TUPLE, names, def->params.n);
}

static fn_jval seq_attribute(fn_jrun *run, fn_jval object, const fn_jstr *name) {
    const fn_jseq *seq = object.as.seq;
    fn_jval key = fn_j_str(name);
    if (seq->kind == FN_JSEQ_GROUP && fn_j_is_text(key, "grouper")) {
        return seq->items[0];
    }
    if (seq->kind == FN_JSEQ_GROUP && fn_j_is_text(key, "list")) {
        return seq->items[1];
    }
    if (seq->kind == FN_JSEQ_RANGE) {
        if (fn_j_is_text(key, "start") || fn_j_is_text(key, "step")) {
            return fn_j_int(name->p[2] == 'a' ? seq->start : seq->step);
        }
        if (fn_j_is_text(key, "stop")) {
            return fn_j_int(seq->stop);
        }
    }
    return method(run, object, fn_jseq_method_find(object, name->p, name->n));
}

static fn_jval cycler_attribute(fn_jrun *run, fn_jval object, const fn_jstr *name) {
    if (fn_j_is_text(fn_j_str(name), "current")) {
        return object.as.iter->items[object.as.iter->next];
    }
    return method(run, object, fn_jseq_method_find(object, name->p, name->n));
}

/* What Python's getattr gives; MISSING for an AttributeError, undefined for what is unsafe. */
static fn_jval python_attribute(fn_jrun *run, fn_jval object, const fn_jstr *name) {
    if (object.type == FN_J_NAMESPACE) {
        fn_jval v = fn_jdict_get_text(object.as.dict, name->p, name->n);
        if (v.type != FN_J_MISSING) {
            return v;
        }
    }
    if (object.type == FN_J_UNDEFINED && (name->n < 2 || memcmp(name->p, "__", 2) != 0)) {
        return fn_j_undefined_error(run, object);
    }
    if (is_mutator(object, name) || is_internal(name)) {
        return fn_j_undefined_hint(run, "access to attribute '%.*s' of '%s' object is unsafe.",
                                   (int)name->n, name->p, fn_j_type_name(object));
    }
    switch (object.type) {
    case FN_J_STRING:
        return method(run, object, fn_jstr_method_find(name->p, name->n));
    case FN_J_SEQ:
        return seq_attribute(run, object, name);
    case FN_J_DICT:
        return method(run, object, fn_jseq_method_find(object, name->p, name->n));
    case FN_J_LOOP:
        return fn_jloop_attribute(run, object.as.loop, name);
    case FN_J_MACRO:
        return macro_attribute(run, object.as.macro->def, name);
    case FN_J_CYCLER:
        return cycler_attribute(run, object, name);
    default:
        return (fn_jval){.type = FN_J_MISSING};
    }
}

static fn_jval index_chars(fn_jrun *run, const fn_jstr *s, int64_t index) {
    index += index < 0 ? (int64_t)s->n_chars : 0;
    if (index < 0 || index >= (int64_t)s->n_chars) {
        return (fn_jval){.type = FN_J_MISSING};
    }
    return fn_jstr_pick(run, s, index, 1, 1);
}

/* object[key]; MISSING where Python raises a TypeError or LookupError. */
static fn_jval python_item(fn_jrun *run, fn_jval object, fn_jval key) {
    fn_jval missing = {.type = FN_J_MISSING};
    if (object.type == FN_J_UNDEFINED) {
        return fn_j_undefined_error(run, object);
    }
    if (object.type == FN_J_DICT) {
        bool hashable =
            !(key.type == FN_J_DICT || (key.type == FN_J_SEQ && key.as.seq->kind == FN_JSEQ_LIST));
        return hashable ? fn_jdict_get(run, object.as.dict, key) : missing;
    }
    if (key.type != FN_J_INT && key.type != FN_J_BOOL) {
        return missing;
    }
    int64_t index = key.type == FN_J_BOOL ? (key.as.b ? 1 : 0) : key.as.i;
    if (object.type == FN_J_STRING) {
        return index_chars(run, object.as.s, index);
    }
    if (object.type != FN_J_SEQ || object.as.seq->kind > FN_JSEQ_RANGE) {
        return missing;
    }
    const fn_jseq *seq = object.as.seq;
    index += index < 0 ? (int64_t)seq->n : 0;
    return index >= 0 && index < (int64_t)seq->n ? seq->items[index] : missing;
}

fn_jval fn_jattr_get(fn_jrun *run, fn_jval object, fn_jval name) {
    fn_jval v = python_attribute(run, object, name.as.s);
    if (v.type == FN_J_MISSING) {
        v = python_item(run, object, name);
    }
    return v.type == FN_J_MISSING ? fn_j_undefined_element(run, object, name) : v;
}

fn_jval fn_jitem_get(fn_jrun *run, fn_jval object, fn_jval key) {
    fn_jval v = python_item(run, object, key);
    if (v.type == FN_J_MISSING && key.type == FN_J_STRING) {
        v = python_attribute(run, object, key.as.s);
    }
    return v.type == FN_J_MISSING ? fn_j_undefined_element(run, object, key) : v;
}

static bool slice_index(fn_jrun *run, fn_jval v, int64_t missing, int64_t *out) {
    *out = missing;
    if (v.type == FN_J_MISSING || v.type == FN_J_NONE) {
        return true;
    }
    if (v.type != FN_J_INT && v.type != FN_J_BOOL) {
        (void)fn_jrun_error(run,
                            "slice indices must be integers or None or have an __index__ method");
        return false;
    }
    *out = v.type == FN_J_BOOL ? (v.as.b ? 1 : 0) : v.as.i;
    return true;
}

static int64_t clamp(int64_t index, int64_t n, int64_t low, int64_t high) {
    if (index < 0) {
        index = index < -n ? low : index + n;
        return index < low ? low : index;
    }
    return index > high ? high : index;
}

static fn_jval slice_items(fn_jrun *run, const fn_jseq *seq, int64_t from, int64_t step,
                           size_t count) {
    fn_jval *items = fn_jrun_array(run, count, sizeof *items);
    fn_jseq *out = fn_jrun_alloc(run, sizeof *out);
    if (items == NULL || out == NULL || !fn_jrun_step(run, count / 4)) {
        return fn_j_fail();
    }
    for (size_t i = 0; i < count; i++) {
        items[i] = seq->items[from + (int64_t)i * step];
    }
    fn_jseq_kind kind = seq->kind == FN_JSEQ_GROUP ? FN_JSEQ_TUPLE : seq->kind;
    *out = (fn_jseq){.kind = kind, .n = count, .items = items};
    if (kind == FN_JSEQ_RANGE) {
        out->step = seq->step * step;
        out->start = seq->start + from * seq->step;
        out->stop = out->start + (int64_t)count * out->step;
    }
    return (fn_jval){.type = FN_J_SEQ, .as.seq = out};
}

static fn_jval refuse_slice(fn_jrun *run, fn_jval object) {
    if (object.type == FN_J_UNDEFINED) {
        return fn_j_undefined_error(run, object);
    }
    if (object.type == FN_J_DICT) {
        return fn_jrun_error(run, "unhashable type: 'slice'");
    }
    return fn_jrun_error(run, "'%s' object is not subscriptable", fn_j_type_name(object));
}

fn_jval fn_jslice_get(fn_jrun *run, fn_jval object, fn_jval start, fn_jval stop, fn_jval step) {
    bool string = object.type == FN_J_STRING;
    if (!string && (object.type != FN_J_SEQ || object.as.seq->kind > FN_JSEQ_RANGE)) {
        return refuse_slice(run, object);
    }
    int64_t n = string ? (int64_t)object.as.s->n_chars : (int64_t)object.as.seq->n;
    int64_t by = 1;
    int64_t from = 0;
    int64_t to = 0;
    if (!slice_index(run, step, 1, &by)) {
        return fn_j_fail();
    }
    if (by == 0) {
        return fn_jrun_error(run, "slice step cannot be zero");
    }
    bool back = by < 0;
    by = by < -n - 1 ? -n - 1 : by > n + 1 ? n + 1 : by;
    if (!slice_index(run, start, back ? INT64_MAX : 0, &from) ||
        !slice_index(run, stop, back ? INT64_MIN : INT64_MAX, &to)) {
        return fn_j_fail();
    }
    from = clamp(from, n, back ? -1 : 0, back ? n - 1 : n);
    to = clamp(to, n, back ? -1 : 0, back ? n - 1 : n);
    int64_t count = back ? (from > to ? (from - to - 1) / -by + 1 : 0)
                         : (to > from ? (to - from - 1) / by + 1 : 0);
    if (string) {
        return fn_jstr_pick(run, object.as.s, from, by, (size_t)count);
    }
    return slice_items(run, object.as.seq, from, by, (size_t)count);
}
