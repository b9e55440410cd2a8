/* Filters of sequences (jinja_filters.h). */
#include <string.h>

#include "tokens/jinja_eval.h"
#include "tokens/jinja_filters.h"
#include "tokens/jinja_number.h"
#include "tokens/jinja_repr.h"
#include "tokens/jinja_sort.h"
#include "tokens/jinja_text.h"

#define FILTER(name) static fn_jval name(fn_jrun *run, const fn_jval *in, const fn_jargs *args)

static bool given(fn_jval v) {
    return v.type != FN_J_MISSING && v.type != FN_J_NONE;
}

fn_jval fn_jfilter_attribute(fn_jrun *run, fn_jval item, fn_jval attribute, fn_jval fallback) {
    if (!given(attribute)) {
        return item;
    }
    if (attribute.type != FN_J_STRING) {
        fn_jval v = fn_jitem_get(run, item, attribute);
        return v.type == FN_J_UNDEFINED && given(fallback) ? fallback : v;
    }
    const fn_jstr *path = attribute.as.s;
    size_t at = 0;
    do {
        size_t end = at;
        bool digits = true;
        while (end < path->n && path->p[end] != '.') {
            digits = digits && path->p[end] >= '0' && path->p[end] <= '9';
            end++;
        }
        fn_jval key = digits && end > at ? fn_jnum_parse_int(run, path->p + at, end - at)
                                         : fn_jstr_sub(run, path, at, end);
        item = fn_j_failed(key) ? key : fn_jitem_get(run, item, key);
        if (item.type == FN_J_UNDEFINED && given(fallback)) {
            item = fallback;
        }
        at = end + 1;
    } while (at <= path->n && !fn_j_failed(item));
    return item;
}

fn_jval fn_jfilter_ignore_case(fn_jrun *run, fn_jval v, bool case_sensitive) {
    if (case_sensitive || v.type != FN_J_STRING) {
        return v;
    }
    return fn_jtext_case(run, v.as.s, FN_JCASE_LOWER);
}

static bool truth_of(fn_jval v) {
    return v.type != FN_J_MISSING && fn_j_truth(v);
}

FILTER(filter_length) {
    (void)args;
    switch (in[0].type) {
    case FN_J_UNDEFINED:
        return fn_j_int(0);
    case FN_J_STRING:
        return fn_j_int((int64_t)in[0].as.s->n_chars);
    case FN_J_SEQ:
        return fn_j_int((int64_t)in[0].as.seq->n);
    case FN_J_DICT:
        return fn_j_int((int64_t)in[0].as.dict->n);
    case FN_J_LOOP: {
        fn_jval name = fn_jstr_text(run, "length");
        return fn_j_failed(name) ? name : fn_jloop_attribute(run, in[0].as.loop, name.as.s);
    }
    default:
        return fn_jrun_error(run, "object of type '%s' has no len()", fn_j_type_name(in[0]));
    }
}

FILTER(filter_list) {
    (void)args;
    const fn_jval *items = NULL;
    size_t n = 0;
    return fn_j_items(run, in[0], &items, &n) ? fn_j_seq(run, FN_JSEQ_LIST, items, n) : fn_j_fail();
}

FILTER(filter_first) {
    (void)args;
    const fn_jval *items = NULL;
    size_t n = 0;
    fn_jiter *iter = in[0].type == FN_J_ITER ? in[0].as.iter : NULL;
    if (!fn_j_items(run, in[0], &items, &n)) {
        return fn_j_fail();
    }
    if (iter != NULL && n > 0) { /* the rest of a generator stays */
        iter->next = iter->n - n + 1;
    }
    return n > 0 ? items[0] : fn_j_undefined_hint(run, "No first item, sequence was empty.");
}

static bool reversible(fn_jrun *run, fn_jval v) {
    if (v.type == FN_J_STRING || v.type == FN_J_SEQ || v.type == FN_J_DICT ||
        v.type == FN_J_UNDEFINED) {
        return true;
    }
    (void)fn_jrun_error(run, "'%s' object is not reversible", fn_j_type_name(v));
    return false;
}

FILTER(filter_last) {
    (void)args;
    const fn_jval *items = NULL;
    size_t n = 0;
    if (!reversible(run, in[0]) || !fn_j_items(run, in[0], &items, &n)) {
        return fn_j_fail();
    }
    return n > 0 ? items[n - 1] : fn_j_undefined_hint(run, "No last item, sequence was empty.");
}

