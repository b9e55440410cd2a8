#include "tokens/jinja_builtin.h"

#include <string.h>

#include "tokens/jinja_run.h"

const fn_jbuiltin *fn_jbuiltin_search(const fn_jbuiltin *table, size_t n_table, const char *name,
                                      size_t n) {
    for (size_t i = 0; i < n_table; i++) {
        if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

typedef struct param {
    const char *name;
    size_t n;
    bool optional;
} param;

typedef struct signature {
    param params[FN_JARGS_MAX_PARAMS];
    size_t n;
    size_t required;
    bool any_positional;
    bool any_keyword;
} signature;

/* Reads "a,b=,*,**". */
static signature read_params(const char *text) {
    signature s = {0};
    while (*text != 0) {
        size_t n = strcspn(text, ",");
        if (n == 1 && text[0] == '*') {
            s.any_positional = true;
        } else if (n == 2 && text[0] == '*') {
            s.any_keyword = true;
        } else {
            bool optional = text[n - 1] == '=';
            s.params[s.n++] =
                (param){.name = text, .n = optional ? n - 1 : n, .optional = optional};
            s.required += optional ? 0 : 1;
        }
        text += n + (text[n] == ',' ? 1 : 0);
    }
    return s;
}

static const char *shown_name(const fn_jbuiltin *builtin) {
    return builtin->python_name != NULL ? builtin->python_name : builtin->name;
}

static bool too_many(fn_jrun *run, const fn_jbuiltin *builtin, const signature *s, size_t given) {
    const char *name = shown_name(builtin);
    if (s->required == s->n) {
        (void)fn_jrun_error(run, "%s() takes %zu positional argument%s but %zu %s given", name,
                            s->n, s->n == 1 ? "" : "s", given, given == 1 ? "was" : "were");
    } else {
        (void)fn_jrun_error(run,
                            "%s() takes from %zu to %zu positional arguments but %zu were given",
                            name, s->required, s->n, given);
    }
    return false;
}

static bool bind_keyword(fn_jrun *run, const fn_jbuiltin *builtin, const signature *s,
                         const fn_jkeyword *keyword, fn_jval *in) {
    const char *name = shown_name(builtin);
    const char *text = keyword->name.as.s->p;
    size_t n = keyword->name.as.s->n;
    for (size_t i = 0; i < s->n; i++) {
        if (s->params[i].n != n || memcmp(s->params[i].name, text, n) != 0) {
            continue;
        }
        if (in[i].type != FN_J_MISSING) {
            (void)fn_jrun_error(run, "%s() got multiple values for argument '%.*s'", name, (int)n,
                                text);
            return false;
        }
        in[i] = keyword->value;
        return true;
    }
    if (!s->any_keyword) {
        (void)fn_jrun_error(run, "%s() got an unexpected keyword argument '%.*s'", name, (int)n,
                            text);
    }
    return s->any_keyword;
}

static bool bind(fn_jrun *run, const fn_jbuiltin *builtin, const fn_jargs *args, fn_jval *in) {
    signature s = read_params(builtin->params);
    if (args->n > s.n && !s.any_positional) {
        return too_many(run, builtin, &s, args->n);
    }
    for (size_t i = 0; i < s.n && i < args->n; i++) {
        in[i] = args->positional[i];
    }
    for (size_t i = 0; i < args->n_keywords; i++) {
        if (!bind_keyword(run, builtin, &s, &args->keywords[i], in)) {
            return false;
        }
    }
    for (size_t i = 0; i < s.n; i++) {
        if (in[i].type == FN_J_MISSING && !s.params[i].optional) {
            (void)fn_jrun_error(run, "%s() missing 1 required positional argument: '%.*s'",
                                shown_name(builtin), (int)s.params[i].n, s.params[i].name);
            return false;
        }
    }
    return true;
}

fn_jval fn_jbuiltin_call(fn_jrun *run, const fn_jbuiltin *builtin, const fn_jargs *args) {
    fn_jval in[FN_JARGS_MAX_PARAMS] = {{.type = FN_J_MISSING}};
    if (!fn_jrun_step(run, 1) || !bind(run, builtin, args, in)) {
        return fn_j_fail();
    }
    return builtin->code(run, in, args);
}

bool fn_jarg_int(fn_jrun *run, fn_jval v, int64_t missing, int64_t *out) {
    *out = missing;
    if (v.type == FN_J_MISSING) {
        return true;
    }
    if (v.type == FN_J_UNDEFINED) {
        (void)fn_j_undefined_error(run, v);
        return false;
    }
    if (v.type != FN_J_INT && v.type != FN_J_BOOL) {
        (void)fn_jrun_error(run, "'%s' object cannot be interpreted as an integer",
                            fn_j_type_name(v));
        return false;
    }
    *out = v.type == FN_J_BOOL ? (v.as.b ? 1 : 0) : v.as.i;
    return true;
}

bool fn_jarg_str(fn_jrun *run, fn_jval v, const fn_jstr **out) {
    if (v.type != FN_J_STRING) {
        (void)fn_jrun_error(run, "a string is expected here, not %s", fn_j_type_name(v));
        return false;
    }
    *out = v.as.s;
    return true;
}
