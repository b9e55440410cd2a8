/* tokens/jinja_builtin.h - filters, tests, global functions and methods: how they are found and called.
 *
 * Path:     parser (names are checked when a template is compiled) -> [this] -> evaluator
 * Every builtin declares its parameters; binding arguments to them follows Python's rules. */
#ifndef FN_TOKENS_JINJA_BUILTIN_H
#define FN_TOKENS_JINJA_BUILTIN_H

#include "tokens/jinja_value.h"

#define FN_JARGS_MAX_PARAMS 6

/* What a call passes. */
typedef struct fn_jkeyword {
    fn_jval name; /* a string */
    fn_jval value;
} fn_jkeyword;

typedef struct fn_jargs {
    const fn_jval *positional;
    size_t n;
    const fn_jkeyword *keywords;
    size_t n_keywords;
} fn_jargs;

/* A filter gets its value as the first positional argument, a test too, a method its object.
 * Parameters are "a,b=,*": = marks those that may be left out (MISSING then), * takes any number
 * and leaves them in args; keywords beyond the parameters are errors unless ** stands there. */
typedef fn_jval (*fn_jcode)(fn_jrun *run, const fn_jval *in, const fn_jargs *args);

struct fn_jbuiltin {
    const char *name;
    const char *python_name; /* for messages; NULL: name */
    const char *params;
    fn_jcode code;
};

struct fn_jfunction {
    fn_jbuiltin builtin;
};

struct fn_jmethod {
    fn_jval object;
    const fn_jbuiltin *builtin;
};

/* NULL when there is none of that name. */
const fn_jbuiltin *fn_jfilter_find(const char *name, size_t n);
const fn_jbuiltin *fn_jtest_find(const char *name, size_t n);
const fn_jfunction *fn_jglobal_find(const char *name, size_t n);
const fn_jbuiltin *fn_jstr_method_find(const char *name, size_t n);
const fn_jbuiltin *fn_jseq_method_find(fn_jval object, const char *name, size_t n);

const fn_jbuiltin *fn_jbuiltin_search(const fn_jbuiltin *table, size_t n_table, const char *name,
                                      size_t n);

/* Binds args to the parameters and runs the code. */
fn_jval fn_jbuiltin_call(fn_jrun *run, const fn_jbuiltin *builtin, const fn_jargs *args);

/* Typed looks at bound parameters; false after a report. MISSING gives the default. */
bool fn_jarg_int(fn_jrun *run, fn_jval v, int64_t missing, int64_t *out)
    __attribute__((warn_unused_result));
bool fn_jarg_str(fn_jrun *run, fn_jval v, const fn_jstr **out) __attribute__((warn_unused_result));

#endif
