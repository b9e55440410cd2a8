/* forward/trunk.h - the layers, in parts: streams in, streams out. A layer has two parts: mixer and delta net or
 * attention; mixer and experts. So a forward can end between them, and machines can share a model. */
#ifndef FN_FORWARD_TRUNK_H
#define FN_FORWARD_TRUNK_H

#include "layers/step.h"

#define FN_TRUNK_LAYER_PARTS 2
size_t fn_trunk_parts_of(const fn_shape *shape);

/* What one part runs, over s->streams, after fn_trunk_ngram where a layer begins. Between parts, what the last
 * block put out may still wait in s->block_out and s->inject: the next part adds it. */
void fn_trunk_part(const fn_step *s, size_t part);

/* The n-gram memory in front of a layer, if it has any. Fails with FN_E_IO. */
FN_NODISCARD fn_status fn_trunk_ngram(const fn_step *s, size_t layer, fn_error *err);

/* One layer by itself over s->streams, without n-gram memory, nothing waiting before or after it; index counts
 * layers of its kind, layer is for traces. */
void fn_trunk_layer(const fn_step *s, const fn_layer_weights *w, fn_layer_kind kind, size_t index,
                    size_t layer);

#endif
