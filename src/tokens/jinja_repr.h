/* tokens/jinja_repr.h - values as text: Python's str() and repr(), and JSON. */
#ifndef FN_TOKENS_JINJA_REPR_H
#define FN_TOKENS_JINJA_REPR_H

#include "tokens/jinja_string.h"
#include "tokens/jinja_value.h"

/* str(v): what {{ v }} prints. A string value comes back as it is. */
fn_jval fn_j_to_str(fn_jrun *run, fn_jval v);
fn_jval fn_j_repr(fn_jrun *run, fn_jval v);
void fn_j_write_str(fn_jrun *run, fn_jbuf *buf, fn_jval v);

/* json.dumps: indent is NULL (one line) or what each level adds. */
typedef struct fn_jjson_style {
    const fn_jstr *indent;
    const fn_jstr *item_separator;
    const fn_jstr *key_separator;
    bool ensure_ascii;
    bool sort_keys;
} fn_jjson_style;

fn_jval fn_j_to_json(fn_jrun *run, fn_jval v, const fn_jjson_style *style);

#endif
