#include "tokens/jinja_text.h"

#include <string.h>

#include "tokens/jinja_repr.h"
#include "tokens/jinja_run.h"

static void add_mapped(fn_jrun *run, fn_jbuf *buf, const fn_jstr *s, size_t at, fn_jcase to) {
    uint32_t out[3];
    size_t n = fn_junicode_case(fn_jstr_char(s, at), to, out);
    for (size_t i = 0; i < n; i++) {
        fn_jbuf_add_char(run, buf, out[i], fn_jstr_taint_at(s, at));
    }
}

static size_t before(const fn_jstr *s, size_t at) {
    at--;
    while (at > 0 && ((unsigned char)s->p[at] & 0xC0u) == 0x80u) {
        at--;
    }
    return at;
}

/* A capital sigma at the end of a word becomes the final form. */
static bool is_final_sigma(const fn_jstr *s, size_t begin, size_t at) {
    size_t left = at;
    bool cased_before = false;
    while (left > begin) {
        left = before(s, left);
        uint32_t c = fn_jstr_char(s, left);
        if (!fn_junicode_is_case_ignorable(c)) {
            cased_before = fn_junicode_is_cased(c);
            break;
        }
    }
    for (size_t right = fn_jstr_next(s, at); cased_before && right < s->n;
         right = fn_jstr_next(s, right)) {
        uint32_t c = fn_jstr_char(s, right);
        if (!fn_junicode_is_case_ignorable(c)) {
            return !fn_junicode_is_cased(c);
        }
    }
    return cased_before;
}

/* The word that decides on a sigma begins at `begin`. */
static void add_lower(fn_jrun *run, fn_jbuf *buf, const fn_jstr *s, size_t begin, size_t at) {
    if (fn_jstr_char(s, at) == 0x3A3 && fn_jrun_step(run, s->n / 256)) {
        uint32_t sigma = is_final_sigma(s, begin, at) ? 0x3C2 : 0x3C3;
        fn_jbuf_add_char(run, buf, sigma, fn_jstr_taint_at(s, at));
    } else {
        add_mapped(run, buf, s, at, FN_JCASE_LOWER);
    }
}

fn_jval fn_jtext_case(fn_jrun *run, const fn_jstr *s, fn_jcase to) {
    fn_jbuf buf = {0};
    for (size_t at = 0; at < s->n && run->status == FN_OK; at = fn_jstr_next(s, at)) {
        if (to == FN_JCASE_LOWER) {
            add_lower(run, &buf, s, 0, at);
        } else {
            add_mapped(run, &buf, s, at, to);
        }
    }
    return fn_jrun_step(run, s->n / 32) ? fn_jbuf_take(run, &buf) : fn_j_fail();
}

fn_jval fn_jtext_capitalize(fn_jrun *run, const fn_jstr *s) {
    fn_jbuf buf = {0};
    for (size_t at = 0; at < s->n && run->status == FN_OK; at = fn_jstr_next(s, at)) {
        if (at == 0) {
            add_mapped(run, &buf, s, at, FN_JCASE_TITLE);
        } else {
            add_lower(run, &buf, s, 0, at);
        }
    }
    return fn_jbuf_take(run, &buf);
}

fn_jval fn_jtext_title(fn_jrun *run, const fn_jstr *s) {
    fn_jbuf buf = {0};
    bool cased_before = false;
    for (size_t at = 0; at < s->n && run->status == FN_OK; at = fn_jstr_next(s, at)) {
        if (cased_before) {
            add_lower(run, &buf, s, 0, at);
        } else {
            add_mapped(run, &buf, s, at, FN_JCASE_TITLE);
        }
        cased_before = fn_junicode_is_cased(fn_jstr_char(s, at));
    }
    return fn_jbuf_take(run, &buf);
}

