/* tokens/jinja_value.h - what a template computes with: Python's values, as far as templates see them.
 *
 * Path:     context (jinja_context.h) and literals -> [this] -> evaluator, filters, output
 * Memory:   values are small structs that point into an arena; nothing is freed one by one. Lists
 *           and dicts never change once built (the sandbox is immutable); a namespace does.
 *
 * Strings carry taint: for every byte, whether a user wrote it. `taint` is a map of n bytes, or NULL
 * when all bytes are alike (`tainted`). A slice is a pointer into its parent. */
#ifndef FN_TOKENS_JINJA_VALUE_H
#define FN_TOKENS_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tokens/jinja_arena.h"

typedef enum fn_jtype {
    FN_J_MISSING, /* a variable without value; an argument that was not given */
    FN_J_FAIL,    /* an error was reported to the run; passed up */
    FN_J_UNDEFINED,
    FN_J_NONE,
    FN_J_BOOL,
    FN_J_INT,
    FN_J_BIGINT, /* an integer beyond 64 bits: its digits */
    FN_J_FLOAT,
    FN_J_STRING,
    FN_J_SEQ,
    FN_J_DICT,
    FN_J_NAMESPACE,
    FN_J_ITER, /* a generator: its rest, used up by reading */
    FN_J_MACRO,
    FN_J_FUNCTION, /* a global function */
    FN_J_METHOD,   /* a method bound to its object */
    FN_J_LOOP,
    FN_J_CYCLER,
    FN_J_JOINER
} fn_jtype;

typedef struct fn_jstr fn_jstr;
typedef struct fn_jseq fn_jseq;
typedef struct fn_jdict fn_jdict;
typedef struct fn_jiter fn_jiter;
typedef struct fn_jundef fn_jundef;
typedef struct fn_jmacro fn_jmacro;
typedef struct fn_jfunction fn_jfunction;
typedef struct fn_jmethod fn_jmethod;
typedef struct fn_jloop fn_jloop;
typedef struct fn_jrun fn_jrun;
typedef struct fn_jbuiltin fn_jbuiltin; /* a filter, test or method (jinja_builtin.h) */

typedef struct fn_jval {
    fn_jtype type;
    union {
        bool b;
        int64_t i;
        double d;
        const fn_jstr *s; /* STRING, BIGINT */
        const fn_jseq *seq;
        fn_jdict *dict; /* DICT, NAMESPACE */
        fn_jiter *iter; /* ITER; CYCLER and JOINER keep their state in one too */
        const fn_jundef *undef;
        const fn_jmacro *macro;
        const fn_jfunction *function;
        const fn_jmethod *method;
        fn_jloop *loop;
    } as;
} fn_jval;

struct fn_jstr {
    const char *p; /* UTF-8, valid, not terminated */
    size_t n;
    size_t n_chars;
    const uint8_t *taint;
    bool tainted;
    bool markup; /* result of |safe or |escape: + escapes the other side */
};

typedef enum fn_jseq_kind {
    FN_JSEQ_LIST,
    FN_JSEQ_TUPLE,
    FN_JSEQ_GROUP, /* a tuple whose items are also .grouper and .list */
    FN_JSEQ_RANGE,
    FN_JSEQ_KEYS,
    FN_JSEQ_VALUES,
    FN_JSEQ_ITEMS
} fn_jseq_kind;

struct fn_jseq {
    fn_jseq_kind kind;
    size_t n;
    const fn_jval *items;
    int64_t start, stop, step; /* of a range, for printing */
};

typedef struct fn_jentry {
    fn_jval key;
    fn_jval value;
    uint64_t hash;
} fn_jentry;

struct fn_jdict {
    size_t n;
    size_t capacity;
    fn_jentry *entries; /* in order of insertion */
    uint32_t *index;    /* open addressing, entry number + 1; NULL while small */
    size_t index_size;
};

struct fn_jiter {
    const fn_jval *items;
    size_t n;
    size_t next;
    const char *type_name;
};

