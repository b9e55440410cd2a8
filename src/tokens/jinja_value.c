#include "tokens/jinja_value.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tokens/jinja_number.h"
#include "tokens/jinja_repr.h"
#include "tokens/jinja_run.h"
#include "tokens/jinja_string.h"

#define SMALL_DICT 8

fn_jval fn_j_seq(fn_jrun *run, fn_jseq_kind kind, const fn_jval *items, size_t n) {
    fn_jseq *seq = fn_jrun_alloc(run, sizeof *seq);
    if (seq == NULL) {
        return fn_j_fail();
    }
    *seq = (fn_jseq){.kind = kind, .n = n, .items = items};
    return (fn_jval){.type = FN_J_SEQ, .as.seq = seq};
}

fn_jval fn_j_pair(fn_jrun *run, fn_jval first, fn_jval second) {
    fn_jval *items = fn_jrun_alloc(run, 2 * sizeof *items);
    if (items == NULL) {
        return fn_j_fail();
    }
    items[0] = first;
    items[1] = second;
    return fn_j_seq(run, FN_JSEQ_TUPLE, items, 2);
}

fn_jval fn_j_generator(fn_jrun *run, const fn_jval *items, size_t n, const char *type_name) {
    fn_jiter *iter = fn_jrun_alloc(run, sizeof *iter);
    if (iter == NULL) {
        return fn_j_fail();
    }
    *iter = (fn_jiter){.items = items, .n = n, .type_name = type_name};
    return (fn_jval){.type = FN_J_ITER, .as.iter = iter};
}

static fn_jval undefined(fn_jrun *run, const char *hint, fn_jval object, fn_jval name) {
    fn_jundef *undef = fn_jrun_alloc(run, sizeof *undef);
    if (undef == NULL) {
        return fn_j_fail();
    }
    *undef = (fn_jundef){.hint = hint, .object = object, .name = name};
    return (fn_jval){.type = FN_J_UNDEFINED, .as.undef = undef};
}

fn_jval fn_j_undefined_hint(fn_jrun *run, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char text[512];
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *hint = fn_jrun_format(run, "%s", text);
    return undefined(run, hint, (fn_jval){.type = FN_J_MISSING}, fn_j_none());
}

fn_jval fn_j_undefined_name(fn_jrun *run, const char *name) {
    fn_jval text = fn_jstr_view(run, name, strlen(name), false);
    if (fn_j_failed(text)) {
        return text;
    }
    return undefined(run, NULL, (fn_jval){.type = FN_J_MISSING}, text);
}

fn_jval fn_j_undefined_element(fn_jrun *run, fn_jval object, fn_jval name) {
    return undefined(run, NULL, object, name);
}

fn_jval fn_j_undefined_error(fn_jrun *run, fn_jval v) {
    const fn_jundef *undef = v.as.undef;
    if (undef->hint != NULL) {
        return fn_jrun_error(run, "%s", undef->hint);
    }
    fn_jval name = fn_j_repr(run, undef->name);
    if (fn_j_failed(name)) {
        return name;
    }
    int shown = (int)(name.as.s->n < 300 ? name.as.s->n : 300);
    if (undef->object.type == FN_J_MISSING) {
        return fn_jrun_error(run, "%.*s is undefined", shown, name.as.s->p);
    }
    const char *phrase = fn_j_type_phrase(undef->object);
    if (undef->name.type != FN_J_STRING) {
        return fn_jrun_error(run, "%s has no element %.*s", phrase, shown, name.as.s->p);
    }
    return fn_jrun_error(run, "'%s' has no attribute %.*s", phrase, shown, name.as.s->p);
}

bool fn_jlist_push(fn_jrun *run, fn_jlist *list, fn_jval v) {
    void *items = list->items;
    if (fn_j_failed(v) ||
        !fn_jrun_reserve(run, &items, &list->capacity, list->n + 1, sizeof *list->items)) {
        return false;
    }
    list->items = items;
    list->items[list->n++] = v;
    return true;
}

fn_jdict *fn_jdict_new(fn_jrun *run) {
    return fn_jrun_array(run, 1, sizeof(fn_jdict));
}

static uint64_t hash_bytes(const char *p, size_t n) {
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ (unsigned char)p[i]) * 1099511628211u;
    }
    return h ^ (h >> 29);
}

static uint64_t hash_int(int64_t i) {
    uint64_t h = (uint64_t)i * 0x9E3779B97F4A7C15u;
    return h ^ (h >> 32);
}

