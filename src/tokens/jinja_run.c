#include "tokens/jinja_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static fn_jval report(fn_jrun *run, fn_status status) {
    if (run->status == FN_OK) {
        run->status = status;
        run->error_line = run->line;
    }
    return fn_j_fail();
}

fn_jval fn_jrun_error(fn_jrun *run, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)fn_fail_v(run->err, FN_E_FAILED, format, args);
    va_end(args);
    return report(run, FN_E_FAILED);
}

fn_jval fn_jrun_error_text(fn_jrun *run, const char *text, size_t n) {
    int shown = n < sizeof run->err->text ? (int)n : (int)sizeof run->err->text;
    (void)fn_fail(run->err, FN_E_FAILED, "%.*s", shown, text);
    run->raised = true;
    return report(run, FN_E_FAILED);
}

fn_jval fn_jrun_limit(fn_jrun *run, const char *format, ...) {
    if (run->status == FN_OK) {
        va_list args;
        va_start(args, format);
        (void)fn_fail_v(run->err, FN_E_RANGE, format, args);
        va_end(args);
        fn_error_prefix(run->err, "%s: line %d", run->name, run->line);
    }
    return report(run, FN_E_RANGE);
}

static void no_memory(fn_jrun *run, size_t bytes) {
    if (run->arena.over_limit) {
        (void)fn_jrun_limit(run, "more than %zu bytes of values", run->arena.max_bytes);
        return;
    }
    (void)fn_fail_nomem(run->err, run->name, bytes);
    (void)report(run, FN_E_NOMEM);
}

void *fn_jrun_alloc(fn_jrun *run, size_t bytes) {
    void *ptr = fn_jarena_alloc(&run->arena, bytes);
    if (ptr == NULL) {
        no_memory(run, bytes);
    }
    return ptr;
}

void *fn_jrun_array(fn_jrun *run, size_t count, size_t size) {
    void *ptr = fn_jarena_array(&run->arena, count, size);
    if (ptr == NULL) {
        no_memory(run, count);
    }
    return ptr;
}

void *fn_jrun_grow(fn_jrun *run, void *ptr, size_t old_bytes, size_t new_bytes) {
    void *moved = fn_jarena_grow(&run->arena, ptr, old_bytes, new_bytes);
    if (moved == NULL) {
        no_memory(run, new_bytes);
    }
    return moved;
}

bool fn_jrun_reserve(fn_jrun *run, void **items, size_t *capacity, size_t need, size_t size) {
    if (need <= *capacity) {
        return true;
    }
    size_t grown = *capacity > 0 ? *capacity * 2 : 8;
    while (grown < need) {
        grown *= 2;
    }
    void *moved = fn_jrun_grow(run, *items, *capacity * size, grown * size);
    if (moved == NULL) {
        return false;
    }
    *items = moved;
    *capacity = grown;
    return true;
}

bool fn_jrun_step(fn_jrun *run, size_t n) {
    run->steps += n;
    if (run->steps > run->limits.steps) {
        (void)fn_jrun_limit(run, "more than %llu steps", (unsigned long long)run->limits.steps);
        return false;
    }
    return run->status == FN_OK;
}

bool fn_jrun_depth_ok(fn_jrun *run, size_t depth) {
    if (depth > FN_JINJA_MAX_VALUE_DEPTH) {
        (void)fn_jrun_limit(run, "values nested more than %d deep", FN_JINJA_MAX_VALUE_DEPTH);
        return false;
    }
    return true;
}

const char *fn_jrun_format(fn_jrun *run, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char text[1024];
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t length = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    char *copy = fn_jrun_alloc(run, length + 1);
    if (copy == NULL) {
        return "";
    }
    memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}
