/* layers/experts.h - the products of the experts that a step's rows chose, and of the shared expert.
 *
 * Path:    moe.c chose (s->chosen) -> [this] -> s->expert_out, s->shared_out, which moe.c sums.
 * Shapes:  letters as in shape/shape.h; items are (row, choice) pairs, R*K of them.
 * Threads: as every layer: called by one, uses the pool. */
#ifndef FN_LAYERS_EXPERTS_H
#define FN_LAYERS_EXPERTS_H

#include "layers/layers.h"

/* expert_out: item i's output is row expert_row[i]; shared_out [R, D]. in: s->mixed with the forms that
 * fn_layer_moe_input asked for. Each expert's weights are read once: by all threads together, tile by tile,
 * where the step has few rows; by one thread with all rows of the expert where it has many. */
void fn_layer_experts(const fn_step *s, const fn_moe_weights *w, const fn_input *in);

#endif
