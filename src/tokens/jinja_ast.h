/* tokens/jinja_ast.h - the syntax tree of a template, and where its variables live.
 *
 * Path:     jinja_parser.h -> [this] -> jinja_scope.h (fills places and frames) -> evaluator
 * Memory:   the compiled template's arena; read only afterwards.
 *
 * Variables live in slots. A function (the template, a macro, a call block, a recursive loop) has
 * its own slots; a place is how many functions outward and which slot there. A frame is a scope
 * inside a function: entering it gives its variables their first values. */
#ifndef FN_TOKENS_JINJA_AST_H
#define FN_TOKENS_JINJA_AST_H

#include "tokens/jinja_value.h"

typedef enum fn_jkind {
    /* expressions */
    FN_JN_CONST,
    FN_JN_NAME,
    FN_JN_NSREF, /* ns.attr as the target of set */
    FN_JN_TUPLE,
    FN_JN_LIST,
    FN_JN_DICT, /* items: key, value, key, value, ... */
    FN_JN_COND, /* a: test, b: then, c: else or NULL */
    FN_JN_AND,
    FN_JN_OR,
    FN_JN_NOT,
    FN_JN_NEG,
    FN_JN_POS,
    FN_JN_BINARY,
    FN_JN_CONCAT,
    FN_JN_COMPARE, /* a, then items: OPERAND */
    FN_JN_OPERAND,
    FN_JN_GETATTR, /* a.name */
    FN_JN_GETITEM, /* a[b] */
    FN_JN_SLICE,   /* a:b:c */
    FN_JN_CALL,
    FN_JN_FILTER, /* a NULL: the text of the block */
    FN_JN_TEST,
    /* statements */
    FN_JN_TEXT,
    FN_JN_OUTPUT,
    FN_JN_IF,        /* a: test, body, items: elifs (IF), other: else */
    FN_JN_FOR,       /* a: target, b: iterable, c: test or NULL (d: target again, for it) */
    FN_JN_SET,       /* a: target, b: value */
    FN_JN_BLOCK_SET, /* a: target, b: filter or NULL */
    FN_JN_MACRO,
    FN_JN_CALL_BLOCK,   /* a: the call; the macro is the caller */
    FN_JN_FILTER_BLOCK, /* b: filter */
    FN_JN_WITH,         /* items: targets, other: values */
    FN_JN_GENERATION,   /* a macro called at once */
    FN_JN_BREAK,
    FN_JN_CONTINUE,
    FN_JN_GROUP /* statements in a row */
} fn_jkind;

/* 'i' in, 'n' not in, '<', '>', and the operators of jinja_lexer.h */
enum { FN_JOP_IN = 'i', FN_JOP_NOT_IN = 'n' };

typedef struct fn_jplace {
    uint32_t up;
    uint32_t slot;
} fn_jplace;

typedef enum fn_jload {
    FN_JLOAD_NONE,      /* not known in this scope */
    FN_JLOAD_PARAMETER, /* given by who enters */
    FN_JLOAD_RESOLVE,   /* from context and globals */
    FN_JLOAD_ALIAS,     /* the outer variable's value */
    FN_JLOAD_UNDEFINED
} fn_jload;

typedef struct fn_jinit {
    fn_jload load;
    uint32_t slot;
    fn_jplace from;   /* ALIAS */
    const char *name; /* RESOLVE */
} fn_jinit;

typedef struct fn_jframe {
    fn_jinit *inits;
    size_t n;
} fn_jframe;

typedef struct fn_jnode fn_jnode;

typedef struct fn_jlist_of_nodes {
    fn_jnode **items;
    size_t n;
    size_t capacity;
} fn_jnodes;

typedef struct fn_jkwarg {
    const char *name;
    fn_jnode *value;
} fn_jkwarg;

typedef struct fn_jcallargs {
    fn_jnodes positional;
    fn_jkwarg *keywords;
    size_t n_keywords;
    size_t capacity;
    fn_jnode *rest;          /* *rest or NULL */
    fn_jnode *rest_keywords; /* **rest_keywords or NULL */
} fn_jcallargs;

/* A macro, or the body of a call block. */
typedef struct fn_jmacro_def {
    const char *name;   /* NULL for a call block */
    fn_jnodes params;   /* NAME */
    fn_jnodes defaults; /* of the last params */
    fn_jnodes body;
    fn_jframe frame;
    uint32_t n_slots;
    bool uses_caller, uses_kwargs, uses_varargs;
    bool explicit_caller;
    uint32_t caller_slot, kwargs_slot, varargs_slot;
} fn_jmacro_def;

struct fn_jnode {
    fn_jkind kind;
    int line;
    uint16_t height; /* of the tree below */
    char op;
    bool recursive;        /* FOR */
    fn_jplace place;       /* NAME, NSREF; the target of MACRO */
    const char *name;      /* NAME, NSREF, GETATTR, FILTER, TEST, MACRO */
    const char *attribute; /* NSREF */
    fn_jval value;         /* CONST, TEXT; GETATTR: the name */
    fn_jnode *a, *b, *c, *d;
    fn_jnodes items;
    fn_jnodes body;
    fn_jnodes other;
    fn_jcallargs *args;
    fn_jmacro_def *macro;
    const fn_jbuiltin *builtin;
    fn_jframe frame;      /* of the body */
    fn_jframe else_frame; /* FOR */
    fn_jframe test_frame; /* FOR */
    uint32_t loop_slot;   /* FOR */
    uint32_t n_slots;     /* recursive FOR */
};

/* What compiling makes and rendering reads. */
typedef struct fn_jtemplate {
    fn_jnodes body;
    fn_jframe frame;
    uint32_t n_slots;
} fn_jtemplate;

#endif
