/* The indexer of sparse attention: five keys, or none for dense attention. */
#include "shape/config_parts.h"

void fn_config_read_indexer(fn_config_reader *r, fn_shape *s) {
    static const char *const keys[] = {"indexer_n_heads", "indexer_kv_heads", "indexer_head_dim",
                                       "indexer_budget", "indexer_compress_ratio"};
    enum { N_KEYS = sizeof keys / sizeof keys[0] };
    size_t values[N_KEYS];
    size_t n_present = 0;
    for (size_t i = 0; i < N_KEYS; i++) {
        n_present += fn_reader_value(r, keys[i]) != NULL ? 1 : 0;
    }
    if (n_present == 0) {
        return;
    }
    for (size_t i = 0; i < N_KEYS; i++) {
        values[i] = fn_reader_size(r, keys[i], 1, (size_t)1 << (i < 3 ? 12 : 28));
    }
    if (r->status != FN_OK) {
        return;
    }
    s->has_indexer = true;
    s->index_heads = values[0];
    s->index_dim = values[2];
    s->index_budget = values[3];
    s->index_ratio = values[4];
    if (values[1] != 1) {
        fn_reader_fail(r, keys[1], "found %zu, expected 1", values[1]);
    } else if (s->index_budget % s->index_ratio != 0) {
        fn_reader_fail(r, keys[3], "found %zu, expected a multiple of %s (%zu)", s->index_budget,
                       keys[4], s->index_ratio);
    } else if (s->rotary > s->index_dim) {
        fn_reader_fail(r, keys[2], "found %zu, expected at least the rotary width (%zu)",
                       s->index_dim, s->rotary);
    }
}
