#include "tokens/jinja_repr.h"

#include <stdio.h>
#include <string.h>

#include "tokens/jinja_number.h"
#include "tokens/jinja_run.h"
#include "tokens/jinja_unicode.h"

static void write_repr(fn_jrun *run, fn_jbuf *buf, fn_jval v, size_t depth);

static void write_escape(fn_jrun *run, fn_jbuf *buf, uint32_t c, bool tainted) {
    char text[16];
    const char *named = c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : NULL;
    if (named != NULL) {
        fn_jbuf_add(run, buf, named, 2, tainted);
        return;
    }
    int n = 0;
    if (c < 0x100) {
        n = snprintf(text, sizeof text, "\\x%02x", (unsigned)c);
    } else if (c < 0x10000) {
        n = snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
    } else {
        n = snprintf(text, sizeof text, "\\U%08x", (unsigned)c);
    }
    fn_jbuf_add(run, buf, text, (size_t)n, tainted);
}

static void repr_string(fn_jrun *run, fn_jbuf *buf, const fn_jstr *s) {
    bool single = memchr(s->p, '\'', s->n) != NULL;
    bool both = single && memchr(s->p, '"', s->n) != NULL;
    const char *quote = single && !both ? "\"" : "'";
    if (s->markup) {
        fn_jbuf_add_text(run, buf, "Markup(");
    }
    fn_jbuf_add(run, buf, quote, 1, false);
    size_t from = 0;
    for (size_t at = 0; at < s->n; at = fn_jstr_next(s, at)) {
        uint32_t c = fn_jstr_char(s, at);
        bool backslash = c == '\\' || c == (unsigned char)quote[0];
        if (!backslash && fn_junicode_is_printable(c)) {
            continue;
        }
        fn_jbuf_add_part(run, buf, s, from, at);
        from = fn_jstr_next(s, at);
        bool tainted = fn_jstr_taint_at(s, at);
        if (backslash) {
            fn_jbuf_add(run, buf, "\\", 1, tainted);
            fn_jbuf_add_part(run, buf, s, at, from);
        } else {
            write_escape(run, buf, c, tainted);
        }
    }
    fn_jbuf_add_part(run, buf, s, from, s->n);
    fn_jbuf_add(run, buf, quote, 1, false);
    if (s->markup) {
        fn_jbuf_add_text(run, buf, ")");
    }
}

static void repr_items(fn_jrun *run, fn_jbuf *buf, const fn_jseq *seq, size_t depth) {
    for (size_t i = 0; i < seq->n; i++) {
        if (i > 0) {
            fn_jbuf_add_text(run, buf, ", ");
        }
        write_repr(run, buf, seq->items[i], depth + 1);
    }
}

static void repr_seq(fn_jrun *run, fn_jbuf *buf, const fn_jseq *seq, size_t depth) {
    static const char *const open[] = {
        [FN_JSEQ_LIST] = "[",
        [FN_JSEQ_TUPLE] = "(",
        [FN_JSEQ_GROUP] = "(",
        [FN_JSEQ_RANGE] = "range(",
        [FN_JSEQ_KEYS] = "dict_keys([",
        [FN_JSEQ_VALUES] = "dict_values([",
        [FN_JSEQ_ITEMS] = "dict_items([",
    };
    static const char *const close[] = {
        [FN_JSEQ_LIST] = "]",   [FN_JSEQ_TUPLE] = ")", [FN_JSEQ_GROUP] = ")",
        [FN_JSEQ_RANGE] = ")",  [FN_JSEQ_KEYS] = "])", [FN_JSEQ_VALUES] = "])",
        [FN_JSEQ_ITEMS] = "])",
    };
    fn_jbuf_add_text(run, buf, open[seq->kind]);
    if (seq->kind == FN_JSEQ_RANGE) {
        char text[80];
        int n =
            snprintf(text, sizeof text, "%lld, %lld", (long long)seq->start, (long long)seq->stop);
        if (seq->step != 1) {
            n += snprintf(text + n, sizeof text - (size_t)n, ", %lld", (long long)seq->step);
        }
        fn_jbuf_add(run, buf, text, (size_t)n, false);
    } else {
        repr_items(run, buf, seq, depth);
    }
    bool one = seq->n == 1 && (seq->kind == FN_JSEQ_TUPLE || seq->kind == FN_JSEQ_GROUP);
    fn_jbuf_add_text(run, buf, one ? "," : "");
    fn_jbuf_add_text(run, buf, close[seq->kind]);
}

