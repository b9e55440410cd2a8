/* layers/step.h - the working set of one forward, lent to every layer.
 *
 * Path:    forward/ fills it -> layers read and write its buffers and the states of its segments.
 * Shapes:  R rows of all segments together; letters as in shape/shape.h.
 * Threads: a layer is called by one thread and uses the pool itself.
 * Memory:  all buffers are reserved once, for the largest forward. */
#ifndef FN_LAYERS_STEP_H
#define FN_LAYERS_STEP_H

#include "base/clock.h"
#include "base/pool.h"
#include "flashnext_tools.h"
#include "kernels/kernels.h"
#include "layers/buffers.h"
#include "layers/trace.h"
#include "ngram/ngram_table.h"
#include "state/state.h"
#include "weights/weights.h"

/* The block of an index that is still open, outside of any state: a chain of drafts has its own. */
typedef struct fn_open_block {
    float *keys;        /* [ratio, Di] raw; unused without indexer */
    int32_t *positions; /* [ratio, 3], and of the next token behind the open block's */
} fn_open_block;

/* Floats of a line of the caches. */
#define FN_LINE_FLOATS ((size_t)16)

/* Segments of one forward at most. */
#define FN_STEP_SEGMENTS 256

/* Time by class (flashnext_tools.h): each lap counts what passed since the last one. */
typedef struct fn_step_clock {
    double at;
    double seconds[FN_PROFILE_CLASSES];
} fn_step_clock;

typedef struct fn_step_segment {
    fn_state *state;
    size_t first, n; /* its rows among all rows */
    size_t length;   /* tokens (MTP head: pairs) in the state before them */
    size_t
        skipped; /* rows of the state's forward before its first row here: the MTP head has no pair for a
                        sequence's first token */
    size_t traced;       /* number of its first row in traces */
    fn_open_block *open; /* instead of the state's; NULL for true rows */
} fn_step_segment;

/* The parts of a state that an attention layer works on: the trunk's, or the MTP head's. */
typedef struct fn_attention_parts {
    fn_part keys, values, pooled, raw_keys, positions;
    bool keeps_positions; /* of the open block, after every row; the MTP head keeps its own */
    fn_trace_kind selected, mixer_out, mlp_out, router_ids, router_weights;
} fn_attention_parts;
extern const fn_attention_parts fn_trunk_parts, fn_mtp_parts;

/* One product y = x W^T over rows; x in the form that w takes. */
typedef struct fn_linear {
    const fn_matrix *w;
    const void *x; /* [rows, ldx bytes] */
    size_t ldx;
    float *y; /* [rows, ldy] */
    size_t ldy;
    size_t rows;
    const uint8_t *next; /* weights that the same thread multiplies by next, if that is known */
    bool far;            /* y is read when it has left the caches anyway */
} fn_linear;

typedef struct fn_step {
    const fn_kernels *k;
    fn_pool *pool;
    const fn_weights *weights;
    const fn_shape *shape;
    const fn_state_layout *layout;
    fn_ngram_table *const *tables; /* [n_ple] */
    const fn_trace *trace;         /* or NULL */
    fn_step_clock *clock;          /* or NULL: nothing is timed */
    bool (*go_on)(void *ud);       /* asked before each part of a layer; false: stop. NULL: never */
    void *go_on_ud;

    const fn_step_segment *segments;
    size_t n_segments;
    size_t rows;                     /* R of this forward */
    const int32_t *const *ids;       /* [n_segments]: ids of each segment's rows */
    const float *const *embeds;      /* [n_segments]: rows that replace the table's, or NULL, ... */
    const uint8_t *const *use_embed; /* ... where this says so, or NULL */
    const fn_attention_parts *parts; /* that attention works on */

    size_t max_rows, max_keys, max_blocks; /* what the buffers were reserved for */
#define FN_STEP_FIELD(name, type, elements) type *name;
    FN_STEP_BUFFERS(FN_STEP_FIELD)
#undef FN_STEP_FIELD
} fn_step;

/* A part [begin, end) of n independent things, on one thread. */
typedef void (*fn_part_job)(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread);
/* Splits n things among the threads, in order; a single one stays on the caller's. */
void fn_step_each(const fn_step *s, size_t n, fn_part_job job, void *ctx);

/* Whether n floats that are written are too many to be found in a cache when they are read. */
static inline bool fn_step_far(size_t n) {
    return n * sizeof(float) >= (size_t)8 << 20;
}

/* Runs independent products together: threads get contiguous runs of output tiles, or rows where a matrix
 * has few tiles; never a part of a sum. */
void fn_step_linear(const fn_step *s, const fn_linear *units, size_t n_units);
/* The part of one product that one thread does: tiles and rows from [0] up to [1]. */
void fn_step_product(const fn_step *s, const fn_linear *u, const size_t tiles[2],
                     const size_t rows[2]);

/* ---- inputs: float32 rows, and the same rows in the forms that their matrices take (kernels/row.h) ---- */

#define FN_INPUT_FORMS                                                                             \
    3 /* of matrices that read one input: BF16, and INT8 in up to two group sizes */

typedef struct fn_input {
    const float *x; /* [rows, cols] */
    uint8_t *room;  /* where the forms stand; NULL: in the step's common room */
    size_t cols, n_forms;
    struct fn_input_form {
        fn_row_form form;
        size_t group;
        uint8_t *rows; /* [rows, stride] */
        size_t stride;
    } forms[FN_INPUT_FORMS];
} fn_input;

/* What the product with w takes its rows as: float32 in exact precision. */
static inline fn_row_form fn_step_form(const fn_step *s, const fn_matrix *w) {
    return s->layout->precision == FN_PRECISION_EXACT ? FN_ROW_F32 : fn_row_form_of(w->kind);
}

/* An input without forms yet, and the form that w takes added to it. The forms of all inputs in one room stand
 * at the same place: writing those of one ends the use of the others. */
fn_input fn_input_of(const float *x, size_t cols);
void fn_input_add(const fn_step *s, fn_input *in, size_t rows, const fn_matrix *w);
/* Bytes of that room a row. */
size_t fn_step_input_bytes(const fn_shape *m);
/* Writes the forms of rows [begin, end), once their floats stand in x. */
void fn_input_write(const fn_step *s, const fn_input *in, size_t begin, size_t end);
/* Those of row r, whose floats stand in x [cols]. */
void fn_input_write_row(const fn_step *s, const fn_input *in, size_t r, const float *x);
/* All rows, on all threads. */
void fn_input_write_all(const fn_step *s, const fn_input *in, size_t rows);
/* The product of all rows with w, one of the input's matrices, into y [rows, N]. */
fn_linear fn_input_product(const fn_step *s, const fn_input *in, const fn_matrix *w, float *y,
                           size_t rows);
/* y [rows, N] = x [rows, K] W^T at once, for an input that no other matrix reads. */
void fn_step_project(const fn_step *s, const fn_matrix *w, const float *x, float *y, size_t rows);

/* The segment that holds a row. */
const fn_step_segment *fn_step_segment_of(const fn_step *s, size_t row);

static inline void fn_step_lap(const fn_step *s, fn_profile_class what) {
    if (s->clock != NULL) {
        double now = fn_clock_seconds();
        s->clock->seconds[what] += now - s->clock->at;
        s->clock->at = now;
    }
}

static inline void fn_step_trace(const fn_step *s, fn_trace_kind kind, size_t layer, size_t rows,
                                 size_t width, const void *data) {
    if (s->trace != NULL && kind != FN_TRACE_NONE) {
        s->trace->emit(s->trace->ud, kind, layer, 0, rows, width, data);
    }
}

#endif