FILTER(filter_reverse) {
    (void)args;
    const fn_jval *items = NULL;
    size_t n = 0;
    if (in[0].type == FN_J_STRING) {
        int64_t chars = (int64_t)in[0].as.s->n_chars;
        return fn_jstr_pick(run, in[0].as.s, chars - 1, -1, (size_t)chars);
    }
    bool can = in[0].type == FN_J_SEQ || in[0].type == FN_J_DICT || in[0].type == FN_J_ITER ||
               in[0].type == FN_J_UNDEFINED;
    if (!can) {
        return fn_jrun_error(run, "argument must be iterable");
    }
    bool lazy = in[0].type != FN_J_ITER;
    fn_jval *turned = NULL;
    if (!fn_j_items(run, in[0], &items, &n) ||
        (turned = fn_jrun_array(run, n, sizeof *turned)) == NULL || !fn_jrun_step(run, n)) {
        return fn_j_fail();
    }
    for (size_t i = 0; i < n; i++) {
        turned[i] = items[n - 1 - i];
    }
    return lazy ? fn_j_generator(run, turned, n, "list_reverseiterator")
                : fn_j_seq(run, FN_JSEQ_LIST, turned, n);
}

FILTER(filter_join) {
    (void)args;
    const fn_jval *items = NULL;
    size_t n = 0;
    fn_jval separator =
        in[1].type != FN_J_MISSING ? fn_j_to_str(run, in[1]) : fn_jstr_text(run, "");
    if (fn_j_failed(separator) || !fn_j_items(run, in[0], &items, &n)) {
        return fn_j_fail();
    }
    fn_jval *parts = fn_jrun_array(run, n, sizeof *parts);
    for (size_t i = 0; parts != NULL && i < n; i++) {
        parts[i] = fn_jfilter_attribute(run, items[i], in[2], (fn_jval){.type = FN_J_MISSING});
        if (fn_j_failed(parts[i])) {
            return parts[i];
        }
    }
    return parts != NULL ? fn_jtext_join(run, separator.as.s, parts, n, false) : fn_j_fail();
}

FILTER(filter_items) {
    (void)args;
    if (in[0].type == FN_J_UNDEFINED) {
        return fn_j_generator(run, NULL, 0, "generator");
    }
    if (in[0].type != FN_J_DICT) {
        return fn_jrun_error(run, "Can only get item pairs from a mapping.");
    }
    const fn_jdict *dict = in[0].as.dict;
    fn_jval *pairs = fn_jrun_array(run, dict->n, sizeof *pairs);
    if (pairs == NULL || !fn_jrun_step(run, dict->n)) {
        return fn_j_fail();
    }
    for (size_t i = 0; i < dict->n; i++) {
        pairs[i] = fn_j_pair(run, dict->entries[i].key, dict->entries[i].value);
        if (fn_j_failed(pairs[i])) {
            return pairs[i];
        }
    }
    return fn_j_generator(run, pairs, dict->n, "generator");
}

/* The items in the order of their keys. */
static fn_jval sorted(fn_jrun *run, const fn_jval *items, const fn_jval *keys, size_t n,
                      bool reverse) {
    if (n == 0 || items == NULL) {
        return fn_j_seq(run, FN_JSEQ_LIST, NULL, 0);
    }
    const size_t *order = fn_jsort_order(run, keys, n, reverse);
    fn_jval *out = order != NULL ? fn_jrun_array(run, n, sizeof *out) : NULL;
    for (size_t i = 0; out != NULL && i < n; i++) {
        out[i] = items[order[i]];
    }
    return out != NULL ? fn_j_seq(run, FN_JSEQ_LIST, out, n) : fn_j_fail();
}

/* "a,b.c": a list of those, so that the second decides where the first is equal. One attribute makes
 * a list too, as in jinja2: lists ask for == first, so that equal items need no order. */
static fn_jval multi_key(fn_jrun *run, fn_jval item, fn_jval attribute, bool case_sensitive) {
    fn_jlist keys = {0};
    fn_jstr comma = {.p = ",", .n = 1, .n_chars = 1};
    fn_jval parts = attribute.type == FN_J_STRING ? fn_jtext_split(run, attribute.as.s, &comma, -1)
                                                  : fn_j_seq(run, FN_JSEQ_LIST, &attribute, 1);
    for (size_t i = 0; !fn_j_failed(parts) && i < parts.as.seq->n; i++) {
        fn_jval v = fn_jfilter_attribute(run, item, parts.as.seq->items[i],
                                         (fn_jval){.type = FN_J_MISSING});
        if (fn_j_failed(v) ||
            !fn_jlist_push(run, &keys, fn_jfilter_ignore_case(run, v, case_sensitive))) {
            return fn_j_fail();
        }
    }
    return fn_j_failed(parts) ? parts : fn_j_seq(run, FN_JSEQ_LIST, keys.items, keys.n);
}

