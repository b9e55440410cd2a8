/* Filters that apply filters, tests and attributes to each item (jinja_filters.h). */
#include <string.h>

#include "tokens/jinja_eval.h"
#include "tokens/jinja_filters.h"
#include "tokens/jinja_sort.h"

#define FILTER(name) static fn_jval name(fn_jrun *run, const fn_jval *in, const fn_jargs *args)

static const fn_jval missing = {.type = FN_J_MISSING};

/* Calls builtin with the item before the arguments from number `from` on. */
static fn_jval apply(fn_jrun *run, const fn_jbuiltin *builtin, fn_jval item, const fn_jargs *args,
                     size_t from) {
    size_t n = args->n > from ? args->n - from : 0;
    fn_jval *positional = fn_jrun_array(run, n + 1, sizeof *positional);
    if (positional == NULL) {
        return fn_j_fail();
    }
    positional[0] = item;
    for (size_t i = 0; i < n; i++) {
        positional[i + 1] = args->positional[from + i];
    }
    fn_jargs bound = {.positional = positional,
                      .n = n + 1,
                      .keywords = args->keywords,
                      .n_keywords = args->n_keywords};
    return fn_jbuiltin_call(run, builtin, &bound);
}

static const fn_jbuiltin *named(fn_jrun *run, fn_jval name, bool test) {
    const fn_jbuiltin *found = NULL;
    if (name.type == FN_J_STRING) {
        found = test ? fn_jtest_find(name.as.s->p, name.as.s->n)
                     : fn_jfilter_find(name.as.s->p, name.as.s->n);
    }
    if (found == NULL) {
        const char *text = name.type == FN_J_STRING ? name.as.s->p : fn_j_type_name(name);
        int n = name.type == FN_J_STRING ? (int)name.as.s->n : (int)strlen(text);
        (void)fn_jrun_error(run, "No %s named '%.*s'.", test ? "test" : "filter", n, text);
    }
    return found;
}

static fn_jval map_attribute(fn_jrun *run, const fn_jargs *args, fn_jval attribute) {
    fn_jval fallback = missing;
    const fn_jval *items = NULL;
    size_t n = 0;
    fn_jlist out = {0};
    for (size_t i = 0; i < args->n_keywords; i++) {
        const fn_jkeyword *keyword = &args->keywords[i];
        if (fn_j_is_text(keyword->name, "default")) {
            fallback = keyword->value;
        } else if (!fn_j_is_text(keyword->name, "attribute")) {
            return fn_jrun_error(run, "Unexpected keyword argument '%.*s'",
                                 (int)keyword->name.as.s->n, keyword->name.as.s->p);
        }
    }
    if (!fn_j_truth(args->positional[0])) {
        return fn_j_generator(run, NULL, 0, "generator");
    }
    if (!fn_j_items(run, args->positional[0], &items, &n)) {
        return fn_j_fail();
    }
    for (size_t i = 0; i < n; i++) {
        fn_jval v = fn_jfilter_attribute(run, items[i], attribute, fallback);
        if (!fn_jrun_step(run, 1) || !fn_jlist_push(run, &out, v)) {
            return fn_j_fail();
        }
    }
    return fn_j_generator(run, out.items, out.n, "generator");
}

FILTER(filter_map) {
    (void)in;
    if (args->n == 0) {
        return fn_jrun_error(run, "map requires a value");
    }
    for (size_t i = 0; args->n == 1 && i < args->n_keywords; i++) {
        if (fn_j_is_text(args->keywords[i].name, "attribute")) {
            return map_attribute(run, args, args->keywords[i].value);
        }
    }
    const fn_jval *items = NULL;
    size_t n = 0;
    fn_jlist out = {0};
    if (!fn_j_truth(args->positional[0]) && args->positional[0].type != FN_J_ITER) {
        return fn_j_generator(run, NULL, 0, "generator");
    }
    if (args->n < 2) {
        return fn_jrun_error(run, "map requires a filter argument");
    }
    if (!fn_j_items(run, args->positional[0], &items, &n)) {
        return fn_j_fail();
    }
    const fn_jbuiltin *filter = named(run, args->positional[1], false);
    for (size_t i = 0; filter != NULL && i < n; i++) {
        if (!fn_jlist_push(run, &out, apply(run, filter, items[i], args, 2))) {
            return fn_j_fail();
        }
    }
    return filter != NULL ? fn_j_generator(run, out.items, out.n, "generator") : fn_j_fail();
}

