/* tests/support/kernel_check.h - what the kernel tests share: buffers that fault on any access
 * beyond their ends, random values, and comparisons.
 *
 * Memory:  a guarded buffer ends where an inaccessible page begins, so that a read or write beyond
 *          it (masked vector accesses, too, which sanitizers do not see) stops the test. */
#ifndef FN_TESTS_KERNEL_CHECK_H
#define FN_TESTS_KERNEL_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

typedef struct guarded {
    void *data; /* the n bytes asked for, then the inaccessible page */
    void *map;
    size_t map_bytes;
} guarded;

/* On an emulated CPU, a hundred times slower: a test tries fewer sizes. */
bool emulated(void);

guarded guarded_alloc(size_t bytes);
guarded guarded_floats(size_t n); /* data is float [n] */
void guarded_free(guarded *g);

/* A fixed stream of numbers: the same on every machine. */
uint64_t next_random(uint64_t *state);
/* x [n], uniform in low .. high */
void fill_random(float *x, size_t n, float low, float high, uint64_t *state);

/* The tables that this CPU runs, in every form that it runs, ref first and the best last; prints
 * their names once per program. */
#define MAX_TABLES (FN_ISA_COUNT + 1)
size_t available_tables(const fn_kernels *tables[MAX_TABLES]);

/* The same bits, or both NaN; fails the test with what, table and index otherwise. */
void assert_same_bits(const float *got, const float *want, size_t n, const char *table,
                      const char *what);

/* |got - want| <= ulps * 2^-24 * scale + 2^-149 at every index; scale is the size of what was summed
 * (want itself where NULL). */
void assert_close(const float *got, const double *want, const double *scale, size_t n, double ulps,
                  const char *what);

/* |got - want| in units of the last place of want. */
double ulps_between(float got, double want);

/* The upper 16 bits: bfloat16 by cutting off. */
uint16_t to_bf16(float x);
float from_bf16(uint16_t bits);

/* A packed matrix of random weights of any kind, with the values that the kernels multiply by; FP8
 * and NVFP4 have their own group, whatever is asked for. */
typedef struct test_matrix {
    fn_matrix m;
    guarded tiles;
    float *values; /* [rows, cols] */
} test_matrix;

test_matrix test_matrix_make(fn_matrix_kind kind, size_t rows, size_t cols, size_t group,
                             uint64_t *state);
void test_matrix_free(test_matrix *t);

#endif
