/* tokens/jinja_sort.h - stable sorting of values by keys, as Python's sorted(). */
#ifndef FN_TOKENS_JINJA_SORT_H
#define FN_TOKENS_JINJA_SORT_H

#include "tokens/jinja_value.h"

/* The order that sorts keys [n]: order[0] is the number of the smallest. NULL after a report. */
const size_t *fn_jsort_order(fn_jrun *run, const fn_jval *keys, size_t n, bool reverse);

/* The entries of dict by key; NULL after a report. */
const fn_jentry *fn_jsort_entries(fn_jrun *run, const fn_jdict *dict);

#endif
