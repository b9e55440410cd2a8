/* tokens/jinja_run.h - the state of one compilation or one render: memory, limits, the first error.
 *
 * Threads:  one at a time.
 * Memory:   everything made during a run lies in its arena. */
#ifndef FN_TOKENS_JINJA_RUN_H
#define FN_TOKENS_JINJA_RUN_H

#include "base/status.h"
#include "tokens/chat_template.h"
#include "tokens/jinja_value.h"

/* How deeply nodes may be evaluated inside each other, and values nest in values: bounds the C
 * stack of every recursive function here. */
#define FN_JINJA_MAX_NEST 1200
#define FN_JINJA_MAX_VALUE_DEPTH 500

struct fn_jbuf;

struct fn_jrun {
    fn_jarena arena;
    fn_render_limits limits; /* no zeros */
    const char *name;        /* of the template */
    int line;                /* of what is evaluated now */
    uint64_t steps;
    uint32_t nest;  /* nodes being evaluated */
    uint32_t depth; /* macro calls */
    const fn_jdict *context;
    struct fn_jbuf *output; /* where template text goes now */
    bool raised;            /* the template itself gave up: raise_exception */
    fn_status status;
    int error_line;
    fn_error *err;
};

/* Reports an exception of the template, in jinja2's words; returns FAIL. The first report stays. */
fn_jval fn_jrun_error(fn_jrun *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same with n bytes of text as they are. */
fn_jval fn_jrun_error_text(fn_jrun *run, const char *text, size_t n);

/* Reports a limit that was reached: "name: line N: more than ...". */
fn_jval fn_jrun_limit(fn_jrun *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Memory of the run; NULL after a report. */
void *fn_jrun_alloc(fn_jrun *run, size_t bytes) __attribute__((warn_unused_result));
void *fn_jrun_array(fn_jrun *run, size_t count, size_t size) __attribute__((warn_unused_result));
void *fn_jrun_grow(fn_jrun *run, void *ptr, size_t old_bytes, size_t new_bytes)
    __attribute__((warn_unused_result));

/* Makes room for `need` elements of `size` bytes, doubling. */
bool fn_jrun_reserve(fn_jrun *run, void **items, size_t *capacity, size_t need, size_t size)
    __attribute__((warn_unused_result));

/* Counts n steps; false after a report that there were too many. */
bool fn_jrun_step(fn_jrun *run, size_t n) __attribute__((warn_unused_result));

/* Reports values that nest deeper than depth allows; true when it is fine. */
bool fn_jrun_depth_ok(fn_jrun *run, size_t depth) __attribute__((warn_unused_result));

/* Formatted text in the run's memory (NUL-terminated); "" after a report. */
const char *fn_jrun_format(fn_jrun *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
