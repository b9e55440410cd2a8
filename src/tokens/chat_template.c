#include "tokens/chat_template.h"

#include <string.h>

#include "base/mem.h"
#include "tokens/jinja_context.h"
#include "tokens/jinja_eval.h"
#include "tokens/jinja_parser.h"
#include "tokens/jinja_scope.h"
#include "tokens/jinja_unicode.h"

/* A real chat template has some ten thousand bytes. */
#define MAX_SOURCE_BYTES ((size_t)4 << 20)
#define COMPILE_MEMORY_BYTES ((size_t)512 << 20)
#define COMPILE_STEPS 100000000u

struct fn_chat_template {
    fn_jarena arena;
    fn_jtemplate tree;
    const char *name;
};

static fn_status check_source(const char *source, size_t n, const char *name, fn_error *err) {
    size_t at = 0;
    if (n > MAX_SOURCE_BYTES) {
        return fn_fail(err, FN_E_MODEL, "%s: %zu bytes; a template has at most %zu", name, n,
                       MAX_SOURCE_BYTES);
    }
    if (!fn_junicode_valid(source, n, &at)) {
        int line = 1;
        for (size_t i = 0; i < at; i++) {
            line += source[i] == '\n' ? 1 : 0;
        }
        return fn_fail(err, FN_E_MODEL, "%s: line %d: not UTF-8 at byte %zu", name, line, at);
    }
    return FN_OK;
}

/* Hands a run's failure to the caller. */
static fn_status finish(const fn_jrun *run, const fn_error *detail, fn_error *err) {
    fn_status status = run->status != FN_OK ? run->status : FN_E_FAILED;
    return fn_fail(err, status, "%s", detail->text);
}

fn_status fn_chat_template_compile(const char *source, size_t n, const char *name,
                                   fn_chat_template **out, fn_error *err) {
    *out = NULL;
    fn_status status = check_source(source, n, name, err);
    if (status != FN_OK) {
        return status;
    }
    fn_chat_template *t = fn_alloc_zero(1, sizeof *t);
    if (t == NULL) {
        return fn_fail_nomem(err, name, sizeof *t);
    }
    fn_error detail = {0};
    fn_jrun run = {.limits = {.steps = COMPILE_STEPS, .output_bytes = COMPILE_MEMORY_BYTES},
                   .name = name,
                   .line = 1,
                   .err = &detail};
    fn_jtoks tokens = {0};
    fn_jarena_init(&run.arena, COMPILE_MEMORY_BYTES);
    char *copy = fn_jrun_alloc(&run, strlen(name) + 1);
    if (copy != NULL) {
        memcpy(copy, name, strlen(name) + 1);
        t->name = copy;
    }
    bool ok = copy != NULL && fn_jlex(&run, source, n, &tokens) &&
              fn_jparse(&run, &tokens, &t->tree) && fn_jscope_resolve(&run, &t->tree);
    t->arena = run.arena;
    if (!ok) {
        status = finish(&run, &detail, err);
        fn_chat_template_free(t);
        return status;
    }
    *out = t;
    return FN_OK;
}

void fn_chat_template_free(fn_chat_template *t) {
    if (t != NULL) {
        fn_jarena_free(&t->arena);
        fn_free(t);
    }
}

static fn_render_limits with_defaults(fn_render_limits limits) {
    limits.steps = limits.steps > 0 ? limits.steps : FN_RENDER_STEPS;
    limits.depth = limits.depth > 0 ? limits.depth : FN_RENDER_DEPTH;
    limits.output_bytes = limits.output_bytes > 0 ? limits.output_bytes : FN_RENDER_OUTPUT_BYTES;
    limits.memory_bytes = limits.memory_bytes > 0 ? limits.memory_bytes : FN_RENDER_MEMORY_BYTES;
    return limits;
}

