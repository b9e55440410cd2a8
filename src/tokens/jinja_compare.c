/* Equality, order and iteration of values (jinja_value.h). */
#include <string.h>

#include "tokens/jinja_number.h"
#include "tokens/jinja_run.h"
#include "tokens/jinja_string.h"
#include "tokens/jinja_value.h"

static bool equal_at(fn_jrun *run, fn_jval a, fn_jval b, size_t depth);

static bool same_seq_family(const fn_jseq *a, const fn_jseq *b) {
    fn_jseq_kind ka = a->kind == FN_JSEQ_GROUP ? FN_JSEQ_TUPLE : a->kind;
    fn_jseq_kind kb = b->kind == FN_JSEQ_GROUP ? FN_JSEQ_TUPLE : b->kind;
    return ka == kb && ka != FN_JSEQ_VALUES;
}

static bool equal_seq(fn_jrun *run, const fn_jseq *a, const fn_jseq *b, size_t depth) {
    if (a == b) {
        return true;
    }
    if (!same_seq_family(a, b) || a->n != b->n) {
        return false;
    }
    for (size_t i = 0; i < a->n; i++) {
        if (!equal_at(run, a->items[i], b->items[i], depth + 1)) {
            return false;
        }
    }
    return true;
}

static bool equal_dict(fn_jrun *run, const fn_jdict *a, const fn_jdict *b, size_t depth) {
    if (a->n != b->n) {
        return false;
    }
    for (size_t i = 0; i < a->n; i++) {
        fn_jval other = fn_jdict_get(run, b, a->entries[i].key);
        if (other.type == FN_J_MISSING || fn_j_failed(other) ||
            !equal_at(run, a->entries[i].value, other, depth + 1)) {
            return false;
        }
    }
    return true;
}

static bool equal_at(fn_jrun *run, fn_jval a, fn_jval b, size_t depth) {
    if (!fn_jrun_depth_ok(run, depth) || !fn_jrun_step(run, depth > 0 ? 1 : 0)) {
        return false;
    }
    if (fn_j_is_number(a) && fn_j_is_number(b)) {
        return fn_jnum_compare(a, b) == 0;
    }
    if (a.type != b.type) {
        return false;
    }
    switch (a.type) {
    case FN_J_UNDEFINED:
    case FN_J_NONE:
        return true;
    case FN_J_STRING:
        return a.as.s->n == b.as.s->n && fn_jrun_step(run, a.as.s->n / 256) &&
               memcmp(a.as.s->p, b.as.s->p, a.as.s->n) == 0;
    case FN_J_SEQ:
        return equal_seq(run, a.as.seq, b.as.seq, depth);
    case FN_J_DICT:
        return a.as.dict == b.as.dict || equal_dict(run, a.as.dict, b.as.dict, depth);
    case FN_J_FUNCTION:
        return a.as.function == b.as.function;
    case FN_J_MACRO:
        return a.as.macro == b.as.macro;
    case FN_J_NAMESPACE:
        return a.as.dict == b.as.dict;
    case FN_J_FAIL:
    case FN_J_MISSING:
    case FN_J_BOOL:
    case FN_J_INT:
    case FN_J_BIGINT:
    case FN_J_FLOAT:
    case FN_J_ITER:
    case FN_J_METHOD:
    case FN_J_LOOP:
    case FN_J_CYCLER:
    case FN_J_JOINER:
        break;
    }
    return a.as.iter == b.as.iter;
}

bool fn_j_equal(fn_jrun *run, fn_jval a, fn_jval b) {
    return equal_at(run, a, b, 0);
}

static int sign(int value) {
    return value < 0 ? -1 : value > 0 ? 1 : 0;
}

static int compare_text(const fn_jstr *a, const fn_jstr *b) {
    size_t n = a->n < b->n ? a->n : b->n;
    int order = n > 0 ? memcmp(a->p, b->p, n) : 0;
    if (order == 0) {
        order = a->n < b->n ? -1 : a->n > b->n ? 1 : 0;
    }
    return sign(order);
}

static bool order_at(fn_jrun *run, const char *op, fn_jval a, fn_jval b, size_t depth, int *out);

