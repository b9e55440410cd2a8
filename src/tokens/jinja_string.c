#include "tokens/jinja_string.h"

#include <string.h>

#include "tokens/jinja_run.h"
#include "tokens/jinja_unicode.h"

static bool buf_room(fn_jrun *run, fn_jbuf *buf, size_t n) {
    if (run->status != FN_OK) {
        return false;
    }
    if (n > run->limits.output_bytes || buf->n > run->limits.output_bytes - n) {
        (void)fn_jrun_limit(run, "more than %zu bytes of text", run->limits.output_bytes);
        return false;
    }
    size_t need = buf->n + n;
    if (need <= buf->capacity) {
        return true;
    }
    size_t grown = buf->capacity > 0 ? buf->capacity * 2 : 64;
    grown = grown > need ? grown : need;
    char *p = fn_jrun_grow(run, buf->p, buf->n, grown);
    if (p == NULL) {
        return false;
    }
    buf->p = p;
    if (buf->map != NULL) {
        buf->map = fn_jrun_grow(run, buf->map, buf->n, grown);
        if (buf->map == NULL) {
            return false;
        }
    }
    buf->capacity = grown;
    return true;
}

/* From now on each byte has its own mark. */
static bool buf_split(fn_jrun *run, fn_jbuf *buf) {
    if (buf->map == NULL) {
        buf->map = fn_jrun_alloc(run, buf->capacity);
        if (buf->map == NULL) {
            return false;
        }
        memset(buf->map, buf->tainted ? 1 : 0, buf->n);
    }
    return true;
}

void fn_jbuf_add(fn_jrun *run, fn_jbuf *buf, const char *p, size_t n, bool tainted) {
    if (n == 0 || !buf_room(run, buf, n)) {
        return;
    }
    if (buf->n == 0 && buf->map == NULL) {
        buf->tainted = tainted;
    }
    if ((buf->map != NULL || buf->tainted != tainted) && !buf_split(run, buf)) {
        return;
    }
    if (buf->map != NULL) {
        memset(buf->map + buf->n, tainted ? 1 : 0, n);
    }
    memcpy(buf->p + buf->n, p, n);
    buf->n += n;
}

void fn_jbuf_add_text(fn_jrun *run, fn_jbuf *buf, const char *text) {
    fn_jbuf_add(run, buf, text, strlen(text), false);
}

void fn_jbuf_add_part(fn_jrun *run, fn_jbuf *buf, const fn_jstr *s, size_t begin, size_t end) {
    if (s->taint == NULL) {
        fn_jbuf_add(run, buf, s->p + begin, end - begin, s->tainted);
        return;
    }
    if (begin == end || !buf_room(run, buf, end - begin) || !buf_split(run, buf)) {
        return;
    }
    memcpy(buf->map + buf->n, s->taint + begin, end - begin);
    memcpy(buf->p + buf->n, s->p + begin, end - begin);
    buf->n += end - begin;
}

void fn_jbuf_add_str(fn_jrun *run, fn_jbuf *buf, const fn_jstr *s) {
    fn_jbuf_add_part(run, buf, s, 0, s->n);
}

void fn_jbuf_add_char(fn_jrun *run, fn_jbuf *buf, uint32_t c, bool tainted) {
    char bytes[4];
    size_t n = fn_junicode_encode(c, bytes);
    fn_jbuf_add(run, buf, bytes, n, tainted);
}

static size_t count_chars(const char *p, size_t n) {
    size_t chars = 0;
    for (size_t i = 0; i < n; i++) {
        chars += ((unsigned char)p[i] & 0xC0u) != 0x80u ? 1 : 0;
    }
    return chars;
}

static fn_jval make(fn_jrun *run, fn_jstr value) {
    fn_jstr *s = fn_jrun_alloc(run, sizeof *s);
    if (s == NULL) {
        return fn_j_fail();
    }
    *s = value;
    if (s->p == NULL) {
        s->p = "";
    }
    s->n_chars = count_chars(s->p, s->n);
    return fn_j_str(s);
}

fn_jval fn_jbuf_take(fn_jrun *run, fn_jbuf *buf) {
    if (run->status != FN_OK) {
        return fn_j_fail();
    }
    return make(run,
                (fn_jstr){.p = buf->p, .n = buf->n, .taint = buf->map, .tainted = buf->tainted});
}

fn_jval fn_jstr_view(fn_jrun *run, const char *p, size_t n, bool tainted) {
    return make(run, (fn_jstr){.p = p, .n = n, .tainted = tainted});
}

fn_jval fn_jstr_copy(fn_jrun *run, const char *p, size_t n, bool tainted) {
    char *copy = fn_jrun_alloc(run, n);
    if (copy == NULL) {
        return fn_j_fail();
    }
    if (n > 0) {
        memcpy(copy, p, n);
    }
    return fn_jstr_view(run, copy, n, tainted);
}

