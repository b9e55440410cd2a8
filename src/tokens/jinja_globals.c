/* Global functions (jinja_builtin.h). */
#include <string.h>
#include <time.h>

#include "tokens/jinja_eval.h"
#include "tokens/jinja_repr.h"
#include "tokens/jinja_time.h"

#define GLOBAL(name) static fn_jval name(fn_jrun *run, const fn_jval *in, const fn_jargs *args)
#define MAX_RANGE 100000

GLOBAL(global_range) {
    (void)args;
    int64_t start = 0;
    int64_t stop = 0;
    int64_t step = 1;
    if (in[1].type == FN_J_MISSING) {
        if (!fn_jarg_int(run, in[0], 0, &stop)) {
            return fn_j_fail();
        }
    } else if (!fn_jarg_int(run, in[0], 0, &start) || !fn_jarg_int(run, in[1], 0, &stop) ||
               !fn_jarg_int(run, in[2], 1, &step)) {
        return fn_j_fail();
    }
    if (step == 0) {
        return fn_jrun_error(run, "range() arg 3 must not be zero");
    }
    uint64_t span = step > 0 ? (stop > start ? (uint64_t)stop - (uint64_t)start : 0)
                             : (start > stop ? (uint64_t)start - (uint64_t)stop : 0);
    uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    uint64_t n = span / by + (span % by > 0 ? 1 : 0);
    if (n > MAX_RANGE) {
        return fn_jrun_error(
            run, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", MAX_RANGE);
    }
    fn_jval *items = fn_jrun_array(run, (size_t)n, sizeof *items);
    fn_jseq *seq = fn_jrun_alloc(run, sizeof *seq);
    if (items == NULL || seq == NULL || !fn_jrun_step(run, (size_t)n)) {
        return fn_j_fail();
    }
    for (uint64_t i = 0; i < n; i++) {
        items[i] = fn_j_int(start + (int64_t)i * step);
    }
    *seq = (fn_jseq){.kind = FN_JSEQ_RANGE, .n = (size_t)n, .items = items};
    seq->start = start;
    seq->stop = stop;
    seq->step = step;
    return (fn_jval){.type = FN_J_SEQ, .as.seq = seq};
}

static bool fill_from_pairs(fn_jrun *run, fn_jdict *dict, fn_jval from) {
    const fn_jval *items = NULL;
    size_t n = 0;
    if (!fn_j_items(run, from, &items, &n)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const fn_jval *pair = NULL;
        size_t length = 0;
        if (items[i].type != FN_J_SEQ && items[i].type != FN_J_STRING) {
            (void)fn_jrun_error(run,
                                "cannot convert dictionary update sequence element #%zu to a "
                                "sequence",
                                i);
            return false;
        }
        if (!fn_j_items(run, items[i], &pair, &length)) {
            return false;
        }
        if (length != 2) {
            (void)fn_jrun_error(run,
                                "dictionary update sequence element #%zu has length %zu; 2 is "
                                "required",
                                i, length);
            return false;
        }
        if (!fn_jdict_set(run, dict, pair[0], pair[1])) {
            return false;
        }
    }
    return true;
}

/* dict(mapping or pairs, **keywords) */
static fn_jdict *make_dict(fn_jrun *run, fn_jval from, const fn_jargs *args) {
    fn_jdict *dict = fn_jdict_new(run);
    if (dict == NULL) {
        return NULL;
    }
    if (from.type == FN_J_DICT) {
        for (size_t i = 0; i < from.as.dict->n; i++) {
            const fn_jentry *entry = &from.as.dict->entries[i];
            if (!fn_jrun_step(run, 1) || !fn_jdict_set(run, dict, entry->key, entry->value)) {
                return NULL;
            }
        }
    } else if (from.type != FN_J_MISSING && !fill_from_pairs(run, dict, from)) {
        return NULL;
    }
    for (size_t i = 0; i < args->n_keywords; i++) {
        if (!fn_jdict_set(run, dict, args->keywords[i].name, args->keywords[i].value)) {
            return NULL;
        }
    }
    return dict;
}

static fn_jval first_positional(const fn_jargs *args) {
    return args->n > 0 ? args->positional[0] : (fn_jval){.type = FN_J_MISSING};
}

GLOBAL(global_dict) {
    (void)in;
    if (args->n > 1) {
        return fn_jrun_error(run, "dict expected at most 1 argument, got %zu", args->n);
    }
    fn_jdict *dict = make_dict(run, first_positional(args), args);
    return dict != NULL ? (fn_jval){.type = FN_J_DICT, .as.dict = dict} : fn_j_fail();
}

GLOBAL(global_namespace) {
    (void)in;
    if (args->n > 1) {
        return fn_jrun_error(run, "dict expected at most 1 argument, got %zu", args->n);
    }
    fn_jdict *dict = make_dict(run, first_positional(args), args);
    for (size_t i = 0; dict != NULL && i < dict->n; i++) {
        fn_jval key = dict->entries[i].key;
        if (key.type == FN_J_STRING && key.as.s->n > 0 && key.as.s->p[0] == '_') {
            return fn_jrun_error(run,
                                 "Chat templates cannot store underscore-prefixed attributes on a "
                                 "namespace, but got '%.*s'. Please rename the attribute.",
                                 (int)key.as.s->n, key.as.s->p);
        }
    }
    return dict != NULL ? (fn_jval){.type = FN_J_NAMESPACE, .as.dict = dict} : fn_j_fail();
}

GLOBAL(global_raise_exception) {
    (void)args;
    fn_jval text = fn_j_to_str(run, in[0]);
    return fn_j_failed(text) ? text : fn_jrun_error_text(run, text.as.s->p, text.as.s->n);
}

GLOBAL(global_strftime_now) {
    (void)args;
    if (in[0].type != FN_J_STRING) {
        return fn_jrun_error(run, "strftime() argument 1 must be str, not %s",
                             fn_j_type_name(in[0]));
    }
    struct timespec now = {.tv_sec = (time_t)run->limits.now};
    if (run->limits.now == 0) {
        (void)clock_gettime(CLOCK_REALTIME, &now);
    }
    struct tm when;
    if (localtime_r(&now.tv_sec, &when) == NULL) {
        return fn_jrun_error(run, "the time is out of range");
    }
    fn_jbuf buf = {0};
    fn_jtime_write(run, &buf, in[0].as.s, &when, now.tv_nsec / 1000);
    return fn_jbuf_take(run, &buf);
}

static fn_jval stateful(fn_jrun *run, fn_jtype type, const fn_jval *items, size_t n) {
    fn_jval v = fn_j_generator(run, items, n, type == FN_J_CYCLER ? "Cycler" : "Joiner");
    v.type = fn_j_failed(v) ? FN_J_FAIL : type;
    return v;
}

GLOBAL(global_cycler) {
    (void)in;
    if (args->n == 0) {
        return fn_jrun_error(run, "at least one item has to be provided");
    }
    return stateful(run, FN_J_CYCLER, args->positional, args->n);
}

GLOBAL(global_joiner) {
    (void)args;
    fn_jval *separator = fn_jrun_array(run, 1, sizeof *separator);
    if (separator == NULL) {
        return fn_j_fail();
    }
    *separator = in[0].type != FN_J_MISSING ? in[0] : fn_jstr_text(run, ", ");
    return fn_j_failed(*separator) ? *separator : stateful(run, FN_J_JOINER, separator, 1);
}

static const fn_jfunction globals[] = {
    {{"range", NULL, "start,stop=,step=", global_range}},
    {{"dict", NULL, "*,**", global_dict}},
    {{"namespace", NULL, "*,**", global_namespace}},
    {{"raise_exception", "_cached_compile_jinja_template.<locals>.raise_exception", "message",
      global_raise_exception}},
    {{"strftime_now", "_cached_compile_jinja_template.<locals>.strftime_now", "format",
      global_strftime_now}},
    {{"cycler", NULL, "*", global_cycler}},
    {{"joiner", NULL, "sep=", global_joiner}},
};

const fn_jfunction *fn_jglobal_find(const char *name, size_t n) {
    for (size_t i = 0; i < sizeof globals / sizeof globals[0]; i++) {
        if (strlen(globals[i].builtin.name) == n && memcmp(globals[i].builtin.name, name, n) == 0) {
            return &globals[i];
        }
    }
    return NULL;
}