static bool order_seq(fn_jrun *run, const char *op, const fn_jseq *a, const fn_jseq *b,
                      size_t depth, int *out) {
    size_t n = a->n < b->n ? a->n : b->n;
    for (size_t i = 0; i < n; i++) {
        if (!equal_at(run, a->items[i], b->items[i], depth)) {
            return order_at(run, op, a->items[i], b->items[i], depth + 1, out);
        }
    }
    *out = a->n < b->n ? -1 : a->n > b->n ? 1 : 0;
    return true;
}

static bool is_list_or_tuple(fn_jval v) {
    return v.type == FN_J_SEQ && v.as.seq->kind <= FN_JSEQ_GROUP;
}

static bool order_at(fn_jrun *run, const char *op, fn_jval a, fn_jval b, size_t depth, int *out) {
    *out = 0;
    if (!fn_jrun_depth_ok(run, depth) || run->status != FN_OK) {
        return false;
    }
    if (fn_j_is_number(a) && fn_j_is_number(b)) {
        *out = fn_jnum_compare(a, b);
        return true;
    }
    if (a.type == FN_J_STRING && b.type == FN_J_STRING) {
        *out = compare_text(a.as.s, b.as.s);
        return fn_jrun_step(run, a.as.s->n / 256);
    }
    if (is_list_or_tuple(a) && is_list_or_tuple(b) && same_seq_family(a.as.seq, b.as.seq)) {
        return order_seq(run, op, a.as.seq, b.as.seq, depth, out);
    }
    if (a.type == FN_J_UNDEFINED || b.type == FN_J_UNDEFINED) {
        (void)fn_j_undefined_error(run, a.type == FN_J_UNDEFINED ? a : b);
        return false;
    }
    (void)fn_jrun_error(run, "'%s' not supported between instances of '%s' and '%s'", op,
                        fn_j_type_name(a), fn_j_type_name(b));
    return false;
}

bool fn_j_order(fn_jrun *run, const char *op, fn_jval a, fn_jval b, int *out) {
    return order_at(run, op, a, b, 0, out);
}

static bool string_items(fn_jrun *run, const fn_jstr *s, const fn_jval **items, size_t *n) {
    fn_jval *chars = fn_jrun_array(run, s->n_chars, sizeof *chars);
    if (chars == NULL || !fn_jrun_step(run, s->n_chars)) {
        return false;
    }
    fn_jstr plain = *s;
    plain.markup = false; /* a Markup string is iterated as any other */
    size_t at = 0;
    for (size_t i = 0; i < s->n_chars; i++) {
        size_t next = fn_jstr_next(s, at);
        chars[i] = fn_jstr_sub(run, &plain, at, next);
        if (fn_j_failed(chars[i])) {
            return false;
        }
        at = next;
    }
    *items = chars;
    *n = s->n_chars;
    return true;
}

static bool dict_keys(fn_jrun *run, const fn_jdict *dict, const fn_jval **items, size_t *n) {
    fn_jval *keys = fn_jrun_array(run, dict->n, sizeof *keys);
    if (keys == NULL || !fn_jrun_step(run, dict->n)) {
        return false;
    }
    for (size_t i = 0; i < dict->n; i++) {
        keys[i] = dict->entries[i].key;
    }
    *items = keys;
    *n = dict->n;
    return true;
}

bool fn_j_items(fn_jrun *run, fn_jval v, const fn_jval **items, size_t *n) {
    *items = NULL;
    *n = 0;
    switch (v.type) {
    case FN_J_UNDEFINED:
        return true;
    case FN_J_STRING:
        return string_items(run, v.as.s, items, n);
    case FN_J_SEQ:
        *items = v.as.seq->items;
        *n = v.as.seq->n;
        return true;
    case FN_J_DICT:
        return dict_keys(run, v.as.dict, items, n);
    case FN_J_ITER:
        *n = v.as.iter->n - v.as.iter->next;
        *items = *n > 0 ? v.as.iter->items + v.as.iter->next : NULL;
        v.as.iter->next = v.as.iter->n;
        return true;
    default:
        (void)fn_jrun_error(run, "'%s' object is not iterable", fn_j_type_name(v));
        return false;
    }
}