static fn_jval *sort_keys(fn_jrun *run, const fn_jval *items, size_t n, fn_jval attribute,
                          bool case_sensitive) {
    fn_jval *keys = fn_jrun_array(run, n, sizeof *keys);
    for (size_t i = 0; keys != NULL && i < n; i++) {
        keys[i] = multi_key(run, items[i], attribute, case_sensitive);
        if (fn_j_failed(keys[i]) || !fn_jrun_step(run, 1)) {
            return NULL;
        }
    }
    return keys;
}

FILTER(filter_sort) {
    (void)args;
    const fn_jval *items = NULL;
    size_t n = 0;
    if (!fn_j_items(run, in[0], &items, &n)) {
        return fn_j_fail();
    }
    const fn_jval *keys = sort_keys(run, items, n, in[3], truth_of(in[2]));
    return keys != NULL ? sorted(run, items, keys, n, truth_of(in[1])) : fn_j_fail();
}

FILTER(filter_dictsort) {
    (void)args;
    bool by_value = in[2].type != FN_J_MISSING && fn_j_is_text(in[2], "value");
    if (in[2].type != FN_J_MISSING && !by_value && !fn_j_is_text(in[2], "key")) {
        return fn_jrun_error(run, "You can only sort by either \"key\" or \"value\"");
    }
    if (in[0].type == FN_J_UNDEFINED) {
        return fn_j_undefined_error(run, in[0]);
    }
    if (in[0].type != FN_J_DICT) {
        return fn_jrun_error(run, "'%s' object has no attribute 'items'", fn_j_type_name(in[0]));
    }
    const fn_jdict *dict = in[0].as.dict;
    fn_jval *pairs = fn_jrun_array(run, dict->n, sizeof *pairs);
    fn_jval *keys = fn_jrun_array(run, dict->n, sizeof *keys);
    for (size_t i = 0; pairs != NULL && keys != NULL && i < dict->n; i++) {
        const fn_jentry *entry = &dict->entries[i];
        pairs[i] = fn_j_pair(run, entry->key, entry->value);
        keys[i] =
            fn_jfilter_ignore_case(run, by_value ? entry->value : entry->key, truth_of(in[1]));
    }
    if (run->status != FN_OK) {
        return fn_j_fail();
    }
    return sorted(run, pairs, keys, dict->n, truth_of(in[3]));
}

FILTER(filter_unique) {
    (void)args;
    const fn_jval *items = NULL;
    size_t n = 0;
    fn_jdict *seen = fn_jdict_new(run);
    fn_jlist out = {0};
    if (seen == NULL || !fn_j_items(run, in[0], &items, &n)) {
        return fn_j_fail();
    }
    for (size_t i = 0; i < n; i++) {
        fn_jval key = fn_jfilter_attribute(run, items[i], in[2], (fn_jval){.type = FN_J_MISSING});
        key = fn_jfilter_ignore_case(run, key, truth_of(in[1]));
        size_t before = seen->n;
        if (!fn_jdict_set(run, seen, key, fn_j_none()) ||
            (seen->n > before && !fn_jlist_push(run, &out, items[i]))) {
            return fn_j_fail();
        }
    }
    return fn_j_generator(run, out.items, out.n, "generator");
}

static fn_jval extreme(fn_jrun *run, const fn_jval *in, int want) {
    const fn_jval *items = NULL;
    size_t n = 0;
    if (!fn_j_items(run, in[0], &items, &n)) {
        return fn_j_fail();
    }
    if (n == 0) {
        return fn_j_undefined_hint(run, "No aggregated item, sequence was empty.");
    }
    size_t best = 0;
    fn_jval best_key = {.type = FN_J_MISSING};
    for (size_t i = 0; i < n; i++) {
        fn_jval key = fn_jfilter_attribute(run, items[i], in[2], (fn_jval){.type = FN_J_MISSING});
        key = fn_jfilter_ignore_case(run, key, truth_of(in[1]));
        int order = 0;
        if (fn_j_failed(key) || !fn_jrun_step(run, 1) ||
            (i > 0 && !fn_j_order(run, want < 0 ? "<" : ">", key, best_key, &order))) {
            return fn_j_fail();
        }
        if (i == 0 || order == want) {
            best = i;
            best_key = key;
        }
    }
    return items[best];
}

FILTER(filter_min) {
    (void)args;
    return extreme(run, in, -1);
}

FILTER(filter_max) {
    (void)args;
    return extreme(run, in, 1);
}

