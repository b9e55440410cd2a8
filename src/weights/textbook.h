/* weights/textbook.h - the published back-of-envelope estimate of the model's sizes.
 *
 * Counts:  L layers (n_lin delta, n_attn attention), D hidden, E experts of width I, K chosen, S
 *          shared width, r rank, Kd = Hk*dk, Vd = Hv*dv:
 *            routed      E * 3*D*I * L                    shared     3*D*S*L + L*(E + 1)*D
 *            delta net   n_lin * (D*(2*Kd + Vd) + 2*D*Vd + 2*D*Hv)
 *            attention   n_attn * (3*D*H*Dh + 2*D*Hkv*Dh) streams    (2*L + 1) * 2*hc*D*r
 *            embedding   2*V*D                            n-gram     rows * row width
 *            KV          2 * n_attn * tokens * Hkv*Dh     recurrent  n_lin * Hv*dk*dv * 4 bytes
 *            active      K * 3*D*I * L + shared + delta net + attention + streams
 *          It leaves out n-gram projections, indexer, MTP, vision, scales: weights/plan.h has those.
 * Threads: stateless. Memory:  a plain value. */
#ifndef FN_WEIGHTS_TEXTBOOK_H
#define FN_WEIGHTS_TEXTBOOK_H

#include <stddef.h>
#include <stdint.h>

#include "shape/shape.h"

typedef struct fn_textbook {
    uint64_t routed, shared, delta_net, attention, streams, embedding; /* numbers */
    uint64_t dense;                                                    /* all five but routed */
    uint64_t ngram;
    uint64_t active, active_experts, active_dense_with_head;
    uint64_t recurrent_bytes;
} fn_textbook;

fn_textbook fn_textbook_of(const fn_shape *shape);

/* Keys and values of `tokens` tokens at 16 bits. */
uint64_t fn_textbook_kv_bytes(const fn_shape *shape, size_t tokens);

/* Bytes that one token reads: trunk and head at trunk_bits, chosen experts at expert_bits. */
uint64_t fn_textbook_read_bytes(const fn_textbook *book, int trunk_bits, int expert_bits);

#endif
