/* Operators on two values, as Python has them (jinja_eval.h). */
#include <string.h>

#include "tokens/jinja_eval.h"
#include "tokens/jinja_format.h"
#include "tokens/jinja_lexer.h"
#include "tokens/jinja_number.h"
#include "tokens/jinja_repr.h"

static bool is_list(fn_jval v) {
    return v.type == FN_J_SEQ && v.as.seq->kind == FN_JSEQ_LIST;
}

static bool is_tuple(fn_jval v) {
    return v.type == FN_J_SEQ &&
           (v.as.seq->kind == FN_JSEQ_TUPLE || v.as.seq->kind == FN_JSEQ_GROUP);
}

static fn_jval unsupported(fn_jrun *run, char op, fn_jval a, fn_jval b) {
    const char *text = op == FN_JOP_POW ? "** or pow()" : fn_jop_text(op);
    return fn_jrun_error(run, "unsupported operand type(s) for %s: '%s' and '%s'", text,
                         fn_j_type_name(a), fn_j_type_name(b));
}

static fn_jval concat_seq(fn_jrun *run, const fn_jseq *a, const fn_jseq *b) {
    size_t n = a->n + b->n;
    fn_jval *items = fn_jrun_array(run, n, sizeof *items);
    if (items == NULL || !fn_jrun_step(run, n / 4)) {
        return fn_j_fail();
    }
    if (a->n > 0) {
        memcpy(items, a->items, a->n * sizeof *items);
    }
    if (b->n > 0) {
        memcpy(items + a->n, b->items, b->n * sizeof *items);
    }
    return fn_j_seq(run, a->kind == FN_JSEQ_LIST ? FN_JSEQ_LIST : FN_JSEQ_TUPLE, items, n);
}

static fn_jval add(fn_jrun *run, fn_jval a, fn_jval b) {
    if (a.type == FN_J_STRING && b.type == FN_J_STRING) {
        return fn_jstr_concat(run, a.as.s, b.as.s);
    }
    if ((is_list(a) && is_list(b)) || (is_tuple(a) && is_tuple(b))) {
        return concat_seq(run, a.as.seq, b.as.seq);
    }
    if (a.type == FN_J_STRING) {
        return a.as.s->markup ? unsupported(run, '+', a, b)
                              : fn_jrun_error(run, "can only concatenate str (not \"%s\") to str",
                                              fn_j_type_name(b));
    }
    if (is_list(a) || is_tuple(a)) {
        const char *kind = fn_j_type_name(a);
        kind = is_tuple(a) ? "tuple" : kind;
        return fn_jrun_error(run, "can only concatenate %s (not \"%s\") to %s", kind,
                             fn_j_type_name(b), kind);
    }
    return unsupported(run, '+', a, b);
}

static fn_jval repeat_seq(fn_jrun *run, const fn_jseq *seq, int64_t times) {
    size_t count = times > 0 ? (size_t)times : 0;
    size_t n = 0;
    if (__builtin_mul_overflow(seq->n, count, &n) || !fn_jrun_step(run, n / 4)) {
        return fn_jrun_limit(run, "more than %llu steps", (unsigned long long)run->limits.steps);
    }
    fn_jval *items = fn_jrun_array(run, n, sizeof *items);
    if (items == NULL) {
        return fn_j_fail();
    }
    for (size_t i = 0; i < n; i++) {
        items[i] = seq->items[i % seq->n];
    }
    return fn_j_seq(run, seq->kind == FN_JSEQ_LIST ? FN_JSEQ_LIST : FN_JSEQ_TUPLE, items, n);
}

static fn_jval multiply(fn_jrun *run, fn_jval a, fn_jval b) {
    bool a_repeats = a.type == FN_J_STRING || is_list(a) || is_tuple(a);
    fn_jval seq = a_repeats ? a : b;
    fn_jval times = a_repeats ? b : a;
    if (seq.type != FN_J_STRING && !is_list(seq) && !is_tuple(seq)) {
        return unsupported(run, '*', a, b);
    }
    if (times.type != FN_J_INT && times.type != FN_J_BOOL) {
        return fn_jrun_error(run, "can't multiply sequence by non-int of type '%s'",
                             fn_j_type_name(times));
    }
    int64_t count = times.type == FN_J_BOOL ? (times.as.b ? 1 : 0) : times.as.i;
    if (seq.type != FN_J_STRING) {
        return repeat_seq(run, seq.as.seq, count);
    }
    fn_jval v = fn_jstr_repeat(run, seq.as.s, count);
    return fn_j_failed(v) || !seq.as.s->markup ? v : fn_jstr_markup(run, v.as.s, true);
}