static void repr_dict(fn_jrun *run, fn_jbuf *buf, const fn_jdict *dict, size_t depth) {
    fn_jbuf_add_text(run, buf, "{");
    for (size_t i = 0; i < dict->n; i++) {
        fn_jbuf_add_text(run, buf, i > 0 ? ", " : "");
        write_repr(run, buf, dict->entries[i].key, depth + 1);
        fn_jbuf_add_text(run, buf, ": ");
        write_repr(run, buf, dict->entries[i].value, depth + 1);
    }
    fn_jbuf_add_text(run, buf, "}");
}

static void write_number(fn_jrun *run, fn_jbuf *buf, fn_jval v) {
    char text[FN_JNUM_REPR_BYTES];
    if (v.type == FN_J_BOOL) {
        fn_jbuf_add_text(run, buf, v.as.b ? "True" : "False");
    } else if (v.type == FN_J_BIGINT) {
        fn_jbuf_add_str(run, buf, v.as.s);
    } else if (v.type == FN_J_FLOAT) {
        size_t n = fn_jnum_repr(v.as.d, text);
        fn_jbuf_add(run, buf, text, n, false);
    } else {
        int n = snprintf(text, sizeof text, "%lld", (long long)v.as.i);
        fn_jbuf_add(run, buf, text, (size_t)n, false);
    }
}

static void write_repr(fn_jrun *run, fn_jbuf *buf, fn_jval v, size_t depth) {
    if (!fn_jrun_depth_ok(run, depth) || !fn_jrun_step(run, 1)) {
        return;
    }
    switch (v.type) {
    case FN_J_UNDEFINED:
        fn_jbuf_add_text(run, buf, "Undefined");
        return;
    case FN_J_NONE:
        fn_jbuf_add_text(run, buf, "None");
        return;
    case FN_J_BOOL:
    case FN_J_INT:
    case FN_J_BIGINT:
    case FN_J_FLOAT:
        write_number(run, buf, v);
        return;
    case FN_J_STRING:
        repr_string(run, buf, v.as.s);
        return;
    case FN_J_SEQ:
        repr_seq(run, buf, v.as.seq, depth);
        return;
    case FN_J_DICT:
        repr_dict(run, buf, v.as.dict, depth);
        return;
    case FN_J_NAMESPACE:
        fn_jbuf_add_text(run, buf, "<Namespace ");
        repr_dict(run, buf, v.as.dict, depth);
        fn_jbuf_add_text(run, buf, ">");
        return;
    case FN_J_FAIL:
    case FN_J_MISSING:
    case FN_J_ITER:
    case FN_J_MACRO:
    case FN_J_FUNCTION:
    case FN_J_METHOD:
    case FN_J_LOOP:
    case FN_J_CYCLER:
    case FN_J_JOINER:
        break;
    }
    /* Python prints an address here; nothing can depend on it. */
    fn_jbuf_add_text(run, buf, "<");
    fn_jbuf_add_text(run, buf, fn_j_type_name(v));
    fn_jbuf_add_text(run, buf, " object>");
}

void fn_j_write_str(fn_jrun *run, fn_jbuf *buf, fn_jval v) {
    if (v.type == FN_J_STRING) {
        fn_jbuf_add_str(run, buf, v.as.s);
    } else if (v.type != FN_J_UNDEFINED) {
        write_repr(run, buf, v, 0);
    }
}

fn_jval fn_j_to_str(fn_jrun *run, fn_jval v) {
    if (v.type == FN_J_STRING || fn_j_failed(v)) {
        return v;
    }
    fn_jbuf buf = {0};
    fn_j_write_str(run, &buf, v);
    return fn_jbuf_take(run, &buf);
}

fn_jval fn_j_repr(fn_jrun *run, fn_jval v) {
    fn_jbuf buf = {0};
    write_repr(run, &buf, v, 0);
    return fn_jbuf_take(run, &buf);
}