fn_jval fn_jtext_swapcase(fn_jrun *run, const fn_jstr *s) {
    fn_jbuf buf = {0};
    for (size_t at = 0; at < s->n && run->status == FN_OK; at = fn_jstr_next(s, at)) {
        uint32_t c = fn_jstr_char(s, at);
        if (fn_junicode_is_upper(c)) {
            add_lower(run, &buf, s, 0, at);
        } else {
            add_mapped(run, &buf, s, at, fn_junicode_is_lower(c) ? FN_JCASE_UPPER : FN_JCASE_LOWER);
        }
    }
    return fn_jbuf_take(run, &buf);
}

/* The title filter splits at runs of these; what follows one begins with a capital. */
static bool splits_words(uint32_t c) {
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || fn_junicode_is_space(c);
}

fn_jval fn_jtext_filter_title(fn_jrun *run, const fn_jstr *s) {
    fn_jbuf buf = {0};
    bool in_split = false;
    size_t rest = 0; /* lower() sees a word without its first character */
    for (size_t at = 0; at < s->n && run->status == FN_OK; at = fn_jstr_next(s, at)) {
        bool split = splits_words(fn_jstr_char(s, at));
        bool first = at == 0 || split != in_split;
        in_split = split;
        if (first) {
            rest = fn_jstr_next(s, at);
            add_mapped(run, &buf, s, at, FN_JCASE_UPPER);
        } else {
            add_lower(run, &buf, s, rest, at);
        }
    }
    return fn_jbuf_take(run, &buf);
}

static size_t skip_space(const fn_jstr *s, size_t at) {
    while (at < s->n && fn_junicode_is_space(fn_jstr_char(s, at))) {
        at = fn_jstr_next(s, at);
    }
    return at;
}

static bool push_part(fn_jrun *run, fn_jlist *list, const fn_jstr *s, size_t begin, size_t end) {
    return fn_jrun_step(run, 1) && fn_jlist_push(run, list, fn_jstr_sub(run, s, begin, end));
}

static bool split_space(fn_jrun *run, const fn_jstr *s, int64_t limit, fn_jlist *out) {
    size_t at = skip_space(s, 0);
    while (at < s->n) {
        size_t end = at;
        if (limit >= 0 && (int64_t)out->n == limit) {
            return push_part(run, out, s, at, s->n);
        }
        while (end < s->n && !fn_junicode_is_space(fn_jstr_char(s, end))) {
            end = fn_jstr_next(s, end);
        }
        if (!push_part(run, out, s, at, end)) {
            return false;
        }
        at = skip_space(s, end);
    }
    return true;
}

static fn_jval list_of(fn_jrun *run, const fn_jlist *list) {
    return run->status == FN_OK ? fn_j_seq(run, FN_JSEQ_LIST, list->items, list->n) : fn_j_fail();
}

fn_jval fn_jtext_split(fn_jrun *run, const fn_jstr *s, const fn_jstr *separator, int64_t limit) {
    fn_jlist out = {0};
    if (separator == NULL) {
        return split_space(run, s, limit, &out) ? list_of(run, &out) : fn_j_fail();
    }
    if (separator->n == 0) {
        return fn_jrun_error(run, "empty separator");
    }
    size_t at = 0;
    while (limit < 0 || (int64_t)out.n < limit) {
        size_t hit = fn_jstr_find(run, s, separator, at);
        if (hit == SIZE_MAX || !push_part(run, &out, s, at, hit)) {
            break;
        }
        at = hit + separator->n;
    }
    return push_part(run, &out, s, at, s->n) ? list_of(run, &out) : fn_j_fail();
}

static void turn_round(fn_jlist *list) {
    for (size_t i = 0; i < list->n / 2; i++) {
        fn_jval other = list->items[list->n - 1 - i];
        list->items[list->n - 1 - i] = list->items[i];
        list->items[i] = other;
    }
}

static size_t space_end(const fn_jstr *s, size_t end) {
    while (end > 0 && fn_junicode_is_space(fn_jstr_char(s, before(s, end)))) {
        end = before(s, end);
    }
    return end;
}

