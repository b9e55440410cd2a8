/* QSA indexer: which keys a query may read. Reference: Qwen4ExpTextQSAIndexer.
 *   Every `ratio` tokens make a block; its key = rope(rmsnorm(mean of the raw keys), position of the block's
 *   first token), kept once ("pooled"). A query that sees n tokens has n / ratio complete blocks:
 *   score_b = sum over heads of relu(q_h . key_b) / sqrt(Di);  the best budget / ratio blocks are read, and all
 *   tokens of the open block. Ties: higher score, then lower block. */
#include <math.h>
#include <string.h>

#include "layers/layers.h"

typedef struct pool_job {
    const fn_attention_weights *w;
    size_t index;
    const fn_step_segment *segment;
} pool_job;

static size_t index_width(const fn_step *s) {
    return (s->shape->index_heads + 1) * s->shape->index_dim;
}

static const float *raw_key(const fn_step *s, size_t row) {
    return s->index_qk + row * index_width(s) + s->shape->index_heads * s->shape->index_dim;
}

/* Token `at` of the sequence: its raw key and position, from the step's rows or the state's open block. */
static const float *key_at(const fn_step *s, const pool_job *j, size_t at) {
    const fn_step_segment *g = j->segment;
    if (at >= g->length) {
        return raw_key(s, g->first + at - g->length);
    }
    const float *open = g->open != NULL ? g->open->keys
                                        : fn_recurrent_view(s->layout, fn_state_before(g->state),
                                                            s->parts->raw_keys, j->index);
    return open + at % s->shape->index_ratio * s->shape->index_dim;
}

static const int32_t *position_at(const fn_step *s, const fn_step_segment *g, size_t at) {
    if (at >= g->length) {
        return s->positions + 3 * (g->first + at - g->length);
    }
    const int32_t *open = g->open != NULL ? g->open->positions
                                          : fn_recurrent_view(s->layout, fn_state_before(g->state),
                                                              s->parts->positions, 0);
    return open + 3 * (at % s->shape->index_ratio);
}

static void *pooled_key(const fn_step *s, const fn_step_segment *g, size_t index, size_t block) {
    uint8_t *page = fn_state_page(g->state, s->parts->pooled, index, block / FN_PAGE_ROWS);
    return page + block % FN_PAGE_ROWS * s->layout->part[s->parts->pooled].row_bytes;
}

#define MAX_ROTARY 4096 /* shape allows heads of 4096 */

static void pool_blocks(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    const pool_job *j = ctx;
    const fn_step_segment *g = j->segment;
    size_t ratio = s->shape->index_ratio;
    size_t d = s->shape->index_dim;
    float share = 1.0f / (float)ratio;
    float cosines[MAX_ROTARY / 2];
    float sines[MAX_ROTARY / 2];
    float *key = s->pooled + thread * d;
    for (size_t i = begin; i < end; i++) {
        size_t block = g->length / ratio + i;
        memcpy(key, key_at(s, j, block * ratio), d * sizeof *key);
        for (size_t t = 1; t < ratio; t++) {
            s->k->add(key, key_at(s, j, block * ratio + t), d);
        }
        for (size_t c = 0; c < d; c++) {
            key[c] *= share;
        }
        s->k->rms_norm(key, key, j->w->index_k_norm, d, s->shape->norm_eps);
        fn_rope_angles(s->shape, position_at(s, g, block * ratio), cosines, sines);
        s->k->rope(key, cosines, sines, s->shape->rotary);
        if (s->layout->precision == FN_PRECISION_EXACT) {
            memcpy(pooled_key(s, g, j->index, block), key, d * sizeof *key);
        } else {
            s->k->f32_to_bf16(pooled_key(s, g, j->index, block), key, d);
        }
    }
}

/* The open block after row t of the segment: raw keys of this layer, and (once) the positions. */
static void keep_open(const fn_step *s, const pool_job *j, size_t t) {
    const fn_step_segment *g = j->segment;
    size_t ratio = s->shape->index_ratio;
    size_t d = s->shape->index_dim;
    bool with_positions = s->parts->keeps_positions && j->index == 0;
    uint8_t *after = fn_state_after(g->state, g->skipped + t);
    if (after == NULL) {
        return;
    }
    float *keys = fn_recurrent_part(s->layout, after, s->parts->raw_keys, j->index);
    int32_t *positions = fn_recurrent_part(s->layout, after, s->parts->positions, 0);
    size_t length = g->length + t + 1;
    size_t first = length / ratio * ratio;
    memset(keys, 0, ratio * d * sizeof *keys);
    if (with_positions) {
        memset(positions, 0, ratio * 3 * sizeof *positions);
    }
    for (size_t at = first; at < length; at++) {
        memcpy(keys + at % ratio * d, key_at(s, j, at), d * sizeof *keys);
        if (with_positions) {
            memcpy(positions + 3 * (at % ratio), position_at(s, g, at), 3 * sizeof *positions);
        }
    }
}

