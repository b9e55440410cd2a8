/* shape/config_parts.h - the groups of config keys that need more than a bounded read.
 *
 * Each fills its fields of the shape, or leaves a failure in the reader. Order: layers, then (once
 * hidden, vocab and head_dim are there) the others. */
#ifndef FN_SHAPE_CONFIG_PARTS_H
#define FN_SHAPE_CONFIG_PARTS_H

#include "shape/config_reader.h"
#include "shape/shape.h"

/* num_hidden_layers and layer_types, or full_attention_interval. */
void fn_config_read_layers(fn_config_reader *r, fn_shape *s);
/* rope_parameters (new spelling), rope_scaling and keys of the text config (old one). */
void fn_config_read_rope(fn_config_reader *r, fn_shape *s);
/* The five indexer keys: all or none. */
void fn_config_read_indexer(fn_config_reader *r, fn_shape *s);
/* ple_layer_ids, the n-gram keys and eos_token_id. */
void fn_config_read_ngram(fn_config_reader *r, fn_shape *s);
/* Whether there is a vision_config, and the placeholders' ids. */
void fn_config_read_vision(fn_config_reader *r, fn_shape *s);

#endif