/* select, reject, selectattr, rejectattr: keep items whose test (or truth) is `keep`. */
static fn_jval choose(fn_jrun *run, const fn_jargs *args, bool by_attribute, bool keep) {
    const fn_jval *items = NULL;
    size_t n = 0;
    size_t name_at = by_attribute ? 2 : 1;
    fn_jlist out = {0};
    if (!fn_j_truth(args->positional[0])) {
        return fn_j_generator(run, NULL, 0, "generator");
    }
    if (by_attribute && args->n < 2) {
        return fn_jrun_error(run, "Missing parameter for attribute name");
    }
    const fn_jbuiltin *test = NULL;
    if (!fn_j_items(run, args->positional[0], &items, &n)) {
        return fn_j_fail();
    }
    if (args->n > name_at && n > 0) {
        test = named(run, args->positional[name_at], true);
        if (test == NULL) {
            return fn_j_fail();
        }
    }
    for (size_t i = 0; i < n; i++) {
        fn_jval v = by_attribute ? fn_jfilter_attribute(run, items[i], args->positional[1], missing)
                                 : items[i];
        if (!fn_j_failed(v) && test != NULL) {
            v = apply(run, test, v, args, name_at + 1);
        }
        if (fn_j_failed(v) || !fn_jrun_step(run, 1) ||
            (fn_j_truth(v) == keep && !fn_jlist_push(run, &out, items[i]))) {
            return fn_j_fail();
        }
    }
    return fn_j_generator(run, out.items, out.n, "generator");
}

FILTER(filter_select) {
    (void)in;
    return choose(run, args, false, true);
}

FILTER(filter_reject) {
    (void)in;
    return choose(run, args, false, false);
}

FILTER(filter_selectattr) {
    (void)in;
    return choose(run, args, true, true);
}

FILTER(filter_rejectattr) {
    (void)in;
    return choose(run, args, true, false);
}

FILTER(filter_attr) {
    (void)args;
    if (in[1].type != FN_J_STRING) {
        return fn_jrun_error(run, "attribute name must be string, not '%s'", fn_j_type_name(in[1]));
    }
    /* Attributes only: the elements of a dict are not among them. */
    if (in[0].type == FN_J_DICT &&
        fn_jseq_method_find(in[0], in[1].as.s->p, in[1].as.s->n) == NULL) {
        return fn_j_undefined_element(run, in[0], in[1]);
    }
    return fn_jattr_get(run, in[0], in[1]);
}

/* Runs of equal keys among the sorted items: (grouper, list). */
static fn_jval groups(fn_jrun *run, const fn_jval *items, const fn_jval *keys, const fn_jval *shown,
                      const size_t *order, size_t n) {
    fn_jlist out = {0};
    for (size_t begin = 0; begin < n;) {
        fn_jlist members = {0};
        size_t end = begin;
        while (end < n && fn_j_equal(run, keys[order[end]], keys[order[begin]])) {
            if (!fn_jlist_push(run, &members, items[order[end]])) {
                return fn_j_fail();
            }
            end++;
        }
        fn_jval *pair = fn_jrun_array(run, 2, sizeof *pair);
        if (pair == NULL || run->status != FN_OK || end == begin) {
            return run->status == FN_OK && pair != NULL
                       ? fn_jrun_error(run, "a key that is not equal to itself")
                       : fn_j_fail();
        }
        pair[0] = shown[order[begin]];
        pair[1] = fn_j_seq(run, FN_JSEQ_LIST, members.items, members.n);
        if (!fn_jlist_push(run, &out, fn_j_seq(run, FN_JSEQ_GROUP, pair, 2))) {
            return fn_j_fail();
        }
        begin = end;
    }
    return fn_j_seq(run, FN_JSEQ_LIST, out.items, out.n);
}

FILTER(filter_groupby) {
    (void)args;
    const fn_jval *items = NULL;
    size_t n = 0;
    bool case_sensitive = in[3].type != FN_J_MISSING && fn_j_truth(in[3]);
    if (!fn_j_items(run, in[0], &items, &n)) {
        return fn_j_fail();
    }
    fn_jval *keys = fn_jrun_array(run, n, sizeof *keys);
    fn_jval *shown = fn_jrun_array(run, n, sizeof *shown);
    for (size_t i = 0; keys != NULL && shown != NULL && i < n; i++) {
        shown[i] = fn_jfilter_attribute(run, items[i], in[1], in[2]);
        keys[i] = fn_j_failed(shown[i]) ? shown[i]
                                        : fn_jfilter_ignore_case(run, shown[i], case_sensitive);
        if (fn_j_failed(keys[i]) || !fn_jrun_step(run, 1)) {
            return fn_j_fail();
        }
    }
    const size_t *order =
        keys != NULL && shown != NULL ? fn_jsort_order(run, keys, n, false) : NULL;
    return order != NULL ? groups(run, items, keys, shown, order, n) : fn_j_fail();
}

static const fn_jbuiltin filters[] = {
    {"map", "do_map", "value=,*,**", filter_map},
    {"select", "do_select", "value,*,**", filter_select},
    {"reject", "do_reject", "value,*,**", filter_reject},
    {"selectattr", "do_selectattr", "value,*,**", filter_selectattr},
    {"rejectattr", "do_rejectattr", "value,*,**", filter_rejectattr},
    {"attr", "do_attr", "obj,name", filter_attr},
    {"groupby", "do_groupby", "value,attribute,default=,case_sensitive=", filter_groupby},
};

const fn_jbuiltin *fn_jfilter_find_map(const char *name, size_t n) {
    return fn_jbuiltin_search(filters, sizeof filters / sizeof filters[0], name, n);
}