/* A draft's raw key and position stay in its chain's own block. */
static void keep_draft(const fn_step *s, const pool_job *j, size_t t) {
    const fn_step_segment *g = j->segment;
    size_t slot = (g->length + t) % s->shape->index_ratio;
    size_t d = s->shape->index_dim;
    memcpy(g->open->keys + slot * d, raw_key(s, g->first + t), d * sizeof(float));
    memcpy(g->open->positions + 3 * slot, s->positions + 3 * (g->first + t), 3 * sizeof(int32_t));
}

void fn_indexer_pool(const fn_step *s, const fn_attention_weights *w, size_t index) {
    size_t ratio = s->shape->index_ratio;
    for (size_t i = 0; i < s->n_segments; i++) {
        pool_job j = {w, index, &s->segments[i]};
        size_t before = j.segment->length / ratio;
        size_t after = (j.segment->length + j.segment->n) / ratio;
        fn_step_each(s, after - before, pool_blocks, &j);
        for (size_t t = 0; t < j.segment->n; t++) {
            if (j.segment->open != NULL) {
                keep_draft(s, &j, t);
            } else {
                keep_open(s, &j, t);
            }
        }
    }
}

void fn_indexer_score(const fn_step *s, size_t index, size_t row, size_t begin, size_t end,
                      float *scores) {
    const fn_step_segment *g = fn_step_segment_of(s, row);
    size_t heads = s->shape->index_heads;
    size_t d = s->shape->index_dim;
    float scale = 1.0f / sqrtf((float)d);
    while (begin < end) {
        size_t n = FN_PAGE_ROWS - begin % FN_PAGE_ROWS;
        n = n < end - begin ? n : end - begin;
        const void *keys = pooled_key(s, g, index, begin);
        if (s->layout->precision == FN_PRECISION_EXACT) {
            s->k->index_scores(scores, s->index_qk + row * index_width(s), heads, keys, n, d,
                               scale);
        } else {
            s->k->index_scores_bf16(scores, s->index_q_bf16 + row * heads * d, heads, keys, n, d,
                                    scale);
        }
        scores += n;
        begin += n;
    }
}

/* A larger number for a better block: higher score first, then the lower index. Scores are >= 0. */
static uint64_t rank_of(float score, size_t block) {
    uint32_t bits = 0;
    if (score != 0.0f) { /* -0 ranks as 0 */
        memcpy(&bits, &score, sizeof bits);
    }
    return (uint64_t)bits << 32 | (UINT32_MAX - (uint32_t)block);
}

/* The m-th largest (m from 1) of n distinct numbers; reorders them. Hoare's selection. */
static uint64_t select_largest(uint64_t *a, size_t n, size_t m) {
    ptrdiff_t low = 0;
    ptrdiff_t high = (ptrdiff_t)n - 1;
    ptrdiff_t want = (ptrdiff_t)m - 1;
    while (low < high) {
        uint64_t pivot = a[low + (high - low) / 2];
        ptrdiff_t i = low;
        ptrdiff_t j = high;
        while (i <= j) {
            while (a[i] > pivot) {
                i++;
            }
            while (a[j] < pivot) {
                j--;
            }
            if (i <= j) {
                uint64_t swap = a[i];
                a[i++] = a[j];
                a[j--] = swap;
            }
        }
        if (want <= j) {
            high = j;
        } else if (want >= i) {
            low = i;
        } else {
            break; /* between the halves stands the pivot alone */
        }
    }
    return a[want];
}

size_t fn_indexer_choose(const float *scores, size_t n_blocks, size_t n_chosen, size_t ratio,
                         size_t visible, uint64_t *order, int32_t *keys) {
    size_t n = 0;
    uint64_t least = 0;
    if (n_blocks > n_chosen) {
        for (size_t b = 0; b < n_blocks; b++) {
            order[b] = rank_of(scores[b], b);
        }
        least = select_largest(order, n_blocks, n_chosen);
    }
    for (size_t b = 0; b < n_blocks; b++) {
        if (n_blocks > n_chosen && rank_of(scores[b], b) < least) {
            continue;
        }
        for (size_t t = 0; t < ratio; t++) {
            keys[n++] = (int32_t)(b * ratio + t);
        }
    }
    for (size_t at = n_blocks * ratio; at < visible; at++) {
        keys[n++] = (int32_t)at;
    }
    return n;
}
