/* json.dumps as the tojson filter of transformers calls it (jinja_repr.h). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tokens/jinja_repr.h"
#include "tokens/jinja_run.h"
#include "tokens/jinja_sort.h"

typedef struct dumper {
    fn_jrun *run;
    fn_jbuf buf;
    const fn_jjson_style *style;
} dumper;

static void dump(dumper *d, fn_jval v, size_t depth);

static void dump_escape(dumper *d, uint32_t c, bool tainted) {
    static const char names[] = "\b\f\n\r\t\"\\";
    static const char letters[] = "bfnrt\"\\";
    char text[16];
    int n = 0;
    const char *named = c != 0 && c < 0x80 ? strchr(names, (int)c) : NULL;
    if (named != NULL) {
        n = snprintf(text, sizeof text, "\\%c", letters[named - names]);
    } else if (c < 0x10000) {
        n = snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
    } else {
        n = snprintf(text, sizeof text, "\\u%04x\\u%04x", (unsigned)(0xD7C0u + (c >> 10)),
                     (unsigned)(0xDC00u + (c & 0x3FFu)));
    }
    fn_jbuf_add(d->run, &d->buf, text, (size_t)n, tainted);
}

static void dump_string(dumper *d, const fn_jstr *s) {
    fn_jbuf_add_text(d->run, &d->buf, "\"");
    size_t from = 0;
    for (size_t at = 0; at < s->n; at++) {
        unsigned char c = (unsigned char)s->p[at];
        bool plain = c >= 0x20 && c != '"' && c != '\\' && (c < 0x7F || !d->style->ensure_ascii);
        if (plain) {
            continue;
        }
        fn_jbuf_add_part(d->run, &d->buf, s, from, at);
        dump_escape(d, fn_jstr_char(s, at), fn_jstr_taint_at(s, at));
        from = fn_jstr_next(s, at);
        at = from - 1;
    }
    fn_jbuf_add_part(d->run, &d->buf, s, from, s->n);
    fn_jbuf_add_text(d->run, &d->buf, "\"");
}

static void dump_line(dumper *d, size_t depth) {
    if (d->style->indent == NULL) {
        return;
    }
    fn_jbuf_add_text(d->run, &d->buf, "\n");
    for (size_t i = 0; i < depth; i++) {
        fn_jbuf_add_str(d->run, &d->buf, d->style->indent);
    }
}

static void dump_seq(dumper *d, const fn_jseq *seq, size_t depth) {
    if (seq->n == 0) {
        fn_jbuf_add_text(d->run, &d->buf, "[]");
        return;
    }
    fn_jbuf_add_text(d->run, &d->buf, "[");
    for (size_t i = 0; i < seq->n; i++) {
        if (i > 0) {
            fn_jbuf_add_str(d->run, &d->buf, d->style->item_separator);
        }
        dump_line(d, depth + 1);
        dump(d, seq->items[i], depth + 1);
    }
    dump_line(d, depth);
    fn_jbuf_add_text(d->run, &d->buf, "]");
}

static void dump_float(dumper *d, double value) {
    if (isnan(value) || isinf(value)) {
        fn_jbuf_add_text(d->run, &d->buf,
                         isnan(value) ? "NaN"
                         : value < 0  ? "-Infinity"
                                      : "Infinity");
        return;
    }
    fn_j_write_str(d->run, &d->buf, fn_j_float(value));
}

static void dump_scalar(dumper *d, fn_jval v) {
    if (v.type == FN_J_BOOL) {
        fn_jbuf_add_text(d->run, &d->buf, v.as.b ? "true" : "false");
    } else if (v.type == FN_J_NONE) {
        fn_jbuf_add_text(d->run, &d->buf, "null");
    } else if (v.type == FN_J_FLOAT) {
        dump_float(d, v.as.d);
    } else {
        fn_j_write_str(d->run, &d->buf, v);
    }
}

static void dump_key(dumper *d, fn_jval key) {
    if (key.type == FN_J_STRING) {
        dump_string(d, key.as.s);
        return;
    }
    if (!fn_j_is_number(key) && key.type != FN_J_NONE) {
        (void)fn_jrun_error(d->run, "keys must be str, int, float, bool or None, not %s",
                            fn_j_type_name(key));
        return;
    }
    fn_jbuf_add_text(d->run, &d->buf, "\"");
    dump_scalar(d, key);
    fn_jbuf_add_text(d->run, &d->buf, "\"");
}

static void dump_dict(dumper *d, const fn_jdict *dict, size_t depth) {
    if (dict->n == 0) {
        fn_jbuf_add_text(d->run, &d->buf, "{}");
        return;
    }
    const fn_jentry *entries = dict->entries;
    if (d->style->sort_keys) {
        entries = fn_jsort_entries(d->run, dict);
        if (entries == NULL) {
            return;
        }
    }
    fn_jbuf_add_text(d->run, &d->buf, "{");
    for (size_t i = 0; i < dict->n && d->run->status == FN_OK; i++) {
        if (i > 0) {
            fn_jbuf_add_str(d->run, &d->buf, d->style->item_separator);
        }
        dump_line(d, depth + 1);
        dump_key(d, entries[i].key);
        fn_jbuf_add_str(d->run, &d->buf, d->style->key_separator);
        dump(d, entries[i].value, depth + 1);
    }
    dump_line(d, depth);
    fn_jbuf_add_text(d->run, &d->buf, "}");
}

static void dump(dumper *d, fn_jval v, size_t depth) {
    if (!fn_jrun_depth_ok(d->run, depth) || !fn_jrun_step(d->run, 1)) {
        return;
    }
    if (v.type == FN_J_STRING) {
        dump_string(d, v.as.s);
    } else if (v.type == FN_J_DICT) {
        dump_dict(d, v.as.dict, depth);
    } else if (v.type == FN_J_SEQ && v.as.seq->kind <= FN_JSEQ_GROUP) {
        dump_seq(d, v.as.seq, depth);
    } else if (fn_j_is_number(v) || v.type == FN_J_NONE) {
        dump_scalar(d, v);
    } else {
        (void)fn_jrun_error(d->run, "Object of type %s is not JSON serializable",
                            fn_j_type_name(v));
    }
}

fn_jval fn_j_to_json(fn_jrun *run, fn_jval v, const fn_jjson_style *style) {
    dumper d = {.run = run, .style = style};
    dump(&d, v, 0);
    return fn_jbuf_take(run, &d.buf);
}
