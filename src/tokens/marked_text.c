#include "tokens/marked_text.h"

#include "tokens/utf8.h"

void fn_spans_copied(fn_span_mover *m, size_t at, size_t n, size_t to) {
    while (m->begins < m->n && m->from[m->begins].begin < at + n) {
        m->to[m->begins].begin = to + (m->from[m->begins].begin - at);
        m->begins++;
    }
    while (m->ends < m->n && m->from[m->ends].end < at + n) {
        m->to[m->ends].end = to + (m->from[m->ends].end - at);
        m->ends++;
    }
}

void fn_spans_replaced(fn_span_mover *m, size_t at, size_t n, size_t to, size_t to_end) {
    while (m->begins < m->n && m->from[m->begins].begin < at + n) {
        m->to[m->begins].begin = to;
        m->begins++;
    }
    while (m->ends < m->n && m->from[m->ends].end < at + n) {
        m->to[m->ends].end = m->from[m->ends].end > at ? to_end : to;
        m->ends++;
    }
}

void fn_spans_finish(fn_span_mover *m, size_t to_end) {
    for (; m->begins < m->n; m->begins++) {
        m->to[m->begins].begin = to_end;
    }
    for (; m->ends < m->n; m->ends++) {
        m->to[m->ends].end = to_end;
    }
}

fn_marked_text fn_marked_slice(const fn_marked_text *text, size_t begin, size_t end,
                               fn_text_span *room) {
    fn_marked_text part = {.bytes = text->bytes + begin, .n = end - begin, .spans = room};
    size_t low = 0; /* the first span that ends behind `begin`, by halving */
    for (size_t high = text->n_spans; low < high;) {
        size_t middle = (low + high) / 2;
        if (text->spans[middle].end > begin) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    for (size_t i = low; i < text->n_spans && text->spans[i].begin < end; i++) {
        fn_text_span span = text->spans[i];
        span.begin = span.begin > begin ? span.begin : begin;
        span.end = span.end < end ? span.end : end;
        if (span.begin < span.end) {
            room[part.n_spans++] = (fn_text_span){span.begin - begin, span.end - begin};
        }
    }
    return part;
}

fn_status fn_marked_repair(const fn_marked_text *text, fn_text_buffer *out, fn_text_span *spans,
                           fn_error *err) {
    const unsigned char *bytes = (const unsigned char *)text->bytes;
    fn_span_mover mover = {.from = text->spans, .to = spans, .n = text->n_spans};
    size_t at = 0;
    while (at < text->n) {
        size_t valid = fn_utf8_valid_prefix(bytes + at, text->n - at);
        fn_spans_copied(&mover, at, valid, out->count);
        fn_status status = fn_text_buffer_append(out, text->bytes + at, valid, err);
        at += valid;
        if (status == FN_OK && at < text->n) {
            size_t bad = 0;
            (void)fn_utf8_next(bytes + at, text->n - at, &bad);
            fn_spans_replaced(&mover, at, bad, out->count, out->count + 3);
            status = fn_text_buffer_append(out, "\xEF\xBF\xBD", 3, err);
            at += bad;
        }
        if (status != FN_OK) {
            return status;
        }
    }
    fn_spans_finish(&mover, out->count);
    return FN_OK;
}