fn_jval fn_j_binary(fn_jrun *run, char op, fn_jval a, fn_jval b) {
    if (fn_j_is_number(a) && fn_j_is_number(b)) {
        return fn_jnum_binary(run, op, a, b);
    }
    /* A string on the left of % formats whatever is on the right, even an undefined value. */
    if (op == '%' && a.type == FN_J_STRING) {
        return fn_jformat_percent_value(run, a.as.s, b);
    }
    if (a.type == FN_J_UNDEFINED || b.type == FN_J_UNDEFINED) {
        return fn_j_undefined_error(run, a.type == FN_J_UNDEFINED ? a : b);
    }
    if (op == '+') {
        return add(run, a, b);
    }
    return op == '*' ? multiply(run, a, b) : unsupported(run, op, a, b);
}

static fn_jval string_contains(fn_jrun *run, const fn_jstr *s, fn_jval item) {
    if (item.type == FN_J_UNDEFINED) {
        return fn_jrun_error(run, "'in <string>' requires string as left operand, not Undefined");
    }
    if (item.type != FN_J_STRING) {
        return fn_jrun_error(run, "'in <string>' requires string as left operand, not %s",
                             fn_j_type_name(item));
    }
    bool found = fn_jstr_find(run, s, item.as.s, 0) != SIZE_MAX;
    return run->status == FN_OK ? fn_j_bool(found) : fn_j_fail();
}

static fn_jval items_contain(fn_jrun *run, fn_jval container, fn_jval item) {
    const fn_jval *items = NULL;
    size_t n = 0;
    fn_jiter *iter = container.type == FN_J_ITER ? container.as.iter : NULL;
    if (!fn_j_items(run, container, &items, &n)) {
        return fn_j_fail();
    }
    for (size_t i = 0; i < n; i++) {
        if (!fn_jrun_step(run, 1)) {
            return fn_j_fail();
        }
        if (fn_j_equal(run, items[i], item)) {
            if (iter != NULL) { /* a generator stops where it was found */
                iter->next = iter->n - (n - i - 1);
            }
            return fn_j_bool(true);
        }
    }
    return run->status == FN_OK ? fn_j_bool(false) : fn_j_fail();
}

fn_jval fn_j_contains(fn_jrun *run, fn_jval container, fn_jval item) {
    switch (container.type) {
    case FN_J_STRING:
        return string_contains(run, container.as.s, item);
    case FN_J_DICT: {
        fn_jval v = fn_jdict_get(run, container.as.dict, item);
        return fn_j_failed(v) ? v : fn_j_bool(v.type != FN_J_MISSING);
    }
    case FN_J_SEQ:
    case FN_J_ITER:
    case FN_J_UNDEFINED:
        return items_contain(run, container, item);
    default:
        return fn_jrun_error(run, "argument of type '%s' is not iterable",
                             fn_j_type_name(container));
    }
}

fn_jval fn_j_compare(fn_jrun *run, char op, fn_jval a, fn_jval b) {
    if (op == FN_JOP_EQ || op == FN_JOP_NE) {
        bool equal = fn_j_equal(run, a, b);
        return run->status == FN_OK ? fn_j_bool(equal == (op == FN_JOP_EQ)) : fn_j_fail();
    }
    if (op == FN_JOP_IN || op == FN_JOP_NOT_IN) {
        fn_jval in = fn_j_contains(run, b, a);
        return fn_j_failed(in) || op == FN_JOP_IN ? in : fn_j_bool(!in.as.b);
    }
    int order = 0;
    if (!fn_j_order(run, fn_jop_text(op), a, b, &order)) {
        return fn_j_fail();
    }
    switch (op) {
    case '<':
        return fn_j_bool(order == -1);
    case '>':
        return fn_j_bool(order == 1);
    case FN_JOP_LE:
        return fn_j_bool(order == -1 || order == 0);
    default:
        return fn_j_bool(order == 1 || order == 0);
    }
}