fn_jval fn_jstr_text(fn_jrun *run, const char *text) {
    return fn_jstr_view(run, text, strlen(text), false);
}

fn_jval fn_jstr_markup(fn_jrun *run, const fn_jstr *s, bool markup) {
    fn_jstr copy = *s;
    copy.markup = markup;
    return make(run, copy);
}

fn_jval fn_jstr_sub(fn_jrun *run, const fn_jstr *s, size_t begin, size_t end) {
    fn_jstr part = *s;
    part.p = s->p + begin;
    part.n = end - begin;
    part.taint = s->taint != NULL ? s->taint + begin : NULL;
    return make(run, part);
}

fn_jval fn_jstr_pick(fn_jrun *run, const fn_jstr *s, int64_t from, int64_t step, size_t count) {
    if (!fn_jrun_step(run, count / 16)) {
        return fn_j_fail();
    }
    if (count == 0) {
        return fn_jstr_sub(run, s, 0, 0);
    }
    if (step == 1) {
        size_t begin = fn_jstr_offset(s, (size_t)from);
        return fn_jstr_sub(run, s, begin, fn_jstr_offset(s, (size_t)from + count));
    }
    size_t *offsets = NULL;
    if (s->n_chars != s->n) {
        offsets = fn_jrun_array(run, s->n_chars + 1, sizeof *offsets);
        if (offsets == NULL) {
            return fn_j_fail();
        }
        for (size_t i = 0; i < s->n_chars; i++) {
            offsets[i + 1] = fn_jstr_next(s, offsets[i]);
        }
    }
    fn_jbuf buf = {0};
    for (size_t i = 0; i < count; i++) {
        size_t at = (size_t)(from + (int64_t)i * step);
        fn_jbuf_add_part(run, &buf, s, offsets != NULL ? offsets[at] : at,
                         offsets != NULL ? offsets[at + 1] : at + 1);
    }
    return fn_jbuf_take(run, &buf);
}

fn_jval fn_jstr_escape(fn_jrun *run, const fn_jstr *s) {
    fn_jbuf buf = {0};
    size_t from = 0;
    for (size_t i = 0; i < s->n; i++) {
        const char *entity = NULL;
        switch (s->p[i]) {
        case '&':
            entity = "&amp;";
            break;
        case '<':
            entity = "&lt;";
            break;
        case '>':
            entity = "&gt;";
            break;
        case '"':
            entity = "&#34;";
            break;
        case '\'':
            entity = "&#39;";
            break;
        default:
            break;
        }
        if (entity != NULL) {
            fn_jbuf_add_part(run, &buf, s, from, i);
            fn_jbuf_add(run, &buf, entity, strlen(entity), fn_jstr_taint_at(s, i));
            from = i + 1;
        }
    }
    fn_jbuf_add_part(run, &buf, s, from, s->n);
    fn_jval v = fn_jbuf_take(run, &buf);
    return fn_j_failed(v) ? v : fn_jstr_markup(run, v.as.s, true);
}

fn_jval fn_jstr_concat(fn_jrun *run, const fn_jstr *a, const fn_jstr *b) {
    bool markup = a->markup || b->markup;
    if (a->markup != b->markup) {
        fn_jval escaped = fn_jstr_escape(run, a->markup ? b : a);
        if (fn_j_failed(escaped)) {
            return escaped;
        }
        a = a->markup ? a : escaped.as.s;
        b = b->markup ? b : escaped.as.s;
    }
    if (!markup && (a->n == 0 || b->n == 0)) {
        return fn_j_str(a->n == 0 ? b : a);
    }
    fn_jbuf buf = {0};
    if (buf_room(run, &buf, a->n + b->n)) {
        fn_jbuf_add_str(run, &buf, a);
        fn_jbuf_add_str(run, &buf, b);
    }
    fn_jval v = fn_jbuf_take(run, &buf);
    return fn_j_failed(v) || !markup ? v : fn_jstr_markup(run, v.as.s, true);
}

fn_jval fn_jstr_repeat(fn_jrun *run, const fn_jstr *s, int64_t times) {
    fn_jbuf buf = {0};
    size_t total = 0;
    if (times > 0 && s->n > 0) {
        if (__builtin_mul_overflow(s->n, (size_t)times, &total)) {
            return fn_jrun_limit(run, "more than %zu bytes of text", run->limits.output_bytes);
        }
        if (!buf_room(run, &buf, total) || !fn_jrun_step(run, (size_t)times)) {
            return fn_j_fail();
        }
        for (int64_t i = 0; i < times; i++) {
            fn_jbuf_add_str(run, &buf, s);
        }
    }
    return fn_jbuf_take(run, &buf);
}

bool fn_jstr_taint_at(const fn_jstr *s, size_t at) {
    return s->taint != NULL ? s->taint[at] != 0 : s->tainted;
}

