/* forward/trunk.h - a range of layers: streams in, streams out, so that machines can share a model. */
#ifndef FN_FORWARD_TRUNK_H
#define FN_FORWARD_TRUNK_H

#include "layers/step.h"

/* Runs layers [first, end) over s->streams. Fails with FN_E_IO when the n-gram table cannot be read,
 * FN_E_CANCELLED when s->go_on says no. */
FN_NODISCARD fn_status fn_trunk_run(fn_step *s, size_t first, size_t end, fn_error *err);

/* One layer over s->streams, its n-gram memory left out; index counts layers of its kind, layer is for traces.
 * pending: as of fn_layer_mix; the output of this layer stays pending, too. */
void fn_trunk_layer(const fn_step *s, const fn_layer_weights *w, fn_layer_kind kind, size_t index,
                    size_t layer, bool pending);

#endif