static bool rsplit_space(fn_jrun *run, const fn_jstr *s, int64_t limit, fn_jlist *out) {
    size_t end = space_end(s, s->n);
    while (end > 0) {
        if (limit >= 0 && (int64_t)out->n == limit) {
            return push_part(run, out, s, 0, end);
        }
        size_t begin = end;
        while (begin > 0 && !fn_junicode_is_space(fn_jstr_char(s, before(s, begin)))) {
            begin = before(s, begin);
        }
        if (!push_part(run, out, s, begin, end)) {
            return false;
        }
        end = space_end(s, begin);
    }
    return true;
}

fn_jval fn_jtext_rsplit(fn_jrun *run, const fn_jstr *s, const fn_jstr *separator, int64_t limit) {
    fn_jlist out = {0};
    bool ok = true;
    if (separator == NULL) {
        ok = rsplit_space(run, s, limit, &out);
    } else if (separator->n == 0) {
        return fn_jrun_error(run, "empty separator");
    } else {
        size_t end = s->n;
        while (limit < 0 || (int64_t)out.n < limit) {
            size_t hit = fn_jstr_rfind(run, s, separator, end);
            if (hit == SIZE_MAX || !push_part(run, &out, s, hit + separator->n, end)) {
                break;
            }
            end = hit;
        }
        ok = push_part(run, &out, s, 0, end);
    }
    turn_round(&out);
    return ok ? list_of(run, &out) : fn_j_fail();
}

bool fn_jtext_lines(fn_jrun *run, const fn_jstr *s, bool keep_ends, fn_jlist *out) {
    size_t begin = 0;
    size_t at = 0;
    while (at < s->n) {
        uint32_t c = fn_jstr_char(s, at);
        size_t next = fn_jstr_next(s, at);
        if (!fn_junicode_is_line_break(c)) {
            at = next;
            continue;
        }
        if (c == '\r' && next < s->n && s->p[next] == '\n') {
            next++;
        }
        if (!push_part(run, out, s, begin, keep_ends ? next : at)) {
            return false;
        }
        begin = next;
        at = next;
    }
    return begin == s->n || push_part(run, out, s, begin, s->n);
}

fn_jval fn_jtext_join(fn_jrun *run, const fn_jstr *separator, const fn_jval *items, size_t n,
                      bool strict) {
    fn_jbuf buf = {0};
    for (size_t i = 0; i < n; i++) {
        if (!fn_jrun_step(run, 1)) {
            return fn_j_fail();
        }
        if (strict && items[i].type != FN_J_STRING) {
            return fn_jrun_error(run, "sequence item %zu: expected str instance, %s found", i,
                                 fn_j_type_name(items[i]));
        }
        if (i > 0) {
            fn_jbuf_add_str(run, &buf, separator);
        }
        fn_j_write_str(run, &buf, items[i]);
    }
    return fn_jbuf_take(run, &buf);
}

fn_jval fn_jtext_pad(fn_jrun *run, const fn_jstr *s, char align, int64_t width, uint32_t fill) {
    int64_t have = (int64_t)s->n_chars;
    if (width <= have) {
        return fn_j_str(s);
    }
    if ((uint64_t)width > run->limits.output_bytes) {
        return fn_jrun_limit(run, "more than %zu bytes of text", run->limits.output_bytes);
    }
    int64_t pad = width - have;
    /* As str.center: the odd one goes left when the width is odd. */
    int64_t left = align == '>' ? pad : align == '^' ? pad / 2 + (pad & width & 1) : 0;
    fn_jbuf buf = {0};
    for (int64_t i = 0; i < left; i++) {
        fn_jbuf_add_char(run, &buf, fill, false);
    }
    fn_jbuf_add_str(run, &buf, s);
    for (int64_t i = left; i < pad; i++) {
        fn_jbuf_add_char(run, &buf, fill, false);
    }
    return fn_jbuf_take(run, &buf);
}
