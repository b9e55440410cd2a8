/* layers/layers.h - the layer kinds. Each takes all rows of a step; equations and reference functions stand
 * on top of each .c file.
 *
 * Shapes: x [R, D] in, y [R, D] out; streams [R, hc*D]. */
#ifndef FN_LAYERS_LAYERS_H
#define FN_LAYERS_LAYERS_H

#include "layers/step.h"

/* embed.c: token rows -> streams, the row repeated hc times; s->embeds replace the table's rows. */
void fn_layer_embed(const fn_step *s);
/* The row [D] of one token of the step, and of any id. */
void fn_embed_row(const fn_step *s, const fn_step_segment *g, size_t t, float *dst);
void fn_embed_table_row(const fn_step *s, int32_t id, float *dst);

/* rope.c: cos and sin of every row's position, for all attention layers of the step. */
void fn_layer_rope(const fn_step *s);
/* cos and sin [rotary/2] of one position (t, h, w). */
void fn_rope_angles(const fn_shape *shape, const int32_t position[3], float *cos, float *sin);

/* hyper.c: s->streams -> s->mixed, with the forms that `next` (of mixed) asks for, and s->inject. pending: the
 * last block's output is not in the streams yet; fn_layer_combine's work is done on the way, one pass less. */
void fn_layer_mix(const fn_step *s, const fn_mixer_weights *w, bool pending, const fn_input *next);
/* The last mixer, which no block follows: streams [rows, hc*D] -> mixed [rows, D]. */
void fn_layer_mix_last(const fn_step *s, const fn_mixer_weights *w, const float *streams,
                       size_t rows, float *mixed, const fn_input *next);
/* streams += inject (x) block_out, for all rows of the step. */
void fn_layer_combine(const fn_step *s);

/* delta.c, attention.c, moe.c: s->mixed -> s->block_out. `index` counts layers of the kind. in: s->mixed with the
 * forms that the layer's ..._input asked for. */
fn_input fn_layer_delta_input(const fn_step *s, const fn_delta_weights *w);
void fn_layer_delta(const fn_step *s, const fn_delta_weights *w, const fn_input *in, size_t index);
fn_input fn_layer_attention_input(const fn_step *s, const fn_attention_weights *w);
void fn_layer_attention(const fn_step *s, const fn_attention_weights *w, const fn_input *in,
                        size_t index);
fn_input fn_layer_moe_input(const fn_step *s, const fn_moe_weights *w);
void fn_layer_moe(const fn_step *s, const fn_moe_weights *w, const fn_input *in, size_t layer);

/* ple.c: begins to read the n-gram rows of every row of the step, for all layers with n-gram memory; once a step,
 * as soon as the ids are known. Fails with FN_E_RANGE. */
FN_NODISCARD fn_status fn_layer_ngram_start(const fn_step *s, fn_error *err);
/* Waits for what is still being read, whatever became of it; once a step, before its buffers are used anew. */
void fn_layer_ngram_end(const fn_step *s);
/* Adds the n-gram memory to s->streams. p counts layers with n-gram memory. Fails with FN_E_IO when the table
 * cannot be read. */
FN_NODISCARD fn_status fn_layer_ple(const fn_step *s, const fn_ple_weights *w, size_t p,
                                    fn_error *err);
/* The n-gram history after every row that keeps a state; once a step. */
void fn_layer_ngram_history(const fn_step *s);

/* indexer.c: which keys a query reads: all of the first `visible`, or the chosen blocks and the open block.
 * scores [complete blocks]; order: scratch of as many. keys: ascending positions; returns how many. */
size_t fn_indexer_choose(const float *scores, size_t n_blocks, size_t n_chosen, size_t ratio,
                         size_t visible, uint64_t *order, int32_t *keys);
/* Pools the blocks that the step's rows complete and keeps the raw keys of the open block. index_qk holds each
 * row's queries (normed, rotated) and raw key. */
void fn_indexer_pool(const fn_step *s, const fn_attention_weights *w, size_t index);
/* scores of blocks [begin, end) for one row. */
void fn_indexer_score(const fn_step *s, size_t index, size_t row, size_t begin, size_t end,
                      float *scores);

#endif
