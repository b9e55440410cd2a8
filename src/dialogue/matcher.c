#include "dialogue/matcher.h"

#include <string.h>

#include "base/mem.h"

typedef struct pattern {
    char *text;
    size_t length;
    size_t matched;  /* bytes of it that the text ends with */
    size_t *shorter; /* [length]: of its first i + 1 bytes, the longest start that is also an end */
} pattern;

struct fn_matcher {
    size_t n;
    pattern *patterns; /* [n] */
};

static void find_shorter(pattern *p) {
    size_t k = 0;
    p->shorter[0] = 0;
    for (size_t i = 1; i < p->length; i++) {
        while (k > 0 && p->text[i] != p->text[k]) {
            k = p->shorter[k - 1];
        }
        k += p->text[i] == p->text[k];
        p->shorter[i] = k;
    }
}

fn_status fn_matcher_create(const char *const *strings, size_t n, fn_matcher **out, fn_error *err) {
    *out = NULL;
    fn_matcher *m = fn_alloc_zero(1, sizeof *m);
    if (m == NULL) {
        return fn_fail_nomem(err, "stop strings", sizeof *m);
    }
    m->patterns = fn_alloc_zero(n, sizeof *m->patterns);
    if (m->patterns == NULL) {
        goto nomem;
    }
    m->n = n;
    for (size_t i = 0; i < n; i++) {
        pattern *p = &m->patterns[i];
        p->length = strlen(strings[i]);
        p->text = fn_strndup(strings[i], p->length);
        p->shorter = fn_alloc(p->length, sizeof *p->shorter);
        if (p->text == NULL || p->shorter == NULL) {
            goto nomem;
        }
        find_shorter(p);
    }
    *out = m;
    return FN_OK;
nomem:
    fn_matcher_destroy(m);
    return fn_fail_nomem(err, "stop strings", n * sizeof(pattern));
}

void fn_matcher_destroy(fn_matcher *m) {
    if (m == NULL) {
        return;
    }
    for (size_t i = 0; m->patterns != NULL && i < m->n; i++) {
        fn_free(m->patterns[i].text);
        fn_free(m->patterns[i].shorter);
    }
    fn_free(m->patterns);
    fn_free(m);
}

size_t fn_matcher_step(fn_matcher *m, char byte) {
    size_t longest = 0;
    for (size_t i = 0; i < m->n; i++) {
        pattern *p = &m->patterns[i];
        while (p->matched > 0 && p->text[p->matched] != byte) {
            p->matched = p->shorter[p->matched - 1];
        }
        p->matched += p->text[p->matched] == byte;
        if (p->matched == p->length) {
            longest = p->length > longest ? p->length : longest;
            p->matched = p->shorter[p->length - 1];
        }
    }
    return longest;
}

size_t fn_matcher_held(const fn_matcher *m) {
    size_t held = 0;
    for (size_t i = 0; i < m->n; i++) {
        held = m->patterns[i].matched > held ? m->patterns[i].matched : held;
    }
    return held;
}