/* Equal values have equal hashes: 1, 1.0 and true are one key, as in Python. */
static bool hash_value(fn_jrun *run, fn_jval v, size_t depth, uint64_t *hash) {
    *hash = (uint64_t)v.type;
    if (v.type == FN_J_STRING || v.type == FN_J_BIGINT) {
        *hash = hash_bytes(v.as.s->p, v.as.s->n);
    } else if (v.type == FN_J_BOOL) {
        *hash = hash_int(v.as.b ? 1 : 0);
    } else if (v.type == FN_J_INT) {
        *hash = hash_int(v.as.i);
    } else if (v.type == FN_J_FLOAT) {
        bool whole = v.as.d == floor(v.as.d) && fabs(v.as.d) < 9.0e18;
        *hash = hash_int(whole ? (int64_t)v.as.d : 77);
    } else if (v.type == FN_J_SEQ &&
               (v.as.seq->kind == FN_JSEQ_TUPLE || v.as.seq->kind == FN_JSEQ_GROUP)) {
        if (!fn_jrun_depth_ok(run, depth)) {
            return false;
        }
        for (size_t i = 0; i < v.as.seq->n; i++) {
            uint64_t item = 0;
            if (!hash_value(run, v.as.seq->items[i], depth + 1, &item)) {
                return false;
            }
            *hash = (*hash ^ item) * 1099511628211u;
        }
    } else if (v.type == FN_J_SEQ || v.type == FN_J_DICT) {
        (void)fn_jrun_error(run, "unhashable type: '%s'", fn_j_type_name(v));
        return false;
    }
    return true;
}

static void index_add(fn_jdict *dict, size_t entry) {
    size_t mask = dict->index_size - 1;
    size_t slot = (size_t)dict->entries[entry].hash & mask;
    while (dict->index[slot] != 0) {
        slot = (slot + 1) & mask;
    }
    dict->index[slot] = (uint32_t)(entry + 1);
}

static bool index_grow(fn_jrun *run, fn_jdict *dict) {
    if (dict->n < SMALL_DICT || dict->n * 2 < dict->index_size) {
        return true;
    }
    size_t size = dict->index_size > 0 ? dict->index_size * 4 : 64;
    uint32_t *index = fn_jrun_array(run, size, sizeof *index);
    if (index == NULL) {
        return false;
    }
    dict->index = index;
    dict->index_size = size;
    for (size_t i = 0; i < dict->n; i++) {
        index_add(dict, i);
    }
    return true;
}

static bool same_text(fn_jval v, const char *text, size_t n) {
    return v.type == FN_J_STRING && v.as.s->n == n && memcmp(v.as.s->p, text, n) == 0;
}

/* The entry with this key, or n. `run` may be NULL for keys that are strings. */
static size_t find(fn_jrun *run, const fn_jdict *dict, fn_jval key, uint64_t hash) {
    size_t mask = dict->index_size - 1;
    size_t slot = (size_t)hash & mask;
    for (size_t step = 0; step < dict->n + 1; step++) {
        size_t entry = step;
        if (dict->index != NULL) {
            if (dict->index[slot] == 0) {
                return dict->n;
            }
            entry = dict->index[slot] - 1;
            slot = (slot + 1) & mask;
        } else if (step == dict->n) {
            break;
        }
        const fn_jentry *at = &dict->entries[entry];
        bool text = key.type == FN_J_STRING;
        if (at->hash == hash &&
            (text ? same_text(at->key, key.as.s->p, key.as.s->n) : fn_j_equal(run, at->key, key))) {
            return entry;
        }
    }
    return dict->n;
}

bool fn_jdict_set(fn_jrun *run, fn_jdict *dict, fn_jval key, fn_jval value) {
    uint64_t hash = 0;
    if (fn_j_failed(key) || fn_j_failed(value) || !hash_value(run, key, 0, &hash)) {
        return false;
    }
    size_t at = find(run, dict, key, hash);
    if (at < dict->n) {
        dict->entries[at].value = value;
        return true;
    }
    void *entries = dict->entries;
    if (!fn_jrun_reserve(run, &entries, &dict->capacity, dict->n + 1, sizeof *dict->entries) ||
        !index_grow(run, dict)) {
        return false;
    }
    dict->entries = entries;
    dict->entries[dict->n] = (fn_jentry){.key = key, .value = value, .hash = hash};
    dict->n++;
    if (dict->index != NULL) {
        index_add(dict, dict->n - 1);
    }
    return true;
}

fn_jval fn_jdict_get(fn_jrun *run, const fn_jdict *dict, fn_jval key) {
    uint64_t hash = 0;
    if (!hash_value(run, key, 0, &hash)) {
        return fn_j_fail();
    }
    size_t at = find(run, dict, key, hash);
    return at < dict->n ? dict->entries[at].value : (fn_jval){.type = FN_J_MISSING};
}

fn_jval fn_jdict_get_text(const fn_jdict *dict, const char *text, size_t n) {
    fn_jstr s = {.p = text, .n = n};
    size_t at = find(NULL, dict, fn_j_str(&s), hash_bytes(text, n));
    return at < dict->n ? dict->entries[at].value : (fn_jval){.type = FN_J_MISSING};
}

