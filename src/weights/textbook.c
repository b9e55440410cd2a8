#include "weights/textbook.h"

#include "base/saturate.h"
#include "shape/ngram_constants.h"

static uint64_t ngram_numbers(const fn_shape *s) {
    uint64_t sum = 0;
    for (size_t p = 0; p < s->n_ple; p++) {
        fn_ngram_constants hash;
        fn_ngram_constants_init(s, p, &hash);
        sum = fn_saturate_add(sum,
                              fn_saturate_mul((uint64_t)hash.padded_rows, fn_shape_ngram_row(s)));
    }
    return sum;
}

fn_textbook fn_textbook_of(const fn_shape *s) {
    fn_textbook b = {0};
    uint64_t d = s->hidden;
    uint64_t kd = fn_shape_delta_k(s);
    uint64_t vd = fn_shape_delta_v(s);
    uint64_t expert = FN_PRODUCT(3, d, s->expert_width, s->n_layers);
    b.routed = fn_saturate_mul(s->n_experts, expert);
    b.shared = fn_saturate_add(FN_PRODUCT(3, d, s->shared_width, s->n_layers),
                               FN_PRODUCT(s->n_layers, s->n_experts + 1, d));
    b.delta_net = FN_PRODUCT(s->n_delta, d, (2 * kd + vd) + 2 * vd + 2 * s->delta_v_heads);
    b.attention = FN_PRODUCT(s->n_attention, d, (3 * s->n_heads + 2 * s->n_kv_heads) * s->head_dim);
    b.streams = FN_PRODUCT(2 * s->n_layers + 1, 2, fn_shape_streams(s), s->hc_rank);
    b.embedding = FN_PRODUCT(2, s->vocab, d);
    b.ngram = ngram_numbers(s);
    uint64_t trunk = fn_saturate_add(fn_saturate_add(b.shared, b.delta_net),
                                     fn_saturate_add(b.attention, b.streams));
    b.dense = fn_saturate_add(trunk, b.embedding);
    b.active_experts = fn_saturate_mul(s->n_chosen, expert);
    b.active = fn_saturate_add(b.active_experts, trunk);
    b.active_dense_with_head = fn_saturate_add(trunk, fn_saturate_mul(s->vocab, d));
    b.recurrent_bytes = FN_PRODUCT(s->n_delta, s->delta_v_heads, s->delta_k_dim, s->delta_v_dim, 4);
    return b;
}

uint64_t fn_textbook_kv_bytes(const fn_shape *s, size_t tokens) {
    return FN_PRODUCT(2, s->n_attention, tokens, s->n_kv_heads, s->head_dim, 2);
}

uint64_t fn_textbook_read_bytes(const fn_textbook *book, int trunk_bits, int expert_bits) {
    uint64_t trunk = fn_saturate_mul(book->active_dense_with_head, (uint64_t)trunk_bits);
    uint64_t experts = fn_saturate_mul(book->active_experts, (uint64_t)expert_bits);
    return fn_saturate_add(trunk, experts) / 8;
}