/* The ranges of tainted bytes; with spans NULL only counts them. */
static size_t list_spans(const fn_jbuf *buf, fn_text_span *spans) {
    if (buf->map == NULL) {
        if (buf->tainted && buf->n > 0 && spans != NULL) {
            spans[0] = (fn_text_span){.begin = 0, .end = buf->n};
        }
        return buf->tainted && buf->n > 0 ? 1 : 0;
    }
    size_t n = 0;
    size_t at = 0;
    while (at < buf->n) {
        size_t end = at;
        while (end < buf->n && buf->map[end] == buf->map[at]) {
            end++;
        }
        if (buf->map[at] != 0) {
            if (spans != NULL) {
                spans[n] = (fn_text_span){.begin = at, .end = end};
            }
            n++;
        }
        at = end;
    }
    return n;
}

static fn_status take_output(const fn_jbuf *buf, const char *name, fn_rendered *out,
                             fn_error *err) {
    size_t n_spans = list_spans(buf, NULL);
    char *text = fn_strndup(buf->n > 0 ? buf->p : "", buf->n);
    fn_text_span *spans = n_spans > 0 ? fn_alloc(n_spans, sizeof *spans) : NULL;
    if (text == NULL || (n_spans > 0 && spans == NULL)) {
        fn_free(text);
        fn_free(spans);
        return fn_fail_nomem(err, name, buf->n);
    }
    if (n_spans > 0) {
        (void)list_spans(buf, spans);
    }
    *out = (fn_rendered){.text = text, .n = buf->n, .spans = spans, .n_spans = n_spans};
    return FN_OK;
}

typedef struct source {
    const fn_template_part *parts;
    size_t n;
    const json_t *context; /* or this */
} source;

static bool read_source(fn_jrun *run, fn_jdict *context, const source *from) {
    if (from->context != NULL) {
        return fn_jcontext_add_json(run, context, from->context, true, true);
    }
    for (size_t i = 0; i < from->n; i++) {
        const fn_template_part *part = &from->parts[i];
        bool ok = part->text != NULL
                      ? fn_jcontext_add_text(run, context, part->text, part->n, !part->trusted)
                      : fn_jcontext_add_json(run, context, part->object, !part->trusted, false);
        if (!ok) {
            return false;
        }
    }
    return true;
}

static fn_status render(const fn_chat_template *t, const source *from, fn_render_limits limits,
                        fn_rendered *out, fn_error *err) {
    fn_error detail = {0};
    fn_jbuf output = {0};
    fn_jrun run = {
        .limits = with_defaults(limits), .name = t->name, .output = &output, .err = &detail};
    *out = (fn_rendered){0};
    fn_jarena_init(&run.arena, run.limits.memory_bytes);
    fn_jdict *context = fn_jdict_new(&run);
    run.context = context;
    bool ok =
        context != NULL && read_source(&run, context, from) && fn_jeval_template(&run, &t->tree);
    fn_status status = ok ? take_output(&output, t->name, out, err) : finish(&run, &detail, err);
    out->error_line = ok ? 0 : run.error_line;
    out->raised = !ok && run.raised;
    fn_jarena_free(&run.arena);
    return status;
}

fn_status fn_chat_template_render(const fn_chat_template *t, const fn_template_part *parts,
                                  size_t n_parts, fn_render_limits limits, fn_rendered *out,
                                  fn_error *err) {
    source from = {.parts = parts, .n = n_parts};
    return render(t, &from, limits, out, err);
}

fn_status fn_chat_template_render_json(const fn_chat_template *t, const json_t *context,
                                       fn_render_limits limits, fn_rendered *out, fn_error *err) {
    *out = (fn_rendered){0};
    if (context == NULL) {
        return fn_fail(err, FN_E_USAGE, "template variables: expected an object, found nothing");
    }
    source from = {.context = context};
    return render(t, &from, limits, out, err);
}

void fn_rendered_free(fn_rendered *rendered) {
    if (rendered != NULL) {
        fn_free(rendered->text);
        fn_free(rendered->spans);
        *rendered = (fn_rendered){0};
    }
}