/* What an undefined value says when it is used. */
struct fn_jundef {
    const char *hint; /* the whole message, or NULL: made from object and name */
    fn_jval object;   /* MISSING: a variable */
    fn_jval name;
};

/* Text or a list under construction. */
typedef struct fn_jlist {
    fn_jval *items;
    size_t n;
    size_t capacity;
} fn_jlist;

static inline bool fn_j_failed(fn_jval v) {
    return v.type == FN_J_FAIL;
}

static inline fn_jval fn_j_fail(void) {
    return (fn_jval){.type = FN_J_FAIL};
}

static inline fn_jval fn_j_none(void) {
    return (fn_jval){.type = FN_J_NONE};
}

static inline fn_jval fn_j_bool(bool b) {
    return (fn_jval){.type = FN_J_BOOL, .as.b = b};
}

static inline fn_jval fn_j_int(int64_t i) {
    return (fn_jval){.type = FN_J_INT, .as.i = i};
}

static inline fn_jval fn_j_float(double d) {
    return (fn_jval){.type = FN_J_FLOAT, .as.d = d};
}

static inline fn_jval fn_j_str(const fn_jstr *s) {
    return (fn_jval){.type = FN_J_STRING, .as.s = s};
}

/* A sequence of n items (not copied). FAIL when memory is out. */
fn_jval fn_j_seq(fn_jrun *run, fn_jseq_kind kind, const fn_jval *items, size_t n);
fn_jval fn_j_pair(fn_jrun *run, fn_jval first, fn_jval second);
fn_jval fn_j_generator(fn_jrun *run, const fn_jval *items, size_t n, const char *type_name);

/* Undefined values: with the whole message, or naming a variable, or an element of an object. */
fn_jval fn_j_undefined_hint(fn_jrun *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
fn_jval fn_j_undefined_name(fn_jrun *run, const char *name);
fn_jval fn_j_undefined_element(fn_jrun *run, fn_jval object, fn_jval name);

/* Reports the use of an undefined value; returns FAIL. */
fn_jval fn_j_undefined_error(fn_jrun *run, fn_jval v);

bool fn_jlist_push(fn_jrun *run, fn_jlist *list, fn_jval v) __attribute__((warn_unused_result));

/* New, empty; NULL when memory is out. */
fn_jdict *fn_jdict_new(fn_jrun *run);
/* Sets or replaces; keys must be hashable, else a TypeError is reported. */
bool fn_jdict_set(fn_jrun *run, fn_jdict *dict, fn_jval key, fn_jval value)
    __attribute__((warn_unused_result));
/* MISSING when absent, FAIL for a key that cannot be hashed. */
fn_jval fn_jdict_get(fn_jrun *run, const fn_jdict *dict, fn_jval key);
/* By text; never fails. MISSING when absent. */
fn_jval fn_jdict_get_text(const fn_jdict *dict, const char *text, size_t n);

/* Python's name of the type in messages: 'str', 'NoneType', ... */
const char *fn_j_type_name(fn_jval v);
/* The same with " object", as undefined values word it. */
const char *fn_j_type_phrase(fn_jval v);

bool fn_j_is_number(fn_jval v); /* bool, int, big int, float */
bool fn_j_is_text(fn_jval v, const char *text);
bool fn_j_truth(fn_jval v);

/* ==; false and a report to the run when the values nest too deeply. */
bool fn_j_equal(fn_jrun *run, fn_jval a, fn_jval b);
/* a < b as `op` ("<", "<=", ...) words it in the TypeError: *out = -1, 0, 1, or 2 for NaN. */
bool fn_j_order(fn_jrun *run, const char *op, fn_jval a, fn_jval b, int *out)
    __attribute__((warn_unused_result));

/* The items that iterating v gives, as an array; a generator is used up. Reports a TypeError when v
 * cannot be iterated. */
bool fn_j_items(fn_jrun *run, fn_jval v, const fn_jval **items, size_t *n)
    __attribute__((warn_unused_result));

#endif
