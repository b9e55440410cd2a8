#include <string.h>

#include "state/state.h"

static size_t round_up(size_t n, size_t step) {
    return (n + step - 1) / step * step;
}

void fn_state_layout_init(const fn_shape *s, bool mtp_loaded, fn_precision precision,
                          fn_state_layout *out) {
    size_t m = mtp_loaded ? s->n_mtp : 0;
    size_t kv = precision == FN_PRECISION_EXACT ? sizeof(float) : sizeof(uint16_t);
    memset(out, 0, sizeof *out);
    out->index_ratio = s->has_indexer ? s->index_ratio : 1;
    out->precision = precision;
    out->eos_id = s->eos_id;
    out->mtp = m > 0;
#define FN_PART_FILL(name, words, kind, n_layers, n_heads, n_values, bytes)                        \
    out->part[FN_PART_##name] = (fn_part_layout){.text = (words),                                  \
                                                 .storage = FN_STORE_##kind,                       \
                                                 .layers = (n_layers),                             \
                                                 .heads = (n_heads),                               \
                                                 .values = (n_values),                             \
                                                 .value_bytes = (bytes)};
    FN_STATE_PARTS(FN_PART_FILL)
#undef FN_PART_FILL
    for (size_t i = 0; i < FN_PARTS; i++) {
        fn_part_layout *p = &out->part[i];
        p->row_bytes = p->heads * p->values * p->value_bytes;
        if (p->storage == FN_STORE_RECURRENT) {
            p->offset = out->recurrent_bytes;
            p->stride = round_up(p->row_bytes, 64);
            out->recurrent_bytes += p->layers * p->stride;
        } else {
            p->table = out->n_tables;
            out->n_tables += p->layers;
        }
    }
}

size_t fn_state_recurrent_bytes(const fn_state_layout *layout) {
    return 2 * layout->recurrent_bytes;
}

size_t fn_state_paged_bytes(const fn_state_layout *layout, size_t n_tokens) {
    size_t bytes = 0;
    for (size_t i = 0; i < FN_PARTS; i++) {
        const fn_part_layout *p = &layout->part[i];
        if (p->storage == FN_STORE_RECURRENT) {
            continue;
        }
        size_t rows = p->storage == FN_STORE_TOKENS ? n_tokens : n_tokens / layout->index_ratio;
        bytes += p->layers * round_up(rows, FN_PAGE_ROWS) * p->row_bytes;
    }
    return bytes;
}