static const char *seq_type_name(fn_jseq_kind kind) {
    switch (kind) {
    case FN_JSEQ_LIST:
        return "list";
    case FN_JSEQ_TUPLE:
        return "tuple";
    case FN_JSEQ_GROUP:
        return "_GroupTuple";
    case FN_JSEQ_RANGE:
        return "range";
    case FN_JSEQ_KEYS:
        return "dict_keys";
    case FN_JSEQ_VALUES:
        return "dict_values";
    case FN_JSEQ_ITEMS:
        return "dict_items";
    }
    return "object";
}

const char *fn_j_type_name(fn_jval v) {
    static const char *const names[] = {
        [FN_J_FAIL] = "error",          [FN_J_MISSING] = "MissingType",
        [FN_J_UNDEFINED] = "Undefined", [FN_J_NONE] = "NoneType",
        [FN_J_BOOL] = "bool",           [FN_J_INT] = "int",
        [FN_J_BIGINT] = "int",          [FN_J_FLOAT] = "float",
        [FN_J_STRING] = "str",          [FN_J_SEQ] = "list",
        [FN_J_DICT] = "dict",           [FN_J_NAMESPACE] = "TemplateNamespace",
        [FN_J_ITER] = "generator",      [FN_J_MACRO] = "Macro",
        [FN_J_FUNCTION] = "function",   [FN_J_METHOD] = "builtin_function_or_method",
        [FN_J_LOOP] = "LoopContext",    [FN_J_CYCLER] = "Cycler",
        [FN_J_JOINER] = "Joiner",
    };
    if (v.type == FN_J_SEQ) {
        return seq_type_name(v.as.seq->kind);
    }
    if (v.type == FN_J_ITER) {
        return v.as.iter->type_name;
    }
    if (v.type == FN_J_STRING && v.as.s->markup) {
        return "Markup";
    }
    return names[v.type];
}

const char *fn_j_type_phrase(fn_jval v) {
    switch (v.type) {
    case FN_J_NONE:
        return "None";
    case FN_J_BOOL:
        return "bool object";
    case FN_J_INT:
    case FN_J_BIGINT:
        return "int object";
    case FN_J_FLOAT:
        return "float object";
    case FN_J_STRING:
        return v.as.s->markup ? "markupsafe.Markup object" : "str object";
    case FN_J_DICT:
        return "dict object";
    case FN_J_NAMESPACE:
        return "transformers.utils.chat_template_utils.TemplateNamespace object";
    case FN_J_UNDEFINED:
        return "jinja2.runtime.Undefined object";
    case FN_J_MACRO:
        return "jinja2.runtime.Macro object";
    case FN_J_LOOP:
        return "jinja2.runtime.LoopContext object";
    case FN_J_FUNCTION:
        return "function object";
    case FN_J_METHOD:
        return "builtin_function_or_method object";
    case FN_J_CYCLER:
        return "jinja2.utils.Cycler object";
    case FN_J_JOINER:
        return "jinja2.utils.Joiner object";
    case FN_J_ITER:
        return "generator object";
    case FN_J_FAIL:
    case FN_J_MISSING:
    case FN_J_SEQ:
        break;
    }
    static const char *const phrases[] = {
        [FN_JSEQ_LIST] = "list object",
        [FN_JSEQ_TUPLE] = "tuple object",
        [FN_JSEQ_GROUP] = "jinja2.filters._GroupTuple object",
        [FN_JSEQ_RANGE] = "range object",
        [FN_JSEQ_KEYS] = "dict_keys object",
        [FN_JSEQ_VALUES] = "dict_values object",
        [FN_JSEQ_ITEMS] = "dict_items object",
    };
    return v.type == FN_J_SEQ ? phrases[v.as.seq->kind] : "object";
}

bool fn_j_is_number(fn_jval v) {
    return v.type == FN_J_BOOL || v.type == FN_J_INT || v.type == FN_J_BIGINT ||
           v.type == FN_J_FLOAT;
}

bool fn_j_is_text(fn_jval v, const char *text) {
    return same_text(v, text, strlen(text));
}

bool fn_j_truth(fn_jval v) {
    switch (v.type) {
    case FN_J_FAIL:
    case FN_J_MISSING:
    case FN_J_UNDEFINED:
    case FN_J_NONE:
        return false;
    case FN_J_BOOL:
        return v.as.b;
    case FN_J_INT:
        return v.as.i != 0;
    case FN_J_FLOAT:
        return v.as.d < 0 || v.as.d > 0 || isnan(v.as.d);
    case FN_J_STRING:
        return v.as.s->n > 0;
    case FN_J_SEQ:
        return v.as.seq->n > 0;
    case FN_J_DICT:
        return v.as.dict->n > 0;
    case FN_J_BIGINT:
    case FN_J_NAMESPACE:
    case FN_J_ITER:
    case FN_J_MACRO:
    case FN_J_FUNCTION:
    case FN_J_METHOD:
    case FN_J_LOOP:
    case FN_J_CYCLER:
    case FN_J_JOINER:
        return true;
    }
    return true;
}