size_t fn_jstr_next(const fn_jstr *s, size_t at) {
    at++;
    while (at < s->n && ((unsigned char)s->p[at] & 0xC0u) == 0x80u) {
        at++;
    }
    return at;
}

uint32_t fn_jstr_char(const fn_jstr *s, size_t at) {
    return fn_junicode_decode(s->p + at, s->n - at);
}

size_t fn_jstr_offset(const fn_jstr *s, size_t char_index) {
    if (s->n_chars == s->n) {
        return char_index < s->n ? char_index : s->n;
    }
    size_t at = 0;
    for (size_t i = 0; i < char_index && at < s->n; i++) {
        at = fn_jstr_next(s, at);
    }
    return at;
}

size_t fn_jstr_find(fn_jrun *run, const fn_jstr *s, const fn_jstr *part, size_t from) {
    if (part->n > s->n || from > s->n - part->n) {
        return SIZE_MAX;
    }
    if (part->n == 0) {
        return from;
    }
    size_t last = s->n - part->n;
    size_t at = from;
    while (at <= last) {
        const char *hit = memchr(s->p + at, part->p[0], last - at + 1);
        if (hit == NULL) {
            at = last + 1;
            break;
        }
        at = (size_t)(hit - s->p);
        if (memcmp(hit, part->p, part->n) == 0) {
            break;
        }
        at++;
    }
    if (!fn_jrun_step(run, ((at < s->n ? at : s->n) - from) / 64) || at > last) {
        return SIZE_MAX;
    }
    return at;
}

size_t fn_jstr_rfind(fn_jrun *run, const fn_jstr *s, const fn_jstr *part, size_t end) {
    if (part->n > end || !fn_jrun_step(run, end / 64)) {
        return SIZE_MAX;
    }
    for (size_t at = end - part->n + 1; at > 0; at--) {
        if (memcmp(s->p + at - 1, part->p, part->n) == 0) {
            return at - 1;
        }
    }
    return SIZE_MAX;
}

static bool strips(const fn_jstr *set, uint32_t c) {
    if (set == NULL) {
        return fn_junicode_is_space(c);
    }
    for (size_t at = 0; at < set->n; at = fn_jstr_next(set, at)) {
        if (fn_jstr_char(set, at) == c) {
            return true;
        }
    }
    return false;
}

static size_t previous(const fn_jstr *s, size_t at) {
    at--;
    while (at > 0 && ((unsigned char)s->p[at] & 0xC0u) == 0x80u) {
        at--;
    }
    return at;
}

fn_jval fn_jstr_strip(fn_jrun *run, const fn_jstr *s, const fn_jstr *set, bool left, bool right) {
    size_t begin = 0;
    size_t end = s->n;
    size_t per_char = set != NULL ? set->n_chars + 1 : 1;
    while (left && begin < end && strips(set, fn_jstr_char(s, begin))) {
        begin = fn_jstr_next(s, begin);
    }
    while (right && end > begin && strips(set, fn_jstr_char(s, previous(s, end)))) {
        end = previous(s, end);
    }
    size_t looked_at = s->n - (end - begin);
    if (!fn_jrun_step(run, looked_at * (per_char / 64 + 1) / 64)) {
        return fn_j_fail();
    }
    return begin == 0 && end == s->n ? fn_j_str(s) : fn_jstr_sub(run, s, begin, end);
}

static fn_jval replace_between(fn_jrun *run, const fn_jstr *s, const fn_jstr *to, int64_t limit) {
    fn_jbuf buf = {0};
    size_t at = 0;
    for (size_t done = 0; limit < 0 || done < (size_t)limit; done++) {
        fn_jbuf_add_str(run, &buf, to);
        if (at >= s->n || run->status != FN_OK) {
            break;
        }
        size_t next = fn_jstr_next(s, at);
        fn_jbuf_add_part(run, &buf, s, at, next);
        at = next;
    }
    fn_jbuf_add_part(run, &buf, s, at, s->n);
    return fn_jbuf_take(run, &buf);
}

fn_jval fn_jstr_replace(fn_jrun *run, const fn_jstr *s, const fn_jstr *from, const fn_jstr *to,
                        int64_t limit) {
    if (from->n == 0) {
        return replace_between(run, s, to, limit);
    }
    fn_jbuf buf = {0};
    size_t at = 0;
    for (size_t done = 0; limit < 0 || done < (size_t)limit; done++) {
        size_t hit = fn_jstr_find(run, s, from, at);
        if (hit == SIZE_MAX) {
            break;
        }
        fn_jbuf_add_part(run, &buf, s, at, hit);
        fn_jbuf_add_str(run, &buf, to);
        at = hit + from->n;
    }
    if (at == 0 && run->status == FN_OK) {
        return fn_j_str(s);
    }
    fn_jbuf_add_part(run, &buf, s, at, s->n);
    return fn_jbuf_take(run, &buf);
}
