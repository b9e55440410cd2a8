/* Methods of lists, tuples, dicts, ranges and cyclers (jinja_builtin.h). */
#include <string.h>

#include "tokens/jinja_eval.h"
#include "tokens/jinja_repr.h"

#define METHOD(name) static fn_jval name(fn_jrun *run, const fn_jval *in, const fn_jargs *args)

static fn_jval entries(fn_jrun *run, const fn_jdict *dict, fn_jseq_kind kind) {
    fn_jval *items = fn_jrun_array(run, dict->n, sizeof *items);
    if (items == NULL || !fn_jrun_step(run, dict->n)) {
        return fn_j_fail();
    }
    for (size_t i = 0; i < dict->n; i++) {
        const fn_jentry *entry = &dict->entries[i];
        items[i] = kind == FN_JSEQ_KEYS     ? entry->key
                   : kind == FN_JSEQ_VALUES ? entry->value
                                            : fn_j_pair(run, entry->key, entry->value);
        if (fn_j_failed(items[i])) {
            return items[i];
        }
    }
    return fn_j_seq(run, kind, items, dict->n);
}

METHOD(dict_items) {
    (void)args;
    return entries(run, in[0].as.dict, FN_JSEQ_ITEMS);
}

METHOD(dict_keys) {
    (void)args;
    return entries(run, in[0].as.dict, FN_JSEQ_KEYS);
}

METHOD(dict_values) {
    (void)args;
    return entries(run, in[0].as.dict, FN_JSEQ_VALUES);
}

METHOD(dict_get) {
    (void)args;
    fn_jval v = fn_jdict_get(run, in[0].as.dict, in[1]);
    if (v.type != FN_J_MISSING) {
        return v;
    }
    return in[2].type != FN_J_MISSING ? in[2] : fn_j_none();
}

METHOD(copy) {
    (void)args;
    (void)run;
    return in[0]; /* nothing can change it */
}

METHOD(seq_count) {
    (void)args;
    int64_t count = 0;
    const fn_jseq *seq = in[0].as.seq;
    for (size_t i = 0; i < seq->n && fn_jrun_step(run, 1); i++) {
        count += fn_j_equal(run, seq->items[i], in[1]) ? 1 : 0;
    }
    return run->status == FN_OK ? fn_j_int(count) : fn_j_fail();
}

METHOD(seq_index) {
    (void)args;
    const fn_jseq *seq = in[0].as.seq;
    for (size_t i = 0; i < seq->n && fn_jrun_step(run, 1); i++) {
        if (fn_j_equal(run, seq->items[i], in[1])) {
            return fn_j_int((int64_t)i);
        }
    }
    if (run->status != FN_OK) {
        return fn_j_fail();
    }
    if (seq->kind != FN_JSEQ_LIST) {
        return fn_jrun_error(run, "tuple.index(x): x not in tuple");
    }
    fn_jval shown = fn_j_repr(run, in[1]);
    if (fn_j_failed(shown)) {
        return shown;
    }
    return fn_jrun_error(run, "%.*s is not in list", (int)shown.as.s->n, shown.as.s->p);
}

METHOD(cycler_next) {
    (void)args;
    (void)run;
    fn_jiter *cycler = in[0].as.iter;
    fn_jval v = cycler->items[cycler->next];
    cycler->next = (cycler->next + 1) % cycler->n;
    return v;
}

METHOD(cycler_reset) {
    (void)args;
    (void)run;
    in[0].as.iter->next = 0;
    return fn_j_none();
}

static const fn_jbuiltin of_dict[] = {
    {"items", NULL, "self", dict_items},   {"keys", NULL, "self", dict_keys},
    {"values", NULL, "self", dict_values}, {"get", NULL, "self,key,default=", dict_get},
    {"copy", NULL, "self", copy},
};

static const fn_jbuiltin of_seq[] = {
    {"count", NULL, "self,value", seq_count},
    {"index", NULL, "self,value", seq_index},
    {"copy", NULL, "self", copy},
};

static const fn_jbuiltin of_cycler[] = {
    {"next", NULL, "self", cycler_next},
    {"reset", NULL, "self", cycler_reset},
};

const fn_jbuiltin *fn_jseq_method_find(fn_jval object, const char *name, size_t n) {
    if (object.type == FN_J_DICT) {
        return fn_jbuiltin_search(of_dict, sizeof of_dict / sizeof of_dict[0], name, n);
    }
    if (object.type == FN_J_CYCLER) {
        return fn_jbuiltin_search(of_cycler, sizeof of_cycler / sizeof of_cycler[0], name, n);
    }
    if (object.type != FN_J_SEQ || object.as.seq->kind > FN_JSEQ_RANGE) {
        return NULL;
    }
    size_t known = object.as.seq->kind == FN_JSEQ_LIST ? 3 : 2;
    return fn_jbuiltin_search(of_seq, known, name, n);
}
