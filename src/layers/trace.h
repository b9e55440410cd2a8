/* layers/trace.h - where the values inside a forward go when somebody watches.
 *
 * Path:    layers and forward -> [this] -> engine's traced runs.
 * Shapes:  beside each kind; row numbers count all segments' rows. */
#ifndef FN_LAYERS_TRACE_H
#define FN_LAYERS_TRACE_H

#include <stddef.h>

typedef enum fn_trace_kind {
    FN_TRACE_STREAMS,        /* [rows, hc*D] float, after layer */
    FN_TRACE_MIXER_OUT,      /* [rows, D] float, of the delta net or attention */
    FN_TRACE_MLP_OUT,        /* [rows, D] float, experts and shared expert */
    FN_TRACE_PLE_OUT,        /* [rows, hc*D] float; layer counts layers with n-gram memory */
    FN_TRACE_ROUTER_IDS,     /* [rows, K] int32 */
    FN_TRACE_ROUTER_WEIGHTS, /* [rows, K] float */
    FN_TRACE_SELECTED, /* [n] int32 positions a row may read; width = n; layer counts attention layers */
    FN_TRACE_NGRAM_ROWS, /* [rows, heads] int64; layer counts layers with n-gram memory */
    FN_TRACE_HIDDEN,     /* [rows, D] float: output of the final mixer */
    /* of the MTP head, each at the row of the pair's second token */
    FN_TRACE_MTP_FUSED,    /* [rows, hc*D] float: what its layer reads */
    FN_TRACE_MTP_STREAMS,  /* [rows, hc*D] float: what its layer gives */
    FN_TRACE_MTP_LOGITS,   /* [rows, V] float */
    FN_TRACE_MTP_SELECTED, /* [n] int32 pairs a pair may read; width = n */
    FN_TRACE_NONE          /* not traced */
} fn_trace_kind;

typedef struct fn_trace {
    /* May be called by several threads at once, for different rows. */
    void (*emit)(void *ud, fn_trace_kind kind, size_t layer, size_t first_row, size_t rows,
                 size_t width, const void *data);
    void *ud;
    float *mtp_logits; /* [V]: room for one row of FN_TRACE_MTP_LOGITS; NULL without an MTP head */
} fn_trace;

#endif
