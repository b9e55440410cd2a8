/* weights/binder.h - the book-keeping behind weights/bind.h: names built step by step, tensors
 * taken once, and one message for all that is missing or left over.
 *
 * A wrong shape or type fails at once and stays in b->status; what is missing is collected and
 * reported by fn_binder_finish, so that one message tells a download fault from a layout fault. */
#ifndef FN_WEIGHTS_BINDER_H
#define FN_WEIGHTS_BINDER_H

#include <stdbool.h>

#include "base/mem.h"
#include "weights/bind.h"

enum { FN_BINDER_NAME = 256, FN_BINDER_TEXT = 480, FN_BINDER_LISTED = 3 };
#define FN_BINDER_MTP SIZE_MAX

typedef struct fn_binder {
    const fn_checkpoint *c;
    const fn_shape *shape;
    const char *prefix; /* of the text model's tensors */
    fn_status status;
    fn_error *err;
    uint8_t *taken; /* [tensors] */

    char name[FN_BINDER_NAME]; /* what fn_binder_push has built */
    size_t name_length;

    size_t n_missing;
    char missing[FN_BINDER_TEXT]; /* the first few names */
    size_t layer;                 /* now bound; FN_BINDER_MTP: the MTP head's */
    bool in_experts;
    size_t missing_before;           /* n_missing when the experts were entered */
    char layers[FN_BINDER_TEXT / 2]; /* with incomplete experts, listed */
    size_t n_layers;
} fn_binder;

typedef struct fn_dims {
    size_t n;
    uint64_t dims[3];
} fn_dims;

#define FN_DIMS(...)                                                                               \
    ((fn_dims){.n = sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), .dims = {__VA_ARGS__}})

FN_NODISCARD fn_status fn_binder_init(fn_binder *b, const fn_checkpoint *c, const fn_shape *shape,
                                      fn_error *err);
void fn_binder_deinit(fn_binder *b);

/* Decides b->prefix. */
void fn_binder_find_prefix(fn_binder *b);
/* Appends to the name under construction; pop gives back what push returned. */
size_t fn_binder_push(fn_binder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fn_binder_pop(fn_binder *b, size_t mark);

/* False after a failure, and when so much is missing that config and files have nothing in common
 * (a config may claim 2^25 experts for a file of 1 KB). */
bool fn_binder_goes_on(const fn_binder *b);

/* The tensor of that name behind what was pushed, unchecked and not taken; NULL when there is
 * none. */
const fn_tensor *fn_binder_find(fn_binder *b, const char *name);
bool fn_binder_has(fn_binder *b, const char *name);
/* The weight `name` behind what was pushed, its shape and type checked; NULL when missing. */
const fn_tensor *fn_binder_take(fn_binder *b, const char *name, fn_dims dims);
/* A vector over all streams, stored as [hc*D] or [hc, D]. */
const fn_tensor *fn_binder_take_streams(fn_binder *b, const char *name);
/* The matrix whose tensors are `module` + ".weight" and so on, in whatever format it is stored; with
 * .weight NULL when something is missing. */
fn_source fn_binder_take_matrix(fn_binder *b, const char *module, uint64_t rows, uint64_t cols);
/* Two matrices of that size, or, packed, one below the other in *above, under the name gate_up_proj. */
void fn_binder_take_gate_up(fn_binder *b, uint64_t rows, uint64_t cols, fn_source *above,
                            fn_source *below);
/* Whether the module's matrix is packed (weights/packed.h). */
bool fn_binder_has_packed(fn_binder *b, const char *module);
/* Matrix i of a stack of n plain matrices. */
fn_source fn_binder_stacked(const fn_tensor *stack, uint64_t first_row, uint64_t rows);
/* A scale of the shape, BF16 or F32 (also a scalar: [] or [1] when dims are [1]). */
const fn_tensor *fn_binder_take_scale(fn_binder *b, const char *name, fn_dims dims);
/* Fails when `name` is there: a scale or the like of a weight that needs none. */
void fn_binder_refuse(fn_binder *b, const char *name, const char *why);
/* An I64 constant, as fn_binder_take. */
const fn_tensor *fn_binder_take_i64(fn_binder *b, const char *name, fn_dims dims);
/* Notes `name` behind what was pushed as missing; dims are for the message. */
void fn_binder_note_missing(fn_binder *b, const char *name, fn_dims dims);
void fn_binder_mark(fn_binder *b, const fn_tensor *t);
/* Fails with "file: tensor NAME: found TYPE [shape], expected ..." */
void fn_binder_fail(fn_binder *b, const fn_tensor *t, const char *expected);
bool fn_binder_is_plain(fn_dtype dtype); /* BF16, F16, F32 */

void fn_binder_enter_layer(fn_binder *b, size_t layer);
void fn_binder_enter_experts(fn_binder *b);
void fn_binder_leave_experts(fn_binder *b);

/* How many tensors have names that begin with `prefix`; skip takes them all. */
size_t fn_binder_count(const fn_binder *b, const char *prefix);
size_t fn_binder_skip(fn_binder *b, const char *prefix);
/* Zeroed memory, or NULL with b->status set. */
void *fn_binder_alloc(fn_binder *b, size_t count, size_t size);
/* Fails when tensors are missing or left over. */
void fn_binder_finish(fn_binder *b);

/* weights/bind_ngram.c: the n-gram memory of the p-th layer that has one; the caller frees pieces,
 * then the struct. NULL with b->status set on failure. */
fn_bound_ple *fn_bind_ple(fn_binder *b, size_t p);
FN_NODISCARD fn_status fn_bind_check_hash(const fn_checkpoint *c, const fn_shape *shape, size_t p,
                                          const fn_bound_ple *ple, fn_error *err);

#endif
