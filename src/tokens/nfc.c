/* The standard algorithm: decompose, order the marks of each run by combining class, compose. A
 * text falls into clusters that cannot affect each other: a character NFC leaves alone, and those
 * behind it that it may reorder or join. */
#include "tokens/nfc.h"

#include <string.h>

#include "base/mem.h"
#include "tokens/unicode_tables.h"
#include "tokens/utf8.h"

enum {
    HANGUL_S = 0xAC00,
    HANGUL_L = 0x1100,
    HANGUL_V = 0x1161,
    HANGUL_T = 0x11A7,
    N_L = 19,
    N_V = 21,
    N_T = 28,
    N_CLASSES = 256,
    SMALL_RUN = 16,
};

typedef struct cluster {
    uint32_t *chars; /* [count] */
    uint32_t *other; /* the same size, for sorting */
    size_t count;
    size_t capacity;
    size_t other_capacity;
} cluster;

static unsigned combining_class(uint32_t c) {
    if ((fn_unicode_class(c) & FN_UC_ORDERED) == 0) {
        return 0;
    }
    size_t low = 0;
    size_t high = fn_unicode_n_orders;
    while (low + 1 < high) {
        size_t middle = (low + high) / 2;
        if (fn_unicode_orders[middle].first <= c) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return fn_unicode_orders[low].combining_class;
}

static const fn_unicode_step *find_step(uint32_t c) {
    size_t low = 0;
    size_t high = fn_unicode_n_steps;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (fn_unicode_steps[middle].composed == c) {
            return &fn_unicode_steps[middle];
        }
        if (fn_unicode_steps[middle].composed < c) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

/* The character first + second join to; 0 if they stay two. */
static uint32_t compose_pair(uint32_t first, uint32_t second) {
    if (first - HANGUL_L < N_L && second - HANGUL_V < N_V) {
        return HANGUL_S + ((first - HANGUL_L) * N_V + (second - HANGUL_V)) * N_T;
    }
    if (first - HANGUL_S < N_L * N_V * N_T && (first - HANGUL_S) % N_T == 0 &&
        second - HANGUL_T - 1 < N_T - 1) {
        return first + (second - HANGUL_T);
    }
    uint64_t key = (uint64_t)first << 32 | second;
    size_t low = 0;
    size_t high = fn_unicode_n_compositions;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const fn_unicode_step *step = &fn_unicode_steps[fn_unicode_compositions[middle]];
        uint64_t here = (uint64_t)step->first << 32 | step->second;
        if (here == key) {
            return step->composed;
        }
        if (here < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return 0;
}

static bool push(cluster *c, uint32_t value) {
    void *chars = c->chars;
    if (!fn_grow(&chars, &c->capacity, c->count + 1, sizeof *c->chars)) {
        return false;
    }
    c->chars = chars;
    c->chars[c->count++] = value;
    return true;
}

/* Steps nest in the first part only, at most three deep in the tables; four are allowed for. */
static bool push_decomposed(cluster *c, uint32_t value) {
    uint32_t tail[4];
    size_t n_tail = 0;
    if (value - HANGUL_S < N_L * N_V * N_T) {
        uint32_t s = value - HANGUL_S;
        return push(c, HANGUL_L + s / (N_V * N_T)) && push(c, HANGUL_V + s % (N_V * N_T) / N_T) &&
               (s % N_T == 0 || push(c, HANGUL_T + s % N_T));
    }
    const fn_unicode_step *step = find_step(value);
    while (step != NULL && n_tail < 4) {
        if (step->second != 0) {
            tail[n_tail++] = step->second;
        }
        value = step->first;
        step = find_step(value);
    }
    bool ok = push(c, value);
    while (ok && n_tail > 0) {
        ok = push(c, tail[--n_tail]);
    }
    return ok;
}

/* Stable, by class: insertion for the usual few marks, counting for long runs (linear). */
static bool sort_run(cluster *c, size_t begin, size_t end) {
    if (end - begin <= SMALL_RUN) {
        for (size_t i = begin + 1; i < end; i++) {
            uint32_t value = c->chars[i];
            unsigned class = combining_class(value);
            size_t at = i;
            for (; at > begin && combining_class(c->chars[at - 1]) > class; at--) {
                c->chars[at] = c->chars[at - 1];
            }
            c->chars[at] = value;
        }
        return true;
    }
    size_t starts[N_CLASSES] = {0};
    void *other = c->other;
    if (!fn_grow(&other, &c->other_capacity, end - begin, sizeof *c->other)) {
        return false;
    }
    c->other = other;
    for (size_t i = begin; i < end; i++) {
        starts[combining_class(c->chars[i])]++;
    }
    size_t total = 0;
    for (size_t k = 0; k < N_CLASSES; k++) {
        size_t count = starts[k];
        starts[k] = total;
        total += count;
    }
    for (size_t i = begin; i < end; i++) {
        c->other[starts[combining_class(c->chars[i])]++] = c->chars[i];
    }
    memcpy(c->chars + begin, c->other, (end - begin) * sizeof *c->chars);
    return true;
}

static bool order_marks(cluster *c) {
    size_t at = 0;
    while (at < c->count) {
        size_t begin = at;
        while (at < c->count && combining_class(c->chars[at]) != 0) {
            at++;
        }
        if (at - begin > 1 && !sort_run(c, begin, at)) {
            return false;
        }
        at += at < c->count ? 1 : 0;
    }
    return true;
}

/* Each character joins the last starter unless one of its own class or a starter is between. */
static void compose(cluster *c) {
    size_t kept = 0;
    size_t starter = SIZE_MAX;
    unsigned last_class = 0;
    for (size_t i = 0; i < c->count; i++) {
        uint32_t value = c->chars[i];
        unsigned class = combining_class(value);
        bool adjacent = starter != SIZE_MAX && kept == starter + 1;
        bool open = starter != SIZE_MAX && (adjacent || (last_class != 0 && last_class < class));
        uint32_t joined = open ? compose_pair(c->chars[starter], value) : 0;
        if (joined != 0) {
            c->chars[starter] = joined;
            continue;
        }
        if (class == 0) {
            starter = kept;
        }
        last_class = class;
        c->chars[kept++] = value;
    }
    c->count = kept;
}

bool fn_nfc_is_normal(const char *text, size_t n) {
    const unsigned char *s = (const unsigned char *)text;
    unsigned last = 0;
    for (size_t at = 0, length = 0; at < n; at += length) {
        length = 1;
        if (s[at] < 0x80) {
            last = 0;
            continue;
        }
        uint32_t c = fn_utf8_get(s + at, &length);
        unsigned flags = fn_unicode_class(c);
        unsigned class = (flags & FN_UC_ORDERED) != 0 ? combining_class(c) : 0;
        if ((flags & FN_UC_NFC_CHECK) != 0 || (class != 0 && class < last)) {
            return false;
        }
        last = class;
    }
    return true;
}

/* The end of what can be copied from `at`: the last character before one to look at stays out. */
static size_t plain_end(const unsigned char *s, size_t n, size_t at) {
    size_t last = at;
    for (size_t length = 0; at < n; at += length) {
        uint32_t c = fn_utf8_get(s + at, &length);
        if ((fn_unicode_class(c) & (FN_UC_NFC_CHECK | FN_UC_ORDERED)) != 0) {
            return last;
        }
        last = at;
    }
    return n;
}

/* Takes the cluster at `at` apart; its first character is taken whatever it is. */
static bool take_cluster(cluster *c, const unsigned char *s, size_t n, size_t *at) {
    size_t begin = *at;
    size_t length = 0;
    c->count = 0;
    while (*at < n) {
        uint32_t value = fn_utf8_get(s + *at, &length);
        unsigned flags = fn_unicode_class(value);
        if (*at > begin && (flags & (FN_UC_NFC_CHECK | FN_UC_ORDERED)) == 0) {
            break;
        }
        if (!push_decomposed(c, value)) {
            return false;
        }
        *at += length;
    }
    return order_marks(c);
}

fn_status fn_nfc_append(const fn_marked_text *text, fn_text_buffer *out, fn_text_span *spans,
                        fn_error *err) {
    const unsigned char *s = (const unsigned char *)text->bytes;
    fn_span_mover mover = {.from = text->spans, .to = spans, .n = text->n_spans};
    cluster c = {0};
    fn_status status = FN_OK;
    size_t at = 0;
    while (at < text->n && status == FN_OK) {
        size_t plain = plain_end(s, text->n, at) - at;
        fn_spans_copied(&mover, at, plain, out->count);
        status = fn_text_buffer_append(out, text->bytes + at, plain, err);
        at += plain;
        size_t begin = at;
        if (status != FN_OK || at == text->n) {
            break;
        }
        if (!take_cluster(&c, s, text->n, &at)) {
            status = fn_fail_nomem(err, "text to normalise", at - begin);
            break;
        }
        compose(&c);
        size_t to = out->count;
        status = fn_text_buffer_reserve(out, c.count * 4, err);
        for (size_t i = 0; i < c.count && status == FN_OK; i++) {
            out->count += fn_utf8_put(c.chars[i], (unsigned char *)out->bytes + out->count);
        }
        fn_spans_replaced(&mover, begin, at - begin, to, out->count);
    }
    fn_spans_finish(&mover, out->count);
    fn_free(c.chars);
    fn_free(c.other);
    return status;
}
