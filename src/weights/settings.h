/* weights/settings.h - how narrow weights are kept, by class.
 *
 * Path:    engine options -> [this] -> weights/load.h, weights/plan.h.
 * Classes: expert_bits  routed experts
 *          dense_bits   attention and delta-net projections, shared experts, n-gram key and value, stream
 *                       mixers' down and up, LM head (not when it is the embedding too)
 *          the rest     as stored: embedding, norms, router, indexer, in_proj_a/b, gates of one row,
 *                       injection weights, convs */
#ifndef FN_WEIGHTS_SETTINGS_H
#define FN_WEIGHTS_SETTINGS_H

#include "base/status.h"
#include "weights/source.h"

typedef struct fn_weight_settings {
    int expert_bits, dense_bits; /* 4, 8: groups with a scale each; 16: BF16; 32; 0: as stored */
    size_t group;                /* inputs in a group of 4 or 8 bits: 32, 64, 128; 0: 128 */
} fn_weight_settings;

/* Fails with FN_E_USAGE, naming the setting, what was found and what is allowed. */
FN_NODISCARD fn_status fn_weight_settings_check(const fn_weight_settings *settings, fn_error *err);

/* The kind for weights stored as `stored`, and its group. */
fn_matrix_kind fn_weight_kind(int bits, fn_matrix_kind stored);
size_t fn_weight_group(const fn_weight_settings *settings, fn_matrix_kind kind, int bits);

#endif
