/* cli/verify.h - the parts of `flashnext verify`: what is compared, in which order, with which
 * result.
 *
 * Path:     golden file + traced file -> [verify_compare.c: results of every slice] ->
 *           [verify_order.c: first difference on the path of the computation] ->
 *           [verify_report.c]
 * Shapes:   a slice is one index of a tensor's first axis: a layer, mostly.
 * Threads:  one at a time.
 * Memory:   a cli_verdict owns everything in it until cli_verdict_free. */
#ifndef CLI_VERIFY_H
#define CLI_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flashnext.h"
#include "flashnext_tools.h"

#define CLI_VERIFY_AXES 8

typedef struct cli_bounds {
    double absolute, relative, scale;
} cli_bounds;

typedef struct cli_slice {
    size_t n, n_different;
    double max_error, max_ratio; /* ratio: error / bound; of whole numbers: the difference */
    size_t first;                /* offset of the first element that differs */
    double got, want;            /* there */
} cli_slice;

typedef struct cli_compared {
    char *name;
    bool exact; /* whole numbers */
    bool shape_differs;
    size_t n_dims;
    uint64_t dims[CLI_VERIFY_AXES]; /* of the golden tensor */
    uint64_t got_dims[CLI_VERIFY_AXES];
    size_t n_got_dims;
    cli_slice *slices; /* [n_slices] */
    size_t n_slices;
} cli_compared;

typedef struct cli_unchecked {
    char *name;
    const char *reason;
} cli_unchecked;

typedef struct cli_verdict {
    cli_compared *compared; /* [n_compared] */
    size_t n_compared;
    cli_unchecked *unchecked; /* [n_unchecked] */
    size_t n_unchecked;
    cli_bounds bounds;
    double *positions; /* [n_positions] of `streams` and `hidden`; NULL: every one */
    size_t n_positions;
} cli_verdict;

/* The first element that differs. */
typedef struct cli_difference {
    const cli_compared *tensor; /* NULL: there is none */
    size_t slice;
    int layer; /* -1: it belongs to none */
} cli_difference;

/* Which kind every layer is, from the model's config.json. */
typedef struct cli_layers {
    size_t n;        /* 0: the config could not be understood; order is by tensor then */
    bool *attention; /* [n] */
    bool *ngram;     /* [n] */
} cli_layers;

/* Compares every tensor of golden that got has too, and notes the others. Fails with FN_E_IO,
 * ... */
fn_status cli_verify_compare(const fn_tensor_file *golden, const fn_tensor_file *got,
                             cli_verdict *verdict, fn_error *err);
/* Compares ids made by generating; name is what the verdict calls them. */
void cli_verify_compare_ids(cli_verdict *verdict, const char *name, const double *want,
                            const int32_t *got, size_t n_want, size_t n_got);
bool cli_compared_passed(const cli_compared *tensor);
void cli_verdict_free(cli_verdict *verdict);

void cli_layers_read(const char *model_dir, cli_layers *out);
void cli_layers_free(cli_layers *layers);
/* Puts the tensors in the order in which the model computes them. */
void cli_verify_sort(cli_verdict *verdict);
cli_difference cli_verify_first(const cli_verdict *verdict, const cli_layers *layers);

void cli_verify_print(const cli_verdict *verdict, const cli_difference *first, bool colors);
void cli_verify_print_json(const cli_verdict *verdict, const cli_difference *first);

#endif
