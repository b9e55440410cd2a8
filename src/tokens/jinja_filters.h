/* tokens/jinja_filters.h - the filters' tables, joined by fn_jfilter_find (jinja_builtin.h). */
#ifndef FN_TOKENS_JINJA_FILTERS_H
#define FN_TOKENS_JINJA_FILTERS_H

#include "tokens/jinja_builtin.h"

/* Filters of sequences (jinja_filters_seq.c) and those that call filters, tests and attributes for
 * each item (jinja_filters_map.c); NULL when there is none of that name. */
const fn_jbuiltin *fn_jfilter_find_seq(const char *name, size_t n);
const fn_jbuiltin *fn_jfilter_find_map(const char *name, size_t n);

/* item.a.b.0 for "a.b.0", or item[attribute] for a number; MISSING attribute: the item itself.
 * Undefined results become `fallback` unless that is MISSING. */
fn_jval fn_jfilter_attribute(fn_jrun *run, fn_jval item, fn_jval attribute, fn_jval fallback);

/* Strings in lower case, everything else as it is. */
fn_jval fn_jfilter_ignore_case(fn_jrun *run, fn_jval v, bool case_sensitive);

#endif