FILTER(filter_sum) {
    (void)args;
    const fn_jval *items = NULL;
    size_t n = 0;
    fn_jval total = in[2].type != FN_J_MISSING ? in[2] : fn_j_int(0);
    if (total.type == FN_J_STRING) {
        return fn_jrun_error(run, "sum() can't sum strings [use ''.join(seq) instead]");
    }
    if (!fn_j_items(run, in[0], &items, &n)) {
        return fn_j_fail();
    }
    for (size_t i = 0; i < n && !fn_j_failed(total); i++) {
        fn_jval v = fn_jfilter_attribute(run, items[i], in[1], (fn_jval){.type = FN_J_MISSING});
        total =
            fn_j_failed(v) || !fn_jrun_step(run, 1) ? fn_j_fail() : fn_j_binary(run, '+', total, v);
    }
    return total;
}

static fn_jval part_of(fn_jrun *run, const fn_jval *items, size_t n, size_t pad, fn_jval with) {
    fn_jval *part = fn_jrun_array(run, n + pad, sizeof *part);
    if (part == NULL) {
        return fn_j_fail();
    }
    for (size_t i = 0; i < n + pad; i++) {
        part[i] = i < n ? items[i] : with;
    }
    return fn_j_seq(run, FN_JSEQ_LIST, part, n + pad);
}

FILTER(filter_batch) {
    (void)args;
    const fn_jval *items = NULL;
    size_t n = 0;
    int64_t count = 0;
    fn_jlist out = {0};
    if (!fn_jarg_int(run, in[1], 0, &count) || !fn_j_items(run, in[0], &items, &n)) {
        return fn_j_fail();
    }
    size_t size = count > 0 ? (size_t)count : n > 0 ? n : 1;
    for (size_t at = 0; at < n; at += size) {
        size_t take = n - at < size ? n - at : size;
        size_t pad = given(in[2]) && count > 0 ? size - take : 0;
        if (!fn_jrun_step(run, take + pad) ||
            !fn_jlist_push(run, &out,
                           part_of(run, take > 0 ? items + at : NULL, take, pad, in[2]))) {
            return fn_j_fail();
        }
    }
    return fn_j_generator(run, out.items, out.n, "generator");
}

FILTER(filter_slice) {
    (void)args;
    const fn_jval *items = NULL;
    size_t n = 0;
    int64_t count = 0;
    fn_jlist out = {0};
    if (!fn_jarg_int(run, in[1], 0, &count) || !fn_j_items(run, in[0], &items, &n)) {
        return fn_j_fail();
    }
    if (count <= 0) {
        return count == 0 ? fn_jrun_error(run, "integer division or modulo by zero")
                          : fn_j_generator(run, NULL, 0, "generator");
    }
    size_t slices = (size_t)count;
    size_t longer = n % slices;
    size_t at = 0;
    for (size_t i = 0; i < slices; i++) {
        size_t take = n / slices + (i < longer ? 1 : 0);
        size_t pad = given(in[2]) && i >= longer ? 1 : 0;
        if (!fn_jrun_step(run, take + 1) ||
            !fn_jlist_push(run, &out,
                           part_of(run, take > 0 ? items + at : NULL, take, pad, in[2]))) {
            return fn_j_fail();
        }
        at += take;
    }
    return fn_j_generator(run, out.items, out.n, "generator");
}

static const fn_jbuiltin filters[] = {
    {"length", "len", "obj", filter_length},
    {"count", "len", "obj", filter_length},
    {"list", "do_list", "value", filter_list},
    {"first", "do_first", "seq", filter_first},
    {"last", "do_last", "seq", filter_last},
    {"reverse", "do_reverse", "value", filter_reverse},
    {"join", "do_join", "value,d=,attribute=", filter_join},
    {"items", "do_items", "value", filter_items},
    {"sort", "do_sort", "value,reverse=,case_sensitive=,attribute=", filter_sort},
    {"dictsort", "do_dictsort", "value,case_sensitive=,by=,reverse=", filter_dictsort},
    {"unique", "do_unique", "value,case_sensitive=,attribute=", filter_unique},
    {"min", "do_min", "value,case_sensitive=,attribute=", filter_min},
    {"max", "do_max", "value,case_sensitive=,attribute=", filter_max},
    {"sum", "do_sum", "iterable,attribute=,start=", filter_sum},
    {"batch", "do_batch", "value,linecount,fill_with=", filter_batch},
    {"slice", "do_slice", "value,slices,fill_with=", filter_slice},
};

const fn_jbuiltin *fn_jfilter_find_seq(const char *name, size_t n) {
    return fn_jbuiltin_search(filters, sizeof filters / sizeof filters[0], name, n);
}
